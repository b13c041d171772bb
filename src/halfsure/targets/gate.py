"""What every gate shares: it says how much each unlabeled sample counts."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from halfsure.settings.registry import Part
from halfsure.simplex import Map

__all__ = ["Clock", "Gate", "Seen", "ones"]


@dataclass(frozen=True)
class Clock:
    """How far a run is."""

    step: int = 0
    """Updates that are done."""
    steps: int = 1
    """Updates of the whole run."""

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        return self.step / self.steps


@dataclass(frozen=True)
class Seen:
    """What a step has seen beside the predictions, of all ranks together."""

    indices: Tensor
    """(m,): which samples of the data the unlabeled predictions are of."""
    labeled: Tensor
    """(n, classes): probabilities of the labeled samples."""
    labels: Tensor
    """(n,): their classes."""
    clock: Clock


class Gate(Part, nn.Module):
    """Probabilities → weights from 0 to 1. A subclass gives `weigh`, and `observe` if it learns from what it sees.

    State belongs into buffers: it is then saved, moved and resumed by itself. `observe` is called once a training step,
    with the samples of all ranks, and never at evaluations.
    """

    role = "gate"

    @property
    def open(self) -> bool:
        """Whether every sample counts in full, whatever is predicted."""
        return False

    def suits(self, map: Map) -> None:
        """Refuse a map in which the gate has no meaning."""

    def prepare(self, classes: int, samples: int) -> None:
        """Make the buffers that depend on the data; `samples` are all training samples."""

    def observe(self, probs: Tensor, seen: Seen) -> None:
        """Learn from the predictions of a step, (m, classes), before they are weighed."""

    def weigh(self, probs: Tensor) -> Tensor:
        """How much each sample counts; nothing changes by asking. (m, classes) → (m,)."""
        raise NotImplementedError(f"{type(self).__name__} does not say how much a sample counts")


def ones(probs: Tensor) -> Tensor:
    """A weight of 1 for every sample. (m, classes) → (m,)."""
    return torch.ones(probs.shape[:-1], dtype=probs.dtype, device=probs.device)
