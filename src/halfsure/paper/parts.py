"""Not in the paper: what the leads of FixMatch-ADS over FixMatch and of MixMatch-ADS over MixMatch are made of.

    halfsure reproduce parts --seeds 5 --budget 60m

From FixMatch to FixMatch-ADS one thing at a time, all at the winning rate and weight: the threshold (0.95, 0.8, none),
a soft target in its place (`fixmatch-sh`), the map (`fixmatch-ads` is `fixmatch-sh` in sparsemax), the target's power r
(1 is no sharpening), and the distance (l2 has five times the weight, which makes it as steep as the sparsemax loss).
From MixMatch to MixMatch-ADS there are two: the map, and the distance of predictions from guesses, MixMatch's own `l2`
or the map's loss `fy`. Each distance has the weight that was chosen for it. Two rows are in bfloat16, in which the
tables of colour images are run: whether that changes anything.

cpu: MNIST with 40 labels, 2,000 steps, a minute or two a run on one core; for five seeds 55 runs beside Table IV's.
"""

from halfsure.paper.cells import Column
from halfsure.paper.table import Row, Table

__all__ = ["PARTS"]

BASE, ADS = "fixmatch", "fixmatch-ads"
NONE = {"threshold": 0.0}
BF16 = {"precision": "bf16"}
L2, FY = {"weight": 3.0}, {"weight": 0.3}
AT_SIZE = {"l2": {"weight": 75.0}, "fy": {"weight": 15.0}}

PARTS = Table(
    "parts",
    "What ADS's leads are made of",
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
        Row(BASE, BASE, BF16),
        Row(ADS, BASE, BF16, control=ADS),
        Row("mixmatch", None, L2, AT_SIZE["l2"], called="l2"),
        Row("mixmatch", "mixmatch:l2", {**FY, "distance": "fy"}, AT_SIZE["fy"], called="fy"),
        Row("mixmatch-ads", "mixmatch:l2", {**L2, "distance": "l2"}, AT_SIZE["l2"], called="l2"),
        Row("mixmatch-ads", "mixmatch:l2", FY, AT_SIZE["fy"], called="fy", control="mixmatch:fy"),
    ),
    {"paper": (Column("cifar10", 40),), "cpu": (Column("mnist", 40),)},
    steps=2000,
    settings={"evaluations": 10, "test_sample": 2000, "lr": 4e-3, "weight": 1.0},
)
