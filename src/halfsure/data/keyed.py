"""Labels in a file of their own, found by the ids of samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfsure.data.columns import find_column, words_of
from halfsure.data.files import DataError, shown
from halfsure.data.frames import load_frame

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["label_column_of", "labels_by_id", "with_labels"]

Ids = Sequence[str | None]


def label_column_of(table: Path, id_column: str, label: str | None) -> str:
    """Which column of a table of ids and labels has the labels: the one named, or the only one beside the ids."""
    columns = [str(name) for name in load_frame(table).columns]
    find_column(id_column, columns, str(table), "to find samples by")
    if label is not None:
        find_column(label, columns, str(table), "to take the labels from")
        return label
    others = [name for name in columns if name != id_column]
    if len(others) != 1:
        raise DataError(f"which column of {table} holds the labels? Name it: --label-column, or label_column=")
    return others[0]


def with_labels(
    frame: "pd.DataFrame", test: "pd.DataFrame | None", table: Path, *, id_column: str, label: str, source: Path
) -> tuple["pd.DataFrame", "pd.DataFrame | None", str]:
    """The rows with the labels that a table has for their ids, and a sentence that says of how many.

    Test rows that have no label column are labeled by the same table.
    """
    frame, test = frame.rename(columns=str), None if test is None else test.rename(columns=str)
    find_column(id_column, list(frame.columns), str(source), "to find labels by")
    if label in frame.columns:
        raise DataError(f"both {source} and {table} have a column {label!r}; leave the first out (--drop, drop=)")
    keyed = load_frame(table, [id_column], label).rename(columns=str)
    ids, others = _ids(frame, id_column, source), list[str | None]()
    if test is not None and label not in test.columns:
        find_column(id_column, list(test.columns), "the table of test rows", "to find labels by")
        others = _ids(test, id_column, Path("the table of test rows"))
    elif test is not None and id_column in test.columns:
        others = list(words_of(test[id_column]))
    found = labels_by_id(words_of(keyed[id_column]), keyed[label], {*ids, *others}, str(table))
    frame = frame.assign(**{label: [found.get(name) for name in ids]})
    if test is not None and label not in test.columns:
        test = test.assign(**{label: [found.get(name) for name in others]})
    known = sum(found.get(name) is not None for name in ids)
    note = f"{table.name} labels {known:,} of {len(ids):,} rows; the other {len(ids) - known:,} are unlabeled"
    return frame, test, note


def labels_by_id(ids: Ids, labels: "pd.Series[Any]", known: set[str | None], where: str) -> dict[str | None, Any]:
    """The label of each id, None where it has none; one that comes twice, or that no sample has, is refused by name."""
    found: dict[str | None, Any] = {}
    values = [None if gone else value for value, gone in zip(labels.tolist(), labels.isna(), strict=True)]
    for row, (name, value) in enumerate(zip(ids, values, strict=True)):
        if name is None:
            raise DataError(f"{where} has no id in row {row}")
        if name in found:
            both = f"as {found[name]!r:.60} and then as {value!r:.60}" if found[name] != value else "twice"
            raise DataError(f"{where} lists {shown([name])} {both}, in row {row}; keep one of the two")
        found[name] = value
    if strange := [str(name) for name in found if name not in known]:
        raise DataError(f"{where} lists ids that no sample has: {shown(strange, 5)}; mend or remove them")
    return found


def _ids(frame: "pd.DataFrame", column: str, where: Path) -> list[str | None]:
    """The ids of samples; labels could not be told apart where one is missing or comes twice."""
    ids, first = words_of(frame[column]), dict[str | None, int]()
    for row, name in enumerate(ids):
        if name is None:
            raise DataError(f"{where} has no id in row {row}, column {column!r}: labels by id need one in every row")
        if name in first:
            raise DataError(
                f"{where} has the id {shown([name])} twice, in rows {first[name]} and {row}: which of them is labeled?"
            )
        first[name] = row
    return ids
