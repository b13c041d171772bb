"""New samples for a trained model: files and folders → arrays as the model was trained on, each row with a name."""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data import official
from halfsure.data.arrays import as_samples, class_names, label_names
from halfsure.data.dataset import DataError
from halfsure.data.files import shown
from halfsure.data.frames import SUFFIXES as TABLES
from halfsure.data.frames import load_frame
from halfsure.data.image_folder import IMAGES, decoded_file
from halfsure.data.images import decode, look
from halfsure.data.label_values import is_unlabeled
from halfsure.data.listing import Files, Listing, listed, lists_paths, relative, training_folder, with_unlisted
from halfsure.data.npy import read_fields
from halfsure.data.originals import Originals, PictureArray, PictureFiles
from halfsure.data.tables import LENIENT, Column, Restored, TableEncoding, TextEncoder, encode_texts
from halfsure.data.text import TextEncoding
from halfsure.data.text_folder import TEXTS, read_texts

__all__ = ["New", "read", "samples_of"]

ARRAYS = {".npz", ".npy"}
PARTS = {"labeled", "unlabeled", "train", "val", "test"}

Names = list[str]
Classes = list[str | None]


@dataclass(frozen=True)
class New:
    """Samples as a model takes them, what each is called, and the class that is given for it."""

    samples: NDArray[Any]
    """uint8 images, (n, height, width, channels), or float32 rows, (n, features)."""
    names: Names
    """A picture's path below its folder, the id of a row, or its number, from 0."""
    labels: Classes | None
    """A class name each, None where it has none; None if no sample has one."""
    called: str = "name"
    """What the names are: the id column of a table, where it has one."""
    originals: Originals | None = None
    """The pictures themselves, where they are for an encoder and the samples hold nothing yet."""


def read(
    source: str | os.PathLike[str],
    encoding: dict[str, Any] | None,
    *,
    shape: tuple[int, ...] | None,
    lenient: bool = False,
    skip_bad: bool = False,
    test: bool = False,
    root: str | os.PathLike[str] | None = None,
    text_encoder: TextEncoder | None = None,
    restored: Restored = TextEncoding.from_json,
) -> New:
    """Read samples for a model whose run has this `encoding`, and whose samples this `shape`.

    Without a `shape` pictures stay as they are, as originals; `restored` opens what encodes texts.

    A model of images takes a folder of pictures, one picture, a CSV of paths, or arrays; one of a table a table with
    the same columns, or, where these are a single text, a folder of .txt files or one such file; one of rows arrays X
    and perhaps y. The name of an official set means its test part, and `test` asks for that of a folder or an .npz as
    well, where it has one. `lenient` passes over new columns and takes new categories as unknown; `skip_bad` leaves out
    pictures that cannot be read.

    Examples:
        >>> from halfsure.data.new import read
        >>> new = read("digits", {"kind": "image", "shape": [8, 8, 1]}, shape=(8, 8, 1))
        >>> new.samples.shape, new.names[:2], new.labels[:2]
        ((360, 8, 8, 1), ['0', '1'], ['4', '8'])
    """
    path = Path(source)
    kind = encoding["kind"] if encoding else "array" if shape and len(shape) == 1 else "image"
    if kind == "table":
        table = _encoding(encoding or {}, restored)
        if path.is_dir() or path.suffix.lower() in TEXTS.suffixes:
            found = _text_files(path, table, text_encoder, test=test)
        else:
            found = _table(path, table, lenient, text_encoder)
    elif kind not in ("image", "array"):
        raise DataError(f"the model was trained on data of the kind {kind!r}, which cannot be read from {path}")
    elif str(source) in official.SOURCES:
        found = _official(str(source), root)
    elif path.suffix.lower() in ARRAYS or (path / "X.npy").is_file():
        found = _arrays(path, test)
    elif shape is None:
        found = _undecoded(path, skip_bad=skip_bad, test=test)
    elif kind == "array":
        raise DataError(
            f"{path}: the model was trained on arrays; give an .npz with X of shape (n, {shape[0]}), or .npy"
        )
    else:
        found = _pictures(path, (shape[0], shape[1], shape[2]), skip_bad=skip_bad, test=test)
    if len(found.samples) == 0:
        raise DataError(f"{source} holds no sample")
    if shape is None:
        return found if found.originals is not None else _as_originals(found, str(source))
    if found.samples.shape[1:] != shape:
        raise DataError(f"{source} has samples of shape {found.samples.shape[1:]}, but the model takes {shape}")
    return found


