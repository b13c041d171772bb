"""Tables with a label column → Data: numbers, categories and text become one row of float32 each.

The encoding is fitted on the training rows and is plain JSON, so that it can be kept with a model and applied to new
rows without unpickling anything.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halfsure.data.arrays import DENSE_LIMIT, encode_labels
from halfsure.data.columns import cleaned, explained, find_column, names_in, warn_of_columns, warn_of_names, words_of
from halfsure.data.copies import of_frame, warn_of_copies
from halfsure.data.dataset import UNLABELED, Data, DataError, Encoded, Names, Part, texts_of
from halfsure.data.frames import SUFFIXES, load_frame
from halfsure.data.keyed import label_column_of, with_labels
from halfsure.data.originals import Originals, Texts
from halfsure.data.reader import Reader
from halfsure.data.text import TextEncoding, TextRows, fit_text
from halfsure.settings import EVERYDAY, PATH, Settings, register

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Column", "TableEncoding", "encode_texts", "fit_table", "fitted", "read_frame", "read_table"]

Rows = NDArray[np.float32]


class TextFitter(Protocol):
    """Something that learns from training texts, or only looks at them, how texts become rows."""

    def fit(self, texts: list[str]) -> TextRows:
        """Training texts → what encodes them and others."""
        ...


TextEncoder = Callable[[list[str]], Any] | TextFitter
"""A function of one's own that makes rows of texts, or something that says what does."""
Restored = Callable[[dict[str, Any]], TextRows]
"""What was kept of an encoder → the encoder."""
MOST_CATEGORIES = 50
"""A category beyond the most frequent ones counts as another."""
LENIENT = "mend the table, or be lenient (--lenient): new columns are then passed over, new values count as unknown"
NEARLY = 0.1
"""A column in which fewer than these are no numbers is meant to hold numbers."""
WORDS_OF_TEXT = 4
"""A column of strings with this many words on average is text."""


@dataclass(frozen=True)
class Column:
    """How one column becomes numbers."""

    name: str
    kind: str
    """`number`, `category` or `text`."""
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    more: bool = False
    """Whether training had more categories than are kept, so that others count as rare ones."""
    text: TextRows | None = None

    @property
    def width(self) -> int:
        """How many features it becomes."""
        if self.kind == "text":
            return 0 if self.text is None else self.text.width
        return 2 if self.kind == "number" else len(self.categories) + 1


