"""The multilayer perceptron."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from halfsure._checks import check_count, check_number
from halfsure.nets.layers import SLOPE, Head, Norm, he, norm_layer
from halfsure.nets.network import DropoutSettings, Network
from halfsure.settings import register

__all__ = ["MLP"]


@register
class MLP(Network):
    """Dense layers. (n, features) → (n, classes), or images (n, channels, height, width) of as many values.

    Each hidden layer is followed by norm, activation and dropout.

    Args:
        features: of a row, or values of an image.
        classes: logits to return.
        hidden: sizes of the hidden layers; () gives a linear model.
        norm: after each hidden layer.
        dropout: probability to drop a hidden value.

    Examples:
        >>> import torch
        >>> from halfsure.nets import MLP
        >>> MLP(784, classes=10, hidden=(1200, 1200))(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """

    name = "mlp"
    usage = "mlp[-SIZE…]"
    about = "multilayer perceptron for rows and images, such as mlp-1200-1200; the hidden SIZEs are 256-256"
    examples = ("mlp", "mlp-1200-1200")
    Settings = DropoutSettings
    dimensions = (1, 3)

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: Sequence[int] = (256, 256),
        norm: Norm = "none",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inputs = check_count("features", features, 1)
        check_count("classes", classes, 2)
        rate = check_number("dropout", dropout, 0, 0.99, why="more would leave nothing")
        layers: list[nn.Module] = []
        inputs = features
        for outputs in hidden:
            dense = nn.Linear(inputs, check_count("each hidden size", outputs, 1), bias=norm == "none")
            he(dense)
            # A group of one feature would be normalised to zero, a group of two to its sign.
            normed = norm_layer(norm, outputs, rows=True, per_group=8)
            layers += [dense, normed, nn.LeakyReLU(SLOPE), nn.Dropout(rate)]
            inputs = outputs
        self.hidden = nn.Sequential(*layers)
        self.head = Head(inputs, classes)
        he(self.head, slope=1)

    @classmethod
    def sized(cls, sizes: tuple[int, ...], shape: tuple[int, ...], classes: int, **settings: Any) -> "MLP":
        """Hidden layers of these sizes."""
        hidden: Any = {"hidden": sizes} if sizes else {}
        return cls(math.prod(shape), classes, **hidden, **settings)

    @classmethod
    def takes(cls, sizes: tuple[int, ...]) -> bool:
        """Any number of hidden layers."""
        return True

    def features(self, x: Tensor) -> Tensor:
        """Rows or images → what the head sees. (n, values) or (n, channels, height, width) → (n, features)."""
        if x.ndim < 2 or x.shape[1:].numel() != self.inputs:
            raise ValueError(
                f"samples must have {self.inputs} values each, as rows (n, {self.inputs}) or images "
                f"(n, channels, height, width), got {tuple(x.shape)}; build the network for this shape instead"
            )
        if not x.is_floating_point():
            raise ValueError(f"samples must be floating point, got {x.dtype}; convert them with .float()")
        hidden: Tensor = self.hidden(x.flatten(1))
        return hidden
