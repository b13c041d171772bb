"""A batch → losses: `step(context)`, one file per algorithm."""

from halfsure.algorithms.algorithm import (
    Algorithm,
    AlgorithmSettings,
    TargetedAlgorithm,
    TargetedSettings,
    WeightedSettings,
)
from halfsure.algorithms.context import Context, Facts, features, forward
from halfsure.algorithms.fixmatch import FixMatch
from halfsure.algorithms.losses import Losses, Objective, objective, ramp
from halfsure.algorithms.mixmatch import MixMatch
from halfsure.algorithms.supervised import Supervised
from halfsure.algorithms.vat import VAT
from halfsure.settings.registry import discover

__all__ = [
    "VAT",
    "Algorithm",
    "AlgorithmSettings",
    "Context",
    "Facts",
    "FixMatch",
    "Losses",
    "MixMatch",
    "Objective",
    "Supervised",
    "TargetedAlgorithm",
    "TargetedSettings",
    "WeightedSettings",
    "features",
    "forward",
    "objective",
    "ramp",
]

discover(__name__)
