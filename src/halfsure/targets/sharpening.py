"""Sharpening: towards a power of the prediction, and the distance to it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from torch import Tensor

from halfsure import kernels
from halfsure._checks import check_number, check_probs
from halfsure.settings import Between, Settings, register
from halfsure.simplex import SPARSEMAX, Map, fenchel_young, narrow, widen
from halfsure.targets.gate import Gate
from halfsure.targets.strategy import Strategy

__all__ = ["FLATTENS", "Distance", "Power", "Sharpening", "kl", "kl_divergence", "self_distillation", "sharpen"]

Distance = Callable[[Map, Tensor, Tensor, Tensor], Tensor]
"""(map, logits, probs, targets) → losses: how far the prediction `probs = map(logits)` is from its targets."""


FLATTENS = "a power below 1 would flatten, not sharpen"
Power = Annotated[float, Between(1, why=FLATTENS)]


def sharpen(probs: Tensor, r: float = 2.0, dim: int = -1) -> Tensor:
    """Raise probabilities to the power r ≥ 1 and renormalise. (…, classes, …) → (…, classes, …).

    Zeros stay zero, order and ties are kept, and r = 1 changes nothing.

    Examples:
        >>> import torch, halfsure
        >>> halfsure.sharpen(torch.tensor([[0.6, 0.3, 0.1, 0.0]]), r=2.0)
        tensor([[0.7826, 0.1957, 0.0217, 0.0000]])
    """
    r = check_number("r", r, 1, why=FLATTENS)
    check_probs("probs", probs, dim)
    return narrow(_sharpen(widen(probs), r, dim), probs)


def kl(targets: Tensor, probs: Tensor) -> Tensor:
    """KL(q‖p) per sample, over the support of the targets q. (…, classes) → (…)."""
    # Eq. 7: where q = 0 nothing is added. Both sides are replaced there, for 0 · log 0 has a NaN gradient.
    inside = targets > 0
    return (targets * (targets.where(inside, 1).log() - probs.where(inside, 1).log())).sum(-1)


def kl_divergence(map: Map, logits: Tensor, probs: Tensor, targets: Tensor) -> Tensor:
    """Eq. 7's distance, `KL(targets‖probs)`: infinite where a target has left the prediction's support."""
    return kl(targets, probs)


@dataclass(frozen=True)
class _Settings(Settings):
    temperature: Annotated[float, Between(1e-9, 1, why="a temperature above 1 would flatten")] = 0.5
    """Temperature of sh: the target is p^(1/temperature), renormalised."""


@register
class Sharpening(Strategy):
    """Pull p towards `p^(1/λ)`, renormalised, λ being the temperature. (batch, classes) → scalar.

    The distance is the map's own Fenchel–Young loss, in softmax the KL. In sparsemax with the KL this is ADS.

    Examples:
        >>> import torch, halfsure
        >>> strategy = halfsure.Sharpening(temperature=0.5)
        >>> strategy.target(torch.tensor([[1.0, 0.0]])).probs
        tensor([[0.8808, 0.1192]])
        >>> strategy.losses(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        tensor([0.0671, 0.0000])
    """

    name = "sh"
    about = "sharpening: towards p^(1/temperature), every class"
    Settings: ClassVar[Any] = _Settings

    def __init__(
        self,
        temperature: float = _Settings.temperature,
        map: Map | str | None = None,
        distance: Distance = fenchel_young,
        gate: Gate | None = None,
    ) -> None:
        super().__init__(map, gate)
        self.r = 1 / _Settings(temperature).temperature
        if not callable(distance):
            raise TypeError(f"distance must be a function (map, logits, probs, targets) → losses, got {distance!r}")
        self.distance = distance

    @property
    def temperature(self) -> float:
        """λ, the inverse of the power r."""
        return 1 / self.r

    def cost(self, logits: Tensor) -> Tensor:
        """How far predictions are from their own sharpened selves. (batch, classes) → (batch,)."""
        return self_distillation(self.map, logits, self.r, self.distance)

    def mean_cost(self, logits: Tensor) -> Tensor:
        """The same on average, by one kernel where there is one. (batch, classes) → scalar."""
        return self_distillation(self.map, logits, self.r, self.distance, mean=True)

    def goal(self, probs: Tensor) -> Tensor:
        """p^r, renormalised. (batch, classes) → (batch, classes)."""
        return _sharpen(probs, self.r)


def self_distillation(map: Map, logits: Tensor, r: float, distance: Distance, *, mean: bool = False) -> Tensor:
    """How far predictions are from their own sharpened, detached selves. (batch, classes) → (batch,) or their mean."""
    if map.name == SPARSEMAX.name and r == 2 and distance is kl_divergence and kernels.usable(logits):
        return kernels.ads_loss(logits, mean=mean)
    probs = map(logits)
    targets = _sharpen(probs.detach(), r)
    losses = distance(map, logits, probs, targets)
    return losses.mean() if mean else losses


def _sharpen(probs: Tensor, r: float, dim: int = -1) -> Tensor:
    # Relative to the largest no power can underflow for a whole row. The scale cancels, and so does its gradient.
    powers = (probs / probs.amax(dim, keepdim=True).detach()) ** r
    return powers / powers.sum(dim, keepdim=True)
