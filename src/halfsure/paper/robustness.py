"""Not in the paper: how much Table I depends on VAT's own settings.

    halfsure reproduce robustness --seeds 2 --budget 2h

Every strategy over a grid of ε, how far samples are moved, and α, the weight of VAT's consistency. Strong perturbations
can lead to wrong clusters and make classes die out; runs in which one did are marked, and count. What VAT
chose in either map is in the grid: Table I's own runs.

cpu: MNIST with 20 labels, Table I's 3,000 steps, two to four minutes a run on one core; for two seeds 42 runs beside
those of Table I.
"""

from halfsure.paper.cells import Column
from halfsure.paper.table import Row, Table
from halfsure.paper.table1 import TABLE1
from halfsure.paper.tuning import STRATEGIES, over

__all__ = ["ROBUSTNESS"]

METHODS = ("vat", *STRATEGIES, "vat@sparsemax")
GRID = over(epsilon=(2.8, 5.6), weight=(0.1, 0.3))

ROBUSTNESS = Table(
    "robustness",
    "Table I at other strengths of VAT",
    tuple(Row(method, None, settings) for settings in GRID for method in METHODS),
    {"paper": (), "cpu": (Column("mnist", 20),)},
    steps=TABLE1.steps,
    seeds=2,
    settings=TABLE1.settings,
    matrix=True,
)
