"""Not in the paper: what FixMatch-ADS's lead over FixMatch is made of.

    halfsure reproduce parts --seeds 5 --budget 60m

From FixMatch to FixMatch-ADS one thing at a time, all at the winning rate and weight: the threshold (0.95, 0.8, none),
a soft target in its place (`fixmatch-sh`), the map (`fixmatch-ads` is `fixmatch-sh` in sparsemax), the target's power r
(1 is no sharpening), and the distance (l2 has five times the weight, which makes it as steep as the sparsemax loss).

cpu: MNIST with 40 labels, 2,000 steps, a minute or two a run on one core; 50 runs for five seeds.
"""

from halfsure.paper.cells import Column
from halfsure.paper.table import Row, Table

__all__ = ["PARTS"]

BASE, ADS = "fixmatch", "fixmatch-ads"
NONE = {"threshold": 0.0}

PARTS = Table(
    "parts",
    "What FixMatch-ADS is made of",
    (
        Row(BASE),
        Row(BASE, BASE, {"threshold": 0.8}),
        Row(BASE, BASE, NONE),
        Row("fixmatch-sh", BASE, control="fixmatch:threshold=0"),
        Row("fixmatch@sparsemax", BASE),
        Row("fixmatch@sparsemax", BASE, NONE, control="fixmatch:threshold=0"),
        Row(ADS, BASE, control="fixmatch-sh"),
        Row(ADS, BASE, {"r": 1.0}, control=ADS),
        Row(ADS, BASE, {"r": 4.0}, control=ADS),
        Row(ADS, BASE, {"distance": "l2", "weight": 5.0}, control=ADS),
    ),
    {"paper": (Column("cifar10", 40),), "cpu": (Column("mnist", 40),)},
    steps=2000,
    settings={"evaluations": 10, "test_sample": 2000, "lr": 4e-3, "weight": 1.0},
)
