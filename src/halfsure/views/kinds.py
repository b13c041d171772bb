"""Which weak and strong views the samples of a kind of data have."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data
from halfsure.views.array import ArrayView
from halfsure.views.batch import Views
from halfsure.views.image import StrongImage, WeakImage
from halfsure.views.preprocessing import CHUNK, Preprocessing, seen_samples
from halfsure.views.words import TextView

__all__ = ["make_views"]


def make_views(data: Data, preprocessing: Preprocessing, config: Any) -> Views:
    """The weak and strong views of a config; a strong view without any strength is left out."""
    seed, mean, std = config.seed, preprocessing.mean, preprocessing.std
    if data.kind == "image":
        views: Views = {"weak": WeakImage(config.flip, config.shift, mean=mean, std=std, seed=seed)}
        if config.ops or config.cutout:
            views["strong"] = StrongImage(
                config.ops, config.flip, config.shift, config.cutout, mean=mean, std=std, seed=seed
            )
        return views
    seen = seen_samples(data)
    some = np.linspace(0, len(seen) - 1, min(len(seen), CHUNK)).astype(np.int64)
    reference = preprocessing(data.train.samples[some if isinstance(seen, range) else seen[some]])
    weak = ArrayView(noise=config.weak_noise, reference=reference, seed=seed)
    views = {"weak": _Rows(preprocessing, weak, _text_views(data, config.weak_drop, seed))}
    if config.strong_noise or config.strong_swap or (data.texts and config.strong_drop):
        strong = ArrayView(noise=config.strong_noise, swap=config.strong_swap, reference=reference, seed=seed)
        # A kind of its own draws: the same stream would give weak and strong views of a sample the same noise.
        texts = _text_views(data, config.strong_drop, seed)
        views["strong"] = _Rows(preprocessing, strong, texts, stream=STRONG_STREAM)
    return views


STRONG_STREAM = 1 << 16


@dataclass(frozen=True)
class _Rows:
    """A view of stored rows, standardised: numbers get noise, texts lose words."""

    preprocessing: Preprocessing
    view: ArrayView
    texts: tuple[tuple[slice, TextView], ...] = ()
    stream: int = 0

    def __call__(self, rows: NDArray[Any], indices: NDArray[np.int64], step: int, stream: int = 0) -> Tensor:
        seen = self.view(self.preprocessing(rows), indices, step, stream + self.stream)
        for place, view in self.texts:
            mean, std = (torch.tensor(part[place]) for part in (self.preprocessing.mean, self.preprocessing.std))
            seen[:, place] = (view(indices, step, stream + self.stream) - mean) / std
        return seen


def _text_views(data: Data, drop: float, seed: int) -> tuple[tuple[slice, TextView], ...]:
    return tuple((text.features, TextView(text.encoding, text.words, drop, seed)) for text in data.texts)
