"""A fixed number of candidates: ADS's rival."""

import torch
from torch import Tensor

from halfsure._checks import check_count, check_number
from halfsure.simplex import SOFTMAX, Map
from halfsure.targets.sharpening import FLATTENS, Sharpening
from halfsure.targets.strategy import Target

__all__ = ["TopM"]


class TopM(Sharpening):
    """ADS's rival with a fixed number of candidates: sharpen over the m largest logits. (batch, classes) → scalar.

    The other logits are masked before the map; of equal ones at the edge the sort decides which stay.

    Examples:
        >>> import torch, halfsure
        >>> halfsure.TopM(2).target(torch.tensor([[1.0, 0.0, -1.0]])).probs
        tensor([[0.8808, 0.1192, 0.0000]])
    """

    settings = ("m", "r")

    def __init__(self, m: int, r: float = 2.0, map: Map | str = SOFTMAX) -> None:
        super().__init__(map=map)
        self.r = check_number("r", r, 1, why=FLATTENS)
        self.m = check_count("m", m, 1)

    def _losses(self, logits: Tensor) -> Tensor:
        return super()._losses(self._leaders(logits))

    def _mean(self, logits: Tensor) -> Tensor:
        return super()._mean(self._leaders(logits))

    def _target(self, logits: Tensor) -> Target:
        return super()._target(self._leaders(logits))

    def _guess(self, probs: Tensor) -> Target:
        # The m best of a given prediction; after `_target` there are no others left.
        return super()._guess(self._leaders(probs, 0.0))

    def _leaders(self, values: Tensor, masked: float = -torch.inf) -> Tensor:
        classes = values.shape[-1]
        if self.m > classes:
            raise ValueError(f"TopM keeps {self.m} classes, but there are only {classes}; choose a smaller m")
        kept = torch.zeros_like(values).scatter(-1, values.topk(self.m, sorted=False).indices, 1).bool()
        sound = values.amax(-1, keepdim=True).isfinite()  # a bad row stays whole, so that all of it becomes NaN
        return values.masked_fill(~kept & sound, masked)
