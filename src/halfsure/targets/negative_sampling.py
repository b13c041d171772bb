"""Negative sampling: less of the classes that are negligible; a loss without an explicit target."""

from dataclasses import dataclass

import torch
from torch import Tensor

from halfsure.settings import Fraction, Settings, register
from halfsure.simplex import Map
from halfsure.targets.gate import Gate
from halfsure.targets.strategy import Strategy

__all__ = ["NegativeSampling"]


@dataclass(frozen=True)
class _Settings(Settings):
    threshold: Fraction = 0.04
    """Threshold of ns: classes of a smaller probability are pushed down."""


@register
class NegativeSampling(Strategy):
    """Push down the classes below the threshold: `−log(1 − Σ_{p_i < τ} p_i)`. (batch, classes) → scalar.

    With more than 1/τ classes an unsure prediction can lie below the threshold everywhere. It then names no
    class to prefer: the sample counts as 0, where the formula would give infinity.

    Examples:
        >>> import torch, halfsure
        >>> halfsure.NegativeSampling(threshold=0.04).losses(torch.tensor([[4.0, 0.0], [1.0, 0.0]]))
        tensor([0.0181, 0.0000])
    """

    name = "ns"
    about = "negative sampling: less of classes with p < threshold"
    Settings = _Settings

    def __init__(
        self, threshold: float = _Settings.threshold, map: Map | str | None = None, gate: Gate | None = None
    ) -> None:
        super().__init__(map, gate)
        self.threshold = _Settings(threshold).threshold

    def cost(self, logits: Tensor) -> Tensor:
        """Minus the log of what is left to the other classes. (batch, classes) → (batch,)."""
        probs = self.map(logits)
        negligible = probs.where(~(probs >= self.threshold), 0).sum(-1)  # written so that NaN stays in the sum
        none_left = (probs < self.threshold).all(-1)
        return -torch.log1p(-negligible.where(~none_left, 0))
