"""What image views cost, in images a second on one core, beside the same ops through Pillow one image at a time.

    OMP_NUM_THREADS=1 python benchmarks/views.py

Ours and Pillow's take turns in every round, on the same images with the same draws; Pillow's side is the twin that the
tests hold ours against, and is given its draws for free. The ratio is the median over the rounds, with its quartiles.
"""

import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_sample_images

from halfsure.views import StrongImage, WeakImage, _draws

ROUNDS = 50
SHARE = 0.05  # seconds a round for each side: short, so that a busy moment of the machine hits both
SIZES = [(28, 28, 1), (32, 32, 3), (96, 96, 3)]
BATCHES = [64, 448, 1024]


def crops(count: int, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Pieces of a photograph. → (count, h, w, c)."""
    photo, (h, w, c) = load_sample_images().images[0], shape
    rng = np.random.default_rng(0)
    corners = zip(
        rng.integers(photo.shape[0] - h, size=count), rng.integers(photo.shape[1] - w, size=count), strict=True
    )
    return np.stack([photo[y : y + h, x : x + w, :c] for y, x in corners])


def rate(work: Callable[[int], int], seconds: float) -> float:
    """Images a second, over at least so many seconds; work takes a step and returns how many images it did."""
    images, step, start = 0, 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        images += work(step)
        step += 1
    return images / spent


def ours(view: WeakImage | StrongImage, images: NDArray[np.uint8]) -> Callable[[int], int]:
    indices = np.arange(len(images))
    return lambda step: len(view(images, indices, step))


def pillows(view: WeakImage | StrongImage, images: NDArray[np.uint8]) -> Callable[[int], int]:
    twin = import_module("tests.views.twin")
    sides = _draws.sides(*images.shape[1:3], flip=view.flip, shift=view.shift, ops=view.ops)
    plan = _draws.image_plan(_draws.base_key(view.kind, view.seed, 0, 0), np.arange(len(images)), sides)

    def work(step: int) -> int:
        some = np.arange(64 * step, 64 * (step + 1)) % len(images)
        return len(twin.view(images[some], plan[some], view))

    return work


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for the twin
    torch.set_num_threads(1)
    views: dict[str, WeakImage | StrongImage] = {"weak": WeakImage(), "strong": StrongImage()}
    print("batch 448, 32×32×3         images/s       Pillow    ratio (quartiles over the rounds)")
    images = crops(448, (32, 32, 3))
    for name, view in views.items():
        sides = ours(view, images), pillows(view, images)
        for work in sides:
            work(0)
        rounds = [(rate(sides[0], SHARE), rate(sides[1], SHARE)) for _ in range(ROUNDS)]
        ratios = [fast / slow for fast, slow in rounds]
        fast, slow = (statistics.median(side) for side in zip(*rounds, strict=True))
        low, middle, high = statistics.quantiles(ratios, n=4)
        spread = f"{middle:5.0f} ({low:.0f} … {high:.0f})"
        print(f"{name:<24}{fast:>12,.0f} {slow:>12,.0f}    {spread}")
    print("\nimages/s by batch and size" + "".join(f"{batch:>12}" for batch in BATCHES))
    for shape in SIZES:
        for name, view in views.items():
            rates = [rate(ours(view, crops(batch, shape)), 6 * SHARE) for batch in BATCHES]
            label = f"{name} {'×'.join(map(str, shape))}"
            print(f"{label:<26}" + "".join(f"{value:>12,.0f}" for value in rates))


if __name__ == "__main__":
    main()
