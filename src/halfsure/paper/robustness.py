"""Not in the paper: how much Table I depends on VAT's own settings.

    halfsure reproduce robustness --seeds 2 --budget 60m

Every strategy over a grid of α, the weight of VAT's consistency, and ε, how far samples are moved. Strong
perturbations can make classes die out; such runs are marked, and count.

cpu: MNIST with 20 labels, 1,500 steps, about a minute a run on one core; 84 runs for two seeds.
"""

from halfsure.paper.cells import Column
from halfsure.paper.table import Row, Table
from halfsure.paper.tuning import STRATEGIES, over

__all__ = ["ROBUSTNESS"]


METHODS = ("vat", *STRATEGIES, "vat@sparsemax")
GRID = over(weight=(0.3, 1.0), epsilon=(0.7, 2.0, 5.6))

ROBUSTNESS = Table(
    "robustness",
    "Table I over α (weight) and ε (epsilon)",
    tuple(Row(method, None, settings) for settings in GRID for method in METHODS),
    {"paper": (Column("mnist", 20),), "cpu": (Column("mnist", 20),)},
    steps=1500,
    seeds=2,
    matrix=True,
    settings={"evaluations": 5, "test_sample": 2000},
)
