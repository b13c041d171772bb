"""Figure 5: are candidates safe to choose, with a network that begins unsure of everything and one that does not?

    halfsure reproduce figure5 --budget 2h

The paper, MixMatch-ADS on CIFAR-10 with 250 labels: the mean number of candidates of its ResNet begins at 1, surges,
falls and settles near 3, that of CNN13 begins at 10 and settles near 2; the truth is among the candidates more often
than it is the best class, by some 5 and 10 points; a fixed number of candidates (3 and 2) is worse and fluctuates.

cpu: `wrn-10-1` and `cnn13-16`, 3,000 steps, one seed; some fifteen minutes a run on one core, 4 runs. Evaluated after
the first step and every 30, to see the beginning; rows with a fixed number are in sparsemax too, so that the number is
all that differs.
"""

from typing import Any

from halfsure.paper.cells import Column
from halfsure.paper.table import Row, Table

__all__ = ["SAFETY"]

CNN13: dict[str, Any] = {"settings": {"net": "cnn13-16"}, "at_size": {"net": "cnn13"}, "called": "cnn13"}

SAFETY = Table(
    "figure5",
    "Figure 5: candidates, and a fixed number of them",
    (
        Row("mixmatch-ads"),
        Row("mixmatch@sparsemax-top3", "mixmatch-ads"),
        Row("mixmatch-ads", "mixmatch-ads", **CNN13),
        Row("mixmatch@sparsemax-top2", "mixmatch-ads:cnn13", **CNN13),
    ),
    {"paper": (Column("cifar10", 250),), "cpu": (Column("cifar10", 250),)},
    steps=3000,
    seeds=1,
    settings={"evaluations": 100, "from_start": True, "test_sample": 500, "unlabeled_sample": 1000},
)
