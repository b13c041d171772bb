"""What one step sees of the data: samples in their views, and the numbers its randomness follows from."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import DataError
from halfsure.views.draws import DIRECTION, base_key, bits, normal

__all__ = ["Batch", "Draws", "View", "ViewName", "Views", "check_views"]

ViewName = Literal["weak", "strong"]
View = Callable[..., Tensor]
"""view(samples, indices, step, stream) → tensor: a function of the seed, stream, step and sample index alone."""
Views = dict[ViewName, View]
CALLED = "view(samples, indices, step, stream)"


def check_views(views: Any) -> None:
    """Refuse views of one's own that no step could call, in words."""
    if not isinstance(views, Mapping):
        raise DataError(f'views are a mapping {{"weak": …, "strong": …}} of functions {CALLED}, got {views!r:.60}')
    for name, view in views.items():
        if name not in get_args(ViewName):
            raise DataError(f"there is no {name!r:.60} view; the views are {' and '.join(get_args(ViewName))}")
        if not callable(view):
            raise DataError(f"the {name} view is a function {CALLED} that returns a tensor, got {view!r:.60}")
        try:
            inspect.signature(view).bind("samples", "indices", "step", "stream")
        except TypeError as error:
            raise DataError(f"the {name} view is called as {CALLED}, and yours cannot be: {error}") from None
        except ValueError:  # a function that is not written in Python may not say what it takes
            continue


@dataclass(frozen=True)
class Draws:
    """The randomness of a step: it depends on these numbers, so a step can be repeated, alone or spread over ranks."""

    seed: int
    step: int
    labeled: NDArray[np.int64]
    """Index of each labeled sample in the data."""
    unlabeled: NDArray[np.int64]
    """Index of each unlabeled sample in the data."""
    rank: int = 0

    def normal(self, samples: Literal["labeled", "unlabeled"], like: Tensor) -> Tensor:
        """Standard normal numbers, a function of seed, step and sample. (n, …) → (n, …)."""
        indices: NDArray[np.int64] = getattr(self, samples)
        base = base_key(DIRECTION, self.seed, int(samples == "unlabeled"), self.step)
        slots = np.arange(like[0].numel() if len(like) else 0, dtype=np.uint64)
        return torch.from_numpy(normal(bits(base, indices, slots))).reshape(like.shape).to(like)

    def generator(self) -> np.random.Generator:
        """A generator for what belongs to the batch as a whole; each rank has its own."""
        return np.random.default_rng([self.seed, self.step, self.rank])


@dataclass(frozen=True)
class Batch:
    """The samples of one step, as tensors the model takes."""

    labeled: Tensor
    """(n, …): weak views of labeled samples."""
    labels: Tensor
    """(n,): their class indices."""
    unlabeled: tuple[Tensor, ...]
    """The unlabeled samples through each of the algorithm's views, (m, …) each."""
    draws: Draws
