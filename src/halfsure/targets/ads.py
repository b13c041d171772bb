"""ADaptive Sharpening: the sparse map picks each sample's candidates, and they are sharpened."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from halfsure import kernels
from halfsure._checks import check_logits, check_number
from halfsure.settings import Settings, register
from halfsure.simplex import SOFTMAX, SPARSEMAX, Map, narrow, widen
from halfsure.targets.gate import Gate
from halfsure.targets.sharpening import FLATTENS, Power, Sharpening, kl_divergence, self_distillation

__all__ = ["ADS", "ads_loss"]


@dataclass(frozen=True)
class _Settings(Settings):
    r: Power = 2.0
    """Power of ads: the target is p^r over the sample's own candidates, renormalised."""


@register
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

    name = "ads"
    about = "adaptive sharpening: towards p^r over the sample's own candidates"
    home = SPARSEMAX
    Settings = _Settings

    def __init__(self, r: float = _Settings.r, map: Map | str | None = None, gate: Gate | None = None) -> None:
        super().__init__(map=map, distance=kl_divergence, gate=gate)
        self.r = _Settings(r).r

    @classmethod
    def suits(cls, map: Map) -> None:
        """In softmax it would be plain sharpening."""
        if map == SOFTMAX:
            raise ValueError(
                "adaptive sharpening needs a map that leaves classes out; in softmax it is plain sharpening: use sh in "
                "its place, as in fixmatch-sh or vat+sh, or omit @softmax"
            )


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
    loss = self_distillation(SPARSEMAX, widen(logits), r, kl_divergence, mean=reduction == "mean")
    return narrow(loss.sum() if reduction == "sum" else loss, logits)
