"""Pseudo-labels: towards the best class alone, where it is sure enough."""

import torch
from torch import Tensor

from halfsure.settings import register
from halfsure.simplex import Map
from halfsure.targets.gate import Gate
from halfsure.targets.gates import Fixed
from halfsure.targets.strategy import Strategy

__all__ = ["PseudoLabel"]


@register
class PseudoLabel(Strategy):
    """Pull p towards its best class where `max p ≥ threshold`; 0 takes every sample. (batch, classes) → scalar.

    Samples below the threshold count as 0 in the mean.

    Examples:
        >>> import torch, halfsure
        >>> strategy = halfsure.PseudoLabel(threshold=0.95)
        >>> strategy.target(torch.tensor([[0.0, 9.0], [0.0, 1.0]]))
        Target(probs=tensor([[0., 1.],
                [0., 1.]]), weight=tensor([1., 0.]))
    """

    name = "pl"
    about = "pseudo-label: towards the best class, where the gate lets the sample through"
    gated = Fixed.name

    def __init__(
        self,
        threshold: float = Fixed.Settings.threshold,
        map: Map | str | None = None,
        gate: Gate | None = None,
    ) -> None:
        super().__init__(map, gate or Fixed(threshold))

    @property
    def threshold(self) -> float:
        """The threshold of its gate, where the gate has one."""
        return float(getattr(self.gate, "threshold"))  # noqa: B009 - an error of its own where it has none

    def goal(self, probs: Tensor) -> Tensor:
        """One-hot of the best class; a NaN row stays NaN. (batch, classes) → (batch, classes)."""
        best = probs.max(-1, keepdim=True)
        return (0 * probs).scatter_add(-1, best.indices, torch.ones_like(best.values))
