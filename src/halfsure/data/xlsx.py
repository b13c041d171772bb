"""A sheet of an Excel file → CSV, so that it is read by the rules of one.

openpyxl does the reading. It builds a tree of each file in the archive and believes what a file says of itself, so how
much there is to build is counted first.
"""

import csv
import io
import re
import warnings
import zipfile
from collections.abc import Iterable
from typing import Any, BinaryIO

from halfsure.data.files import DataError, shown

__all__ = ["as_csv"]

MOST_FILES = 1000
MOST_MARKS = 2**23
"""Tags and attributes, each of which becomes an object; a cell has about six."""
MOST_BYTES = 2**29
"""Of what the archive unpacks to."""
MOST_LETTERS = 2**27
"""Of the sheet as CSV: one long text can stand in many cells."""
MOST_ROWS, MOST_CELLS = 2**20, 2**25
"""As many rows as Excel has; cells are counted to the last in a row that holds something."""
TOO_LARGE = "is too large for an Excel file; save the sheet as .csv or .parquet"
MARKUP = re.compile(rb"\xef\xbb\xbf|\xff\xfe|\xfe\xff|\0<|[\s<]")
"""How everything begins that a parser of XML does not refuse at once."""
ENCODING = re.compile(rb"encoding\s*=\s*['\"](?!(?i:utf-8|us-ascii)['\"])")
LONGEST_HEAD = 200
_BLOCK = 2**20


def as_csv(file: BinaryIO, unusual: list[str]) -> BinaryIO:
    """The first sheet as CSV in UTF-8, without empty rows; if there are others, `unusual` gets to say so."""
    try:
        import openpyxl  # noqa: PLC0415 - an extra
    except ImportError:
        raise DataError("is an Excel file, which needs openpyxl: pip install 'halfsure[xlsx]'") from None
    with zipfile.ZipFile(file) as archive:
        _check(archive)
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and extensions that openpyxl does not know
        book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        if not book.worksheets:
            raise DataError("has no sheet with cells")
        sheet = book.worksheets[0]
        if len(book.worksheets) > 1:
            unusual.append(f"from the first of its {len(book.worksheets)} sheets, {shown([sheet.title])}")
        sheet.reset_dimensions()  # programs other than Excel write them wrong
        return _written(sheet.iter_rows(values_only=True))


def _written(rows: Iterable[tuple[Any, ...]]) -> BinaryIO:
    file = io.BytesIO()
    text = io.TextIOWrapper(file, "utf-8", "replace", newline="", write_through=True)
    writer = csv.writer(text)
    width, total = None, 0
    for row, cells in enumerate(rows):
        total += len(cells)
        if row == MOST_ROWS or total > MOST_CELLS:
            raise DataError(f"has more than {row:,} rows and {TOO_LARGE}")
        if all(cell is None for cell in cells):
            continue
        if sum(len(cell) for cell in cells if isinstance(cell, str)) + file.tell() > MOST_LETTERS:
            raise DataError(f"has more than {MOST_LETTERS:,} letters and {TOO_LARGE}")
        last = max(place for place, cell in enumerate(cells) if cell is not None) + 1
        width = width or last
        writer.writerow([*cells[:last], *[None] * (width - last)])
    text.detach()
    return file


def _check(archive: zipfile.ZipFile) -> None:
    """Refuse an archive that unpacks to more than can be meant, or hides what is in it."""
    members = archive.infolist()
    if len(members) > MOST_FILES:
        raise DataError(f"holds {len(members):,} files; an Excel file has a few")
    marks = size = 0
    for member in members:
        # Other ways of packing are not Excel's, and are unpacked without a limit by zipfile.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError("is packed in a way that Excel does not use; save it again as .xlsx, or as .csv")
        with archive.open(member) as file:
            block, before = file.read(_BLOCK), b""
            if not MARKUP.match(block):
                continue  # a picture or the like
            size += member.file_size
            if size > MOST_BYTES:
                raise DataError(f"unpacks to {size:,} bytes and {TOO_LARGE}")
            _check_head(block)
            while block:
                marks += block.count(b"<") + block.count(b"=")
                if marks > MOST_MARKS:
                    raise DataError(f"has more than {MOST_MARKS:,} tags and {TOO_LARGE}")
                if b"<!DOCTYPE" in before[-8:] + block:
                    raise DataError("declares entities, which Excel does not; save it again as .xlsx, or as .csv")
                block, before = file.read(_BLOCK), block


def _check_head(block: bytes) -> None:
    """Refuse an encoding in which tags cannot be counted."""
    head = block.partition(b"?>")[0] if b"<?" in block[:LONGEST_HEAD] else b""
    if b"\0" in block[:LONGEST_HEAD] or len(head) > LONGEST_HEAD or ENCODING.search(head):
        raise DataError("is written in an encoding that Excel does not use; save it again as .xlsx, or as .csv")
