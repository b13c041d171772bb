"""What every algorithm shares: a batch goes in, losses a sample come out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from halfsure._checks import check_number
from halfsure.algorithms.prior import Prior
from halfsure.simplex import SOFTMAX, Map, get_map, map_loss, widen
from halfsure.targets import MinEntropy, NegativeSampling, PseudoLabel, Strategy, Target
from halfsure.views.batch import Batch, ViewName

__all__ = ["Algorithm", "Losses", "TargetedAlgorithm"]


@dataclass(frozen=True)
class Losses:
    """One loss a sample for each term of the objective; a term that a method does not have is empty."""

    supervised: Tensor
    """J_S, (n,)."""
    consistency: Tensor
    """J_C: one for every prediction that is asked to agree with another."""
    distillation: Tensor
    """J_D, (m,): the added strategies, summed."""
    diagnostics: dict[str, Tensor] = field(default_factory=dict)
    """What is worth watching, one value a sample; the mean is reported."""


class Algorithm(nn.Module):
    """A way to learn from a batch: `step(model, batch) → Losses`.

    A module, for its state goes into checkpoints: the running class shares of a prior.
    """

    name: str
    views: tuple[ViewName, ...] = ()
    """Through which views the unlabeled samples are wanted."""
    settings: tuple[str, ...] = ()
    """The keyword settings of its own that people may change."""
    weight: float = 1.0
    """α, the weight of the consistency term."""
    distill_weight: float = 1.0
    """β, the weight of the distillation term."""

    def __init__(
        self,
        map: Map | str = SOFTMAX,
        added: Sequence[Strategy] = (),
        *,
        weight: float = 1.0,
        distill_weight: float = 1.0,
        class_weight: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.map = get_map(map)
        self.added = tuple(added)
        for strategy in added:
            self._agrees(strategy)
        self.weight = check_number("weight", weight, 0)
        self.distill_weight = check_number("distill_weight", distill_weight, 0)
        self.class_weight: Tensor | None
        weights = None
        if class_weight is not None:
            checked = [check_number("a class weight", value, 0) for value in class_weight]
            weights = torch.tensor(checked, dtype=torch.float64)
        self.register_buffer("class_weight", weights, persistent=False)

    def step(self, model: nn.Module, batch: Batch) -> Losses:
        """The losses of a batch, with their gradients."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a step is")

    def supervised(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The map's own loss, weighted by class. (n, classes), class indices or probabilities → (n,)."""
        # Soft targets are the algorithm's own: one that is lost becomes a lost loss, which is named with its step.
        losses = self.map.loss(logits, targets) if targets.ndim == 1 else map_loss(self.map, logits, targets)
        if self.class_weight is None:
            return losses
        if len(self.class_weight) != logits.shape[-1]:
            raise ValueError(f"there are {len(self.class_weight)} class weights, but {logits.shape[-1]} classes")
        weight = self.class_weight.to(losses.dtype)
        return losses * (weight[targets] if targets.ndim == 1 else targets @ weight)

    def distil(self, logits: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """What the added strategies cost, and on which samples each acts. (m, classes) → (m,)."""
        total, acted = logits.new_zeros(len(logits) if self.added else 0), {}
        for strategy in self.added:
            losses = strategy.losses(logits)
            total = total + losses
            acted[f"{strategy} acts"] = (losses.detach() > 0).to(losses.dtype)
        return total, acted

    def audit(self, logits: Tensor) -> Target:
        """The pseudo-labels that stand for what is learnt from unlabeled samples. (m, classes) → Target.

        They are those of the strategy that makes targets, or of the first added one that can; without any, each
        prediction's best class where it has a probability of .95.
        """
        candidates = [s for s in self.added if not isinstance(s, MinEntropy | NegativeSampling)]
        return (candidates[0] if candidates else PseudoLabel(map=self.map)).target(logits)

    def _agrees(self, strategy: Strategy) -> None:
        if strategy.map != self.map:
            raise ValueError(
                f"{strategy} reads probabilities by {strategy.map.name}, {type(self).__name__} by {self.map.name}; "
                "a model has one map: give both the same"
            )


class TargetedAlgorithm(Algorithm):
    """An algorithm that holds predictions against targets, which a strategy makes."""

    def __init__(
        self, strategy: Strategy, added: Sequence[Strategy] = (), *, prior: Sequence[float] | None = None, **rest: Any
    ) -> None:
        super().__init__(strategy.map, added, **rest)
        self.strategy = strategy
        self.prior = None if prior is None else Prior(prior)

    def audit(self, logits: Tensor) -> Target:
        """The targets the strategy makes. (m, classes) → Target."""
        if self.prior is None:
            return self.strategy.target(logits)
        return self.guess(self.prior.scale(self.map(logits)))

    def guess(self, probs: Tensor) -> Target:
        """What the strategy makes of predictions, taken on trust: NaN stays NaN. (m, classes) → Target."""
        return self.strategy._guess(probs.detach())


def forward(model: nn.Module, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Logits of several inputs by one joint pass: batch normalisation sees all samples. (n, …)s → (n, classes)s."""
    logits: Tensor = widen(model(torch.cat(inputs)))
    return torch.split(logits, [len(x) for x in inputs])


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


def acts(target: Target, probs: Tensor) -> Tensor:
    """Where a target asks for something else than the prediction already is: 1, else 0. → (m,)."""
    moved = (target.probs - probs.detach()).abs().amax(-1) > 1e-6
    return (moved & (target.weight > 0)).to(probs.dtype)
