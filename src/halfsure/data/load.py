"""One way in: the name of an official set, a folder, or a file → Data with its labels chosen."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from halfsure.data.dataset import UNLABELED, Data, DataError, Part
from halfsure.data.random import keys
from halfsure.data.reader import reader_of
from halfsure.data.splits import Split, draw_labels
from halfsure.data.tables import TextEncoder
from halfsure.settings.compose import fill

__all__ = ["choose_labels", "hold_out", "load", "load_seeds"]

VALIDATION = 0xAA1  # keeps this draw apart from that of the labels


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
    the CSV of a folder of images or texts, `size` the side that images are scaled to, `test` the test rows of a table.

    Examples:
        >>> from halfsure.data import load
        >>> data = load("digits", labels=20, seed=1)
        >>> data.train.samples.shape, len(data.labeled), len(data.test)
        ((1437, 8, 8, 1), 20, 360)
    """
    paths = {"root": root, "table": table, "test": test}
    told: dict[str, Any] = {name: os.fspath(path) for name, path in paths.items() if path is not None}
    told |= {"label_column": label_column} if label_column is not None else {}
    told |= {"size": size} if size is not None else {}
    told |= {"skip_bad": skip_bad} if skip_bad else {}
    return load_seeds(source, [seed], labels=labels, split=split, text_encoder=text_encoder, **told)[0]


def load_seeds(
    source: str | os.PathLike[str],
    seeds: Sequence[int],
    *,
    labels: int | None = None,
    split: str | os.PathLike[str] | None = None,
    usual: int | None = None,
    text_encoder: TextEncoder | None = None,
    **settings: Any,
) -> list[Data]:
    """What `load` gives for each of several seeds; the source is read once, and its samples are shared."""
    reader = reader_of(str(source))
    told = fill({"reader": reader.Settings}, settings, f"{source}, read as {reader.about},")["reader"]
    more = {} if text_encoder is None else {"text_encoder": text_encoder}
    data = reader.read(str(source), told, **more)
    if usual is not None and labels is None and split is None:
        labels = usual * len(data.classes)

    def chosen(seed: int) -> Data:
        draw = data.draws[seed % len(data.draws)] if data.draws else None
        if split is None and draw is not None and labels == len(draw):
            return data.with_labels(draw)
        return choose_labels(data, labels=labels, seed=seed, split=split)

    return [chosen(seed) for seed in seeds]


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
