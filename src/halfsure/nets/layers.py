"""What the networks are made of, and two helpers for those who train them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from halfsure.simplex import autocasts

__all__ = [
    "SLOPE",
    "Head",
    "Norm",
    "Slow",
    "check_images",
    "conv",
    "frozen_statistics",
    "he",
    "kernels_and_rest",
    "leaky",
    "norm_layer",
    "pooled",
]

Norm = Literal["batch", "group", "none"]
"""How a network normalises between layers; with "none" its convolutions get biases instead."""

SLOPE = 0.1
"""What the activation multiplies negative values by."""

MOST_GROUPS = 8


@contextmanager
def frozen_statistics(model: nn.Module) -> Iterator[None]:
    """Inside the block, batch norms in training mode use their batch but do not learn from it.

    Outputs and gradients are those of an ordinary training pass; the running mean, the running variance and the number
    of batches seen stay as they are. Norms in evaluation mode go on using what they have learned before.

    Examples:
        >>> import torch
        >>> from halfsure.nets import build, frozen_statistics
        >>> model = build("conv7-16", shape=(8, 8, 1), classes=10)
        >>> before = {name: value.clone() for name, value in model.state_dict().items()}
        >>> with frozen_statistics(model):
        ...     logits = model(torch.rand(4, 1, 8, 8))
        >>> all(value.equal(before[name]) for name, value in model.state_dict().items())
        True
    """
    # A norm that was told not to track keeps its buffers, and still reads them in evaluation mode.
    tracking = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    for module in tracking:
        module.track_running_stats = False
    try:
        yield
    finally:
        for module in tracking:
            module.track_running_stats = True


def kernels_and_rest(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The weights that weight decay is for, and all others: (kernels, biases and norm scales).

    Kernels are the parameters with two dimensions or more. A shared parameter appears once, a frozen one not at all.

    Examples:
        >>> from halfsure.nets import MLP, kernels_and_rest
        >>> kernels, rest = kernels_and_rest(MLP(4, classes=3, hidden=(8,)))
        >>> [tuple(p.shape) for p in kernels], [tuple(p.shape) for p in rest]
        ([(8, 4), (3, 8)], [(8,), (3,)])
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [p for p in trained if p.ndim >= 2], [p for p in trained if p.ndim < 2]


def norm_layer(
    kind: Norm, channels: int, *, rows: bool = False, momentum: float = 0.1, per_group: int = 1
) -> nn.Module:
    """A normalisation of `channels` channels of images, or of features of rows; "none" is the identity.

    Group norm has the most groups, up to 8, that divide the channels and leave each at least `per_group` of them.
    """
    if kind == "batch":
        return (nn.BatchNorm1d if rows else nn.BatchNorm2d)(channels, momentum=momentum)
    if kind == "group":
        fitting = [g for g in range(1, MOST_GROUPS + 1) if channels % g == 0 and channels // g >= per_group]
        return nn.GroupNorm(max(fitting, default=1), channels)
    if kind == "none":
        return nn.Identity()
    raise ValueError(f"norm must be one of {', '.join(map(repr, get_args(Norm)))}, got {kind!r}")


def conv(inputs: int, outputs: int, size: int, norm: Norm, *, stride: int = 1, padding: int | None = None) -> nn.Conv2d:
    """A convolution that keeps the image's size, unless told otherwise."""
    # A norm subtracts any constant that a bias before it would add, and its own offset takes the bias's place.
    bias = norm == "none"
    return nn.Conv2d(inputs, outputs, size, stride, size // 2 if padding is None else padding, bias=bias)


def he(layer: nn.Conv2d | nn.Linear, slope: float = SLOPE) -> None:
    """Draw weights that keep the scale of what passes an activation of this slope (1: none); zero the bias."""
    nn.init.kaiming_normal_(layer.weight, a=slope)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


class Slow(nn.Module):
    """A module whose weights learn at a part of the learning rate."""

    def __init__(self, module: nn.Module, rate: float) -> None:
        super().__init__()
        self.module, self.rate = module, rate


class Head(nn.Linear):
    """The last layer, in the precision of its weights: (n, inputs) → logits (n, outputs).

    Under autocast a logit of 8 to 16 in bfloat16 would be a multiple of 1/16, and sparsemax tells classes apart within
    a distance of 1.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Features → logits. (n, inputs) → (n, outputs)."""
        if not autocasts(x):
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.to(self.weight.dtype))


def leaky(x: Tensor) -> Tensor:
    """The activation of every network here. (…) → (…)."""
    return F.leaky_relu(x, SLOPE)


def pooled(x: Tensor) -> Tensor:
    """Global average pooling. (n, channels, height, width) → (n, channels)."""
    return x.mean((-2, -1))


def check_images(x: Tensor, channels: int, smallest: int) -> None:
    """Accept floating-point images (n, channels, height, width) of at least `smallest` pixels a side."""
    if x.ndim != 4 or x.shape[1] != channels:
        raise ValueError(
            f"images must be (n, {channels}, height, width), got {tuple(x.shape)}; "
            "bring stored images (n, height, width, channels) into this order with .permute(0, 3, 1, 2)"
        )
    if not x.is_floating_point():
        raise ValueError(f"images must be floating point, got {x.dtype}; convert them, bytes with .float() / 255")
    if min(x.shape[-2:]) < smallest:
        raise ValueError(
            f"images must have at least {smallest} pixels a side for this network, "
            f"got {x.shape[-2]} × {x.shape[-1]}; enlarge them or choose another network"
        )
