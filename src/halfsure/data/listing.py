"""Which files of a folder are samples, and the class of each, in any of the three ways people keep them.

- `labeled/<class>/*` (or `train/<class>/*`) and `unlabeled/*`, with `val/<class>/*` and `test/<class>/*` if any;
- `<class>/*`, of which some are then drawn as labeled;
- any folder with a CSV of `path,label`; files with an empty label, or that it does not name, are unlabeled.
"""

import csv
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data.columns import find_column
from halfsure.data.dataset import UNLABELED, DataError, Labels, Part
from halfsure.data.dialect import find_dialect, told
from halfsure.data.files import inside, is_text, opened, short_lines, shown
from halfsure.data.label_values import check_single, read_label
from halfsure.settings import EVERYDAY, PATH, Settings

__all__ = [
    "Files",
    "FolderSettings",
    "Listing",
    "classes_of",
    "encoded",
    "listed",
    "lists_paths",
    "parts_of",
    "relative",
    "training_folder",
    "with_unlisted",
]


@dataclass(frozen=True)
class FolderSettings(Settings):
    """What a reader of a folder of files can be told."""

    table: Annotated[str | None, PATH, EVERYDAY] = None
    """CSV with the labels of a folder of images or texts."""
    group_column: Annotated[str | None, EVERYDAY] = None
    """Of a folder of images or texts: a column of its CSV."""


RESERVED = {"train", "val", "test", "unlabeled"}
HELD_OUT = ("val", "test")


@dataclass(frozen=True)
class Listing:
    """Paths and the class name of each, None where it has none."""

    paths: list[Path]
    names: list[str | None]
    groups: list[str] | None = None
    """What each belongs to, where the table says so."""

    def part(
        self, samples: NDArray[Any], classes: tuple[str, ...], folder: Path, name: str = "", kept: Any = None
    ) -> Part:
        """Samples of these paths, or of those that were kept, each called by its path below the folder."""
        rows = range(len(self.paths)) if kept is None else kept
        labels = encoded([self.names[i] for i in rows], classes, folder / name)
        ids = relative([self.paths[i] for i in rows], folder)
        groups = None if self.groups is None else np.array([self.groups[i] for i in rows], dtype=object)
        return Part(samples, labels, np.array(ids, dtype=object), groups)


@dataclass(frozen=True)
class Files:
    """A kind of files that are samples, a file each."""

    word: str
    """What one is called."""
    suffixes: frozenset[str]

    def below(self, folder: Path, whole: Path) -> list[Path]:
        """Such files below a folder; links out of the whole, and what a Mac leaves in archives, are passed over."""
        found = list(self._walk(folder))
        if strange := [path for path in found if not is_text(str(path))]:
            raise DataError(f"the name of {os.fspath(strange[0])!r} is not text in UTF-8; give the file another one")
        return sorted(path for path in found if path.is_file() and inside(whole, path) is not None)

    def any_in(self, folder: Path) -> bool:
        """Whether there is one below a folder."""
        return next(self._walk(folder), None) is not None

    def _walk(self, folder: Path) -> Iterator[Path]:
        folders = [folder]
        while folders:
            place = folders.pop()
            try:
                with os.scandir(place) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(place / entry.name)
                        elif Path(entry.name).suffix.lower() in self.suffixes and not entry.name.startswith("._"):
                            yield place / entry.name
            except OSError as error:
                raise DataError(f"the folder {place} cannot be read: {error.strerror}") from None


def relative(paths: Sequence[Path], folder: Path) -> list[str]:
    """Paths below their folder; of one elsewhere its name."""
    whole = folder.resolve()
    found = [(path, [base for base in (folder, whole) if path.is_relative_to(base)]) for path in paths]
    return [path.relative_to(bases[0]).as_posix() if bases else path.name for path, bases in found]


