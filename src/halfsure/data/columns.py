"""Which columns of a table are what: names looked up, what becomes of each in a sentence, and those that look wrong."""

import csv
import difflib
import io
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from halfsure.data.dataset import DataWarning, Part
from halfsure.data.files import DataError, shown

if TYPE_CHECKING:
    import pandas as pd

    from halfsure.data.tables import Column, TableEncoding

__all__ = [
    "cleaned",
    "explained",
    "find_column",
    "listing",
    "names_in",
    "suspects",
    "warn_of_columns",
    "warn_of_names",
    "words_of",
]

FEW_ROWS = 30
"""In fewer rows values may differ by chance."""
NEARLY_ALL = 0.95
SOME = 1000
"""Values that are looked at to tell dates."""
MONTHS = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
CLOCK = r"([ t]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?(z|[+-]\d{2}:?\d{2})?)?"
DATE = re.compile(
    rf"(\d{{4}}([-/.])(0?[1-9]|1[0-2])\2(0?[1-9]|[12]\d|3[01])"  # 2024-05-31
    rf"|(0?[1-9]|[12]\d|3[01])([-/.])(0?[1-9]|[12]\d|3[01])\6(\d{{4}}|\d{{2}})"  # 31.05.2024, 5/31/24
    rf"|(0?[1-9]|[12]\d|3[01])[ -]{MONTHS}[ -]\d{{4}}|{MONTHS} (0?[1-9]|[12]\d|3[01]),? \d{{4}}){CLOCK}",
    re.IGNORECASE,
)


