"""What the commands that use a trained model share: opening model and data, tables on the screen, writing files."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from halfsure._disk import write
from halfsure._shown import harmless
from halfsure.bank.new_samples import read
from halfsure.cli.terminal import screen
from halfsure.data import DataError
from halfsure.data.new import New
from halfsure.runs.run import Run, load

__all__ = [
    "Columns",
    "Reading",
    "check_output",
    "escaped",
    "grid",
    "open_both",
    "printable",
    "seen_by",
    "warn",
    "write_rows",
]

Columns = dict[str, Sequence[Any]]


@dataclass(frozen=True)
class Reading:
    """How to read the data."""

    lenient: bool = False
    """Tables: pass over columns the model was not trained on, and take new categories as unknown."""
    skip_bad: bool = False
    """Leave pictures that cannot be read out."""
    root: Path | None = field(default=None)
    """Folder of the official sets; $HALFSURE_DATA or the user's cache folder if not given."""


def open_both(model: Path, data: str, how: Reading, *, test: bool = False) -> tuple[Run, New]:
    """The model in a run folder or file, and data as it takes them."""
    run = load(model)
    return run, seen_by(run, data, how, test=test)


def seen_by(run: Run, data: str, how: Reading, *, test: bool = False) -> New:
    """Data as a model takes them."""
    shape, options = run.preprocessing.shape, {"lenient": how.lenient, "skip_bad": how.skip_bad, "root": how.root}
    return read(data, run.encoding, shape=shape, encoder=run.encoders, test=test, **options)


def warn(text: str) -> None:
    """Say on stderr what a person should know of a result; nothing of an empty text."""
    if text:
        screen(stderr=True).print(f"warning: {text}", style="yellow", soft_wrap=True, highlight=False, markup=False)


def check_output(file: Path, force: bool) -> None:
    """Refuse a file that could not be written in the end, before any work is done."""
    if file.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{file}: predictions are written as .csv or .parquet; choose one of these endings")
    if file.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise DataError("writing .parquet needs pyarrow: pip install 'halfsure[tables]', or write a .csv")
    if not file.parent.is_dir():
        raise DataError(f"there is no folder {file.parent} to write {file.name} into")
    if file.is_dir():
        raise DataError(f"{file} is a folder; name a file")
    if file.exists() and not force:
        raise DataError(f"{file} exists already; choose another name, or overwrite it with --force")


def write_rows(file: Path, columns: Columns) -> None:
    """Write columns of equal length as a CSV or Parquet file, whole or not at all."""
    write(file, (_parquet if file.suffix.lower() == ".parquet" else _csv)(columns))


def _csv(columns: Columns) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([escaped(value) if isinstance(value, list) else value for value in row])
    return text.getvalue().encode()


def _parquet(columns: Columns) -> bytes:
    import pyarrow  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    content = io.BytesIO()
    parquet.write_table(pyarrow.table(dict(columns)), content)
    return content.getvalue()


def escaped(names: Iterable[str]) -> str:
    r"""Class names joined by |; a | in a name is written \|, and a backslash twice.

    Examples:
        >>> from halfsure.cli.using import escaped
        >>> print(escaped(["cat", "a|b"]))
        cat|a\|b
    """
    return "|".join(name.replace("\\", "\\\\").replace("|", "\\|") for name in names)


def printable(text: str, width: int = 60) -> str:
    """Text from a file as it can be shown: no control characters, and not too long."""
    clean = harmless(text).replace("\n", "�").replace("\t", "�")
    return clean if len(clean) <= width else f"{clean[: width - 1]}…"


def grid(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> Table:
    """A plain table on the screen; cells are shown as they are, without markup."""
    table = Table(box=None, header_style="bold", pad_edge=False, show_header=any(columns))
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
