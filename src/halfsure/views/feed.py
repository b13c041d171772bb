"""Stored samples → what the model takes: in the views an algorithm wants, batch after batch."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data, TwoStreams
from halfsure.views.batch import Batch, Draws, ViewName, Views

__all__ = ["Feed"]


class Feed:
    """Batch after batch, each a function of the seed, the data and the step alone."""

    def __init__(
        self,
        data: Data,
        views: Views,
        wanted: tuple[ViewName, ...],
        *,
        batch: int,
        unlabeled_batch: int,
        seed: int,
        rank: int = 0,
        ranks: int = 1,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._samples, self._labels = data.train.samples, data.train.labels
        self._views, self._wanted = views, wanted
        self._seed, self._rank, self._device, self._dtype = seed, rank, device or torch.device("cpu"), dtype
        self.streams = TwoStreams(data, batch, unlabeled_batch, seed=seed, rank=rank, ranks=ranks)

    def next(self, step: int) -> Batch:
        """The batch of a step; steps have to be asked for in their order."""
        drawn = self.streams.next()
        unlabeled = drawn.unlabeled if self._wanted else drawn.unlabeled[:0]
        # Stream 0 is for labeled samples: one that is also drawn as unlabeled gets another view there.
        labeled = self._view("weak", drawn.labeled, step, 0)
        views = [self._view(name, unlabeled, step, stream) for stream, name in enumerate(self._wanted, 1)]
        labels = torch.from_numpy(self._labels[drawn.labeled]).to(self._device)
        return Batch(labeled, labels, tuple(views), Draws(self._seed, step, drawn.labeled, unlabeled, self._rank))

    def _view(self, name: ViewName, indices: NDArray[np.int64], step: int, stream: int) -> Tensor:
        view = self._views[name](self._samples[indices], indices, step, stream)
        if not isinstance(view, Tensor) or view.shape[:1] != indices.shape:
            found = tuple(view.shape) if isinstance(view, Tensor) else type(view).__name__
            raise ValueError(
                f"the {name} view of {len(indices)} samples must be a tensor ({len(indices)}, …), got {found}"
            )
        return view.to(self._device, self._dtype, non_blocking=True)
