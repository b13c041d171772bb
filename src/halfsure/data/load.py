"""One way in: the name of an official set, a folder, or a file → Data with its labels chosen."""

import difflib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from halfsure.data.arrays import read_npz
from halfsure.data.dataset import UNLABELED, Data, DataError, Part
from halfsure.data.image_folder import read_folder
from halfsure.data.official import SOURCES, read
from halfsure.data.random import keys
from halfsure.data.splits import Split, draw_labels
from halfsure.data.tables import TextEncoder, read_table

__all__ = ["choose_labels", "hold_out", "load", "load_seeds"]

VALIDATION = 0xAA1  # keeps this draw apart from that of the labels
TABLES = {".csv", ".tsv", ".parquet"}


def load(
    source: str | os.PathLike[str],
    *,
    labels: int | None = None,
    seed: int = 0,
    split: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    table: str | os.PathLike[str] | None = None,
    size: int | None = None,
    skip_bad: bool = False,
    text_encoder: TextEncoder | None = None,
    test: str | os.PathLike[str] | None = None,
) -> Data:
    """Open a data set and choose which of its samples are labeled.

    `labels` draws that many, class-balanced, by the seed; `split` takes those that a split file records; with neither
    every known label is used. `root` is where official sets lie, `label_column` names the labels of a table, `table`
    the CSV of an image folder, `size` the side that images are scaled to, `test` the test rows of a table.

    Examples:
        >>> from halfsure.data import load
        >>> data = load("digits", labels=20, seed=1)
        >>> data.train.samples.shape, len(data.labeled), len(data.test)
        ((1437, 8, 8, 1), 20, 360)
    """
    given = {"label_column": label_column, "table": table, "size": size, "skip_bad": skip_bad, "test": test}
    more: dict[str, Any] = {"text_encoder": text_encoder, **given}
    return load_seeds(source, [seed], labels=labels, split=split, root=root, **more)[0]


def load_seeds(
    source: str | os.PathLike[str],
    seeds: Sequence[int],
    *,
    labels: int | None = None,
    split: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> list[Data]:
    """What `load` gives for each of several seeds; the source is read once, and its samples are shared."""
    if str(source) in SOURCES:
        data, folds = _official(str(source), root)
    else:
        data, folds = _own(Path(source), **settings), None

    def chosen(seed: int) -> Data:
        if split is None and folds is not None and labels == len(folds[seed % len(folds)]):
            return data.with_labels(folds[seed % len(folds)])  # the set's own protocol
        return choose_labels(data, labels=labels, seed=seed, split=split)

    return [chosen(seed) for seed in seeds]


def _own(
    path: Path,
    *,
    label_column: str | None = None,
    table: str | os.PathLike[str] | None = None,
    size: int | None = None,
    skip_bad: bool = False,
    text_encoder: TextEncoder | None = None,
    test: str | os.PathLike[str] | None = None,
) -> Data:
    if path.suffix.lower() in TABLES:
        if label_column is None:
            raise DataError(f"which column of {path} holds the labels? Name it: --label-column, or label_column=")
        return read_table(path, label_column, text_encoder=text_encoder, test=test)
    if path.suffix.lower() == ".npz" or (path / "X.npy").is_file():
        return read_npz(path)
    if path.is_dir():
        return read_folder(path, table=table, size=size, skip_bad=skip_bad)
    near = difflib.get_close_matches(str(path), SOURCES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the official sets are {', '.join(SOURCES)}"
    raise DataError(f"{path} is neither an official set nor a folder, table or .npz file that exists; {hint}")


def choose_labels(
    data: Data, *, labels: int | None = None, seed: int = 0, split: str | os.PathLike[str] | None = None
) -> Data:
    """The same data with the labels of a split file, with some drawn by the seed, or unchanged."""
    if split is not None and labels is not None:
        raise DataError("give either a number of labels to draw or a split file, not both")
    if split is not None:
        return data.with_labels(Split.load(split).indices(data.train.labels, data.classes))
    if labels is not None:
        return data.with_labels(draw_labels(data.train.labels, data.classes, labels, seed))
    return data


def hold_out(data: Data, count: int, seed: int) -> Data:
    """Keep `count` samples with known labels, none of them labeled, out of training, for validation."""
    if data.val is not None:
        raise DataError(f"{data.name} has validation samples of its own ({len(data.val)}); hold out none")
    there = np.arange(len(data.train), dtype=np.int64) if data.unlabeled is None else data.unlabeled
    free = np.setdiff1d(there[data.train.labels[there] != UNLABELED], data.labeled)
    if not 0 < count <= len(free):
        raise DataError(
            f"{data.name}: {count} samples cannot be held out for validation; "
            f"{len(free)} have a known label that is not trained on"
        )
    held = np.sort(free[np.argsort(keys(free, seed, VALIDATION), kind="stable")[:count]])
    kept = np.setdiff1d(there, held)
    return replace(data, val=Part(data.train.samples[held], data.train.labels[held]), unlabeled=kept)


def _official(name: str, root: str | os.PathLike[str] | None) -> tuple[Data, list[Any] | None]:
    found = read(name, root)
    images, labels = found.train.images, found.train.labels
    if found.unlabeled is not None:
        images = np.concatenate([images, found.unlabeled])
        labels = np.concatenate([labels, np.full(len(found.unlabeled), UNLABELED)])
    test = None if found.test is None else Part(found.test.images, found.test.labels)
    known = np.flatnonzero(labels != UNLABELED)
    encoding = {"kind": "image", "shape": list(images.shape[1:])}
    return Data(
        name, "image", tuple(found.classes), Part(images, labels), known, test=test, encoding=encoding
    ), found.folds
