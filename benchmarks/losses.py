"""What the ADS loss costs, as multiples of cross-entropy measured in the same run.

    make bench

Forward and backward on one thread, every contender in turn in each round, the median over the rounds. Peaked logits are
those of a trained network, flat ones those of an untrained one, where every class is a candidate.
"""

import statistics
import time
from collections.abc import Callable

import entmax
import torch
from torch import Tensor
from torch.nn import functional as F

import halfsure

SHAPES = [(64, 10), (448, 10), (448, 100), (1024, 1000), (4096, 1000), (256, 50257)]
REGIMES = {"peaked": 1.0, "flat": 1e-4}
ROUNDS, SECONDS = 7, 1.0


def entmax_ads(logits: Tensor) -> Tensor:
    """The ADS loss as one would write it on the entmax package."""
    probs: Tensor = entmax.sparsemax(logits, dim=-1)
    target = probs.detach() ** 2
    target = target / target.sum(-1, keepdim=True)
    return (target * (target / probs).log().nan_to_num()).sum(-1).mean()


def timed(loss: Callable[[Tensor], Tensor], logits: Tensor, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        logits.grad = None
        loss(logits).backward()
    return (time.perf_counter() - start) / repeats


def ratios(shape: tuple[int, int], scale: float) -> dict[str, list[float]]:
    """Each contender's time as a multiple of cross-entropy's, a value a round."""
    generator = torch.Generator().manual_seed(0)
    logits = (scale * torch.randn(shape, generator=generator)).requires_grad_()
    labels = torch.randint(shape[1], (shape[0],), generator=generator)
    contenders: dict[str, Callable[[Tensor], Tensor]] = {
        "cross-entropy": lambda z: F.cross_entropy(z, labels),
        "sparsemax_loss": lambda z: halfsure.sparsemax_loss(z, labels).mean(),
        "ads_loss": halfsure.ads_loss,
        "entmax + KL": entmax_ads,
    }
    first = {name: timed(loss, logits, 2) for name, loss in contenders.items()}
    share = SECONDS / ROUNDS / sum(first.values())
    repeats = max(1, round(share))
    rounds = [{name: timed(loss, logits, repeats) for name, loss in contenders.items()} for _ in range(ROUNDS)]
    return {name: [r[name] / r["cross-entropy"] for r in rounds] for name in contenders if name != "cross-entropy"}


def main() -> None:
    torch.set_num_threads(1)
    print("forward + backward as multiples of F.cross_entropy: median (lowest to highest of the rounds)\n")
    print(f"{'logits':<8}{'shape':>13}   " + "".join(f"{n:>26}" for n in ("sparsemax_loss", "ads_loss", "entmax + KL")))
    for regime, scale in REGIMES.items():
        for shape in SHAPES:
            cells = [
                f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
                for values in ratios(shape, scale).values()
            ]
            print(f"{regime:<8}{shape!s:>13}   " + "".join(f"{cell:>26}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
