"""Every experiment by its name, in the order of their worth."""

from halfsure.paper.parts import PARTS
from halfsure.paper.robustness import ROBUSTNESS
from halfsure.paper.safety import SAFETY
from halfsure.paper.svhn import SVHN
from halfsure.paper.table1 import TABLE1
from halfsure.paper.table2 import TABLE2
from halfsure.paper.table3 import TABLE3
from halfsure.paper.table4 import TABLE4

__all__ = ["TABLES"]

TABLES = {table.name: table for table in (TABLE1, TABLE4, TABLE2, SVHN, ROBUSTNESS, PARTS, SAFETY, TABLE3)}
