"""Views of rows of numbers: noise, and in strong views features of other rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data
from halfsure.data.embeddings import Embedding
from halfsure.settings import Fraction, Settings, Size, register
from halfsure.views.array import ArrayView
from halfsure.views.batch import Views
from halfsure.views.maker import ViewMaker
from halfsure.views.moments import CHUNK, moments, not_constant, seen_samples
from halfsure.views.preprocessing import Preprocessing

__all__ = ["RowSettings", "RowViews"]

STRONG_STREAM = 1 << 16
Places = tuple[tuple[slice, Callable[..., Tensor]], ...]
"""Which features of a row are to be which views of a text or a picture."""


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
        """Rows without texts and pictures."""
        return data.kind == cls.kind and all(isinstance(one, Embedding) for one in data.encoded)

    @classmethod
    def measure(cls, data: Data, settings: Any) -> tuple[Sequence[float], Sequence[float]]:
        """One scale for all features of a text or a picture: the size of one says how much it matters."""
        mean, std = moments(data.train.samples, seen_samples(data))
        for one in data.encoded:
            std[one.features] = np.sqrt(np.mean(std[one.features] ** 2))
        return not_constant(mean, std)

    @classmethod
    def places(cls, data: Data, settings: Any, seed: int) -> tuple[Places, Places | None]:
        """Weak and strong views of the texts and pictures among the features; None if there is nothing strong."""
        return (), () if settings.strong_noise or settings.strong_swap else None

    @classmethod
    def make(cls, data: Data, preprocessing: Preprocessing, settings: Any, seed: int) -> Views:
        """Without noise, swaps and dropped words there is no strong view."""
        seen = seen_samples(data)
        some = np.linspace(0, len(seen) - 1, min(len(seen), CHUNK)).astype(np.int64)
        reference = preprocessing(data.train.samples[some if isinstance(seen, range) else seen[some]])
        weak_places, strong_places = cls.places(data, settings, seed)
        weak = ArrayView(noise=settings.weak_noise, reference=reference, seed=seed)
        views: Views = {"weak": _Rows(preprocessing, weak, weak_places)}
        if strong_places is not None:
            strong = ArrayView(noise=settings.strong_noise, swap=settings.strong_swap, reference=reference, seed=seed)
            # A kind of its own draws: the same stream would give weak and strong views of a sample the same noise.
            views["strong"] = _Rows(preprocessing, strong, strong_places, stream=STRONG_STREAM)
        return views


@dataclass(frozen=True)
class _Rows:
    """A view of stored rows, standardised: numbers get noise, texts and pictures are seen in views of their own."""

    preprocessing: Preprocessing
    view: ArrayView
    places: Places = ()
    stream: int = 0

    def __call__(self, rows: NDArray[Any], indices: NDArray[np.int64], step: int, stream: int = 0) -> Tensor:
        drawn = stream + self.stream
        views = [
            (place, (view(indices, step, drawn) - self.mean[place]) / self.std[place]) for place, view in self.places
        ]
        if len(views) == 1 and views[0][1].shape[1] == len(self.mean):  # there are no numbers beside it
            return views[0][1]
        seen = self.view(self.preprocessing(rows), indices, step, drawn)
        for place, features in views:
            seen[:, place] = features
        return seen

    @cached_property
    def mean(self) -> Tensor:
        """What is taken away."""
        return torch.tensor(self.preprocessing.mean)

    @cached_property
    def std(self) -> Tensor:
        """What is divided by."""
        return torch.tensor(self.preprocessing.std)
