"""What every strategy shares: logits go in, losses a sample or targets come out."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from halfsure._checks import check_logits, check_probs
from halfsure.simplex import SOFTMAX, Map, get_map, narrow, widen

__all__ = ["Strategy", "Target", "ones"]


class Target(NamedTuple):
    """What a strategy wants the predictions to become; it carries no gradient."""

    probs: Tensor
    """(batch, classes): the wanted probabilities."""
    weight: Tensor
    """(batch,): 1 where the strategy acts, 0 where it leaves the sample alone."""


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


def ones(probs: Tensor) -> Tensor:
    """A weight of 1 for every sample. (batch, classes) → (batch,)."""
    return torch.ones(probs.shape[:-1], dtype=probs.dtype, device=probs.device)
