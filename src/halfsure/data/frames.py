"""Files of tables → pandas DataFrames: what a file claims is compared with what memory holds before it is read.

pandas and pyarrow do the reading; neither has a bound on rows, columns or what a packed text unpacks to.
"""

import json
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from halfsure.data.dialect import find_dialect, told
from halfsure.data.files import DataError, opened, shown
from halfsure.data.label_values import read_label
from halfsure.data.xlsx import as_csv

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SUFFIXES", "load_frame"]

MOST_COLUMNS = 50_000
MOST_CELLS = 2**29
MOST_TEXTS = 2**25
"""Texts of a Parquet file, each of which becomes an object however short it is."""
MOST_BYTES = 2**32
SUFFIXES = {".csv", ".tsv", ".parquet", ".xlsx"}
MANY, NEARLY = 50, 0.1
"""Of so many different values that all but a few are numbers, the others are slips."""
COMMA_NUMBER = r"\s*[+-]?(?:\d+(?:,\d*)?|,\d+)(?:[eE][+-]?\d+)?\s*"


def load_frame(path: Path, strings: Iterable[str] = (), label: str | None = None) -> "pd.DataFrame":
    """Read a CSV, TSV, Parquet or Excel file; columns in `strings` stay text where the file does not say otherwise.

    In the column `label` of a CSV NA, null and the like are refused, for only `read_label` says what is unlabeled.
    """
    try:
        import pandas as pd  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise DataError("reading tables needs pandas: pip install 'halfsure[tables]'") from None
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise DataError(f"{path}: a table is a .csv, .tsv, .parquet or .xlsx file")
    unusual = list[str]()
    with opened(path) as file:
        try:
            if kind == ".parquet":
                return _read_parquet(file, label)
            sheet = as_csv(file, unusual) if kind == ".xlsx" else file
            frame = _read_csv(sheet, path, strings, label, unusual)
        except MemoryError:
            raise
        except DataError as error:
            raise DataError(f"{path} {error}") from None
        except Exception as error:  # pandas and pyarrow each have many of their own for a damaged file
            said = str(error).splitlines() or [type(error).__name__]
            raise DataError(f"{path} cannot be read as a table: {said[0]:.300}") from None
    told(path, unusual)
    return frame


def _read_csv(
    file: BinaryIO, path: Path, strings: Iterable[str], label: str | None, unusual: list[str]
) -> "pd.DataFrame":
    """Read a table of text, and add to `unusual` what a person may want to know of how it was read."""
    import pandas as pd  # noqa: PLC0415

    words = set(strings)
    how = find_dialect(file, path, {*words, *([] if label is None else [label])})
    unusual += how.unusual
    _check_size(how.lines, len(how.header))  # pandas would take minutes for a million columns
    kinds: dict[Hashable, Any] = dict.fromkeys(words - {label}, str)
    # A mark before each label: pandas would take NA and the like for missing, whatever type is asked for.
    marked: dict[Hashable, Any] = {label: "={}".format} if label in how.header else {}
    comma = how.separator == ";"  # then the one in a number is its point
    frame = pd.read_csv(
        file,
        sep=how.separator,
        index_col=False,
        dtype=kinds,
        converters=marked,
        encoding=how.encoding,
        low_memory=not comma,  # a column in parts would be numbers here and texts there
    )
    if marked:
        frame[label] = _labels(frame[label], numbers=label not in words)
    if comma and (found := _read_decimal_commas(frame, {*words, label})):
        unusual.append(f"with decimal commas in {shown(found, 3)}")
    return frame


def _read_decimal_commas(frame: "pd.DataFrame", others: set[str | None]) -> list[str]:
    """Make numbers of the columns that hold 1,5 and the like and nothing else; which they are."""
    import pandas as pd  # noqa: PLC0415

    found = []
    for name in frame.columns:
        if name in others or frame[name].dtype.kind in "biufmM":
            continue
        cells = frame[name].dropna()
        fits = cells.str.fullmatch(COMMA_NUMBER)
        if not fits.any() or not cells.str.contains(",").any():
            continue
        if fits.all():
            frame[name] = pd.to_numeric(frame[name].str.replace(",", "."))
            found.append(str(name))
        elif cells.nunique() > MANY and (~fits).mean() < NEARLY:
            row = (~fits).idxmax()
            raise DataError(
                f"has numbers in the column {name!r}, but {cells[row]!r} in row {row} is none; mend it, or leave the "
                "cell empty"
            )
    return found


def _labels(cells: "pd.Series[Any]", *, numbers: bool) -> "pd.Series[Any]":
    """Cells of a label column as numbers, where all of them are such, or as texts; None where unlabeled."""
    import pandas as pd  # noqa: PLC0415

    found = [read_label(cell[1:].strip(), f"at row {row}") for row, cell in enumerate(cells.astype(object))]
    given = pd.Series(found, index=cells.index, dtype=object)
    if set(given.dropna().str.lower()) <= {"true", "false"}:
        given = given.str.capitalize()  # however they were written, and as Python and Parquet have them
    try:
        return pd.to_numeric(given) if numbers else given
    except (ValueError, OverflowError):
        return given


def _read_parquet(file: BinaryIO, label: str | None) -> "pd.DataFrame":
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    opened_once = parquet.ParquetFile(file)
    schema, about = opened_once.schema_arrow, opened_once.metadata
    _check_size(about.num_rows, len(schema))
    if nested := [field.name for field in schema if pa.types.is_nested(field.type)]:
        why = "each sample has one class here" if label in nested else "a table has one value a cell"
        raise DataError(f"has lists or structures in the column {label if label in nested else nested[0]!r:.80}; {why}")
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
