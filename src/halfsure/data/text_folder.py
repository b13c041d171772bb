"""A folder of .txt files, a sample each → Data; `listing` says in which ways people keep one.

A model of them is one of a table with a single column, `text`: it also takes a table that has one.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from halfsure._shown import nameless
from halfsure.data.dataset import UNLABELED, Data, DataError, Part
from halfsure.data.dialect import OTHER, decoded
from halfsure.data.files import opened
from halfsure.data.images import SUFFIXES
from halfsure.data.listing import Files, FolderSettings, Listing, classes_of, parts_of
from halfsure.data.originals import Texts
from halfsure.data.reader import Reader
from halfsure.data.tables import Column, TableEncoding, TextEncoder, encode_texts, fitted
from halfsure.data.text import TextEncoding
from halfsure.settings import register

__all__ = ["TEXTS", "holds_texts", "read_text_folder", "read_texts"]

TEXTS = Files("text", frozenset({".txt"}))
IMAGES = Files("image", frozenset(SUFFIXES))
LONGEST_TEXT = 2**24
MOST_BYTES = 2**31


def holds_texts(folder: Path) -> bool:
    """Whether a folder has texts below it, and no pictures."""
    return TEXTS.any_in(folder) and not IMAGES.any_in(folder)


def read_text_folder(
    folder: str | os.PathLike[str],
    *,
    table: str | os.PathLike[str] | None = None,
    group_column: str | None = None,
    text_encoder: TextEncoder | None = None,
) -> Data:
    """Read a folder of texts; every one with a known class counts as labeled.

    `table` names the CSV; without it a single CSV in the folder is taken, where there is one. Its `group_column` says
    which texts belong together.
    """
    folder = Path(folder)
    listings = parts_of(folder, None if table is None else Path(table), TEXTS, group_column)
    classes = classes_of(listings["train"], folder, TEXTS)
    texts = {name: read_texts(listing.paths) for name, listing in listings.items()}
    column = Column("text", "text", text=fitted(texts["train"], text_encoder))

    def part(name: str, listing: Listing) -> Part:
        rows = encode_texts(column, texts[name], text_encoder)
        found = listing.part(rows, classes, folder, "" if name == "train" else name)
        kept = None if column.text is None or isinstance(column.text, TextEncoding) else Texts(texts[name])
        return replace(found, texts=(kept,))

    parts = {name: part(name, listing) for name, listing in listings.items()}
    return Data(
        nameless(folder),
        "array",
        classes,
        parts["train"],
        np.flatnonzero(parts["train"].labels != UNLABELED),
        test=parts.get("test"),
        val=parts.get("val"),
        encoding={"kind": "table", **TableEncoding("label", (column,)).to_json()},
        encoded=() if column.text is None else (column.text.beside(0, texts["train"]),),
    )


def read_texts(paths: Sequence[Path]) -> list[str]:
    """The text in each file; those that are not UTF-8 are counted aloud."""
    texts, other, left = list[str](), dict[str, int](), MOST_BYTES
    for path in paths:
        with opened(path) as file:
            data = file.read(LONGEST_TEXT + 1)
        left -= len(data)
        if len(data) > LONGEST_TEXT or left < 0:
            raise DataError(
                f"{path}: a text may have {LONGEST_TEXT:,} bytes, and all together {MOST_BYTES:,}; split it, or leave "
                "it out"
            )
        try:
            text, encoding = decoded(data)
        except DataError as error:
            raise DataError(f"{path} {error}") from None
        texts.append(text)
        if encoding in OTHER:
            other[encoding] = other.get(encoding, 0) + 1
    for encoding, count in other.items():
        warnings.warn(f"{count:,} of {len(paths):,} texts are not UTF-8: read as {encoding}", stacklevel=3)
    return texts


@register
class TextFolderReader(Reader):
    """Folders of texts."""

    name = "texts"
    about = "a folder of texts"
    Settings = FolderSettings

    @classmethod
    def takes(cls, source: str) -> bool:
        """A folder with .txt files below it, and neither arrays nor pictures."""
        return Path(source).is_dir() and not (Path(source) / "X.npy").is_file() and holds_texts(Path(source))

    @classmethod
    def read(cls, source: str, settings: Any, text_encoder: TextEncoder | None = None) -> Data:
        """Read every text of the folder."""
        return read_text_folder(source, **vars(settings), text_encoder=text_encoder)
