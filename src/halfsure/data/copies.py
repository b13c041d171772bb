"""Samples that are there twice, or nearly: found by hashing, in time that grows with the samples alone."""

import warnings
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from halfsure.data.dataset import Data, DataWarning, Part
from halfsure.data.files import shown

if TYPE_CHECKING:
    import pandas as pd

    from halfsure.data.tables import TableEncoding

__all__ = ["near_copies", "of_frame", "of_pictures", "of_rows", "warn_of_copies", "warn_of_copies_in"]

Values = NDArray[np.float32]
MOST, MOST_BYTES, MOST_VALUES = 100_000, 2**31, 2**25
"""Samples of a part, bytes of them, and values of all that are compared; what comes after is not looked at."""
SIDE = 8
"""Pictures are compared as so many by so many means."""
ROUNDING = 0.001
"""Rows are nearly the same if no number differs by more, in standard deviations."""
GREY = 8.0
"""Pictures are nearly the same if no mean differs by more grey levels."""
SHARE, FEW, LEAST = 0.01, 10, 2
"""A smaller share of copies, fewer of them, or of fewer samples, are not worth a warning."""
TABLES, PROJECTIONS, NEIGHBOURS = 5, 8, 3
SHUFFLES = 3


def near_copies(values: Values) -> NDArray[np.int64]:
    """The first sample that each is a copy of, itself where there is none. (n, d) → (n,).

    Copies differ by 1 at most in every value. Those fall into the same cell of a random grid more often than not, and
    are looked for in several such grids.
    """
    count, width = values.shape
    rng = np.random.default_rng(0)
    pairs: list[NDArray[np.int64]] = []
    for _ in range(TABLES):
        spots = values @ rng.normal(size=(width, PROJECTIONS)).astype(np.float32)
        cells = np.floor(spots / (4 * width**0.5) + rng.random(PROJECTIONS)).astype(np.int64)
        cell = (cells * (2 * rng.integers(0, 2**62, PROJECTIONS) + 1)).sum(1)  # wraps around: a hash
        order = np.lexsort((spots[:, 0], cell))
        for step in range(1, NEIGHBOURS + 1):
            one, other = order[:-step], order[step:]
            same = cell[one] == cell[other]
            one, other = one[same], other[same]
            near = np.abs(values[one] - values[other]).max(1, initial=0) <= 1
            pairs.append(np.stack([one[near], other[near]]))
    rows, columns = np.concatenate(pairs, axis=1)
    _, part = connected_components(coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(count, count)))
    first = np.full(part.max(initial=-1) + 1, count)
    np.minimum.at(first, part, np.arange(count))
    return np.asarray(first[part], dtype=np.int64)