def parts_of(folder: Path, table: Path | None, files: Files, group: str | None = None) -> dict[str, Listing]:
    """The training samples of a folder, and those of `val` and `test` where it has them, by part.

    `table` names the CSV; without it a single CSV in the folder is taken, where there is one. Its column `group` says
    which samples belong together.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    table = table or _only_csv(folder)
    if table is not None:
        return {"train": with_unlisted(folder, table, listed(folder, table, group=group), files)}
    if group is not None:
        raise DataError(f"{folder} has no CSV to have the column {group!r:.80}; name one: --table, or table=")
    if (known_in := training_folder(folder)) is None:
        return {"train": _by_class(folder, files)}
    loose = files.below(folder / "unlabeled", folder) if (folder / "unlabeled").is_dir() else []
    known = _by_class(known_in, files)
    train = Listing(known.paths + loose, [*known.names, *[None] * len(loose)])
    return {"train": train} | {name: _by_class(folder / name, files) for name in HELD_OUT if (folder / name).is_dir()}


def training_folder(folder: Path) -> Path | None:
    """Where the classes of a folder with parts are: in `labeled`, or else in `train`; None if it has no parts."""
    if (folder / "labeled").is_dir():
        return folder / "labeled"
    others = {path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "__"))}
    return folder / "train" if "train" in others <= RESERVED else None


def classes_of(train: Listing, folder: Path, files: Files) -> tuple[str, ...]:
    """The classes that training samples have, in order."""
    classes = tuple(sorted({name for name in train.names if name is not None}))
    if not classes:
        raise DataError(
            f"{folder} has no labeled {files.word}; the folder's layout or its CSV has to name some classes"
        )
    check_single(classes, str(folder))
    return classes


def encoded(names: Iterable[str | None], classes: tuple[str, ...], where: Path) -> Labels:
    """Class names as class indices, −1 where there is none."""
    index = {name: i for i, name in enumerate(classes)}
    labels = []
    for name in names:
        if name is not None and name not in index:
            raise DataError(f"{where} has the class {name!r}, of which no training sample is labeled")
        labels.append(UNLABELED if name is None else index[name])
    return np.array(labels, dtype=np.int64)


def listed(
    folder: Path, table: Path, needed: tuple[str, ...] = ("path", "label"), *, group: str | None = None
) -> Listing:
    """Rows of `path,label`; a path must stay inside the folder and come once. The column `group` has their groups."""
    seen: dict[Path, int] = {}
    names, groups = list[str | None](), list[str]()
    for number, given, name, whose in _rows(table, needed, group):
        if group is not None and not whose:
            raise DataError(f"{table}, row {number}: the column {group!r} is empty; every sample needs a group")
        groups.append(whose)
        path = inside(folder, folder / given) if given and "\0" not in given else None
        if path is None:
            raise DataError(f"{table}, row {number}: the path {given!r:.200} does not lead to a file inside {folder}")
        if path in seen:
            raise DataError(f"{table}, row {number}: {shown([given])} was named in row {seen[path]} already")
        seen[path] = number
        names.append(_class_name(name, f"{table}, row {number}"))
    if not seen:
        raise DataError(f"{table} has no rows")
    return Listing(list(seen), names, groups if group is not None else None)


def with_unlisted(folder: Path, table: Path, some: Listing, files: Files) -> Listing:
    """A list with the other files of its folder as unlabeled ones, which is said; `val` and `test` are left out."""
    named, below = set(some.paths), files.below(folder, folder)
    hidden = [path for path in below if any(part.startswith((".", "__")) for part in path.relative_to(folder).parts)]
    others = [path for path in sorted(set(below) - set(hidden)) if path.resolve() not in named]
    kept = [path for path in others if path.relative_to(folder).parts[0] not in HELD_OUT]
    if kept and some.groups is not None:
        raise DataError(
            f"{table} gives no group for {shown(relative(kept, folder), 3)}; list every {files.word}, unlabeled ones "
            "with an empty label"
        )
    if others:
        held = len(others) - len(kept)
        out = f", and those in val and test ({held:,}) are left out" if held else ""
        warnings.warn(
            f"{table} names {len(some.paths):,} of {len(some.paths) + len(others):,} {files.word}s: those that it does "
            f"not name ({len(kept):,}) count as unlabeled{out}",
            stacklevel=4,
        )
    return Listing(some.paths + kept, some.names + [None] * len(kept), some.groups)


def lists_paths(table: Path) -> bool:
    """Whether a CSV has a column of paths."""
    try:
        with opened(table) as file:
            return "path" in find_dialect(file, table, ("path",)).header
    except (DataError, csv.Error):
        return False


def _rows(table: Path, needed: tuple[str, ...], group: str | None) -> Iterator[tuple[int, str, str, str]]:
    """Line, path, label and group of each row of a CSV; a column that it does not have is empty."""
    with opened(table) as file:
        try:
            how = find_dialect(file, table, ("path", "label"))
        except DataError as error:
            raise DataError(str(error) if str(error).startswith(str(table)) else f"{table} {error}") from None
        except csv.Error as error:
            raise DataError(f"{table} is not a CSV file: {error}") from None
        told(table, how.unusual)
        if set(needed) - set(how.header):
            wanted = f"column{'s' * (len(needed) > 1)} {' and '.join(needed)}"
            raise DataError(f"{table} needs the {wanted}, has {shown(how.header) or 'none'}")
        if len(set(how.header)) < len(how.header):
            raise DataError(f"{table} names a column twice: {shown(how.header)}")
        if group is not None:
            find_column(group, how.header, str(table), "to group samples by")
        places = [how.header.index(name) if name in how.header else None for name in ("path", "label", group)]
        with how.text(file) as text:
            reader = csv.reader(short_lines(text, table), delimiter=how.separator)
            try:
                next(filter(None, reader), None)
                for row in filter(None, reader):
                    cells = [row[at].strip() if at is not None and at < len(row) else "" for at in places]
                    yield reader.line_num, cells[0], cells[1], cells[2]
            except csv.Error as error:
                raise DataError(f"{table} is not a CSV file: {error}") from None


def _by_class(folder: Path, files: Files) -> Listing:
    subfolders = sorted(
        child for child in folder.iterdir() if child.is_dir() and not child.name.startswith((".", "__"))
    )
    if not subfolders:
        raise DataError(f"{folder} has no subfolder; put the {files.word}s of each class into one named after it")
    if taken := RESERVED & {child.name for child in subfolders}:
        raise DataError(
            f"{folder} has a folder {sorted(taken)[0]!r} beside its classes; put the classes into a folder labeled, "
            "with unlabeled, val and test beside it"
        )
    found = [(path, child.name) for child in subfolders for path in files.below(child, folder)]
    if empty := {child.name for child in subfolders} - {name for _, name in found}:
        raise DataError(f"the folder {folder / sorted(empty)[0]} has no {files.word}")
    first: dict[Path, str] = {}
    for path, name in found:
        other = first.setdefault(path.resolve(), name)
        if other != name:
            raise DataError(f"{path} is of the class {other!r} too, by a link; each sample has one class here")
    names = {child.name: _class_name(child.name, str(child)) for child in subfolders}
    return Listing([path for path, _ in found], [names[name] for _, name in found])


def _class_name(name: str, where: str) -> str | None:
    found = read_label(name, where)
    return None if found is None else str(found)


def _only_csv(folder: Path) -> Path | None:
    tables = sorted(folder.glob("*.csv"))
    if len(tables) > 1:
        raise DataError(f"{folder} has {len(tables)} CSV files; name the one that has the labels")
    return tables[0] if tables else None
