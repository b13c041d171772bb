"""What a step sees, and the passes that algorithms have in common."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from halfsure.simplex import widen
from halfsure.targets import Clock
from halfsure.views.batch import Batch

__all__ = ["Context", "Facts", "Replay", "constant_weights", "features", "forward"]


@dataclass(frozen=True)
class Facts:
    """What is known before the first step, for parts that make their heads and tables by it."""

    classes: int
    samples: int
    """All training samples; the indices of a batch lie below it."""
    features: int | None = None
    """Size of what `model.features` returns; None where the network does not offer it."""


def _alone(rows: Tensor) -> Tensor:
    return rows


@dataclass(frozen=True)
class Context:
    """One step: the network, its averaged copy, the samples and the clock."""

    model: nn.Module
    """Samples → logits. Several passes may be taken; gradients are averaged over ranks."""
    batch: Batch
    average: nn.Module | None = None
    """The copy with averaged weights, in evaluation mode: a teacher. It belongs to training and must not be changed."""
    averaged_algorithm: nn.Module | None = None
    """The averaged copy of the algorithm itself, for heads that a teacher needs; None if it has no parameters."""
    clock: Clock = field(default_factory=Clock)
    gather: Callable[[Tensor], Tensor] = _alone
    """Rows of this rank → rows of all ranks, without a gradient. (n, …) → (N, …)."""


def forward(model: nn.Module, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Logits of several inputs by one joint pass: batch normalisation sees all samples. (n, …)s → (n, classes)s."""
    logits: Tensor = widen(model(torch.cat(inputs)))
    return torch.split(logits, [len(x) for x in inputs])


def features(model: nn.Module, samples: Tensor) -> Tensor:
    """What the network's last layer sees. (n, …) → (n, features).

    Networks of halfsure offer it; one of your own does if it has a method `features`.
    """
    found: Tensor
    if isinstance(model, DistributedDataParallel):
        found = model(samples, features=True)
        return found
    offered = getattr(model, "features", None)
    if not callable(offered):
        raise TypeError(
            f"{type(model).__name__} has no method features(x), which this algorithm needs: what its last layer sees"
        )
    found = offered(samples)
    return found


class Replay:
    """Lets later passes draw the random numbers that the pass after its making drew: the same dropout."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.state = self._get()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside, torch's generators are where they were; afterwards they go on as if nothing had been drawn."""
        now = self._get()
        self._set(self.state)
        try:
            yield
        finally:
            self._set(now)

    def _get(self) -> tuple[Tensor, Tensor | None]:
        cuda = self.device.type == "cuda"
        return torch.get_rng_state(), torch.cuda.get_rng_state(self.device) if cuda else None

    def _set(self, state: tuple[Tensor, Tensor | None]) -> None:
        torch.set_rng_state(state[0])
        if state[1] is not None:
            torch.cuda.set_rng_state(state[1], self.device)


@contextmanager
def constant_weights(model: nn.Module) -> Iterator[nn.Module]:
    """Inside, gradients flow through the model but not into its weights, and no other rank is waited for."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield model.module if isinstance(model, DistributedDataParallel) else model
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
