"""Views of texts, and of numbers beside them: words are left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfsure.data import Data
from halfsure.settings import Fraction, register
from halfsure.views.moments import moments, not_constant, seen_samples
from halfsure.views.of_rows import RowSettings, RowViews, Texts
from halfsure.views.words import TextView

__all__ = ["TextViews"]


@dataclass(frozen=True)
class _Settings(RowSettings):
    weak_drop: Fraction = 0.3
    """Weak views of texts: probability that a word is left out."""
    strong_drop: Fraction = 0.7
    """Strong views of texts: the same."""


@register
class TextViews(RowViews):
    """Weak and strong views of rows in which some features encode texts."""

    name = "texts"
    about = "texts, and numbers beside them: words are left out"
    strength = ("strong_drop", *RowViews.strength)
    Settings = _Settings

    @classmethod
    def takes(cls, data: Data) -> bool:
        """Rows with texts."""
        return data.kind == cls.kind and len(data.texts) > 0

    @classmethod
    def measure(cls, data: Data, settings: Any) -> tuple[Sequence[float], Sequence[float]]:
        """One scale for all directions of a text: the size of one says how much it matters."""
        mean, std = moments(data.train.samples, seen_samples(data))
        for text in data.texts:
            std[text.features] = np.sqrt(np.mean(std[text.features] ** 2))
        return not_constant(mean, std)

    @classmethod
    def texts(cls, data: Data, settings: Any, seed: int) -> tuple[Texts, Texts]:
        """Each text loses words, in strong views more."""

        def views(drop: float) -> Texts:
            return tuple((text.features, TextView(text.encoding, text.words, drop, seed)) for text in data.texts)

        return views(settings.weak_drop), views(settings.strong_drop)
