"""Views of rows of numbers: noise, and in strong views features of other rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data
from halfsure.settings import Fraction, Settings, Size, register
from halfsure.views.array import ArrayView
from halfsure.views.batch import Views
from halfsure.views.maker import ViewMaker
from halfsure.views.moments import CHUNK, seen_samples
from halfsure.views.preprocessing import Preprocessing
from halfsure.views.words import TextView

__all__ = ["RowSettings", "RowViews"]

STRONG_STREAM = 1 << 16
Texts = tuple[tuple[slice, TextView], ...]
"""Which features of a row are to be views of a text."""


@dataclass(frozen=True)
class RowSettings(Settings):
    """What views of rows can be told."""

    weak_noise: Size = 0.1
    """Weak views of rows: noise level, in standard deviations of the feature."""
    strong_noise: Size = 0.3
    """Strong views of rows: the same."""
    strong_swap: Fraction = 0.1
    """Strong views of rows: probability that a feature takes the value of another row."""


@register
class RowViews(ViewMaker):
    """Weak and strong views of float rows, (features,)."""

    name = "rows"
    about = "rows of numbers: noise, and in strong views features of other rows"
    kind = "array"
    strength: ClassVar[tuple[str, ...]] = ("strong_noise", "strong_swap")
    Settings = RowSettings

    @classmethod
    def takes(cls, data: Data) -> bool:
        """Rows without texts."""
        return data.kind == cls.kind and not data.texts

    @classmethod
    def texts(cls, data: Data, settings: Any, seed: int) -> tuple[Texts, Texts]:
        """Weak and strong views of the texts among the features."""
        return (), ()

    @classmethod
    def make(cls, data: Data, preprocessing: Preprocessing, settings: Any, seed: int) -> Views:
        """Without noise, swaps and dropped words there is no strong view."""
        seen = seen_samples(data)
        some = np.linspace(0, len(seen) - 1, min(len(seen), CHUNK)).astype(np.int64)
        reference = preprocessing(data.train.samples[some if isinstance(seen, range) else seen[some]])
        weak_texts, strong_texts = cls.texts(data, settings, seed)
        weak = ArrayView(noise=settings.weak_noise, reference=reference, seed=seed)
        views: Views = {"weak": _Rows(preprocessing, weak, weak_texts)}
        if settings.strong_noise or settings.strong_swap or any(view.drop for _, view in strong_texts):
            strong = ArrayView(noise=settings.strong_noise, swap=settings.strong_swap, reference=reference, seed=seed)
            # A kind of its own draws: the same stream would give weak and strong views of a sample the same noise.
            views["strong"] = _Rows(preprocessing, strong, strong_texts, stream=STRONG_STREAM)
        return views


@dataclass(frozen=True)
class _Rows:
    """A view of stored rows, standardised: numbers get noise, texts lose words."""

    preprocessing: Preprocessing
    view: ArrayView
    texts: Texts = ()
    stream: int = 0

    def __call__(self, rows: NDArray[Any], indices: NDArray[np.int64], step: int, stream: int = 0) -> Tensor:
        seen = self.view(self.preprocessing(rows), indices, step, stream + self.stream)
        for place, view in self.texts:
            mean, std = (torch.tensor(part[place]) for part in (self.preprocessing.mean, self.preprocessing.std))
            seen[:, place] = (view(indices, step, stream + self.stream) - mean) / std
        return seen
