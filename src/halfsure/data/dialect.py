"""How a text or a table of text is written: its encoding, and what stands between cells. Found, never asked for."""

import codecs
import csv
import io
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TextIO

from halfsure.data.files import DataError, short_lines

__all__ = ["OTHER", "Dialect", "decoded", "find_dialect", "told"]

USUAL = {".tsv": "\t"}
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
OTHER = {"utf-16": "in UTF-16", "cp1252": "as Windows-1252 text, for it is not UTF-8"}
"""What is said of an encoding that is not UTF-8."""
LONGEST_LINE = 2**24
_BLOCK = 2**20
_SAMPLE = 100
"""Lines that are looked at to see what separates cells."""


@dataclass(frozen=True)
class Dialect:
    """How a table of text is written."""

    encoding: str
    separator: str
    header: list[str]
    lines: int
    """How many there can be, one in quotes counted as several."""
    usual: bool
    """Whether the cells are separated as the file's ending says."""

    @property
    def unusual(self) -> list[str]:
        """What a person may want to know, in words."""
        between = [] if self.usual else [f"with {SEPARATORS[self.separator]} between cells"]
        return between + [OTHER[name] for name in (self.encoding,) if name in OTHER]

    def text(self, file: BinaryIO) -> TextIO:
        """The whole file as text."""
        file.seek(0)
        return io.TextIOWrapper(file, self.encoding, newline="")


def find_dialect(file: BinaryIO, path: Path, names: Collection[str] = ()) -> Dialect:
    """Look through a table of text; `names` are columns that it is expected to have."""
    usual = USUAL.get(path.suffix.lower(), ",")
    encoding, count = _scanned(file)
    file.seek(0)
    text = io.TextIOWrapper(file, encoding, newline="")
    try:
        lines = short_lines(text, path)
        sample = _first_lines(lines)
        separator = _separator(sample, usual, names)
        header = next(filter(None, csv.reader(chain(sample, lines), delimiter=separator)), [])
    finally:
        text.detach()
        file.seek(0)
    return Dialect(encoding, separator, header, count, separator == usual)


def told(path: Path, unusual: Collection[str]) -> None:
    """Say how a file was read, where that is not the plain way."""
    if unusual:
        warnings.warn(f"{path} is read {', '.join(unusual)}", stacklevel=3)


def decoded(data: bytes) -> tuple[str, str]:
    """A whole text, and its encoding."""
    encoding, _ = _scanned(io.BytesIO(data))
    return data.decode(encoding), encoding


def _scanned(file: BinaryIO) -> tuple[str, int]:
    """The encoding of a text and its number of lines; none may be too long, nor hold what no text does."""
    file.seek(0)
    wide = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "cp1252"):
        file.seek(0)
        try:
            return encoding, _count_lines(file, encoding)
        except UnicodeDecodeError:
            continue
    raise DataError("is text in no encoding that is known; save it in UTF-8")


def _count_lines(file: BinaryIO, encoding: str) -> int:
    decoder = codecs.getincrementaldecoder(encoding)()
    ends, run, plain, more = {"\n": 0, "\r": 0}, 0, True, True
    while more:
        more = bool(data := file.read(_BLOCK))
        try:
            block = decoder.decode(data, final=not more)
        except UnicodeDecodeError as error:
            if encoding != "cp1252" and not (plain and error.object[: error.start].isascii()):
                raise DataError("is damaged: some of it is UTF-8 and some is not; save it in UTF-8") from None
            raise
        plain = plain and block.isascii()
        if "\0" in block:
            raise DataError("holds NUL bytes, which no text has; save it in UTF-8")
        for end in ends:
            ends[end] += block.count(end)
        first, last = _first(block), max(block.rfind("\n"), block.rfind("\r"))
        if run + first > LONGEST_LINE:
            raise DataError(f"has a line of over {LONGEST_LINE:,} characters, after line {max(ends.values()):,}")
        run = run + len(block) if last < 0 else len(block) - last - 1
    return 1 + max(ends.values())


def _first(block: str) -> int:
    """Where the first line of a block ends."""
    return min((at for at in (block.find("\n"), block.find("\r")) if at >= 0), default=len(block))


def _first_lines(lines: Iterable[str]) -> list[str]:
    found, size = list[str](), 0
    for line in lines:
        found.append(line)
        size += len(line)
        if len(found) == _SAMPLE or size > _BLOCK:
            break
    return found


def _separator(lines: list[str], usual: str, names: Collection[str]) -> str:
    """What separates the cells of a table.

    The columns that are expected say it best, then rows as long as the header; in doubt it is what the ending says.
    """

    def fits(separator: str) -> tuple[float, float, bool]:
        rows = list(_rows(lines, separator))
        if not rows or len(rows[0]) < 2:
            return 0, 0, separator == usual
        even = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
        return len(set(names) & set(rows[0])), even, separator == usual

    return max(SEPARATORS, key=fits)


def _rows(lines: list[str], separator: str) -> Iterator[list[str]]:
    try:
        yield from filter(None, csv.reader(lines, delimiter=separator))
    except csv.Error:  # a cell too long for the csv module, which pandas may read all the same
        return
