"""Two-stream batches: labeled and unlabeled samples in random order, each stream at its own pace."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfsure.data.dataset import Data, DataError, Labels
from halfsure.data.random import permutations, permute

__all__ = ["Indices", "Stream", "TwoStreams"]

REMEMBERED = 2**16
"""Up to so many samples the order of a whole pass is kept: made once it is faster, and takes little memory."""
TOGETHER = 2**12
"""Passes over few samples are put in order together, up to so many samples: with 40 labels each step begins a pass."""


class Stream:
    """An endless order over samples, pass after pass, one batch at a time.

    Each pass is its own permutation of the samples. A batch never holds a sample twice, and neither does a pass: what
    is left of it, too few for a batch, is passed over. Where there are fewer samples than the batch wants, the batch is
    all of them. With several ranks the same global batch is dealt out, so what all ranks see together does not depend
    on their number. Nothing is stored but the position: two integers resume a stream anywhere. Samples that are a
    range take no memory.
    """

    def __init__(
        self, samples: Labels | range, batch: int, *, seed: int, name: int = 0, rank: int = 0, ranks: int = 1
    ) -> None:
        if len(samples) == 0:
            raise DataError("a stream needs at least one sample")
        if batch < 1:
            raise DataError(f"the batch size must be at least 1, got {batch}")
        if not 0 <= rank < ranks:
            raise DataError(f"rank {rank} is not one of {ranks} ranks")
        if ranks > min(batch, len(samples)):
            raise DataError(f"a batch of {min(batch, len(samples))} cannot be dealt out to {ranks} ranks")
        self.samples = samples
        self.batch = min(batch, len(samples))
        self.batches = len(samples) // self.batch
        """How many batches a pass has."""
        self._salts = (seed, name)
        self._rank, self._ranks = rank, ranks
        self._pass, self._position = 0, 0
        self._orders: tuple[int, NDArray[np.int64]] = 0, np.empty((0, len(samples)), np.int64)

    def next(self) -> NDArray[np.int64]:
        """This rank's share of the next batch. → (about batch/ranks,)."""
        if self._position == self.batches:
            self._pass, self._position = self._pass + 1, 0
        start = self._position * self.batch
        self._position += 1
        chosen = slice(start + self._rank, start + self.batch, self._ranks)
        if len(self.samples) > REMEMBERED:
            positions = np.arange(chosen.start, chosen.stop, chosen.step)
            return self._at(permute(positions, len(self.samples), self._pass, *self._salts))
        first, orders = self._orders
        if not first <= self._pass < first + len(orders):
            first, count = self._pass, max(1, TOGETHER // len(self.samples))
            orders = self._at(permutations(len(self.samples), range(first, first + count), *self._salts))
            self._orders = first, orders
        return orders[self._pass - first, chosen]

    def _at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The samples at these positions; the shape stays."""
        if isinstance(self.samples, range):
            return self.samples.start + self.samples.step * positions
        return self.samples[positions]

    def state(self) -> dict[str, int]:
        """Where the stream is."""
        return {"pass": self._pass, "position": self._position}

    def restore(self, state: dict[str, int]) -> None:
        """Go on from a state that a stream over the same samples gave."""
        if not (state["pass"] >= 0 and 0 <= state["position"] <= self.batches):
            raise DataError(f"this stream has {self.batches} batches a pass and cannot go on from {state}")
        self._pass, self._position = state["pass"], state["position"]


@dataclass(frozen=True)
class Indices:
    """Sample indices of one step."""

    labeled: NDArray[np.int64]
    unlabeled: NDArray[np.int64]


class TwoStreams:
    """The labeled samples and all samples, side by side; the labeled ones are among the unlabeled too."""

    def __init__(self, data: Data, labeled: int, unlabeled: int, *, seed: int, rank: int = 0, ranks: int = 1) -> None:
        self.labeled = Stream(data.labeled, labeled, seed=seed, name=1, rank=rank, ranks=ranks)
        self.unlabeled = Stream(data.seen, unlabeled, seed=seed, name=2, rank=rank, ranks=ranks)

    def next(self) -> Indices:
        """The samples of the next step."""
        return Indices(self.labeled.next(), self.unlabeled.next())

    def state(self) -> dict[str, dict[str, int]]:
        """Where both streams are."""
        return {"labeled": self.labeled.state(), "unlabeled": self.unlabeled.state()}

    def restore(self, state: dict[str, dict[str, int]]) -> None:
        """Go on from a state."""
        self.labeled.restore(state["labeled"])
        self.unlabeled.restore(state["unlabeled"])
