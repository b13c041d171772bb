"""Files of tables → pandas DataFrames: what a file claims is compared with what memory holds before it is read.

pandas and pyarrow do the reading; neither has a bound on rows, columns or what a packed text unpacks to.
"""

import csv
import io
import json
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from halfsure.data.files import DataError, opened, short_lines

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NOT_A_LABEL", "load_frame"]

NOT_A_LABEL = {"nan", "na", "n/a", "null", "none", "<na>"}
"""Words that may mean a class or that there is none: whoever wrote them has to say."""
MOST_COLUMNS = 50_000
MOST_CELLS = 2**29
MOST_TEXTS = 2**25
"""Texts of a Parquet file, each of which becomes an object however short it is."""
MOST_BYTES = 2**32
LONGEST_LINE = 2**24
_BLOCK = 2**20
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def load_frame(path: Path, strings: Iterable[str] = (), label: str | None = None) -> "pd.DataFrame":
    """Read a CSV, TSV or Parquet file; columns named in `strings` stay text where the file does not say otherwise.

    In the column `label` of a CSV only an empty cell is missing; NA, null and the like are refused.
    """
    try:
        import pandas as pd  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise DataError("reading tables needs pandas: pip install 'halfsure[tables]'") from None
    kind = path.suffix.lower()
    if kind not in (*_SEPARATORS, ".parquet"):
        raise DataError(f"{path}: a table is a .csv, .tsv or .parquet file")
    with opened(path) as file:
        try:
            if kind == ".parquet":
                return _read_parquet(file)
            return _read_csv(file, path, strings, label)
        except MemoryError:
            raise
        except DataError as error:
            raise DataError(f"{path} {error}") from None
        except UnicodeDecodeError:
            raise DataError(f"{path} is not text in UTF-8; save it as CSV in UTF-8") from None
        except Exception as error:  # pandas and pyarrow each have many of their own for a damaged file
            said = str(error).splitlines() or [type(error).__name__]
            raise DataError(f"{path} cannot be read as a table: {said[0]:.300}") from None


def _read_csv(file: BinaryIO, path: Path, strings: Iterable[str], label: str | None) -> "pd.DataFrame":
    import pandas as pd  # noqa: PLC0415

    separator, words = _SEPARATORS[path.suffix.lower()], set(strings)
    lines = _count_lines(file)
    file.seek(0)
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    header = next(filter(None, csv.reader(short_lines(text, path), delimiter=separator)), [])
    text.detach()
    _check_size(lines, len(header))  # pandas would take minutes for a million columns
    file.seek(0)
    kinds: dict[Hashable, Any] = dict.fromkeys(words - {label}, str)
    # A mark before each label: pandas would take NA and the like for missing, whatever type is asked for.
    marked: dict[Hashable, Any] = {label: "={}".format} if label in header else {}
    frame = pd.read_csv(file, sep=separator, index_col=False, dtype=kinds, converters=marked, encoding="utf-8")
    if marked:
        frame[label] = _labels(frame[label], numbers=label not in words)
    return frame


def _labels(cells: "pd.Series[Any]", *, numbers: bool) -> "pd.Series[Any]":
    """Cells of a label column as numbers, where all of them are such, or as texts; only an empty one is missing."""
    import pandas as pd  # noqa: PLC0415

    cells = cells.astype(object).map(lambda cell: cell[1:].strip())
    for row, cell in enumerate(cells):
        if cell.lower() in NOT_A_LABEL:
            raise DataError(
                f"has {cell!r} as a label in row {row}; leave the cell empty for an unlabeled row, or give the class "
                "another name"
            )
    if set(cells.str.lower()) <= {"true", "false", ""}:
        cells = cells.str.capitalize()  # however they were written, and as Python and Parquet have them
    given = cells.where(cells != "")
    try:
        return pd.to_numeric(given) if numbers else given
    except (ValueError, OverflowError):
        return given


def _count_lines(file: BinaryIO) -> int:
    """How many lines a text can have; none of them may be so long, nor hold what no text does."""
    ends, run = {b"\n": 0, b"\r": 0}, 0
    while block := file.read(_BLOCK):
        if b"\0" in block:
            raise DataError("holds NUL bytes, which no text has; save it as CSV in UTF-8")
        for end in ends:
            ends[end] += block.count(end)
        first, last = _first(block), max(block.rfind(b"\n"), block.rfind(b"\r"))
        if run + first > LONGEST_LINE:
            raise DataError(f"has a line of over {LONGEST_LINE:,} bytes, after line {max(ends.values()):,}")
        run = run + len(block) if last < 0 else len(block) - last - 1
    return 1 + max(ends.values())


def _first(block: bytes) -> int:
    """Where the first line of a block ends."""
    return min((at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0), default=len(block))


def _read_parquet(file: BinaryIO) -> "pd.DataFrame":
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    opened_once = parquet.ParquetFile(file)
    schema, about = opened_once.schema_arrow, opened_once.metadata
    _check_size(about.num_rows, len(schema))
    if nested := [field.name for field in schema if pa.types.is_nested(field.type)]:
        raise DataError(f"has lists or structures in the column {nested[0]!r:.80}; a table has one value a cell")
    unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    if unpacked > MOST_BYTES:
        raise DataError(f"unpacks to {unpacked:,} bytes, more than the {MOST_BYTES:,} that a table may have")
    texts = [field.name for field in schema if _is_text(field.type)]
    if about.num_rows * len(texts) > MOST_TEXTS:
        raise DataError(f"claims {about.num_rows:,} rows of {len(texts):,} texts; a table may have {MOST_TEXTS:,}")
    # Kept as numbers of a dictionary until their size is known: a few bytes can name one long text a million times.
    file.seek(0)
    table = parquet.ParquetFile(file, read_dictionary=texts)
    left, batches = MOST_BYTES, []
    for batch in table.iter_batches(max(1, 2**22 // max(1, len(schema))), use_threads=False):
        left -= _logical_size(batch)
        if left < 0:
            raise DataError(f"unpacks to more than the {MOST_BYTES:,} bytes that a table may have")
        columns = [c.dictionary_decode() if _is_packed(c, f) else c for c, f in zip(batch.columns, schema, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(columns, names=schema.names))
    whole = pa.Table.from_batches(batches) if batches else schema.empty_table()
    index = _index_columns(schema.metadata)
    kept = [place for place, name in enumerate(schema.names) if name not in index]
    return whole.select(kept).replace_schema_metadata(None).to_pandas()


def _is_text(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _is_packed(column: Any, field: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(field.type)


def _logical_size(batch: Any) -> int:
    """Bytes of a batch with every text written out."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # type: ignore[import-untyped]  # noqa: PLC0415

    total = 0
    for column in batch.columns:
        total += column.nbytes
        if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
            lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
            total += pc.sum(lengths.cast(pa.int64())).as_py() or 0
    return total


def _index_columns(metadata: dict[bytes, bytes] | None) -> set[str]:
    """Columns that pandas wrote as a frame's index, which is no part of the table."""
    try:
        noted = json.loads((metadata or {}).get(b"pandas", b"{}"))
        return {name for name in noted.get("index_columns", ()) if isinstance(name, str)}
    except (ValueError, RecursionError, AttributeError, TypeError):
        return set()


def _check_size(rows: int, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise DataError(
            f"claims {columns:,} columns; a table may have {MOST_COLUMNS:,}, save more as an .npz of X and y"
        )
    if rows * columns > MOST_CELLS:
        raise DataError(f"claims {rows:,} rows of {columns:,} columns; a table may have {MOST_CELLS:,} cells")
