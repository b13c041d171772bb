"""J = J_S + α J_C + β J_D + …: losses per sample, and where they become the one number that is minimised."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

__all__ = ["Losses", "Objective", "objective", "ramp"]

Ramp = Literal["linear", "exp"]


class Losses:
    """The terms of the objective by their names, one loss per sample each.

    `supervised` (J_S), `consistency` (J_C: one for every prediction that is asked to agree with another) and
    `distillation` (J_D: added strategies, summed) are always there, empty if a method does not have them. An algorithm
    may add terms of its own: `Losses(supervised=…, rotation=…)`, weighted by its attribute `rotation_weight`, or 1.
    """

    def __init__(self, *, supervised: Tensor, diagnostics: Mapping[str, Tensor] | None = None, **terms: Tensor) -> None:
        empty = supervised[:0]
        self.terms: dict[str, Tensor] = {"supervised": supervised, "consistency": empty, "distillation": empty, **terms}
        self.diagnostics = dict(diagnostics or {})
        """What is worth watching, one value per sample; the mean is reported."""

    def __getattr__(self, name: str) -> Tensor:
        if name != "terms" and name in self.terms:
            return self.terms[name]
        raise AttributeError(f"there is no loss term {name!r}")


@dataclass(frozen=True)
class Objective:
    """The total and the terms that it is made of, each a scalar."""

    total: Tensor
    terms: dict[str, Tensor]


def objective(
    losses: Losses, weights: Mapping[str, float], ramped: float, means: Callable[..., Sequence[Tensor]]
) -> Objective:
    """Average each term over its samples and add them up; all but the supervised one are weighted and ramped.

    `means` averages terms, over the samples of all ranks; a term without samples counts as 0.
    """
    terms = dict(zip(losses.terms, means(*losses.terms.values()), strict=True))
    unlabeled: Any = sum(weights.get(name, 1.0) * term for name, term in terms.items() if name != "supervised")
    return Objective(terms["supervised"] + ramped * unlabeled, terms)


def ramp(progress: float, length: float, shape: Ramp = "linear") -> float:
    """How much of the weights counts by now: rising to 1 over `length` of the run, from 0 or from exp(−5)."""
    if progress >= length:
        return 1.0
    if shape not in ("linear", "exp"):
        raise ValueError(f"a ramp is linear or exp, got {shape!r}")
    done = progress / length
    return done if shape == "linear" else math.exp(-5 * (1 - done) ** 2)
