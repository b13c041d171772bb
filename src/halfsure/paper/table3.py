"""Table III: what of ADS's gain comes from sparsemax, and what from the target.

    halfsure reproduce table3 --seeds 2 --budget 4h
    halfsure reproduce table3 --protocol paper --list

The paper, CIFAR-10 with 4,000 labels, test error in %: VAT 14.72, in sparsemax 13.15, with +ME 13.59, +PL 14.26, +NS
13.02, ADS 12.40. FixMatch 5.92, in sparsemax (with its own pseudo-labels) 5.75, with +NS 5.44, ADS 5.21. Labels alone
are ours: does sparsemax need unlabeled samples to help?

cpu, 3,000 steps of `conv7-16`, one to five minutes a run on one core, twelve runs a seed: MNIST with 100 labels,
without norm layers; and the paper's column, with batch norm and in bfloat16. Some of the runs are Table I's. VAT,
strategies in either map and FixMatch are tuned in both; the weight of FixMatch's +NS was not.

    halfsure reproduce table3 --column mnist@100 --seeds 5 --budget 2h
"""

from halfsure.paper.cells import Column
from halfsure.paper.table import Row, Table, numbers
from halfsure.paper.table1 import AS_VAT, TABLE1
from halfsure.paper.tuning import IN_SPARSEMAX

__all__ = ["TABLE3"]

TABLE3 = Table(
    "table3",
    "Table III: ablation",
    (
        Row("supervised", at_size=AS_VAT),
        Row("supervised@sparsemax", "supervised", at_size=AS_VAT),
        Row("vat"),
        Row("vat@sparsemax", "vat"),
        *(Row(method, "vat", control="vat@sparsemax") for method in (*IN_SPARSEMAX, "vat+ads")),
        Row("fixmatch"),
        Row("fixmatch@sparsemax", "fixmatch"),
        Row("fixmatch@sparsemax+ns", "fixmatch", {"distill_weight": 0.1}, control="fixmatch@sparsemax"),
        Row("fixmatch-ads", "fixmatch", control="fixmatch@sparsemax"),
    ),
    {"paper": (Column("cifar10", 4000),), "cpu": (Column("mnist", 100), Column("cifar10", 4000))},
    steps=TABLE1.steps,
    seeds=2,
    paper=numbers(
        "cifar10@4000",
        """
        vat                   14.72
        vat@sparsemax         13.15
        vat@sparsemax+me      13.59
        vat@sparsemax+pl      14.26
        vat@sparsemax+ns      13.02
        vat+ads               12.40
        fixmatch               5.92
        fixmatch@sparsemax     5.75
        fixmatch@sparsemax+ns:distill_weight=0.1  5.44
        fixmatch-ads           5.21
        """,
    ),
    settings=TABLE1.settings,
    families=TABLE1.families,
)