def warn_of_copies(
    train: Part, test: Part | None, values: tuple[Values, Values | None], what: str, column: int | None = 1
) -> None:
    """Warn of training samples that are there twice, and of test samples that are trained on.

    Where columns have few values, rows are alike by chance. So it counts only if there are far fewer copies once each
    column, of so many `values`, is shuffled by itself; None means that nothing is alike by chance.
    """
    seen, every = len(values[0]), np.concatenate([part for part in values if part is not None])
    if every.size == 0:
        return
    place, found = np.arange(len(every)), near_copies(every)

    def those(found: NDArray[np.int64], inside: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.flatnonzero((found < place) & (found < seen) & inside)

    shuffled: list[NDArray[np.int64]] | None = [] if column is None else None
    for name, part, inside in (("training", train, place < seen), ("test", test, place >= seen)):
        copies = those(found, inside)
        if part is None or inside.sum() < FEW or len(copies) < max(LEAST, SHARE * inside.sum()):
            continue
        if shuffled is None:
            shuffled = [near_copies(_shuffled(every, column or 1, k)) for k in range(SHUFFLES)]
        chance = sum(len(those(one, inside)) for one in shuffled) / SHUFFLES
        if len(copies) <= 2 * chance + 3 * chance**0.5:
            continue
        first = int(copies[0])
        pair = f"{_name(part, first - seen * (part is test), name)} and {_name(train, int(found[first]), 'training')}"
        share = f"{len(copies):,} of {int(inside.sum()):,} {name} {what}"
        if part is test:
            told = f"{share} are training {what} too, or nearly: {pair}; they make the test error look better"
            remedy = "remove them from one of the two"
        else:
            told = f"{share} are copies of others, or nearly: {pair}; a copy in another fold makes a model look better"
            remedy = "remove copies, or name what belongs together in a column (--group-column)"
        warnings.warn(f"{told}: {remedy}", DataWarning, stacklevel=2)


def warn_of_copies_in(data: Data) -> None:
    """The same for samples that are arrays."""
    train, test = data.train.samples, None if data.test is None else data.test.samples
    if data.kind == "image":
        values = of_pictures(train), None if test is None else of_pictures(test)
    else:
        values = of_rows(train), None if test is None else of_rows(test, like=train)
    warn_of_copies(data.train, data.test, values, "pictures" if data.kind == "image" else "rows")


def of_pictures(images: NDArray[np.uint8]) -> Values:
    """Pictures as a few means of each channel, in units of what may differ. (n, h, w, channels) → (n, d)."""
    count, height, width, channels = images.shape
    count = min(count, MOST, max(1, MOST_BYTES // (height * width * channels)))
    edges = [np.linspace(0, side, min(side, SIDE) + 1).astype(np.int64) for side in (height, width)]
    size = np.diff(edges[0])[:, None, None] * np.diff(edges[1])[:, None]
    found = np.empty((count, size.size * channels), dtype=np.float32)
    step = max(1, 2**24 // (height * width * channels))
    for start in range(0, count, step):
        block = np.add.reduceat(images[start : min(start + step, count)], edges[0][:-1], axis=1, dtype=np.int32)
        block = np.add.reduceat(block, edges[1][:-1], axis=2)
        found[start : start + step] = (block / size).reshape(len(block), -1)
    found /= GREY
    return found


def of_rows(rows: NDArray[Any], like: NDArray[Any] | None = None) -> Values:
    """Rows of numbers in units of what may differ; `like` are those that give the scale. (n, features) → (n, d)."""
    like = rows if like is None else like
    chosen = np.unique(np.linspace(0, rows.shape[1] - 1, min(rows.shape[1], MOST_VALUES // MOST)).astype(np.int64))

    def some(part: NDArray[Any]) -> NDArray[np.float64]:
        limit = max(1, MOST_BYTES // max(1, part[:1].nbytes))
        return np.asarray(part[: min(MOST, limit)][:, chosen], dtype=np.float64)

    base = some(like)
    mean, scale = base.mean(0), base.std(0)
    with np.errstate(over="ignore", invalid="ignore"):
        found = (some(rows) - mean) / (np.where(scale > 0, scale, 1) * ROUNDING)
    return np.asarray(np.nan_to_num(found.clip(-1e9, 1e9)), dtype=np.float32)


def of_frame(frame: "pd.DataFrame", encoding: "TableEncoding") -> Values:
    """The features of a table in units of what may differ; words are the same or they are not. (n, …) → (n, d)."""
    columns = encoding.columns[: MOST_VALUES // MOST // 2]
    found = np.empty((min(len(frame), MOST), 2 * len(columns)), dtype=np.float32)
    for place, column in enumerate(columns):
        cells = frame[column.name].iloc[:MOST]
        if column.kind == "number":
            numbers = cells.astype(float).to_numpy()
            gone = np.isnan(numbers)
            scaled = (np.where(gone, column.mean, numbers) - column.mean) / (column.scale * ROUNDING)
            found[:, 2 * place], found[:, 2 * place + 1] = scaled.clip(-1e9, 1e9), 1000.0 * gone
        else:
            words = [str(cell) for cell in cells.tolist()]
            known = {word: _hashed(word) for word in set(words)}
            found[:, 2 * place : 2 * place + 2] = [known[word] for word in words]
    return found


def _shuffled(values: Values, column: int, seed: int) -> Values:
    """Each column in an order of its own; so many values beside each other are one. (n, d) → (n, d)."""
    rng, found = np.random.default_rng(seed), np.empty_like(values)
    for start in range(0, values.shape[1], column):
        found[:, start : start + column] = values[rng.permutation(len(values)), start : start + column]
    return found


def _hashed(text: str) -> tuple[float, float]:
    """Two numbers that tell words apart; case and space do not count."""
    digest = blake2b(" ".join(text.casefold().split()).encode("utf-8", "replace"), digest_size=4).digest()
    return 4.0 * int.from_bytes(digest[:2]), 4.0 * int.from_bytes(digest[2:])


def _name(part: Part, row: int, where: str) -> str:
    return shown([part.ids[row]]) if part.ids is not None and part.ids[row] else f"{where} row {row}"
