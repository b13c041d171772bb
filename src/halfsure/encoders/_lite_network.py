"""The networks of EfficientNet-Lite, rebuilt from the shapes of their weights.

They are simple enough for that: blocks of a pointwise, a depthwise and another pointwise convolution, ReLU6, no
attention. Each norm is folded into the convolution before it.
"""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from halfsure.encoders.encoder import EncoderError

__all__ = ["Block", "Convolution", "Network", "read_lite"]

STRIDES = (1, 2, 2, 2, 1, 2, 1)
"""Of the first block of each stage; a stage is a row of blocks of one width."""
EPSILON = 1e-3


class Convolution(nn.Conv2d):
    """A convolution whose output has the input's size over its stride, rounded up; what is odd goes right and below."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) → (n, c', ⌈h / stride⌉, ⌈w / stride⌉)."""
        up, down, left, right = self.margins(x.shape[-2], x.shape[-1])
        if (up, left) == (down, right):
            return F.conv2d(x, self.weight, self.bias, self.stride, (up, left), groups=self.groups)
        return F.conv2d(F.pad(x, (left, right, up, down)), self.weight, self.bias, self.stride, groups=self.groups)

    def margins(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Zeros above, below, left and right of an image."""
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        high, wide = (max(0, (-(-side // stride) - 1) * stride + kernel - side) for side in (height, width))
        return high // 2, high - high // 2, wide // 2, wide - wide // 2


class Block(nn.Module):
    """An inverted bottleneck: wider, filtered, narrow again, and added to what came in where that has its shape."""

    def __init__(self, convolutions: list[Convolution], added: bool) -> None:
        super().__init__()
        self.convolutions, self.added = nn.ModuleList(convolutions), added

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) → (n, c', h', w')."""
        y = x
        for convolution in self.convolutions[:-1]:
            y = F.relu6(convolution(y))
        y = self.convolutions[-1](y)
        return torch.add(y, x) if self.added else y


class Network(nn.Module):
    """Stem, blocks, head, mean over the image."""

    def __init__(self, stem: Convolution, blocks: list[Block], head: Convolution) -> None:
        super().__init__()
        self.stem, self.blocks, self.head = stem, nn.Sequential(*blocks), head

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, features)."""
        return F.relu6(self.head(self.blocks(F.relu6(self.stem(x))))).mean((2, 3))


def read_lite(file: Path) -> Network:
    """The network of a file of weights, for use alone; nothing in the file can run code."""
    try:
        weights = torch.load(file, map_location="cpu", weights_only=True)
        return _network(weights).eval().requires_grad_(False)
    except (RuntimeError, KeyError, ValueError, AttributeError, TypeError, EOFError, StopIteration) as error:
        raise EncoderError(f"{file.name} holds no EfficientNet-Lite: {type(error).__name__}: {error!s:.200}") from None
    except Exception as error:  # an unpickling error of torch's own
        raise EncoderError(f"{file.name} is no file of weights that can be trusted: {error!s:.200}") from None


def _network(weights: Mapping[str, Tensor]) -> Network:
    count = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("_blocks."))
    layers = [_block_names(weights, f"_blocks.{i}.") for i in range(count)]
    widths = [len(weights[f"{names[-1][0]}.weight"]) for names in layers]
    stages = iter(STRIDES)
    starts = [True, *(before != after for before, after in pairwise(widths))]
    strides = [next(stages) if first else 1 for first in starts]
    blocks, width = list[Block](), len(weights["_conv_stem.weight"])
    for names, goal, stride in zip(layers, widths, strides, strict=True):
        filtering = len(names) - 2
        convolutions = [
            _folded(weights, *pair, stride=stride if place == filtering else 1) for place, pair in enumerate(names)
        ]
        blocks.append(Block(convolutions, added=stride == 1 and goal == width))
        width = goal
    return Network(_folded(weights, "_conv_stem", "_bn0", stride=2), blocks, _folded(weights, "_conv_head", "_bn1"))


def _block_names(weights: Mapping[str, Tensor], block: str) -> list[tuple[str, str]]:
    """The convolutions of a block and their norms, in the order in which they act."""
    names = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
    return [(block + layer, block + norm) for layer, norm in names if f"{block}{layer}.weight" in weights]


def _folded(weights: Mapping[str, Tensor], layer: str, norm: str, stride: int = 1) -> Convolution:
    """A convolution that does what it and its norm did."""
    kernel = weights[f"{layer}.weight"]
    parts = ("running_mean", "running_var", "weight", "bias")
    mean, variance, scale, bias = (weights[f"{norm}.{part}"] for part in parts)
    goal, inner, side, _ = kernel.shape
    groups = goal if inner == 1 else 1
    factor = scale / (variance + EPSILON).sqrt()
    folded = Convolution(inner * groups, goal, side, stride, groups=groups)
    folded.load_state_dict({"weight": kernel * factor[:, None, None, None], "bias": bias - mean * factor})
    return folded