@dataclass(frozen=True)
class TableEncoding:
    """How a table becomes rows of float32."""

    label: str
    columns: tuple[Column, ...]
    id: str | None = None
    """The column that names the rows."""
    group: str | None = None
    """The column that says which rows belong together."""
    dropped: tuple[str, ...] = ()
    """Columns that were left out."""

    def rows(self, frame: "pd.DataFrame", text_encoder: TextEncoder | None = None, *, lenient: bool = True) -> Rows:
        """Encode a table that has the same columns. → (n, features).

        Columns and categories that training did not have are passed over, or refused where not `lenient`.
        """
        frame = frame.rename(columns=str)
        missing = [column.name for column in self.columns if column.name not in frame.columns]
        if missing:
            raise DataError(f"the table has no column {missing[0]!r}, which the model was trained on")
        if not lenient:
            self._refuse_new(frame)
        width = sum(column.width for column in self.columns)
        if len(frame) * width * np.float32().itemsize > DENSE_LIMIT:
            raise DataError(
                f"{len(frame):,} rows of {width:,} features do not fit into {DENSE_LIMIT // 2**30} GiB; leave rows or "
                "columns of many categories away, or save numbers as X.npy and y.npy in a folder, to be mapped"
            )
        blocks = [_encode(column, frame[column.name], text_encoder) for column in self.columns]
        for column, block in zip(self.columns, blocks, strict=True):
            bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
            if bad.size:
                raise DataError(f"the column {column.name!r}, row {bad[0]}, gives no finite number")
        return np.concatenate(blocks, axis=1, dtype=np.float32)

    def _refuse_new(self, frame: "pd.DataFrame") -> None:
        known = {self.label, self.id, self.group, *self.dropped, *(column.name for column in self.columns)}
        if new := [name for name in frame.columns if name not in known]:
            raise DataError(f"the table has a column {new[0]!r}, which the model was not trained on; {LENIENT}")
        for column in self.columns:
            if column.kind != "category" or column.more:
                continue
            for row, value in enumerate(words_of(frame[column.name])):
                if value is not None and value not in column.categories:
                    where = f"the column {column.name!r}, row {row}"
                    raise DataError(f"{where}, holds {value!r}, which training did not have; {LENIENT}")

    def encoded(self, frame: "pd.DataFrame") -> tuple[Encoded, ...]:
        """The columns that hold text, for views of them."""
        found, first = [], 0
        frame = frame.rename(columns=str)
        for column in self.columns:
            if column.text is not None:
                strings = [string or "" for string in words_of(frame[column.name])]
                found.append(column.text.beside(first, strings))
            first += column.width
        return tuple(found)

    def texts(self, frame: "pd.DataFrame") -> tuple[Originals | None, ...]:
        """The texts of each such column, for an encoder that is tuned later; None where words become rows."""
        frame = frame.rename(columns=str)
        return tuple(
            None
            if isinstance(column.text, TextEncoding)
            else Texts([string or "" for string in words_of(frame[column.name])])
            for column in self.columns
            if column.text is not None
        )

    def to_json(self) -> dict[str, Any]:
        """Everything needed to encode again, as JSON."""
        columns = [
            asdict(replace(column, text=None)) | {"text": column.text.to_json() if column.text else None}
            for column in self.columns
        ]
        more = {"id": self.id, "group": self.group, "dropped": list(self.dropped)}
        return {"label": self.label, "columns": columns} | {name: value for name, value in more.items() if value}

    @classmethod
    def from_json(cls, fields: dict[str, Any], restored: Restored = TextEncoding.from_json) -> "TableEncoding":
        """The inverse of `to_json`; `restored` opens what encodes texts."""
        columns = []
        for column in fields["columns"]:
            text = restored(column["text"]) if column["text"] else None
            columns.append(Column(**(column | {"categories": tuple(column["categories"]), "text": text})))
        dropped = tuple(fields.get("dropped", ()))
        return cls(fields["label"], tuple(columns), fields.get("id"), fields.get("group"), dropped)

    def ids(self, frame: "pd.DataFrame") -> Names | None:
        """What the rows of a table are called, "" where nothing is said; None if no column of it names them."""
        if self.id is None or self.id not in frame.columns:
            return None
        return np.array([name or "" for name in words_of(frame[self.id])], dtype=object)

    def groups(self, frame: "pd.DataFrame") -> Names | None:
        """The group of each row; None if the table has no column for it."""
        if self.group is None or self.group not in frame.columns:
            return None
        names = words_of(frame[self.group])
        if None in names:
            raise DataError(f"the column {self.group!r} is empty in row {names.index(None)}; name a group in every row")
        return np.array(names, dtype=object)


def read_table(
    path: str | os.PathLike[str],
    label: str | None,
    *,
    text_encoder: TextEncoder | None = None,
    test: str | os.PathLike[str] | None = None,
    table: str | os.PathLike[str] | None = None,
    id_column: str | None = None,
    group_column: str | None = None,
    drop: Sequence[str] = (),
) -> Data:
    """A CSV, TSV, Parquet or Excel file. `test` names a file of the same kind.

    `table` names a file with the labels of some rows, found by their `id_column`. The roles of columns are as
    `read_frame` has them.
    """
    if table is None and label is None:
        raise DataError(f"which column of {path} holds the labels? Name it: --label-column, or label_column=")
    if table is not None and id_column is None:
        raise DataError(f"by which column are {path} and {table} matched? Name it: --id-column, or id_column=")
    names = [name for name in (id_column, group_column) if name is not None]
    frame = load_frame(Path(path), names, label if table is None else None)
    if table is not None and id_column is not None:
        label = label_column_of(Path(table), id_column, label)
    assert label is not None
    words = [str(column) for column in frame.columns if frame[column].dtype.kind not in "biuf"]
    words += names  # 007 stays 007, also where training had A7 too
    held_out = None if test is None else load_frame(Path(test), words, label)
    notes: tuple[str, ...] = ()
    if table is not None and id_column is not None:
        if label in drop:
            frame, drop = frame.drop(columns=label, errors="ignore"), [name for name in drop if name != label]
        frame, held_out, note = with_labels(
            frame, held_out, Path(table), id_column=id_column, label=label, source=Path(path)
        )
        notes = (note,)
    data = read_frame(
        frame,
        label,
        text_encoder=text_encoder,
        test=held_out,
        name=Path(path).stem,
        id_column=id_column,
        group_column=group_column,
        drop=drop,
    )
    return replace(data, notes=data.notes + notes)


