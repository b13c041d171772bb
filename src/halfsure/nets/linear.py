"""The linear classifier."""

import math
from typing import Any

from torch import Tensor

from halfsure._checks import check_count
from halfsure.nets.layers import Head, Norm, he, norm_layer
from halfsure.nets.network import Network
from halfsure.settings import register

__all__ = ["Linear"]


@register
class Linear(Network):
    """One dense layer: what an encoder's features need. (n, features) → (n, classes).

    Args:
        features: of a row, or values of an image.
        classes: logits to return.
        norm: of the features, before the layer.

    Examples:
        >>> import torch
        >>> from halfsure.nets import build
        >>> build("linear", shape=(384,), classes=4)(torch.rand(2, 384)).shape
        torch.Size([2, 4])
    """

    name = "linear"
    usage = "linear"
    about = "one dense layer, for features of an encoder and other rows"
    examples = ("linear",)
    dimensions = (1, 3)

    def __init__(self, features: int, classes: int, norm: Norm = "none") -> None:
        super().__init__()
        self.inputs = check_count("features", features, 1)
        self.norm = norm_layer(norm, features, rows=True, per_group=8)
        self.head = Head(features, check_count("classes", classes, 2))
        he(self.head, slope=1)

    @classmethod
    def sized(cls, sizes: tuple[int, ...], shape: tuple[int, ...], classes: int, **settings: Any) -> "Linear":
        """It has no sizes of its own."""
        return cls(math.prod(shape), classes, **settings)

    @classmethod
    def takes(cls, sizes: tuple[int, ...]) -> bool:
        """No number may follow its name."""
        return not sizes

    def features(self, x: Tensor) -> Tensor:
        """The samples themselves, normalised if asked for. (n, …) → (n, features)."""
        if x.ndim < 2 or x.shape[1:].numel() != self.inputs:
            raise ValueError(f"samples must have {self.inputs} values each, got {tuple(x.shape)}")
        rows: Tensor = self.norm(x.flatten(1))
        return rows
