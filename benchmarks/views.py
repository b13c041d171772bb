"""What image views cost, in images a second on one core, beside the same ops through Pillow one image at a time.

    OMP_NUM_THREADS=1 python benchmarks/views.py

Ours and Pillow's take turns in every round, on the same images with the same draws; Pillow's side is the twin that the
tests hold ours against, and is given its draws for free. Either side is one thread and is timed by the processor, which
leaves out what it waits for others on a busy machine. The ratio is the median over the rounds.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rows import Row, header, show
from sklearn.datasets import load_sample_images

from halfsure.views import StrongImage, WeakImage

ROUNDS = 50
QUICK_ROUNDS = 15
TARGET = 100
VIEWS: dict[str, WeakImage | StrongImage] = {"weak": WeakImage(), "strong": StrongImage()}
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
    images, step, start = 0, 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        images += work(step)
        step += 1
    return images / spent


def ours(view: WeakImage | StrongImage, images: NDArray[np.uint8]) -> Callable[[int], int]:
    indices = np.arange(len(images))
    return lambda step: len(view(images, indices, step))


def pillows(view: WeakImage | StrongImage, images: NDArray[np.uint8]) -> Callable[[int], int]:
    root = str(Path(__file__).parents[1])
    if root not in sys.path:
        sys.path.insert(0, root)
    twin, draws = import_module("tests.views.twin"), import_module("halfsure.views.draws")
    sides = draws.sides(*images.shape[1:3], flip=view.flip, shift=view.shift, ops=view.ops)
    plan = draws.image_plan(draws.base_key(view.kind, view.seed, 0, 0), np.arange(len(images)), sides)

    def work(step: int) -> int:
        some = np.arange(64 * step, 64 * (step + 1)) % len(images)
        return len(twin.view(images[some], plan[some], view))

    return work


def rows(quick: bool) -> Iterator[Row]:
    """How many times as fast as Pillow, at batch 448 of 32×32×3."""
    images = crops(448, (32, 32, 3))
    for name, view in VIEWS.items():
        fast, slow = ours(view, images), pillows(view, images)
        fast(0), slow(0)
        sides = [(rate(fast, SHARE), rate(slow, SHARE)) for _ in range(QUICK_ROUNDS if quick else ROUNDS)]
        rates = [statistics.median(side) for side in zip(*sides, strict=True)]
        note = f"{rates[0]:,.0f} and {rates[1]:,.0f} images/s"
        ratios = [ours / peers for ours, peers in sides]
        yield Row(f"{name} views, 448 images 32×32×3", "Pillow, one by one", ratios, TARGET, "≥", note)


def main() -> None:
    torch.set_num_threads(1)
    print(header())
    show(rows(quick=False))
    print("\nimages/s by batch and size" + "".join(f"{batch:>12}" for batch in BATCHES))
    for shape in SIZES:
        for name, view in VIEWS.items():
            rates = [rate(ours(view, crops(batch, shape)), 6 * SHARE) for batch in BATCHES]
            label = f"{name} {'×'.join(map(str, shape))}"
            print(f"{label:<26}" + "".join(f"{value:>12,.0f}" for value in rates))


if __name__ == "__main__":
    main()
