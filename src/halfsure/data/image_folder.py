"""A folder of images → Data, in any of the three ways people keep one.

- `labeled/<class>/*` and `unlabeled/*`, with `val/<class>/*` and `test/<class>/*` where there are such;
- `<class>/*`, of which some are then drawn as labeled;
- any folder with a CSV of `path,label`, an empty label meaning unlabeled.
"""

import csv
import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from halfsure._shown import nameless
from halfsure.data.dataset import UNLABELED, Data, DataError, Labels, Part
from halfsure.data.files import inside, is_text, opened, short_lines, shown
from halfsure.data.frames import NOT_A_LABEL
from halfsure.data.images import SUFFIXES, decode
from halfsure.data.official import data_root
from halfsure.data.reader import Reader
from halfsure.settings import EVERYDAY, PATH, Positive, Settings, register

__all__ = ["Listing", "decoded_file", "images_below", "listed", "read_folder"]

RESERVED = {"train", "val", "test", "unlabeled"}


@dataclass(frozen=True)
class Listing:
    """Image paths and the class name of each, None where it has none."""

    paths: list[Path]
    names: list[str | None]


def read_folder(
    folder: str | os.PathLike[str],
    *,
    table: str | os.PathLike[str] | None = None,
    size: int | None = None,
    skip_bad: bool = False,
) -> Data:
    """Read a folder of images; every sample with a known class counts as labeled.

    `table` names the CSV; without it a single CSV in the folder is taken, where there is one.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    table = Path(table) if table is not None else _only_csv(folder)
    others: dict[str, Listing] = {}
    if table is not None:
        train = listed(folder, table)
    elif (folder / "labeled").is_dir():
        loose = images_below(folder / "unlabeled", folder) if (folder / "unlabeled").is_dir() else []
        known = _by_class(folder / "labeled")
        train = Listing(known.paths + loose, [*known.names, *[None] * len(loose)])
        others = {name: _by_class(folder / name) for name in ("val", "test") if (folder / name).is_dir()}
    else:
        train = _by_class(folder)
    classes = tuple(sorted({name for name in train.names if name is not None}))
    if not classes:
        raise DataError(f"{folder} has no labeled image; the folder's layout or its CSV has to name some classes")

    first = decode(train.paths, size, skip_bad=skip_bad, mapped=decoded_file(folder, "train"))
    parts = {"train": Part(first.images, _encode([train.names[i] for i in first.kept], classes, folder))}
    _, *shape = first.images.shape
    for name, listing in others.items():
        decoded = decode(
            listing.paths, like=(shape[0], shape[1], shape[2]), skip_bad=skip_bad, mapped=decoded_file(folder, name)
        )
        parts[name] = Part(decoded.images, _encode([listing.names[i] for i in decoded.kept], classes, folder / name))
    labels = parts["train"].labels
    return Data(
        nameless(folder),
        "image",
        classes,
        parts["train"],
        np.flatnonzero(labels != UNLABELED),
        test=parts.get("test"),
        val=parts.get("val"),
        encoding={"kind": "image", "shape": shape},
    )


def decoded_file(folder: Path, part: str) -> Path:
    """Where pictures that do not fit into memory are kept once decoded."""
    name = hashlib.sha256(f"{folder.resolve()}/{part}".encode()).hexdigest()[:16]
    return data_root() / "decoded" / f"{name}.npy"


def listed(folder: Path, table: Path, needed: tuple[str, ...] = ("path", "label")) -> Listing:
    """Rows of `path,label`; a path must stay inside the folder and come once."""
    seen: dict[Path, int] = {}
    names = list[str | None]()
    for number, given, name in _rows(table, needed):
        path = inside(folder, folder / given) if given and "\0" not in given else None
        if path is None:
            raise DataError(f"{table}, row {number}: the path {given!r:.200} does not lead to a file inside {folder}")
        if path in seen:
            raise DataError(f"{table}, row {number}: {shown([given])} was named in row {seen[path]} already")
        if name.lower() in NOT_A_LABEL:
            raise DataError(f"{table}, row {number}: {name!r} is no label; leave it empty for an unlabeled image")
        seen[path] = number
        names.append(None if name in ("", str(UNLABELED)) else name)
    if not seen:
        raise DataError(f"{table} has no rows")
    return Listing(list(seen), names)


def _rows(table: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, str, str]]:
    """Line, path and label of each row of a CSV; a column that it does not have is empty."""
    try:
        with opened(table) as plain, io.TextIOWrapper(plain, "utf-8-sig", newline="") as file:
            reader = csv.reader(short_lines(file, table))
            header = next(filter(None, reader), [])
            if set(needed) - set(header):
                wanted = f"column{'s' * (len(needed) > 1)} {' and '.join(needed)}"
                raise DataError(f"{table} needs the {wanted}, has {shown(header) or 'none'}")
            if len(set(header)) < len(header):
                raise DataError(f"{table} names a column twice: {shown(header)}")
            places = [header.index(name) if name in header else None for name in ("path", "label")]
            for row in filter(None, reader):
                cells = [row[at].strip() if at is not None and at < len(row) else "" for at in places]
                yield reader.line_num, cells[0], cells[1]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{table} is not a CSV file in UTF-8: {error}") from None


def _by_class(folder: Path) -> Listing:
    subfolders = sorted(
        child for child in folder.iterdir() if child.is_dir() and not child.name.startswith((".", "__"))
    )
    if not subfolders:
        raise DataError(f"{folder} has no subfolder; put the images of each class into one named after it")
    if taken := RESERVED & {child.name for child in subfolders}:
        raise DataError(
            f"{folder} has a folder {sorted(taken)[0]!r} beside its classes; put the classes into a folder labeled, "
            "with unlabeled, val and test beside it"
        )
    found = [(path, child.name) for child in subfolders for path in images_below(child, folder)]
    if empty := {child.name for child in subfolders} - {name for _, name in found}:
        raise DataError(f"the folder {folder / sorted(empty)[0]} has no image")
    first: dict[Path, str] = {}
    for path, name in found:
        other = first.setdefault(path.resolve(), name)
        if other != name:
            raise DataError(f"{path} is a picture of the class {other!r} too, by a link; a picture has one class")
    return Listing([path for path, _ in found], [name for _, name in found])


def images_below(folder: Path, whole: Path) -> list[Path]:
    """Picture files below a folder; links out of the whole, and what a Mac leaves in archives, are passed over."""
    found, folders = list[Path](), [folder]
    while folders:
        place = folders.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(place / entry.name)
                    elif Path(entry.name).suffix.lower() in SUFFIXES and not entry.name.startswith("._"):
                        found.append(place / entry.name)
        except OSError as error:
            raise DataError(f"the folder {place} cannot be read: {error.strerror}") from None
    if strange := [path for path in found if not is_text(str(path))]:
        raise DataError(f"the name of {os.fspath(strange[0])!r} is not text in UTF-8; give the file another one")
    return sorted(path for path in found if path.is_file() and inside(whole, path) is not None)


def _only_csv(folder: Path) -> Path | None:
    tables = sorted(folder.glob("*.csv"))
    if len(tables) > 1:
        raise DataError(f"{folder} has {len(tables)} CSV files; name the one that has the labels")
    return tables[0] if tables else None


def _encode(names: Iterable[str | None], classes: tuple[str, ...], where: Path) -> Labels:
    index = {name: i for i, name in enumerate(classes)}
    labels = []
    for name in names:
        if name is not None and name not in index:
            raise DataError(f"{where} has the class {name!r}, of which no training sample is labeled")
        labels.append(UNLABELED if name is None else index[name])
    return np.array(labels, dtype=np.int64)


@dataclass(frozen=True)
class _Settings(Settings):
    table: Annotated[str | None, PATH, EVERYDAY] = None
    """CSV with the labels of an image folder."""
    size: Positive | None = None
    """Scale the images of a folder to this side."""
    skip_bad: bool = False
    """Skip images that cannot be read, and list them."""


@register
class FolderReader(Reader):
    """Folders of images."""

    name = "folder"
    about = "a folder of images"
    Settings = _Settings

    @classmethod
    def takes(cls, source: str) -> bool:
        """A folder that holds no arrays."""
        return Path(source).is_dir() and not (Path(source) / "X.npy").is_file()

    @classmethod
    def read(cls, source: str, settings: Any) -> Data:
        """Read every image of the folder."""
        return read_folder(source, table=settings.table, size=settings.size, skip_bad=settings.skip_bad)
