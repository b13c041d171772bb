"""Table I: five strategies added to VAT, and what sparsemax does by itself.

    halfsure reproduce table1 --seeds 5 --budget 90m
    halfsure reproduce table1 --protocol paper --list      # one command a cell

The paper has MNIST with 20 labels and CIFAR-10 with 4,000, test error in %:

    VAT 23.76 ± 1.18, +ME 20.64 ± 1.28, +SH 18.45 ± 1.09, +PL 19.72 ± 1.35, +NS 19.36 ± 1.17, +ADS 14.52 ± 1.03
    VAT 14.72 ± 0.23, +ME 14.34 ± 0.18, +SH 12.90 ± 0.25, +PL 14.15 ± 0.14, +NS 13.94 ± 0.10, +ADS 12.40 ± 0.31

cpu: MNIST with 20 and 100 labels, `conv7-16` without norm layers, and CIFAR-10 with 4,000, where it has batch norm and
is in bfloat16; 3,000 steps of 64 + 64, some four minutes a run on one core; 135 runs for five seeds, eight hours of one
core. `supervised` is there with its own learning rate and with VAT's on MNIST. paper: 500,000 steps, days on a GPU a
run.
"""

from halfsure.paper.cells import Column
from halfsure.paper.table import Row, Table, against, numbers
from halfsure.paper.tuning import STRATEGIES

__all__ = ["AS_VAT", "TABLE1"]

AS_VAT = {"optimizer": "adam", "lr": 3e-3, "schedule": "drop", "steps": 500_000}
"""What labels alone have at the paper's size where VAT is the base."""

TABLE1 = Table(
    "table1",
    "Table I: strategies on VAT",
    (
        Row("supervised", "vat", at_size=AS_VAT),
        Row("supervised", "vat", {"lr": 1e-3}, at_size=AS_VAT | {"lr": 1e-3}),
        Row("vat"),
        *against("vat", *STRATEGIES[:-1]),
        Row("vat+ads", "vat", control="vat@sparsemax"),
        Row("vat@sparsemax", "vat"),
    ),
    {
        "paper": (Column("mnist", 20), Column("cifar10", 4000)),
        "cpu": (Column("mnist", 20), Column("mnist", 100), Column("cifar10", 4000)),
    },
    steps=3000,
    paper=numbers(
        "mnist@20 cifar10@4000",
        """
        vat     23.76±1.18  14.72±0.23
        vat+me  20.64±1.28  14.34±0.18
        vat+sh  18.45±1.09  12.90±0.25
        vat+pl  19.72±1.35  14.15±0.14
        vat+ns  19.36±1.17  13.94±0.10
        vat+ads 14.52±1.03  12.40±0.31
        """,
    ),
    settings={"evaluations": 30, "from_start": True, "test_sample": 1000},
    families={"cifar10@4000": "cifar4000"},
)
