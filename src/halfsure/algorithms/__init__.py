"""A batch → losses: `step(model, batch)`, one file an algorithm."""

from halfsure.algorithms.algorithm import Algorithm, Losses
from halfsure.algorithms.fixmatch import FixMatch
from halfsure.algorithms.mixmatch import MixMatch
from halfsure.algorithms.objective import Objective, objective, ramp
from halfsure.algorithms.supervised import Supervised
from halfsure.algorithms.vat import VAT
from halfsure.views.batch import Batch, Draws

__all__ = [
    "VAT",
    "Algorithm",
    "Batch",
    "Draws",
    "FixMatch",
    "Losses",
    "MixMatch",
    "Objective",
    "Supervised",
    "objective",
    "ramp",
]
