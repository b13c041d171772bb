"""Views of texts, and of numbers beside them: words are left out."""

from dataclasses import dataclass
from typing import Any

from halfsure.data import Data
from halfsure.data.dataset import Text
from halfsure.settings import Fraction, register
from halfsure.views.of_rows import Places, RowSettings, RowViews
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
        """Rows with texts whose words are known."""
        return data.kind == cls.kind and any(isinstance(one, Text) for one in data.encoded)

    @classmethod
    def places(cls, data: Data, settings: Any, seed: int) -> tuple[Places, Places | None]:
        """Each text loses words, in strong views more."""
        texts = [one for one in data.encoded if isinstance(one, Text)]

        def views(drop: float) -> Places:
            return tuple((text.features, TextView(text.encoding, text.words, drop, seed)) for text in texts)

        numbers = settings.strong_noise or settings.strong_swap
        return views(settings.weak_drop), views(settings.strong_drop) if numbers or settings.strong_drop else None
