"""A 7-layer network for small grey images, our own: the literature names such a one for MNIST, but describes none."""

from torch import Tensor, nn
from torch.nn import functional as F

from halfsure._checks import check_count
from halfsure.nets.layers import SLOPE, Head, Norm, check_images, conv, he, norm_layer, pooled
from halfsure.nets.network import Network
from halfsure.settings import register

__all__ = ["Conv7"]

LATE_WIDTH = 128


@register
class Conv7(Network):
    """Six 3×3 convolutions and a dense layer. (n, channels, height, width) → (n, classes).

    At width 64 the convolutions have 64, 64, 128, 128, 128, 128 channels, at width 16 they have 16, 16, 32, 32, 64, 64.
    The first, third and fifth halve the image, as long as there is something to halve: 28×28 becomes 14×14, 7×7, 4×4,
    and 8×8 becomes 4×4. Each is followed by norm and activation, the last by the global average.

    Args:
        channels: of the images.
        classes: logits to return.
        width: channels of the first two convolutions.
        norm: after each convolution. VAT works better without.

    Examples:
        >>> import torch
        >>> from halfsure.nets import Conv7
        >>> model = Conv7(1, classes=10, width=16, norm="none")
        >>> model(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """

    name = "conv7"
    usage = "conv7[-WIDTH]"
    about = "7-layer convolutional network for small images, such as conv7-16; WIDTH is 64"
    examples = ("conv7", "conv7-16")
    smallest = 8

    def __init__(self, channels: int, classes: int, width: int = 64, norm: Norm = "batch") -> None:
        super().__init__()
        self.channels = check_count("channels", channels, 1)
        check_count("classes", classes, 2)
        w = check_count("width", width, 1)
        late = max(2 * w, min(4 * w, LATE_WIDTH))
        convs = [
            _Halving(channels, w, norm, smallest=16),
            conv(w, w, 3, norm),
            _Halving(w, 2 * w, norm, smallest=8),
            conv(2 * w, 2 * w, 3, norm),
            _Halving(2 * w, late, norm, smallest=7),
            conv(late, late, 3, norm),
        ]
        layers: list[nn.Module] = []
        for layer in convs:
            he(layer)
            layers += [layer, norm_layer(norm, layer.out_channels), nn.LeakyReLU(SLOPE)]
        self.body = nn.Sequential(*layers)
        self.head = Head(late, classes)
        he(self.head, slope=1)

    def features(self, x: Tensor) -> Tensor:
        """Images → what the head sees. (n, channels, height, width) → (n, features)."""
        check_images(x, self.channels, self.smallest)
        return pooled(self.body(x))


class _Halving(nn.Conv2d):
    """A convolution of stride 2 for images of at least so many pixels a side, else of stride 1."""

    def __init__(self, inputs: int, outputs: int, norm: Norm, *, smallest: int) -> None:
        super().__init__(inputs, outputs, 3, stride=2, padding=1, bias=norm == "none")
        self.smallest = smallest

    def forward(self, input: Tensor) -> Tensor:
        stride = self.stride if min(input.shape[-2:]) >= self.smallest else 1
        return F.conv2d(input, self.weight, self.bias, stride, self.padding)
