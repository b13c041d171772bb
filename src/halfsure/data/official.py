"""The sets of the paper: what they are, where their official files come from, and how to read them.

Files are looked for under one folder: the `root` that is passed, else `$HALFSURE_DATA`, else the user's cache folder.
In it they lie as everybody keeps them (`MNIST/raw`, `cifar-10-batches-py`, `SVHN`, …), so a folder filled by another
library serves as it is.
"""

import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from halfsure.data import dataset
from halfsure.data._official_files import Official, Part, load_digits
from halfsure.data._sources import SOURCES, File, Layout, Source, Status
from halfsure.data.dataset import UNLABELED, Data
from halfsure.data.files import DataError
from halfsure.data.reader import Reader
from halfsure.settings import PATH, Settings, register

__all__ = [
    "SOURCES",
    "File",
    "Layout",
    "Official",
    "Part",
    "Source",
    "cache_folder",
    "check",
    "data_root",
    "find",
    "info",
    "read",
]

Root = str | os.PathLike[str] | None


def read(name: str, root: Root = None) -> Official:
    """Read a set from its official files.

    Files that differ from the official ones are read with a warning that says which.

    Examples:
        >>> from halfsure.data import official
        >>> digits = official.read("digits")
        >>> digits.train.images.shape, digits.test.images.shape
        ((1437, 8, 8, 1), (360, 8, 8, 1))
    """
    source = get_source(name)
    if not source.layouts:
        return load_digits(source.classes)
    folder, layout = _locate(source, root)
    data = layout.load(folder, source.classes)
    wrong = [f"{file.name} {_WRONG[s]}" for file in layout.files if (s := file.status(folder)) != "ok"]
    unlabeled = 0 if data.unlabeled is None else len(data.unlabeled)
    sizes = {
        "train": (len(data.train), source.train),
        "test": (len(data.test or ()), source.test),
        "unlabeled": (unlabeled, source.unlabeled),
    }
    short = [
        f"{there:,} of {published:,} {part} images" for part, (there, published) in sizes.items() if there != published
    ]
    if wrong or short:
        warnings.warn(f"{name} in {folder} is not the official set: {'; '.join(short + wrong)}", stacklevel=2)
    return data


def find(name: str, root: Root = None) -> Path:
    """Find the folder that holds a set's files; the error says where they were looked for."""
    source = get_source(name)
    if not source.layouts:
        raise DataError(f"{name} comes with a package and has no folder; read it with official.read({name!r})")
    return _locate(source, root)[0]


def check(name: str, root: Root = None) -> list[tuple[str, Status]]:
    """Say of each official file whether it is ok, missing, or differs from the published one."""
    source = get_source(name)
    if not source.layouts:
        return []
    try:
        folder, layout = _locate(source, root)
    except DataError:
        return [(file.name, "missing") for file in source.files]
    return [(file.name, file.status(folder)) for file in layout.files]


def info(name: str) -> dict[str, Any]:
    """What is known of a set without its files, as plain values."""
    source = get_source(name)
    archives = [layout.archive for layout in source.layouts if layout.archive]
    return {
        "name": source.name,
        "about": source.about,
        "classes": list(source.classes),
        "shape": list(source.shape),
        "train": source.train,
        "test": source.test,
        "unlabeled": source.unlabeled,
        "files": [file.name for file in source.files],
        "folders": [folder for layout in source.layouts for folder in layout.folders],
        "urls": [url for file in (*source.files, *archives) for url in file.urls],
        "npm": source.npm,
    }


def get_source(name: str) -> Source:
    """Look a set up in `SOURCES`."""
    if name not in SOURCES:
        raise DataError(f"there is no official set {name!r}; there are {', '.join(SOURCES)}")
    return SOURCES[name]


def data_root(root: Root = None) -> Path:
    """Choose the folder for all sets: the argument, else `$HALFSURE_DATA`, else the user's cache folder."""
    if root is not None or os.environ.get("HALFSURE_DATA"):
        return Path(root if root is not None else os.environ["HALFSURE_DATA"]).expanduser()
    return cache_folder()


def cache_folder() -> Path:
    """The user's folder for what can be had again."""
    if sys.platform == "win32":
        cache = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        cache = "~/Library/Caches"
    else:
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "halfsure"


_WRONG = {"missing": "is missing", "differs": "has another MD5"}


def _locate(source: Source, root: Root) -> tuple[Path, Layout]:
    """Folder and layout of a set: the first that is complete, else the first that has anything."""
    top = data_root(root)
    incomplete: tuple[Path, Layout] | None = None
    tried = []
    for layout in source.layouts:
        for folder in _candidates(layout, top):
            tried.append(folder)
            there = [file.where(folder).is_file() for file in layout.files]
            if all(there):
                return folder, layout
            if any(there):
                incomplete = incomplete or (folder, layout)
    if incomplete is None:
        names = ", ".join(str(path) for path in tried)
        raise DataError(
            f"{source.name} is not there; looked in {names}; fetch it with: halfsure data get {source.name}"
        )
    return incomplete


def home(layout: Layout, root: Root) -> Path:
    """Choose the folder for a set's files: the root if it is named like one of the set's folders, else one in it."""
    top = data_root(root)
    # By its name only, not by what it holds: MNIST and Fashion-MNIST use the same file names.
    own = any(top.absolute().parts[-len(Path(folder).parts) :] == Path(folder).parts for folder in layout.folders)
    return top if own else top / layout.folders[0]


def _candidates(layout: Layout, top: Path) -> list[Path]:
    shared = (os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
    installed = [Path(place) / folder for place in shared if place for folder in layout.installed]
    return list(dict.fromkeys([home(layout, top), *(top / folder for folder in layout.folders), *installed]))


@dataclass(frozen=True)
class _Settings(Settings):
    root: Annotated[str | None, PATH] = None
    """Folder of the official sets; $HALFSURE_DATA or the user's cache folder if not given."""


@register
class OfficialReader(Reader):
    """Official sets by their names."""

    name = "official"
    about = "an official set"
    usual_labels = 4
    names = tuple(SOURCES)
    Settings = _Settings

    @classmethod
    def takes(cls, source: str) -> bool:
        """The name of a set."""
        return source in SOURCES

    @classmethod
    def read(cls, source: str, settings: Any) -> Data:
        """The whole set, its unlabeled images at the end."""
        found = read(source, settings.root)
        images, labels = found.train.images, found.train.labels
        if found.unlabeled is not None:
            images = np.concatenate([images, found.unlabeled])
            labels = np.concatenate([labels, np.full(len(found.unlabeled), UNLABELED)])
        test = None if found.test is None else dataset.Part(found.test.images, found.test.labels)
        known = np.flatnonzero(labels != UNLABELED)
        encoding = {"kind": "image", "shape": list(images.shape[1:])}
        draws = tuple(np.asarray(draw) for draw in found.folds or ())
        whole = dataset.Part(images, labels)
        return Data(source, "image", tuple(found.classes), whole, known, test=test, encoding=encoding, draws=draws)
