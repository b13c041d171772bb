"""Views of what an encoder made of pictures or texts: they lie in the bank; numbers beside them get noise."""

from typing import Any

from halfsure.data import Data
from halfsure.settings import register
from halfsure.views.of_rows import Places, RowViews

__all__ = ["EncodedViews"]


@register
class EncodedViews(RowViews):
    """Weak and strong views of rows in which some features are an encoder's."""

    name = "encoded"
    about = "pictures and texts through an encoder: views made of pixels and words, from the bank"
    strength = ("strong_views", *RowViews.strength)

    @classmethod
    def takes(cls, data: Data) -> bool:
        """Rows with features of an encoder that stays as it is."""
        frozen = all(getattr(one, "end_to_end", None) is None for one in data.encoded)
        return data.kind == cls.kind and frozen and any(hasattr(one, "view") for one in data.encoded)

    @classmethod
    def places(cls, data: Data, settings: Any, seed: int) -> tuple[Places, Places | None]:
        """One of the views in the bank; the plain features where it has no weak ones."""
        found: list[Any] = [one for one in data.encoded if hasattr(one, "view")]
        weak = tuple((one.features, one.view("weak" if one.has("weak") else "plain", seed)) for one in found)
        if not all(one.has("strong") for one in found):
            return weak, None
        return weak, tuple((one.features, one.view("strong", seed)) for one in found)