def read_frame(
    frame: "pd.DataFrame",
    label: str,
    *,
    text_encoder: TextEncoder | None = None,
    test: "pd.DataFrame | None" = None,
    name: str = "table",
    id_column: str | None = None,
    group_column: str | None = None,
    drop: Sequence[str] = (),
) -> Data:
    """A pandas DataFrame with a label column. → Data.

    `id_column` names the rows, `group_column` says which of them belong together; neither these nor the columns of
    `drop` are learnt from.
    """
    frame, test = frame.rename(columns=str), None if test is None else test.rename(columns=str)
    for table in (frame, test):
        if table is not None:
            find_column(label, list(table.columns), name, "to take the labels from")
        if table is not None and table.columns.duplicated().any():
            raise DataError(f"{name} has two columns named {table.columns[table.columns.duplicated()][0]!r}")
    if len(frame) == 0 or len(frame.columns) < 2:
        raise DataError(f"{name} has {len(frame)} rows and {len(frame.columns) - 1} columns beside the label")
    uses = [(id_column, "to name rows by"), (group_column, "to group rows by")]
    uses += [(column, "to leave out") for column in drop]
    for column, use in uses:
        if column is not None:
            find_column(column, list(frame.columns), name, use)
        if column == label:
            raise DataError(f"the column {label!r} of {name} has the labels: it cannot serve {use} as well")
    labels, classes = encode_labels(cleaned(frame[label]), name=f"{name}, column {label!r}")
    encoding = fit_table(frame, label, text_encoder, id=id_column, group=group_column, dropped=tuple(drop))
    if not encoding.columns:
        raise DataError(f"{name} has no column left to learn from")
    rows, beside = encoding.rows(frame, text_encoder), encoding.encoded(frame)
    train = Part(rows, labels, encoding.ids(frame), encoding.groups(frame), texts=texts_of(beside))
    part = None
    if test is not None:
        known = encode_labels(cleaned(test[label]), classes, indexed=False)[0]
        rows, texts = encoding.rows(test, text_encoder), encoding.texts(test)
        part = Part(rows, known, encoding.ids(test), encoding.groups(test), texts=texts)
    warn_of_columns(frame, [column.name for column in encoding.columns])
    warn_of_names(train, part, id_column, group_column)
    values = of_frame(frame, encoding), None if test is None else of_frame(test, encoding)
    wordy = any(column.kind == "text" for column in encoding.columns)
    warn_of_copies(train, part, values, "rows", column=None if wordy else 2)
    return Data(
        name,
        "array",
        classes,
        train,
        np.flatnonzero(labels != UNLABELED),
        test=part,
        encoding={"kind": "table", **encoding.to_json()},
        encoded=beside,
        notes=(explained(frame, encoding),),
    )


def fit_table(
    frame: "pd.DataFrame",
    label: str = "",
    text_encoder: TextEncoder | None = None,
    *,
    id: str | None = None,
    group: str | None = None,
    dropped: tuple[str, ...] = (),
) -> TableEncoding:
    """Learn how each column becomes numbers, but for those that have another role."""
    frame = frame.rename(columns=str)
    names = [name for name in frame.columns if name not in (label, id, group, *dropped)]
    columns = tuple(_fit(frame[name], name, text_encoder) for name in names)
    return TableEncoding(label, columns, id, group, dropped)


def _fit(values: "pd.Series[Any]", name: str, text_encoder: TextEncoder | None) -> Column:
    if values.dtype.kind in "mM":
        raise DataError(
            f"the column {name!r} holds dates; make numbers of them, such as days since a start, or drop it, "
            "on the command line with --drop"
        )
    if values.dtype.kind in "biuf" or _holds_numbers(values, name):
        finite = values.astype(float).to_numpy()
        finite = finite[np.isfinite(finite)]
        if not finite.size:
            raise DataError(f"the column {name!r} holds no number at all; drop it, on the command line with --drop")
        return Column(name, "number", mean=float(finite.mean()), scale=float(finite.std()) or 1.0)
    strings = [value for value in cleaned(values) if value is not None]
    if strings and np.mean([len(value.split()) for value in strings[:1000]]) >= WORDS_OF_TEXT:
        return Column(name, "text", text=fitted(strings, text_encoder))
    counts = Counter(strings)
    common = [category for category, _ in counts.most_common(MOST_CATEGORIES)]
    return Column(name, "category", categories=tuple(sorted(common)), more=len(counts) > MOST_CATEGORIES)


