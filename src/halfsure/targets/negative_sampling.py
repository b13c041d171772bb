"""Negative sampling: less of the classes that are negligible; a loss without an explicit target."""

import torch
from torch import Tensor

from halfsure._checks import check_number
from halfsure.simplex import SOFTMAX, Map
from halfsure.targets.strategy import Strategy

__all__ = ["NegativeSampling"]


class NegativeSampling(Strategy):
    """Push down the classes below the threshold: `−log(1 − Σ_{p_i < τ} p_i)`. (batch, classes) → scalar.

    With more than 1/τ classes an unsure prediction can lie below the threshold everywhere. It then names no
    class to prefer: the sample counts as 0, where the formula would give infinity.

    Examples:
        >>> import torch, halfsure
        >>> halfsure.NegativeSampling(threshold=0.04).losses(torch.tensor([[4.0, 0.0], [1.0, 0.0]]))
        tensor([0.0181, 0.0000])
    """

    settings = ("threshold",)

    def __init__(self, threshold: float = 0.04, map: Map | str = SOFTMAX) -> None:
        super().__init__(map)
        self.threshold = check_number("threshold", threshold, 0, 1)

    def _losses(self, logits: Tensor) -> Tensor:
        probs = self.map(logits)
        negligible = probs.where(~(probs >= self.threshold), 0).sum(-1)  # written so that NaN stays in the sum
        none_left = (probs < self.threshold).all(-1)
        return -torch.log1p(-negligible.where(~none_left, 0))
