"""One way in: the name of an official set, a folder, or a file → Data with its labels chosen."""

import inspect
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data.columns import listing
from halfsure.data.dataset import UNLABELED, Data, DataError, Labels
from halfsure.data.random import keys
from halfsure.data.reader import reader_of
from halfsure.data.splits import Split, draw_labels
from halfsure.data.tables import TextEncoder
from halfsure.settings.compose import fill

__all__ = ["choose_labels", "draw_seeds", "hold_out", "load", "read_source"]

VALIDATION = 0xAA1  # keeps this draw apart from that of the labels


def load(
    source: str | os.PathLike[str],
    *,
    labels: int | None = None,
    seed: int = 0,
    split: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    group_column: str | None = None,
    drop: str | Sequence[str] = (),
    table: str | os.PathLike[str] | None = None,
    size: int | None = None,
    skip_bad: bool = False,
    text_encoder: TextEncoder | None = None,
    test: str | os.PathLike[str] | None = None,
) -> Data:
    """Open a data set and choose which of its samples are labeled.

    `labels` draws that many, class-balanced, by the seed; `split` takes those that a split file records; with neither
    every known label is used. `root` is where official sets lie, `size` the side that images are scaled to, `test` the
    test rows of a table, `table` a CSV with the labels of a folder's files, or of the rows that `id_column` names. Of a
    table, `label_column` holds the labels, `group_column` says which rows belong together, and `drop` is left out.

    Examples:
        >>> from halfsure.data import load
        >>> data = load("digits", labels=20, seed=1)
        >>> data.train.samples.shape, len(data.labeled), len(data.test)
        ((1437, 8, 8, 1), 20, 360)
    """
    paths = {"root": root, "table": table, "test": test}
    told: dict[str, Any] = {name: os.fspath(path) for name, path in paths.items() if path is not None}
    named = {"label_column": label_column, "id_column": id_column, "group_column": group_column}
    told |= {name: column for name, column in named.items() if column is not None}
    told |= {"drop": drop if isinstance(drop, str) else listing(drop)} if drop else {}
    told |= {"size": size} if size is not None else {}
    told |= {"skip_bad": skip_bad} if skip_bad else {}
    data = read_source(source, text_encoder=text_encoder, **told)
    return draw_seeds(data, [seed], labels=labels, split=split)[0]


def read_source(source: str | os.PathLike[str], *, text_encoder: TextEncoder | None = None, **settings: Any) -> Data:
    """Every sample of a source; `settings` are its reader's, and `decoded=False` leaves pictures in their files."""
    reader = reader_of(str(source))
    lazily = {"decoded": settings.pop("decoded")} if "decoded" in settings else {}
    told = fill({"reader": reader.Settings}, settings, f"{source}, read as {reader.about},")["reader"]
    if text_encoder is not None and "text_encoder" not in inspect.signature(reader.read).parameters:
        raise DataError(f"text_encoder is for the texts of tables, and {source} is read as {reader.about}; omit it")
    more = lazily if text_encoder is None else {"text_encoder": text_encoder}
    return reader.read(str(source), told, **more)


def draw_seeds(
    data: Data,
    seeds: Sequence[int],
    *,
    labels: int | None = None,
    split: str | os.PathLike[str] | None = None,
    usual: int | None = None,
    val: int = 0,
) -> list[Data]:
    """The same data with the labels of each seed; `val` samples are to be held out afterwards.

    If nothing is said, `usual` labels of each class are drawn.
    """
    if usual is not None and labels is None and split is None:
        labels = usual * len(data.classes)

    def chosen(seed: int) -> Data:
        draw = data.draws[seed % len(data.draws)] if data.draws else None
        if split is None and draw is not None and labels == len(draw):
            return data.with_labels(draw)
        return choose_labels(data, labels=labels, seed=seed, split=split, val=val)

    return [chosen(seed) for seed in seeds]


def choose_labels(
    data: Data,
    *,
    labels: int | None = None,
    seed: int = 0,
    split: str | os.PathLike[str] | None = None,
    val: int = 0,
) -> Data:
    """The same data with the labels of a split file, with some drawn by the seed, or unchanged.

    Where samples have groups, labels are drawn from others than those that `hold_out` then takes `val` samples of.
    """
    if split is not None and labels is not None:
        raise DataError("give either a number of labels to draw or a split file, not both")
    if split is not None:
        return data.with_labels(Split.load(split).indices(data.train.labels, data.classes))
    if labels is not None:
        known = data.train.labels
        if not val or data.train.groups is None:
            return data.with_labels(draw_labels(known, data.classes, labels, seed))
        held = data.train.of_groups(_validation(data, known != UNLABELED, val, seed))
        left = np.where(np.isin(np.arange(len(known)), held), UNLABELED, known)
        try:
            return data.with_labels(draw_labels(left, data.classes, labels, seed))
        except DataError as error:
            raise DataError(f"{error}, or hold out groups with fewer than {val} samples for validation") from None
    return data


def hold_out(data: Data, count: int, seed: int) -> Data:
    """Keep `count` samples with known labels, none of them labeled, out of training, for validation.

    Where samples have groups, whole groups are held out, none with a labeled sample: at least `count` samples.
    """
    if data.val is not None:
        raise DataError(f"{data.name} has validation samples of its own ({len(data.val)}); hold out none")
    free = np.zeros(len(data.train), dtype=bool)
    free[data.seen] = data.train.labels[data.seen] != UNLABELED
    free[data.train.of_groups(data.labeled)] = False
    if not 0 < count <= free.sum():
        whose = "" if data.train.groups is None else ", in a group without any that is"
        raise DataError(
            f"{data.name}: {count} samples cannot be held out for validation; "
            f"{free.sum()} have a known label that is not trained on{whose}. Train on fewer labels: draw them "
            "with labels"
        )
    held = _validation(data, free, count, seed)
    gone = data.train.of_groups(held)
    notes = data.notes
    if data.train.groups is not None:
        notes += (f"{len(held):,} samples of {len(set(data.train.groups[held])):,} groups are held out for validation",)
    return replace(data, val=data.train.take(held), unlabeled=np.setdiff1d(data.seen, gone), notes=notes)


def _validation(data: Data, free: NDArray[np.bool_], count: int, seed: int) -> Labels:
    """Which of the free samples are held out: those that come first by the seed, or whose groups do. (n,) → (m,)."""
    rows = np.flatnonzero(free)
    if data.train.groups is None:
        return np.sort(rows[np.argsort(keys(rows, seed, VALIDATION), kind="stable")[:count]])
    names, first, group = np.unique(data.train.groups, return_index=True, return_inverse=True)
    sizes = np.bincount(group[rows], minlength=len(names))
    order = [g for g in np.argsort(keys(first, seed, VALIDATION), kind="stable") if sizes[g]]
    enough = int(np.searchsorted(np.cumsum(sizes[order]), count)) + 1
    return rows[np.isin(group[rows], order[:enough])]
