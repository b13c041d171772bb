"""Tables II and IV on SVHN again, with a network that learns it in so few steps.

    halfsure reproduce svhn --column svhn@250 --seeds 3 --budget 60m

Table II's own column of SVHN with 250 labels has CIFAR-10's network and settings, and there no FixMatch is better than
labels alone. On validation samples a smaller network without norm layers was; here it has trials of its own, and twice
the steps. The paper's numbers are those of its two tables.

cpu: SVHN with 40, 250 and 1,000 labels (where only a part of SVHN is there, that part), `conv7-16`, 6,000 steps of
64 + 64 (of 40 + 64, as there are no more labels), one to four minutes a run on one core, 18 runs a column for three
seeds. paper: the columns of Tables II and IV.
"""

from halfsure.paper.cells import Column
from halfsure.paper.table import Table
from halfsure.paper.table2 import TABLE2
from halfsure.paper.table4 import TABLE4

__all__ = ["SVHN"]

COLUMNS = (Column("svhn", 40), Column("svhn", 250), Column("svhn", 1000))
NUMBERS = {**TABLE2.paper, **TABLE4.paper}
ROWS = {row.name for row in TABLE4.rows}

SVHN = Table(
    "svhn",
    "Tables II and IV on SVHN, with a smaller network",
    TABLE4.rows,
    {"paper": (), "cpu": COLUMNS},
    steps=6000,
    seeds=3,
    paper={name: {row: NUMBERS[name][row] for row in NUMBERS[name] if row in ROWS} for name in map(str, COLUMNS)},
    families={"svhn@40": "svhn", "svhn@250": "svhn", "svhn@1000": "svhn1000"},
)
