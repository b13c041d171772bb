"""Not in the paper: how much Table I depends on VAT's own settings.

    halfsure reproduce robustness --seeds 2 --budget 60m

Every strategy over a grid of α, the weight of VAT's consistency, and ε, how far samples are moved. Strong
perturbations can make classes die out; such runs are marked, and count.

cpu: MNIST with 20 labels, 1,500 steps, about a minute a run on one core; 84 runs for two seeds.
"""

from halfsure.paper.cells import Column
from halfsure.paper.table import Row, Table
from halfsure.paper.table1 import STRATEGIES
from halfsure.paper.tuning import over

__all__ = ["ROBUSTNESS"]


def _rows(settings: dict[str, float]) -> tuple[Row, ...]:
    base = Row("vat", None, settings)
    return (base, *(Row(method, base.name, settings) for method in (*STRATEGIES, "vat@sparsemax")))


ROBUSTNESS = Table(
    "robustness",
    "Table I over α (weight) and ε (epsilon)",
    tuple(row for settings in over(weight=(0.3, 1.0), epsilon=(1.4, 2.8, 4.2)) for row in _rows(settings)),
    {"paper": (Column("mnist", 20),), "cpu": (Column("mnist", 20),)},
    steps=1500,
    seeds=2,
    matrix=True,
    settings={"evaluations": 5, "test_sample": 2000},
)