def samples_of(
    X: Any,  # noqa: N803 - scikit-learn's name
    encoding: dict[str, Any] | None,
    *,
    shape: tuple[int, ...],
    kind: str,
    restored: Restored = TextEncoding.from_json,
) -> NDArray[Any]:
    """Whatever a person has → samples of this `shape` and `kind`, for a model of this `encoding`. → (n, *shape).

    A path, or the name of an official set, is read as `read` does. A DataFrame needs the columns of a model's table,
    and a list of texts its one column of text. Arrays are taken as samples.
    """
    if isinstance(X, str | os.PathLike):
        return read(X, encoding, shape=shape, restored=restored).samples
    table = _encoding(encoding or {}, restored) if (encoding or {}).get("kind") == "table" else None
    columns = () if table is None else table.columns
    frame = X if hasattr(X, "columns") and hasattr(X, "isna") else None
    texts = None if frame is not None or hasattr(X, "detach") or hasattr(X, "tocsr") else _texts(X)
    if texts is not None:
        if len(columns) == 1 and columns[0].text is not None:
            return columns[0].text.rows(texts)
        wanted = f"the columns {shown([column.name for column in columns])}" if table else f"samples of shape {shape}"
        raise DataError(f"X is a list of texts, but the model takes {wanted}")
    if frame is not None and table is not None:
        try:
            return table.rows(frame, lenient=False)
        except DataError as error:
            raise DataError(str(error).removesuffix(f"; {LENIENT}")) from None  # which is an option of the commands
    given = X if frame is None else frame.to_numpy()
    rows = as_samples(given, "X")[0] if kind in ("image", "array") else np.asarray(given)
    if rows.shape[1:] != shape:
        hint = f"; give a DataFrame with the columns {shown([column.name for column in columns])}" if table else ""
        raise DataError(f"X has samples of shape {rows.shape[1:]}, but the model takes {shape}{hint}")
    return rows


def _texts(X: Any) -> list[str] | None:  # noqa: N803
    """The strings of a list, a column or an array of them; None where X is something else."""
    values = X.tolist() if hasattr(X, "tolist") and getattr(X, "ndim", 0) == 1 else X
    if not isinstance(values, list | tuple) or not any(isinstance(value, str) for value in values):
        return None
    if odd := [row for row, value in enumerate(values) if not isinstance(value, str)]:
        raise DataError(f"X, row {odd[0]}, is no text: write '' where there is none")
    return list(values)


def _official(name: str, root: str | os.PathLike[str] | None) -> New:
    found = official.read(name, root)
    if found.test is None:
        raise DataError(f"the test files of {name} are not here; fetch them with: halfsure data get {name}")
    return _numbered(found.test.images, [found.classes[index] for index in found.test.labels])


def _arrays(path: Path, test: bool) -> New:
    fields = read_fields(path, needed=("X",))
    suffix = "_test" if test and "X_test" in fields else ""
    samples, labels = fields[f"X{suffix}"], fields.get(f"y{suffix}")
    rows, _ = as_samples(samples, path.name)
    if labels is None:
        return _numbered(rows, None)
    if labels.ndim != 1 or len(labels) != len(rows):
        count = f"{len(labels)} labels" if labels.ndim == 1 else f"labels of shape {labels.shape}"
        raise DataError(f"{path} has {len(rows)} samples but {count}")
    return _numbered(rows, label_names(labels, class_names(fields, path), path.name))


def _table(path: Path, encoding: TableEncoding, lenient: bool, text_encoder: TextEncoder | None) -> New:
    if path.suffix.lower() not in TABLES:
        raise DataError(
            f"{path}: the model was trained on a table; give a .csv, .tsv, .parquet or .xlsx with the same columns"
        )
    words = [column.name for column in encoding.columns if column.kind != "number"]
    words += [name for name in (encoding.id, encoding.group) if name is not None]
    frame = load_frame(path, words, encoding.label).rename(columns=str)
    if frame.columns.duplicated().any():
        raise DataError(f"{path} has two columns named {frame.columns[frame.columns.duplicated()][0]!r}")
    if len(frame) == 0:
        raise DataError(f"{path} has no rows")
    labels = None
    if encoding.label in frame.columns:
        column = frame[encoding.label]
        stripped = [value.strip() if isinstance(value, str) else value for value in column.astype(object)]
        labels = label_names([None if gone else v for v, gone in zip(stripped, column.isna(), strict=True)])
    try:
        rows = encoding.rows(frame, text_encoder, lenient=lenient)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    if (ids := encoding.ids(frame)) is None:
        return _numbered(rows, labels)
    return New(rows, ids.tolist(), None if labels is None else _any(labels), str(encoding.id))


