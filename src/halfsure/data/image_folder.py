"""A folder of images → Data; `listing` says in which ways people keep one."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from halfsure._shown import nameless
from halfsure.data.copies import warn_of_copies_in
from halfsure.data.dataset import UNLABELED, Data, Part
from halfsure.data.images import SUFFIXES, Heads, decode, look
from halfsure.data.listing import Files, FolderSettings, Listing, classes_of, parts_of
from halfsure.data.official import data_root
from halfsure.data.originals import PictureFiles
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
    decoded: bool = True,
) -> Data:
    """Read a folder of images; every sample with a known class counts as labeled.

    Without `decoded` the images stay in their files, as the originals of samples that have no features yet.

    `table` names the CSV; without it a single CSV in the folder is taken, where there is one. Its `group_column` says
    which images belong together.
    """
    folder = Path(folder)
    listings = parts_of(folder, None if table is None else Path(table), IMAGES, group_column)
    train = listings.pop("train")
    classes = classes_of(train, folder, IMAGES)
    if not decoded:
        return _undecoded(folder, {"train": train, **listings}, classes, skip_bad)
    first = decode(train.paths, size, skip_bad=skip_bad, mapped=decoded_file(folder, "train"))
    parts = {"train": train.part(first.images, classes, folder, kept=first.kept)}
    _, *shape = first.images.shape
    for name, listing in listings.items():
        others = decode(
            listing.paths, like=(shape[0], shape[1], shape[2]), skip_bad=skip_bad, mapped=decoded_file(folder, name)
        )
        parts[name] = listing.part(others.images, classes, folder, name, others.kept)
    data = _data(folder, classes, parts, shape)
    warn_of_copies_in(data)
    return data


def _data(folder: Path, classes: tuple[str, ...], parts: dict[str, Part], shape: Sequence[int]) -> Data:
    return Data(
        nameless(folder),
        "image",
        classes,
        parts["train"],
        np.flatnonzero(parts["train"].labels != UNLABELED),
        test=parts.get("test"),
        val=parts.get("val"),
        encoding={"kind": "image", "shape": list(shape)},
    )


def _undecoded(folder: Path, listings: dict[str, Listing], classes: tuple[str, ...], skip_bad: bool) -> Data:
    """The same with the images left in their files."""
    parts, seen = {}, dict[str, Heads]()
    for name, listing in listings.items():
        seen[name] = look(listing.paths, skip_bad=skip_bad, whole=skip_bad)
        kept = seen[name].kept
        nothing = np.empty((len(kept), 0), np.float32)
        part = listing.part(nothing, classes, folder, "" if name == "train" else name, kept)
        parts[name] = replace(part, originals=PictureFiles([listing.paths[i] for i in kept]))
    # Of many sizes one in the middle stands for all: it is only spoken of.
    sizes = sorted(seen["train"].shapes, key=min)
    return _data(folder, classes, parts, (*sizes[len(sizes) // 2], seen["train"].channels))


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
    def read(cls, source: str, settings: Any, decoded: bool = True) -> Data:
        """Read every image of the folder."""
        return read_folder(source, **vars(settings), decoded=decoded)
