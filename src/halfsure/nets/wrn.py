"""Wide residual networks (Zagoruyko & Komodakis 2016) as semi-supervised learning uses them."""

import math

import torch
from torch import Tensor, nn

from halfsure._checks import check_count
from halfsure.nets.layers import Head, Norm, check_images, conv, leaky, norm_layer, pooled
from halfsure.nets.network import Network
from halfsure.settings import register

__all__ = ["WideResNet"]

STEM = 16
DEEPEST = 500  # a slip of the hand should not take for ever
# One part in a thousand of each batch: the statistics are to last as long as the averaged weights they go with.
MOMENTUM = 0.001


@register
class WideResNet(Network):
    """WRN-depth-width for images of any size from 8 pixels a side. (n, channels, height, width) → (n, classes).

    Three groups of residual blocks of 16, 32 and 64 times `width` channels, the second and third at half the
    resolution of the one before. In a block that changes the number of channels, shortcut and branch start from the
    same normalised and activated input; elsewhere the shortcut is the block's plain input.

    Args:
        channels: of the images.
        classes: logits to return.
        depth: 6n + 4 for n blocks a group.
        width: factor on the channels.
        norm: before each activation.

    Examples:
        >>> import torch
        >>> from halfsure.nets import WideResNet
        >>> model = WideResNet(3, classes=10)
        >>> sum(p.numel() for p in model.parameters())
        1467610
        >>> model(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    name = "wrn"
    usage = "wrn-DEPTH-WIDTH"
    about = "wide residual network for images, such as wrn-28-2 or wrn-16-1; DEPTH is 6n + 4"
    examples = ("wrn-28-2", "wrn-16-1")
    smallest = 8

    @classmethod
    def takes(cls, sizes: tuple[int, ...]) -> bool:
        """Depth and width, neither left out."""
        if len(sizes) == 2 and sizes[0] > DEEPEST:
            raise ValueError(f"wrn-{sizes[0]}-{sizes[1]} is too deep: DEPTH is {DEEPEST} at most")
        return len(sizes) == 2

    def __init__(self, channels: int, classes: int, depth: int = 28, width: int = 2, norm: Norm = "batch") -> None:
        super().__init__()
        if check_count("depth", depth, 10) % 6 != 4:
            lower = depth - (depth - 4) % 6
            near = f"{lower} or {lower + 6}" if lower >= 10 else str(lower + 6)
            raise ValueError(f"the depth of a wide residual network is 6n + 4, got {depth}; try {near}")
        self.channels = check_count("channels", channels, 1)
        check_count("classes", classes, 2)
        check_count("width", width, 1)
        self.stem = conv(channels, STEM, 3, norm)
        blocks: list[_Block] = []
        inputs = STEM
        for group in range(3):
            outputs = STEM * width * 2**group
            for position in range((depth - 4) // 6):
                blocks.append(
                    _Block(inputs, outputs, norm, stride=2 if group > 0 and position == 0 else 1, first=not blocks)
                )
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.norm = norm_layer(norm, inputs, momentum=MOMENTUM)
        self.head = Head(inputs, classes)
        self._draw(norm)

    def _draw(self, norm: Norm) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
                nn.init.normal_(module.weight, 0, math.sqrt(2 / fan_out))
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        if norm == "none":
            # A branch as loud as its shortcut would double the variance at every one of the L blocks. With 1/L of the
            # variance each, all together multiply it by (1 + 1/L)^L < e; zeros would keep the first convolutions of
            # the branches from learning in the first step.
            with torch.no_grad():
                for block in self.blocks:
                    assert isinstance(block, _Block)
                    block.conv2.weight.mul_(len(self.blocks) ** -0.5)
        nn.init.xavier_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def features(self, x: Tensor) -> Tensor:
        """Images → what the head sees. (n, channels, height, width) → (n, features)."""
        check_images(x, self.channels, self.smallest)
        return pooled(leaky(self.norm(self.blocks(self.stem(x)))))


class _Block(nn.Module):
    """Norm, activation, convolution, twice, around a shortcut. (n, inputs, h, w) → (n, outputs, h/stride, w/stride)."""

    def __init__(self, inputs: int, outputs: int, norm: Norm, stride: int, *, first: bool) -> None:
        super().__init__()
        self.norm1 = norm_layer(norm, inputs, momentum=MOMENTUM)
        self.conv1 = conv(inputs, outputs, 3, norm, stride=stride)
        self.norm2 = norm_layer(norm, outputs, momentum=MOMENTUM)
        self.conv2 = conv(outputs, outputs, 3, norm)
        self.first = first
        """The first block's shortcut starts behind the activation, the others' before it."""
        self.shortcut = None if inputs == outputs else conv(inputs, outputs, 1, norm, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        active = leaky(self.norm1(x))
        branch: Tensor = self.conv2(leaky(self.norm2(self.conv1(active))))
        aside = active if self.first else x
        return branch + (aside if self.shortcut is None else self.shortcut(aside))
