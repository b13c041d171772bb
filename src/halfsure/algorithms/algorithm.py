"""What every algorithm shares: a batch goes in, losses per sample come out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from halfsure._checks import check_number
from halfsure.algorithms.context import Context, Facts
from halfsure.algorithms.losses import Losses
from halfsure.algorithms.prior import Prior
from halfsure.data import Data
from halfsure.settings import Settings, Size
from halfsure.settings.registry import Part
from halfsure.simplex import SOFTMAX, Map, get_map, map_loss
from halfsure.targets import PseudoLabel, Seen, Strategy, Target
from halfsure.views.batch import ViewName

__all__ = ["Algorithm", "AlgorithmSettings", "TargetedAlgorithm", "TargetedSettings", "WeightedSettings", "acts"]


@dataclass(frozen=True)
class AlgorithmSettings(Settings):
    """What every algorithm can be told."""

    class_weight: Literal["balanced"] | tuple[float, ...] | None = None
    """Weights of the classes in the supervised term: balanced is one over their share of the labels."""


@dataclass(frozen=True)
class WeightedSettings(AlgorithmSettings):
    """What an algorithm with a consistency term can be told."""

    weight: Size = 1.0
    """α, the weight of the consistency term."""


@dataclass(frozen=True)
class TargetedSettings(WeightedSettings):
    """What an algorithm with targets can be told."""

    prior: Literal["labels", "uniform"] | tuple[float, ...] | None = None
    """Class shares of the unlabeled data that targets are held to: those of the labels, equal ones, or given ones."""


class Algorithm(Part, nn.Module):
    """A way to learn from a batch: `step(context) → Losses`.

    A module: heads, running statistics and tables that it owns are submodules, parameters and buffers, and so they are
    optimised, averaged, moved, saved and resumed by themselves.
    """

    role = "algorithm"
    Settings = AlgorithmSettings
    built_in: ClassVar[str | None] = None
    """The strategy that makes its targets if no other is put in its place; None if it has no targets."""
    views: tuple[ViewName, ...] = ()
    """Through which views the unlabeled samples are wanted."""
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
        self.added = nn.ModuleList(added)
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

    @classmethod
    def preset(cls, name: str, data: Data, map: Map, added: bool) -> dict[str, Any]:
        """Settings for a preset, by data and method: its own and what it likes of other parts.

        The paper's are those of FixMatch's publication, for an algorithm that says nothing else.
        """
        if name != "paper":
            return {"lr": 2e-3}
        decay = 1e-3 if data.name == "cifar100" else 5e-4
        return cls.long(data) | {"optimizer": "sgd", "lr": 0.03, "weight_decay": decay, "schedule": "cosine"}

    @staticmethod
    def long(data: Data, steps: int = 2**20) -> dict[str, Any]:
        """Length and batches of publications, which are about images."""
        length = {"steps": steps} if data.kind == "image" else {}
        return {**length, "evaluations": 1024, "last": 20, "batch": 64, "unlabeled_batch": 64}

    @property
    def extras(self) -> tuple[Strategy, ...]:
        """The added strategies."""
        return tuple(cast("Strategy", strategy) for strategy in self.added)

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """Every strategy in it."""
        return tuple(part for part in self.modules() if isinstance(part, Strategy))

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each term of the objective that has one; a term X of its own has that of `X_weight`."""
        own = {name.removesuffix("_weight"): value for name, value in vars(self).items() if name.endswith("_weight")}
        return own | {"consistency": self.weight, "distillation": self.distill_weight}

    def prepare(self, facts: Facts) -> None:
        """Make what depends on data and network; it is called once, before anything is moved or optimised."""
        for strategy in self.strategies:
            strategy.prepare(facts.classes, facts.samples)

    def settle(self, separable: bool) -> None:
        """Decide what depends on the network: `separable` says that samples of a pass have nothing in common."""

    def step(self, context: Context) -> Losses:
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
        total, acted = logits.new_zeros(len(logits) if len(self.added) else 0), {}
        for strategy in self.extras:
            losses = strategy.losses(logits)
            total = total + losses
            acted[f"{strategy} acts"] = (losses.detach() > 0).to(losses.dtype)
        return total, acted

    @cached_property
    def learning(self) -> tuple[Strategy, ...]:
        """The strategies that learn from what they see."""
        return tuple(strategy for strategy in self.strategies if strategy.observes)

    def see(self, context: Context, unlabeled: Tensor, labeled: Tensor) -> None:
        """Let strategies and gates learn from the predictions of a training step, before they are asked about them.

        Logits of this rank go in, (m, classes) and (n, classes), as `see_probs` has it.
        """
        if self.learning:
            self.see_probs(context, self.map(unlabeled.detach()), labeled)

    def see_probs(self, context: Context, probs: Tensor, labeled: Tensor) -> None:
        """The same of probabilities, such as the mean over views.

        An algorithm that has no clean logits of labeled samples gives (0, classes). What the strategies see is the
        samples of all ranks.
        """
        if not self.learning:
            return
        batch = context.batch
        indices = torch.from_numpy(batch.draws.unlabeled).to(probs.device)
        known, labels = self.map(labeled.detach()), batch.labels[: len(labeled)]
        seen = Seen(context.gather(indices), context.gather(known), context.gather(labels), context.clock)
        probs = context.gather(probs.detach())
        for strategy in self.learning:
            strategy.observe(probs, seen)

    def audit(self, logits: Tensor) -> Target:
        """The pseudo-labels that stand for what is learnt from unlabeled samples. (m, classes) → Target.

        They are those of the strategy that makes targets, or of the first added one that can; without any, each
        prediction's best class where it has a probability of .95. Nothing changes by asking.
        """
        candidates = [strategy for strategy in self.extras if strategy.explicit()]
        return (candidates[0] if candidates else PseudoLabel(map=self.map)).target(logits)

    def _agrees(self, strategy: Strategy) -> None:
        if strategy.map != self.map:
            raise ValueError(
                f"{strategy} reads probabilities by {strategy.map.name}, {type(self).__name__} by {self.map.name}; "
                "a model has one map: give both the same"
            )


class TargetedAlgorithm(Algorithm):
    """An algorithm that holds predictions against targets, which a strategy makes."""

    Settings = TargetedSettings

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
        return self.strategy.aim(self.prior.scale(self.map(logits.detach())))

    def aligned(self, context: Context, probs: Tensor) -> Tensor:
        """Predictions of a training step, held to the class shares where such are given. (m, classes) → the same."""
        if self.prior is None:
            return probs
        self.prior.observe(context.gather(probs.detach()))
        return self.prior.scale(probs.detach())


def acts(target: Target, probs: Tensor) -> Tensor:
    """Where a target asks for something else than the prediction already is: 1, else 0. → (m,)."""
    moved = (target.probs - probs.detach()).abs().amax(-1) > 1e-6
    return (moved & (target.weight > 0)).to(probs.dtype)
