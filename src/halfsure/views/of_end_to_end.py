"""Views for an encoder that is trained with the classifier: made of pixels and words, a new one at every step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data
from halfsure.settings import register
from halfsure.views.batch import Views
from halfsure.views.image import Plain
from halfsure.views.maker import ViewMaker, quick_steps
from halfsure.views.preprocessing import Preprocessing

__all__ = ["EndToEndViews"]


@register
class EndToEndViews(ViewMaker):
    """Squares of pictures, uint8 (side, side, 3), or vectors of words, float32 (pieces, dimension + 1)."""

    name = "fresh"
    about = "pictures and texts whose encoder is trained too: views of pixels and words, new at every step"
    kind = "end-to-end"
    strength = ("strong_views",)

    @classmethod
    def takes(cls, data: Data) -> bool:
        """Samples whose encoder is trained."""
        return any(getattr(one, "end_to_end", None) is not None for one in data.encoded)

    @classmethod
    def preset(cls, name: str, data: Data) -> dict[str, Any]:
        """A step costs a hundred times one on features: small batches, few evaluations."""
        steps = {"quick": quick_steps(data, 100), "cpu": 1000, "paper": 10_000}
        rest = {"batch": 16, "unlabeled_batch": 16, "evaluations": 2, "unlabeled_sample": 500, "eval_batch": 64}
        return {"net": "linear", "steps": steps[name], "ema": 0.99, **({} if name == "paper" else rest)}

    @classmethod
    def measure(cls, data: Data, settings: Any) -> tuple[Sequence[float], Sequence[float]]:
        """What the encoder was trained with; vectors of words stay as they are."""
        (one,) = data.encoded
        encoder: Any = one.opener.encoder  # type: ignore[attr-defined]
        return getattr(encoder, "mean", (0.0,)), getattr(encoder, "std", (1.0,))

    @classmethod
    def tensor(cls, samples: NDArray[Any], mean: Sequence[float], std: Sequence[float]) -> Tensor:
        """Squares become (n, 3, side, side)."""
        if samples.dtype == np.uint8:
            return Plain(tuple(mean), tuple(std))(samples)
        return torch.from_numpy(samples)

    @classmethod
    def make(cls, data: Data, preprocessing: Preprocessing, settings: Any, seed: int) -> Views:
        """As those in the bank are drawn."""
        one: Any = data.encoded[0]
        views: Views = {"weak": one.fresh_view("weak", seed)}
        if one.has("strong"):
            views["strong"] = one.fresh_view("strong", seed)
        return views