def _encode(column: Column, values: "pd.Series[Any]", text_encoder: TextEncoder | None) -> Rows:
    if column.kind == "number":
        try:
            numbers = values.astype(float).to_numpy()
        except (ValueError, TypeError):
            row, bad = next((row, value) for row, value in enumerate(values) if not _is_number(value))
            raise DataError(f"the column {column.name!r} holds numbers, but {bad!r} in row {row} is none") from None
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0])
            raise DataError(f"the column {column.name!r}, row {row}, holds infinity; leave it empty for missing")
        present = np.isfinite(numbers)
        with np.errstate(over="ignore"):  # named by the check for finite numbers
            scaled = (np.where(present, numbers, column.mean) - column.mean) / column.scale
            return np.stack([scaled, ~present], axis=1).astype(np.float32)
    strings = words_of(values)
    if column.kind == "text":
        return encode_texts(column, [string or "" for string in strings], text_encoder)
    index = {category: i for i, category in enumerate(column.categories)}
    rows = np.zeros((len(strings), len(index) + 1), dtype=np.float32)  # the last column: missing, rare or never seen
    rows[np.arange(len(strings)), [index.get(s, len(index)) if s is not None else len(index) for s in strings]] = 1
    return rows


def fitted(texts: list[str], text_encoder: TextEncoder | None) -> TextRows | None:
    """How training texts become rows; None where a function of one's own says so, which has to be given again."""
    if text_encoder is None:
        return fit_text(texts)
    return None if callable(text_encoder) else text_encoder.fit(texts)


def encode_texts(column: Column, texts: list[str], text_encoder: TextEncoder | None) -> Rows:
    """Texts of a column as rows of numbers. → (n, dimensions)."""
    if column.text is not None:
        return column.text.rows(texts)
    if not callable(text_encoder):
        raise DataError(f"the column {column.name!r} was encoded by an encoder of yours; give it again")
    rows = np.asarray(text_encoder(texts), dtype=np.float32)
    if rows.ndim != 2 or len(rows) != len(texts):
        raise DataError(f"the encoder gave shape {rows.shape} for {len(texts)} texts; it must give one row each")
    return rows


def _holds_numbers(values: "pd.Series[Any]", name: str) -> bool:
    """Whether a column without a type of numbers holds them: too many different ones to be categories.

    One word among them, such as a ? for a missing value, would silently make categories of them all: it is refused.
    """
    present = [(row, value) for row, value in enumerate(values) if value is not None and value == value]  # noqa: PLR0124
    if len({str(value) for _, value in present}) <= MOST_CATEGORIES:
        return False
    words = [(row, value) for row, value in present if not _is_number(value)]
    if len(words) > NEARLY * len(present):
        return False
    if words:
        row, word = words[0]
        raise DataError(
            f"the column {name!r} holds numbers, but {word!r} in row {row} is none; mend it, or leave the cell empty"
        )
    return True


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (ValueError, TypeError):
        return False
    return True


@dataclass(frozen=True)
class _Settings(Settings):
    label_column: Annotated[str | None, EVERYDAY] = None
    """Which column of a table holds the labels."""
    test: Annotated[str | None, PATH, EVERYDAY] = None
    """Table with the test rows."""
    id_column: Annotated[str | None, EVERYDAY] = None
    """Column that names the rows: never learnt from, and given back with predictions."""
    group_column: Annotated[str | None, EVERYDAY] = None
    """Column that says which samples belong together, such as those of one patient: a check never splits a group."""
    drop: Annotated[str | None, EVERYDAY] = None
    """Columns of a table to leave out, with commas between them."""
    table: Annotated[str | None, PATH, EVERYDAY] = None
    """CSV with the labels of a table's rows, by their ids."""


@register
class TableReader(Reader):
    """Tables with a label column."""

    name = "table"
    about = "a table"
    Settings = _Settings

    @classmethod
    def takes(cls, source: str) -> bool:
        """Files with the endings of tables."""
        return Path(source).suffix.lower() in SUFFIXES

    @classmethod
    def read(cls, source: str, settings: Any, text_encoder: TextEncoder | None = None) -> Data:
        """Read the table, and the one with the test rows."""
        told = {name: getattr(settings, name) for name in ("test", "table", "id_column", "group_column")}
        drop = names_in(settings.drop or "")
        return read_table(source, settings.label_column, text_encoder=text_encoder, drop=drop, **told)
