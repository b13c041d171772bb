"""Probabilities → target and loss: the ways to make a model surer on samples that carry no label.

A strategy looks at the logits of unlabeled samples and says what the prediction should become. `losses(logits)`
gives a loss a sample, the call itself their mean, and `target(logits)` the goal where there is an explicit one.

| strategy         | pulls the prediction p towards                                                |
|------------------|-------------------------------------------------------------------------------|
| MinEntropy       | whatever lowers its Shannon entropy; no explicit target                        |
| Sharpening       | p^(1/λ), renormalised                                                          |
| PseudoLabel      | its best class alone, where that is sure enough                                |
| NegativeSampling | less of the classes it thinks negligible; no explicit target                   |
| ADS              | p², renormalised, p being sparse: only the sample's own candidates take part   |
| TopM             | p², renormalised, over a fixed number of candidates                            |

Each works in any map of `halfsure.simplex`.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from halfsure import kernels
from halfsure._checks import check_count, check_logits, check_number, check_probs
from halfsure.simplex import SOFTMAX, SPARSEMAX, Map, fenchel_young, get_map, narrow, negative_shannon, widen

__all__ = [
    "ADS",
    "MinEntropy",
    "NegativeSampling",
    "PseudoLabel",
    "Sharpening",
    "Strategy",
    "Target",
    "TopM",
    "ads_loss",
    "kl",
    "sharpen",
]

Distance = Callable[[Map, Tensor, Tensor, Tensor], Tensor]
"""(map, logits, probs, targets) → losses: how far the prediction `probs = map(logits)` is from its targets."""

FLATTENS = "a power below 1 would flatten, not sharpen"


class Target(NamedTuple):
    """What a strategy wants the predictions to become; it carries no gradient."""

    probs: Tensor
    """(batch, classes): the wanted probabilities."""
    weight: Tensor
    """(batch,): 1 where the strategy acts, 0 where it leaves the sample alone."""


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


def ads_loss(logits: Tensor, r: float = 2.0, reduction: Literal["mean", "sum", "none"] = "mean") -> Tensor:
    """ADaptive Sharpening of unlabeled predictions. (batch, classes) → scalar, or (batch,) for "none".

    `KL(q‖p)` with `p = sparsemax(z)` and `q = sharpen(p, r)`, q detached. For r = 2 its gradient is
    `(1/m − p_i)/Σp²` on the m candidates and zero elsewhere. A sample whose candidates are equally likely,
    a single one above all, is left alone.

    Examples:
        >>> import torch, halfsure
        >>> logits = torch.tensor([[3.0, 0.0, 0.0], [0.5, 0.0, -2.0]], requires_grad=True)
        >>> halfsure.ads_loss(logits, reduction="none").detach()
        tensor([0.0000, 0.0725])
        >>> halfsure.ads_loss(logits).backward()
        >>> logits.grad
        tensor([[ 0.0000,  0.0000,  0.0000],
                [-0.2000,  0.2000,  0.0000]])
    """
    if r == 2 and reduction == "mean" and kernels.usable(logits) and logits.ndim == 2:
        return kernels.ads_loss(logits, mean=True)  # the usual case, without asking everything twice
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'reduction must be "mean", "sum" or "none", got {reduction!r}')
    check_logits(logits)
    r = check_number("r", r, 1, why=FLATTENS)
    loss = _self_distillation(SPARSEMAX, widen(logits), r, kl_divergence, mean=reduction == "mean")
    return narrow(loss.sum() if reduction == "sum" else loss, logits)


def kl(targets: Tensor, probs: Tensor) -> Tensor:
    """KL(q‖p) per sample, over the support of the targets q. (…, classes) → (…)."""
    # Eq. 7: where q = 0 nothing is added. Both sides are replaced there, for 0 · log 0 has a NaN gradient.
    inside = targets > 0
    return (targets * (targets.where(inside, 1).log() - probs.where(inside, 1).log())).sum(-1)


def kl_divergence(map: Map, logits: Tensor, probs: Tensor, targets: Tensor) -> Tensor:
    """Eq. 7's distance, `KL(targets‖probs)`: infinite where a target has left the prediction's support."""
    return kl(targets, probs)


class Strategy(nn.Module):
    """A way to distil a surer prediction from logits; `strategy(logits)` is the mean loss.

    A subclass gives the losses of widened logits, and its target probabilities where it has such.
    """

    map: Map
    """The map it lives in."""
    settings: tuple[str, ...] = ()
    """The attributes that tell two strategies of one class and map apart."""

    def __init__(self, map: Map | str = SOFTMAX) -> None:
        super().__init__()
        self.map = get_map(map)

    def losses(self, logits: Tensor) -> Tensor:
        """One loss a sample. (batch, classes) → (batch,)."""
        check_logits(logits)
        return narrow(self._losses(widen(logits)), logits)

    def forward(self, logits: Tensor) -> Tensor:
        """The mean loss over all samples, NaN for an empty batch. (batch, classes) → scalar."""
        check_logits(logits)
        return narrow(self._mean(widen(logits)), logits)

    def target(self, logits: Tensor) -> Target:
        """What the predictions should become, detached. (batch, classes) → Target."""
        check_logits(logits)
        probs, weight = self._target(widen(logits.detach()))
        return Target(narrow(probs, logits), narrow(weight, logits))

    def guess(self, probs: Tensor) -> Target:
        """What a given prediction should become, detached, such as the mean over views. (batch, classes) → Target."""
        check_probs("probs", probs)
        wanted, weight = self._guess(widen(probs.detach()))
        return Target(narrow(wanted, probs), narrow(weight, probs))

    def extra_repr(self) -> str:
        """Settings and map, for `repr`."""
        return ", ".join([*(f"{name}={getattr(self, name):g}" for name in self.settings), f"map={self.map.name}"])

    def _losses(self, logits: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say what it costs")

    def _mean(self, logits: Tensor) -> Tensor:
        return self._losses(logits).mean()

    def _target(self, logits: Tensor) -> Target:
        return self._guess(self.map(logits))

    def _guess(self, probs: Tensor) -> Target:
        raise ValueError(
            f"{type(self).__name__} has no explicit target: it lowers a quantity of the prediction itself. "
            "Add it as a loss (X+Y), or put Sharpening, PseudoLabel, ADS or TopM where a target is needed (X-Y)."
        )


class MinEntropy(Strategy):
    """Minimum entropy: `−Σ p log p`. (batch, classes) → scalar.

    Examples:
        >>> import torch, halfsure
        >>> halfsure.MinEntropy().losses(torch.tensor([[0.0, 0.0], [9.0, 0.0]]))
        tensor([0.6931, 0.0012])
    """

    def _losses(self, logits: Tensor) -> Tensor:
        return 0 - negative_shannon(self.map(logits))  # a minus sign would give −0 for sure predictions


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

    settings: tuple[str, ...] = ("temperature",)

    def __init__(self, temperature: float = 0.5, map: Map | str = SOFTMAX, distance: Distance = fenchel_young) -> None:
        super().__init__(map)
        self.r = 1 / check_number("temperature", temperature, 1e-9, 1, why="a temperature above 1 would flatten")
        if not callable(distance):
            raise TypeError(f"distance must be a function (map, logits, probs, targets) → losses, got {distance!r}")
        self.distance = distance

    @property
    def temperature(self) -> float:
        """λ, the inverse of the power r."""
        return 1 / self.r

    def _losses(self, logits: Tensor) -> Tensor:
        return _self_distillation(self.map, logits, self.r, self.distance)

    def _mean(self, logits: Tensor) -> Tensor:
        return _self_distillation(self.map, logits, self.r, self.distance, mean=True)

    def _guess(self, probs: Tensor) -> Target:
        return Target(_sharpen(probs, self.r), _ones(probs))


class ADS(Sharpening):
    """ADaptive Sharpening: pull a sparse p towards `p^r`, renormalised, r ≥ 1. (batch, classes) → scalar.

    The map picks each sample's candidates, so sure predictions are left alone and negligible classes masked out.
    The loss is `KL(q‖p)` over the candidates; its gradient is that of `−(1/r)·log Σ p^r`.

    Examples:
        >>> import torch, halfsure
        >>> logits = torch.tensor([[3.0, 0.0, 0.0], [0.5, 0.0, -2.0]])
        >>> halfsure.ADS().losses(logits)
        tensor([0.0000, 0.0725])
        >>> halfsure.ADS().target(logits).probs
        tensor([[1.0000, 0.0000, 0.0000],
                [0.9000, 0.1000, 0.0000]])
    """

    settings = ("r",)

    def __init__(self, r: float = 2.0, map: Map | str = SPARSEMAX) -> None:
        super().__init__(map=map, distance=kl_divergence)
        self.r = check_number("r", r, 1, why=FLATTENS)


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

    settings = ("threshold",)

    def __init__(self, threshold: float = 0.95, map: Map | str = SOFTMAX) -> None:
        super().__init__(map)
        self.threshold = check_number("threshold", threshold, 0, 1)

    def _losses(self, logits: Tensor) -> Tensor:
        probs = self.map(logits)
        targets, weight = self._guess(probs.detach())
        return weight * fenchel_young(self.map, logits, probs, targets)

    def _guess(self, probs: Tensor) -> Target:
        best = probs.max(-1, keepdim=True)
        one_hot = (0 * probs).scatter_add(-1, best.indices, torch.ones_like(best.values))  # a NaN row stays NaN
        return Target(one_hot, (best.values.squeeze(-1) >= self.threshold).to(probs.dtype))


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


def _self_distillation(map: Map, logits: Tensor, r: float, distance: Distance, *, mean: bool = False) -> Tensor:
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


def _ones(probs: Tensor) -> Tensor:
    return torch.ones(probs.shape[:-1], dtype=probs.dtype, device=probs.device)
