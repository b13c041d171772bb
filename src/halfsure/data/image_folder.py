"""A folder of images → Data; `listing` says in which ways people keep one."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from halfsure._shown import nameless
from halfsure.data.copies import warn_of_copies_in
from halfsure.data.dataset import UNLABELED, Data
from halfsure.data.images import SUFFIXES, decode
from halfsure.data.listing import Files, FolderSettings, classes_of, parts_of
from halfsure.data.official import data_root
from halfsure.data.reader import Reader
from halfsure.data.text_folder import holds_texts
from halfsure.settings import Positive, register

__all__ = ["IMAGES", "decoded_file", "read_folder"]

IMAGES = Files("image", frozenset(SUFFIXES))


def read_folder(
    folder: str | os.PathLike[str],
    *,
    table: str | os.PathLike[str] | None = None,
    size: int | None = None,
    skip_bad: bool = False,
    group_column: str | None = None,
) -> Data:
    """Read a folder of images; every sample with a known class counts as labeled.

    `table` names the CSV; without it a single CSV in the folder is taken, where there is one. Its `group_column` says
    which images belong together.
    """
    folder = Path(folder)
    listings = parts_of(folder, None if table is None else Path(table), IMAGES, group_column)
    train = listings.pop("train")
    classes = classes_of(train, folder, IMAGES)
    first = decode(train.paths, size, skip_bad=skip_bad, mapped=decoded_file(folder, "train"))
    parts = {"train": train.part(first.images, classes, folder, kept=first.kept)}
    _, *shape = first.images.shape
    for name, listing in listings.items():
        decoded = decode(
            listing.paths, like=(shape[0], shape[1], shape[2]), skip_bad=skip_bad, mapped=decoded_file(folder, name)
        )
        parts[name] = listing.part(decoded.images, classes, folder, name, decoded.kept)
    labels = parts["train"].labels
    data = Data(
        nameless(folder),
        "image",
        classes,
        parts["train"],
        np.flatnonzero(labels != UNLABELED),
        test=parts.get("test"),
        val=parts.get("val"),
        encoding={"kind": "image", "shape": shape},
    )
    warn_of_copies_in(data)
    return data


def decoded_file(folder: Path, part: str) -> Path:
    """Where pictures that do not fit into memory are kept once decoded."""
    name = hashlib.sha256(f"{folder.resolve()}/{part}".encode()).hexdigest()[:16]
    return data_root() / "decoded" / f"{name}.npy"


@dataclass(frozen=True)
class _Settings(FolderSettings):
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
        """A folder that holds neither arrays nor texts alone."""
        return Path(source).is_dir() and not (Path(source) / "X.npy").is_file() and not holds_texts(Path(source))

    @classmethod
    def read(cls, source: str, settings: Any) -> Data:
        """Read every image of the folder."""
        return read_folder(source, **vars(settings))
