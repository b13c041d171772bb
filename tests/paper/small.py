"""A small experiment on digits, and the command line with it: seconds, where the paper's take hours."""

import sys
from typing import Any

from halfsure.cli import main
from halfsure.paper.cells import Cell, Column
from halfsure.paper.experiments import TABLES
from halfsure.paper.table import Row, Table

__all__ = ["DIGITS", "FEW_STEPS", "SMALL", "cell"]

DIGITS = Column("digits", 20)
SHORT = {"evaluations": 2, "test_sample": 50, "unlabeled_sample": 50, "net": "mlp-8", "norm": "none"}
SMALL = Table(
    "small",
    "Small",
    (
        Row("supervised"),
        Row("fixmatch-ads", "supervised"),
        Row("fixmatch-ads", "supervised", {"r": 1.0}, control="fixmatch-ads"),
    ),
    {"cpu": (DIGITS,), "paper": (DIGITS,)},
    steps=4,
    seeds=2,
    paper={"digits@20": {"supervised": (30.0, 1.5)}},
    settings=SHORT,
)


def cell(method: str = "supervised", seed: int = 0, **changes: Any) -> Cell:
    """A cell of a few steps."""
    return Cell("other", DIGITS, method, seed, settings=SHORT | {"steps": 4} | changes)


FEW_STEPS = Table("few", "A few steps", (Row("fixmatch-ads", None, {"steps": 3}),), {"paper": (DIGITS,)}, steps=3)
"""In the paper's protocol steps are its preset's, but for a row that has its own."""

if __name__ == "__main__":
    TABLES["few"] = FEW_STEPS
    sys.exit(main(["reproduce", "few", *sys.argv[1:]]))
