"""Whose candidates are safer, if all have as many? The runs of a table that are on this disk, on all test samples.

    halfsure reproduce table2 --column cifar10@250 --seeds 2     # the runs
    python benchmarks/candidates.py table2                       # a line of results/candidates.jsonl for each of them
    python benchmarks/candidates.py show                         # a table of what there is

Candidates are the classes that sparsemax of the logits leaves. A model can be given more or fewer of them in two ways,
and in both all samples share one number, chosen so that a set has at most 1.5, 2 … classes on average: by the
temperature of sparsemax, or by the gap below the largest logit within which classes count. Neither is changed by the
temperature a model was trained at, so models of any map can be compared.
"""

import statistics
from collections.abc import Callable
from typing import Any

import looks
import torch
from torch import Tensor

import halfsure
from halfsure.data import Data
from halfsure.runs.run import Run

LINES = looks.ROOT / "results" / "candidates.jsonl"
SIZES = (1.5, 2.0, 2.5, 3.0, 4.0)
HALVINGS = 60  # of the range of temperatures: down to the last digit


def by_gap(logits: Tensor, size: float) -> Tensor:
    """The classes less than some gap below the best, at most `size` on average. (n, classes) → booleans."""
    gaps = logits.amax(-1, keepdim=True).double() - logits
    best = torch.zeros_like(gaps, dtype=torch.bool).scatter(-1, logits.argmax(-1, keepdim=True), True)
    others = gaps[~best]
    more = int((size - 1) * len(logits) + 1e-6)  # classes that there may be beside the best ones
    return best | (gaps < others.kthvalue(more + 1).values) if more < len(others) else torch.ones_like(best)


def by_temperature(logits: Tensor, size: float) -> Tensor:
    """The classes that sparsemax leaves at some temperature, at most `size` on average. (n, classes) → booleans."""
    low, high = -50.0, 50.0  # binary logarithms; the warmer, the more classes
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        many = _at(logits, middle).double().sum(-1).mean() > size
        low, high = (low, middle) if many else (middle, high)
    return _at(logits, low)


def _at(logits: Tensor, exponent: float) -> Tensor:
    return halfsure.sparsemax(logits.double() / 2**exponent) > 0


RULES: dict[str, Callable[[Tensor, float], Tensor]] = {"temperature": by_temperature, "gap": by_gap}


def missed(sets: Tensor, labels: Tensor) -> float:
    """How often the true class is not in its sample's set. (n, classes), (n,) → a share."""
    return 1 - sets.gather(-1, labels.unsqueeze(-1)).double().mean().item()


def look(run: Run, data: Data) -> dict[str, Any]:
    """The candidates of a run on all test samples."""
    assert data.test is not None
    logits, labels = run.logits(data.test.samples), torch.from_numpy(data.test.labels)
    sparse = halfsure.sparsemax(logits) > 0
    return {
        "error": (logits.argmax(-1) != labels).double().mean().item(),
        "candidates": sparse.double().sum(-1).mean().item(),
        "missed": missed(sparse, labels),
        **{name: {f"{size:g}": missed(rule(logits, size), labels) for size in SIZES} for name, rule in RULES.items()},
    }


def show() -> None:
    """Means over seeds, in %."""
    head = [*("", "", "", "seeds", "candidates", "error", "missed"), *(f"{r} {s:g}" for r in RULES for s in SIZES)]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for names, lines in looks.by_row(LINES).items():
        shares = [[line[key] for line in lines] for key in ("error", "missed")]
        shares += [[line[rule][f"{size:g}"] for line in lines] for rule in RULES for size in SIZES]
        number = f"{statistics.fmean(line['candidates'] for line in lines):.2f}"
        means = [f"{100 * statistics.fmean(share):.1f}" for share in shares]
        print(f"| {' | '.join([*names, str(len(lines)), number, *means])} |")


if __name__ == "__main__":
    looks.main(__doc__, LINES, look, show)
