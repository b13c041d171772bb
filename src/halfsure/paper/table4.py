"""Table IV: as few labels as can be.

    halfsure reproduce table4 --column mnist@40 --seeds 5 --budget 90m
    halfsure reproduce table4 --protocol paper --list

The paper, test error in %: CIFAR-10 with 40 labels FixMatch 15.39, FixMatch-ADS 14.84; CIFAR-100 with 400 54.21 and
52.83; SVHN with 40 7.63 and 2.37.

cpu, with MixMatch and the control `fixmatch-sh` beside them, steps of 64 + 64 (of 10 or 40 + 64, as there are no more
labels): MNIST with 10 and 40 labels, `conv7-16` without norm layers, 2,000 steps, one to two minutes a run on one core,
30 runs a column for five seeds. SVHN with 40 labels is in the experiment `svhn`.
"""

from halfsure.paper.cells import Column
from halfsure.paper.table import Row, Table, numbers

__all__ = ["TABLE4"]

TABLE4 = Table(
    "table4",
    "Table IV: scarce labels",
    (
        Row("supervised", "fixmatch"),
        Row("mixmatch"),
        Row("mixmatch-ads", "mixmatch"),
        Row("fixmatch"),
        Row("fixmatch-sh", "fixmatch"),
        Row("fixmatch-ads", "fixmatch", control="fixmatch-sh"),
    ),
    {
        "paper": (Column("cifar10", 40), Column("cifar100", 400), Column("svhn", 40)),
        "cpu": (Column("mnist", 10), Column("mnist", 40)),
    },
    steps=2000,
    paper=numbers(
        "cifar10@40 cifar100@400 svhn@40",
        """
        fixmatch     15.39 54.21 7.63
        fixmatch-ads 14.84 52.83 2.37
        """,
    ),
)
