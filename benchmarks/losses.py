"""What the ADS loss costs beside cross-entropy and beside the same loss on the entmax package.

    OMP_NUM_THREADS=1 python benchmarks/losses.py

Forward and backward on one thread, in CPU seconds, every contender in turn in each round. Peaked logits are those of a
trained network, flat ones those of an untrained one, where every class is a candidate.
"""

import time
from collections.abc import Callable, Iterator

import entmax
import torch
from rows import Row, header, show
from torch import Tensor
from torch.nn import functional as F

import halfsure

SHAPES = [(64, 10), (448, 10), (448, 100), (1024, 1000), (4096, 1000), (256, 50257)]
REGIMES = {"peaked": 1.0, "flat": 1e-4}
ROUNDS = 15
FEW = 3  # rounds of a contender that is too slow for its share of the time
SECONDS = {True: 0.6, False: 3.0}  # a cell, quick or not

Loss = Callable[[Tensor], Tensor]


def entmax_ads(logits: Tensor) -> Tensor:
    """The ADS loss as one would write it on the entmax package."""
    probs: Tensor = entmax.sparsemax(logits, dim=-1)
    target = probs.detach() ** 2
    target = target / target.sum(-1, keepdim=True)
    return (target * (target / probs).log().nan_to_num()).sum(-1).mean()


def spent(loss: Loss, logits: Tensor, repeats: int) -> float:
    """CPU seconds of a forward and a backward pass."""
    start = time.thread_time()
    for _ in range(repeats):
        logits.grad = None
        loss(logits).backward()
    return (time.thread_time() - start) / repeats


def costs(shape: tuple[int, int], scale: float, seconds: float) -> dict[str, list[float]]:
    """What each contender costs, a value a round; the first rounds have them all."""
    generator = torch.Generator().manual_seed(0)
    logits = (scale * torch.randn(shape, generator=generator)).requires_grad_()
    labels = torch.randint(shape[1], (shape[0],), generator=generator)
    contenders: dict[str, Loss] = {
        "cross-entropy": lambda z: F.cross_entropy(z, labels),
        "sparsemax loss": lambda z: halfsure.sparsemax_loss(z, labels).mean(),
        "ADS": halfsure.ads_loss,
        "entmax": entmax_ads,
    }
    for loss in contenders.values():
        spent(loss, logits, 1)
    # Each gets the same time, so that the fast ones are repeated more often and very slow ones miss the last rounds.
    once = {name: spent(loss, logits, 1) for name, loss in contenders.items()}
    repeats = {name: max(1, int(seconds / ROUNDS / 4 / once[name])) for name in once}
    rounds = {name: min(ROUNDS, max(FEW, int(seconds / 4 / once[name]))) for name in once}
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(ROUNDS):
        for name, loss in contenders.items():
            if turn < rounds[name]:
                found[name].append(spent(loss, logits, repeats[name]))
    return found


def rows(quick: bool = False) -> Iterator[Row]:
    """The ADS loss beside cross-entropy, and the version on entmax beside it."""
    torch.set_num_threads(1)
    for regime, scale in REGIMES.items():
        for shape in SHAPES:
            cost = costs(shape, scale, SECONDS[quick])
            small = 1.0 if shape[1] <= 100 else 0.6
            what = f"ADS loss {shape}, {regime}"
            yield Row(
                what, "cross-entropy", _over(cost, "ADS", "cross-entropy"), small if regime == "peaked" else 1.5, "≤"
            )
            yield Row(what, "entmax + KL", _over(cost, "entmax", "ADS"), 5.0, "≥")
            what = f"sparsemax loss {shape}, {regime}"
            yield Row(what, "cross-entropy", _over(cost, "sparsemax loss", "cross-entropy"))


def _over(cost: dict[str, list[float]], one: str, other: str) -> list[float]:
    return [a / b for a, b in zip(cost[one], cost[other], strict=False)]


if __name__ == "__main__":
    print(header())
    show(rows())
