"""What a picture costs on its way into the bank, beside the same network as one would write it down.

    OMP_NUM_THREADS=1 python benchmarks/encoding.py

Both read the same JPEG files of 500 × 375 pixels and end in features, on one thread, in turns, timed by the processor.
Ours is what a process of the bank does: decode, square, draw the view, encode. The twin decodes with Pillow, squares in
the same way, and runs EfficientNet-Lite0 in torch as its authors wrote it: convolutions and norms one after the other,
float32, channels first, 16 pictures at a time. In rows with views both decode a picture once and draw 4 weak and 8
strong views of it by the same code, so that only the networks differ. The ratio is the median over the rounds.
"""

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from rows import Row, header, show
from sklearn.datasets import load_sample_images
from torch import Tensor

from halfsure.bank import View, views_wanted
from halfsure.bank.encoding import Job, encoded
from halfsure.bank.making import least_side
from halfsure.bank.view import Drawing
from halfsure.data.originals import PictureFiles
from halfsure.encoders import open_encoder
from halfsure.encoders.efficientnet_lite import Lite0
from halfsure.encoders.encoder import PictureEncoder
from halfsure.encoders.squares import square

__all__ = ["Naive", "rows"]

TARGET = 3
COUNT, BATCH = 32, 16
SETTINGS = ((1, 3, 1), (2, 3, 2), (2, 5, 2), (3, 3, 2), (3, 5, 1), (4, 5, 2), (1, 3, 1))
"""Blocks, kernel and stride of each stage of EfficientNet-Lite0."""


@dataclass
class Naive:
    """EfficientNet-Lite0 layer by layer, from its published weights."""

    weights: dict[str, Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        """(n, 3, side, side) → (n, 1280)."""
        x = F.relu6(self.layer(x, "_conv_stem", "_bn0", stride=2))
        number = 0
        for blocks, _, stride in SETTINGS:
            for place in range(blocks):
                x = self.block(x, f"_blocks.{number}.", stride if place == 0 else 1)
                number += 1
        return F.relu6(self.layer(x, "_conv_head", "_bn1")).mean((2, 3))

    def block(self, x: Tensor, name: str, stride: int) -> Tensor:
        """An inverted bottleneck."""
        y = x
        if f"{name}_expand_conv.weight" in self.weights:
            y = F.relu6(self.layer(y, f"{name}_expand_conv", f"{name}_bn0"))
        y = F.relu6(self.layer(y, f"{name}_depthwise_conv", f"{name}_bn1", stride=stride))
        y = self.layer(y, f"{name}_project_conv", f"{name}_bn2")
        return y + x if y.shape == x.shape else y

    def layer(self, x: Tensor, convolution: str, norm: str, stride: int = 1) -> Tensor:
        """A convolution, padded as TensorFlow does it, and its norm."""
        kernel = self.weights[f"{convolution}.weight"]
        side, size = kernel.shape[-1], x.shape[-1]
        missing = max(0, (-(-size // stride) - 1) * stride + side - size)
        x = F.pad(x, (missing // 2, missing - missing // 2) * 2) if missing else x
        x = F.conv2d(x, kernel, stride=stride, groups=len(kernel) if kernel.shape[1] == 1 else 1)
        mean, variance, scale, shift = (
            self.weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return F.batch_norm(x, mean, variance, scale, shift, eps=1e-3)


def published() -> dict[str, Tensor]:
    spec = importlib.util.find_spec(Lite0.package)
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).parent / "models" / Lite0.weights
    found: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    return found


def photographs(folder: Path) -> list[Path]:
    """Pieces of a photograph as JPEG files."""
    photos, dice, paths = load_sample_images().images, np.random.default_rng(0), list[Path]()
    for number in range(COUNT):
        top, left = dice.integers(0, 427 - 375), dice.integers(0, 640 - 500)
        paths.append(folder / f"{number}.jpg")
        Image.fromarray(photos[number % 2][top : top + 375, left : left + 500]).save(paths[-1], quality=90)
    return paths


def naive(paths: list[Path], encoder: PictureEncoder, views: Sequence[View]) -> Callable[[], NDArray[np.float32]]:
    network, found = Naive(published()), np.empty((len(views), len(paths), encoder.dimension), np.float32)
    drawing, samples = Drawing.suited(encoder, 0, True), np.zeros(BATCH, np.int64)

    def work() -> NDArray[np.float32]:
        for first in range(0, len(paths), BATCH):
            squares = list[NDArray[np.uint8]]()
            for path in paths[first : first + BATCH]:
                with Image.open(path) as picture:
                    squares.append(square(np.asarray(picture.convert("RGB")), encoder.side, encoder.crop))
            for number, view in enumerate(views):
                drawn = drawing.pictures(np.stack(squares), view, samples).contiguous()
                with torch.inference_mode():
                    found[number, first : first + BATCH] = network(drawn).numpy()
        return found

    return work


def ours(paths: list[Path], encoder: PictureEncoder, views: Sequence[View]) -> Callable[[], NDArray[np.float32]]:
    drawing = Drawing.suited(encoder, 0, True)
    files = PictureFiles(paths, least_side(encoder))
    keys = np.zeros((len(paths), 2), np.uint64)
    return lambda: encoded(encoder, drawing, Job(files, keys, views)).features


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def rows(quick: bool) -> Iterator[Row]:
    """How many times as many pictures a second."""
    if missing := Lite0.missing():
        print(f"encoding is not measured: {missing}")
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for side, weak, strong, rounds in ((128, 0, 0, 15), (224, 0, 0, 9), (128, 4, 8, 3), (224, 4, 8, 2)):
            views = views_wanted(weak, strong)
            with tempfile.TemporaryDirectory() as folder:
                encoder, paths = open_encoder("efficientnet-lite0", encoder_side=side), photographs(Path(folder))
                assert isinstance(encoder, PictureEncoder)
                fast, slow = ours(paths, encoder, views), naive(paths, encoder, views)
                apart = np.abs(fast() - slow()).max()
                assert apart < 0.01, f"the twin is another network: features differ by {apart}"
                both = [(seconds(fast), seconds(slow)) for _ in range(1 if quick else rounds)]
            costs = [1000 * float(np.median(times)) / COUNT / len(views) for times in zip(*both, strict=True)]
            note = f"{costs[0]:.1f} and {costs[1]:.1f} ms per view; {encoder.precision}"
            ratios = [theirs / mine for mine, theirs in both]
            what = f"JPEG to {len(views)} view{'s' * (len(views) > 1)}, lite0 at {side} pixels"
            yield Row(what, "torch, layer by layer", ratios, TARGET, "≥", note)
    finally:
        torch.set_num_threads(threads)


def main() -> None:
    print(header())
    show(rows(quick=False))


if __name__ == "__main__":
    main()
