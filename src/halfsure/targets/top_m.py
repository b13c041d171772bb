"""A fixed number of candidates: ADS's rival."""

from dataclasses import dataclass

import torch
from torch import Tensor

from halfsure._checks import check_count
from halfsure.settings import Settings, register
from halfsure.simplex import Map
from halfsure.targets.gate import Gate
from halfsure.targets.sharpening import Power, Sharpening

__all__ = ["TopM"]


@dataclass(frozen=True)
class _Settings(Settings):
    r: Power = 2.0
    """Power of topM: the target is p^r over the M best classes, renormalised."""


@register
class TopM(Sharpening):
    """ADS's rival with a fixed number of candidates: sharpen over the m largest logits. (batch, classes) → scalar.

    The other logits are masked before the map; of equal ones at the edge the sort decides which stay.

    Examples:
        >>> import torch, halfsure
        >>> halfsure.TopM(2).target(torch.tensor([[1.0, 0.0, -1.0]])).probs
        tensor([[0.8808, 0.1192, 0.0000]])
    """

    name = "top"
    about = "fixed candidates: towards p^r over the M best classes, as in top3"
    numbered = "m"
    Settings = _Settings

    def __init__(self, m: int, r: float = _Settings.r, map: Map | str | None = None, gate: Gate | None = None) -> None:
        super().__init__(map=map, gate=gate)
        self.r = _Settings(r).r
        self.m = check_count("m", m, 1)

    def cost(self, logits: Tensor) -> Tensor:
        """As Sharpening's, over the leaders. (batch, classes) → (batch,)."""
        return super().cost(self._leaders(logits))

    def mean_cost(self, logits: Tensor) -> Tensor:
        """The same on average. (batch, classes) → scalar."""
        return super().mean_cost(self._leaders(logits))

    def predict(self, logits: Tensor) -> Tensor:
        """The map over the leaders. (batch, classes) → (batch, classes)."""
        return self.map(self._leaders(logits))

    def goal(self, probs: Tensor) -> Tensor:
        """The m best of a prediction, sharpened; after `predict` there are no others. (batch, classes) → the same."""
        return super().goal(self._leaders(probs, 0.0))

    def __repr__(self) -> str:
        return super().__repr__().replace("(", f"(m={self.m}, ", 1)

    def _leaders(self, values: Tensor, masked: float = -torch.inf) -> Tensor:
        classes = values.shape[-1]
        if self.m > classes:
            raise ValueError(f"TopM keeps {self.m} classes, but there are only {classes}; choose a smaller m")
        kept = torch.zeros_like(values).scatter(-1, values.topk(self.m, sorted=False).indices, 1).bool()
        sound = values.amax(-1, keepdim=True).isfinite()  # a bad row stays whole, so that all of it becomes NaN
        return values.masked_fill(~kept & sound, masked)
