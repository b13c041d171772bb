"""J = J_S + α J_C + β J_D: where losses a sample become the one number that is minimised."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from halfsure.algorithms.algorithm import Algorithm, Losses

__all__ = ["Objective", "objective", "ramp"]

Ramp = Literal["linear", "exp"]


@dataclass(frozen=True)
class Objective:
    """The total and what it is made of, each a scalar."""

    total: Tensor
    supervised: Tensor
    consistency: Tensor
    distillation: Tensor


def objective(losses: Losses, algorithm: Algorithm, ramped: float, means: Callable[..., Sequence[Tensor]]) -> Objective:
    """Average each term over its samples and add the terms up, α and β scaled by the ramp.

    `means` averages the three terms, over the samples of all ranks; a term without samples counts as 0.
    """
    supervised, consistency, distillation = means(losses.supervised, losses.consistency, losses.distillation)
    unlabeled = algorithm.weight * consistency + algorithm.distill_weight * distillation
    return Objective(supervised + ramped * unlabeled, supervised, consistency, distillation)


def ramp(progress: float, length: float, shape: Ramp = "linear") -> float:
    """How much of α and β counts at this part of the run: rising to 1 over `length` of it, from 0 or from exp(−5)."""
    if progress >= length:
        return 1.0
    if shape not in ("linear", "exp"):
        raise ValueError(f"a ramp is linear or exp, got {shape!r}")
    done = progress / length
    return done if shape == "linear" else math.exp(-5 * (1 - done) ** 2)