def listing(names: Iterable[str]) -> str:
    """Names with commas between them, as one line of a CSV: one that holds a comma is quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def names_in(text: str) -> tuple[str, ...]:
    """The inverse of `listing`; spaces around names do not count."""
    try:
        [names] = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        raise DataError(f"{text!r:.80} is no list of columns, such as A,B") from None
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def find_column(name: str, columns: Sequence[str], where: str, use: str) -> None:
    """Refuse the name of a column that a table does not have, with the nearest one it has."""
    if columns.count(name) > 1:
        raise DataError(f"{where} has two columns named {name!r:.80}")
    if name in columns:
        return
    near = difflib.get_close_matches(name, columns, n=1, cutoff=0.7) or [
        c for c in columns if c.lower() == name.lower()
    ]
    hint = f"did you mean {near[0]!r:.80}?" if near else f"it has {shown(list(columns))}"
    raise DataError(f"{where} has no column {name!r:.80} {use}; {hint}")


def words_of(values: "pd.Series[Any]") -> list[str | None]:
    """What a column of words holds; a whole number is written as one, though a gap beside it made it a float."""
    found = cleaned(values)
    return [str(int(v)) if isinstance(v, float) and v.is_integer() else None if v is None else str(v) for v in found]


def cleaned(values: "pd.Series[Any]") -> list[Any]:
    """Strings stripped of outer space, None where nothing is there; numbers as they are."""
    missing = values.isna().to_numpy()
    if values.dtype.kind in "biuf":
        return [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]
    return [None if gone else (str(v).strip() or None) for v, gone in zip(values.tolist(), missing, strict=True)]


def explained(frame: "pd.DataFrame", encoding: "TableEncoding") -> str:
    """What becomes of each column, in one line."""
    of = {kind: [column for column in encoding.columns if column.kind == kind] for kind in ("number", "category")}
    texts = [column.name for column in encoding.columns if column.kind == "text"]
    found = [
        _counted(len(of["number"]), "number", "numbers", shown([column.name for column in of["number"]], 5)),
        _counted(len(of["category"]), "category", "categories", shown(list(map(_values, of["category"])), 5)),
        _counted(len(texts), "text", "texts", shown(texts, 5)),
    ]
    roles = [("label", encoding.label), ("id", encoding.id), ("groups", encoding.group)]
    told = [f"{role} = {shown([name])}" for role, name in roles if name]
    told += [f"left out: {shown(list(encoding.dropped))}"] if encoding.dropped else []
    if constant := _constant(frame, encoding):
        told.append(f"constant, so of no use: {shown(constant, 5)}")
    columns = len(encoding.columns)
    features = f"{columns:,} column{'s' * (columns != 1)} to learn from: {', '.join(filter(None, found))}"
    return "; ".join([features, *told])


def warn_of_columns(frame: "pd.DataFrame", names: Iterable[str], *, options: bool = True) -> None:
    """Warn of features that look like identifiers or dates; `options` says how the command line leaves them out."""
    for name, what, is_date in suspects(frame, names):
        option = shlex.quote(shown([listing([name])]))
        out = f"leave it out: --drop {option}" if options else "leave it out of X"
        if is_date:
            out = f"make numbers of them, such as days since a start, or {out}"
        elif options:
            out += f", or keep it beside the predictions: --id-column {option}"
        warnings.warn(f"the column {shown([name])!r} {what}; {out}", DataWarning, stacklevel=2)


def warn_of_names(train: Part, test: Part | None, id_column: str | None, group_column: str | None) -> None:
    """Warn of ids that come twice, and of groups that are both trained and tested on."""
    repeated = [] if train.ids is None else [name for name, count in Counter(train.ids).items() if count > 1 and name]
    if repeated:
        told = f"{len(repeated):,} ids in {id_column!r} come more than once, such as {shown(repeated[:1])}"
        remedy = f"if such rows belong together, name them as a group too: --group-column {id_column}"
        warnings.warn(f"{told}; {remedy}", DataWarning, stacklevel=2)
    tested = set() if test is None or test.groups is None else set(test.groups)
    if both := sorted(tested & set(() if train.groups is None else train.groups)):
        told = f"{len(both):,} of {len(tested):,} groups in {group_column!r} of the test rows are trained on too"
        remedy = (
            f"such as {shown(both[:1])}: the test error says little about new groups; keep whole groups for the test"
        )
        warnings.warn(f"{told}, {remedy}", DataWarning, stacklevel=2)


def suspects(frame: "pd.DataFrame", names: Iterable[str]) -> list[tuple[str, str, bool]]:
    """Columns that look like identifiers or dates: name, what is odd about it, and whether it holds dates."""
    found = []
    for name in names:
        values = frame[name]
        if values.dtype.kind in "iu":
            if _counts_up(values.to_numpy()):
                told = f"looks like an identifier: it counts from {values.min()} to {values.max()} without a repeat"
                found.append((name, told, False))
        elif values.dtype.kind not in "bfcmM":
            present = values.dropna().astype(str).str.strip()
            some = present.iloc[:SOME].tolist()
            if some and np.mean([DATE.fullmatch(value) is not None for value in some]) >= NEARLY_ALL:
                told = f"holds dates, such as {shown(some[:1])}, which are read as categories: a new date says nothing"
                found.append((name, told, True))
            elif _are_codes(present, some):
                told = f"{present.nunique():,} of {len(present):,} values differ, such as {shown(some[:1])}"
                found.append((name, f"looks like an identifier: {told}", False))
    return found


def _counts_up(numbers: Any) -> bool:
    """Whether whole numbers rise from row to row, or fill most of their range in another order, none of them twice."""
    if len(numbers) < FEW_ROWS:
        return False
    low, high = int(numbers.min()), int(numbers.max())
    if high - low + 1 < len(numbers):
        return False
    if (numbers[1:] > numbers[:-1]).all():
        return True
    return high - low + 1 <= 2 * len(numbers) and len(np.unique(numbers)) == len(numbers)


def _are_codes(present: "pd.Series[Any]", some: list[str]) -> bool:
    """Whether nearly all of these strings differ, and are neither texts nor numbers."""
    if len(present) < FEW_ROWS or np.mean([len(value.split()) for value in some]) >= 4:
        return False
    if all(_is_number(value) for value in some):
        return False
    return bool(present.nunique() >= NEARLY_ALL * len(present))


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _counted(count: int, one: str, many: str, names: str) -> str:
    return f"{count:,} {one if count == 1 else many} ({names})" if count else ""


def _values(column: "Column") -> str:
    count = len(column.categories)
    return f"{column.name}: {f'the {count} most frequent' if column.more else count} value{'s' * (count != 1)}"


def _constant(frame: "pd.DataFrame", encoding: "TableEncoding") -> list[str]:
    numbers = [column.name for column in encoding.columns if column.kind == "number"]
    alike: list[str] = []
    for name in numbers:
        values = frame[name]
        if values.iloc[0] == values.iloc[-1] and values.nunique(dropna=False) == 1:
            alike.append(name)
    return alike + [
        column.name
        for column in encoding.columns
        if column.kind == "category" and len(column.categories) <= 1 and not frame[column.name].isna().any()
    ]
