"""The 13-layer network of Temporal Ensembling (Laine & Aila 2017) and Mean Teacher, in its common plain form."""

from torch import Tensor, nn

from halfsure._checks import check_count, check_number
from halfsure.nets.layers import SLOPE, Head, Norm, check_images, conv, norm_layer, pooled
from halfsure.nets.network import DropoutSettings, Network
from halfsure.settings import register

__all__ = ["CNN13"]


@register
class CNN13(Network):
    """Nine convolutions and a dense layer. (n, channels, height, width) → (n, classes).

    At width 128: three 3×3 of 128 channels, pool, dropout; three of 256, pool, dropout; one 3×3 without padding of 512,
    1×1 of 256 and of 128; global average; dense. Each convolution is followed by norm and activation. The weights are
    torch's own uniform draws.

    Args:
        channels: of the images.
        classes: logits to return.
        width: channels of the first convolutions.
        norm: after each convolution.
        dropout: probability to drop a value after a pool.

    Examples:
        >>> import torch
        >>> from halfsure.nets import CNN13
        >>> model = CNN13(3, classes=10, width=16)
        >>> model(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    name = "cnn13"
    usage = "cnn13[-WIDTH]"
    about = "13-layer convolutional network with dropout, for images from 12 pixels a side; WIDTH is 128"
    examples = ("cnn13", "cnn13-64")
    Settings = DropoutSettings
    smallest = 12  # two pools leave a quarter, and the convolution without padding takes 3

    def __init__(
        self, channels: int, classes: int, width: int = 128, norm: Norm = "batch", dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.channels = check_count("channels", channels, 1)
        check_count("classes", classes, 2)
        w = check_count("width", width, 1)
        rate = check_number("dropout", dropout, 0, 0.99, why="more would leave nothing")
        self.body = nn.Sequential(
            *_layer(channels, w, norm),
            *_layer(w, w, norm),
            *_layer(w, w, norm),
            nn.MaxPool2d(2),
            nn.Dropout(rate),
            *_layer(w, 2 * w, norm),
            *_layer(2 * w, 2 * w, norm),
            *_layer(2 * w, 2 * w, norm),
            nn.MaxPool2d(2),
            nn.Dropout(rate),
            *_layer(2 * w, 4 * w, norm, last=True),
            *_layer(4 * w, 2 * w, norm, size=1, last=True),
            *_layer(2 * w, w, norm, size=1, last=True),
        )
        self.head = Head(w, classes)

    def features(self, x: Tensor) -> Tensor:
        """Images → what the head sees. (n, channels, height, width) → (n, features)."""
        check_images(x, self.channels, self.smallest)
        return pooled(self.body(x))


def _layer(inputs: int, outputs: int, norm: Norm, size: int = 3, last: bool = False) -> list[nn.Module]:
    # Small images are down to one pixel in the last layers, where a group of one channel would be normalised to zero.
    per_group = 8 if last else 1
    return [
        conv(inputs, outputs, size, norm, padding=0 if last else None),
        norm_layer(norm, outputs, per_group=per_group),
        nn.LeakyReLU(SLOPE),
    ]