def _text_files(path: Path, encoding: TableEncoding, text_encoder: TextEncoder | None, *, test: bool) -> New:
    """Every text that a path stands for."""
    if [column.kind for column in encoding.columns] != ["text"]:
        raise DataError(f"{path}: the model was trained on a table of more than a text; give one with the same columns")
    folder, listing = _files(path, TEXTS, test)
    rows = encode_texts(encoding.columns[0], read_texts(listing.paths), text_encoder)
    return New(rows, relative(listing.paths, folder), _any(listing.names))


def _pictures(path: Path, shape: tuple[int, int, int], *, skip_bad: bool, test: bool) -> New:
    """Every picture that a path stands for, brought to the model's size."""
    folder, listing = _files(path, IMAGES, test)
    decoded = decode(listing.paths, like=shape, skip_bad=skip_bad, mapped=decoded_file(path, "new"))
    names = relative([listing.paths[i] for i in decoded.kept], folder)
    labels = [listing.names[i] for i in decoded.kept]
    return New(decoded.images, names, _any(labels))


def _undecoded(path: Path, *, skip_bad: bool, test: bool) -> New:
    """Every picture that a path stands for, left in its file."""
    folder, listing = _files(path, IMAGES, test)
    kept = look(listing.paths, skip_bad=skip_bad, whole=skip_bad).kept
    files = [listing.paths[i] for i in kept]
    labels = _any([listing.names[i] for i in kept])
    return New(np.empty((len(files), 0), np.float32), relative(files, folder), labels, originals=PictureFiles(files))


def _as_originals(found: New, source: str) -> New:
    """Pictures of an array, for an encoder."""
    if found.samples.ndim != 4:
        raise DataError(f"{source} holds no pictures, but samples of shape {found.samples.shape[1:]}")
    return replace(found, originals=PictureArray(found.samples))


def _files(path: Path, files: Files, test: bool) -> tuple[Path, Listing]:
    """The folder that a path stands for, and its files."""
    if test and (path / "test").is_dir():
        path = path / "test"
    if path.is_dir():
        folder, listing = path, _below(path, files)
    elif not path.exists():
        raise DataError(f"there is no file or folder {path}, nor an official set of that name")
    elif path.suffix.lower() == ".csv":
        folder, listing = path.parent, listed(path.parent, path, ("path",))
    elif path.suffix.lower() in files.suffixes:
        folder, listing = path.parent, Listing([path], [None])
    else:
        raise DataError(
            f"{path}: the model was trained on {files.word}s; give a folder of {files.word}s, one, .npz or .npy"
        )
    if not listing.paths:
        raise DataError(f"there is no {files.word} in {path}")
    return folder, listing


def _below(folder: Path, files: Files) -> Listing:
    """All files below a folder with the labels of its CSV, or of the class that their subfolder is named after.

    A CSV of paths alone says which are meant.
    """
    tables = [table for table in sorted(folder.glob("*.csv")) if lists_paths(table)]
    if len(tables) == 1:
        some = listed(folder, tables[0], ("path",))
        return with_unlisted(folder, tables[0], some, files) if _any(some.names) else some
    paths = files.below(folder, folder)
    training = training_folder(folder) is not None  # then the first folders are parts of the data, not classes
    return Listing(paths, [_class_of(path.relative_to(folder).parts[:-1], training) for path in paths])


def _class_of(folders: tuple[str, ...], training: bool) -> str | None:
    if training and folders and folders[0] in PARTS:
        folders = () if folders[0] == "unlabeled" else folders[1:]
    return folders[0] if folders and not is_unlabeled(folders[0]) else None


def _numbered(samples: NDArray[Any], labels: Classes | None) -> New:
    return New(samples, [str(row) for row in range(len(samples))], None if labels is None else _any(labels))


def _any(labels: Classes) -> Classes | None:
    return labels if any(label is not None for label in labels) else None


def _encoding(fields: dict[str, Any], restored: Restored) -> TableEncoding:
    """How a model's table is encoded; what a damaged or foreign file says in its place is refused."""
    try:
        encoding = TableEncoding.from_json(fields, restored)
        sound = isinstance(encoding.label, str) and bool(encoding.columns) and all(map(_is_sound, encoding.columns))
        sound &= all(isinstance(name, str) for name in (encoding.id or "", encoding.group or "", *encoding.dropped))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        sound = False
    if not sound:
        raise DataError("the model does not say how its table became numbers: its file is damaged")
    return encoding


def _is_sound(column: Column) -> bool:
    known = column.kind in ("number", "category", "text") and isinstance(column.name, str)
    numbers = math.isfinite(column.mean) and math.isfinite(column.scale) and column.scale != 0
    return known and numbers and all(isinstance(name, str) for name in column.categories)
