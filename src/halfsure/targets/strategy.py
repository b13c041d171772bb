"""What every strategy shares: logits go in, losses per sample or targets come out."""

from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from halfsure._checks import check_logits, check_probs
from halfsure.settings.declare import declared
from halfsure.settings.registry import Part
from halfsure.simplex import SOFTMAX, Map, fenchel_young, get_map, narrow, widen
from halfsure.targets.gate import Gate, Seen
from halfsure.targets.gates import Always

__all__ = ["Strategy", "Target"]


class Target(NamedTuple):
    """What a strategy wants the predictions to become; it carries no gradient."""

    probs: Tensor
    """(batch, classes): the wanted probabilities."""
    weight: Tensor
    """(batch,): how much each sample counts, from 0 where it is left alone to 1."""


class Strategy(Part, nn.Module):
    """A way to distil a surer prediction from logits; `strategy(logits)` is the mean loss.

    A subclass gives `goal`, the target of given probabilities, or `cost`, the losses of given logits, or both. With a
    goal alone the cost is the map's own distance to it. Its gate says how much each sample counts. Parameters and
    running state belong into submodules and buffers: they are then optimised, saved, moved and resumed by themselves.
    """

    role = "strategy"
    map: Map
    """The map it lives in."""
    home: ClassVar[Map] = SOFTMAX
    """The map of a method that names this strategy and no map."""
    gated: ClassVar[str] = "none"
    """The gate it has if no other is named."""
    numbered: ClassVar[str] = ""
    """The setting that a number after its name stands for, as `m` does in top3."""

    def __init__(self, map: Map | str | None = None, gate: Gate | None = None) -> None:
        super().__init__()
        self.map = get_map(map or self.home)
        self.gate: Gate = gate or Always()
        self.gate.suits(self.map)

    @classmethod
    def suits(cls, map: Map) -> None:
        """Refuse a map in which the strategy has no meaning."""

    @classmethod
    def explicit(cls) -> bool:
        """Whether it makes a target, that can stand in the place of another."""
        return cls.goal is not Strategy.goal

    def losses(self, logits: Tensor) -> Tensor:
        """One loss per sample. (batch, classes) → (batch,)."""
        check_logits(logits)
        return narrow(self._gated(widen(logits)), logits)

    def forward(self, logits: Tensor) -> Tensor:
        """The mean loss over all samples, NaN for an empty batch. (batch, classes) → scalar."""
        check_logits(logits)
        wide = widen(logits)
        return narrow(self.mean_cost(wide) if self.gate.open else self._gated(wide).mean(), logits)

    def target(self, logits: Tensor) -> Target:
        """What the predictions should become, detached. (batch, classes) → Target."""
        check_logits(logits)
        probs, weight = self.aim(self.predict(widen(logits.detach())))
        return Target(narrow(probs, logits), narrow(weight, logits))

    def guess(self, probs: Tensor) -> Target:
        """What a given prediction should become, detached, such as the mean over views. (batch, classes) → Target."""
        check_probs("probs", probs)
        wanted, weight = self.aim(widen(probs.detach()))
        return Target(narrow(wanted, probs), narrow(weight, probs))

    def aim(self, probs: Tensor) -> Target:
        """The same of probabilities that are taken on trust: NaN stays NaN. (batch, classes) → Target."""
        return Target(self.goal(probs), self.gate.weigh(probs))

    def predict(self, logits: Tensor) -> Tensor:
        """The probabilities that goals are made of. (batch, classes) → (batch, classes)."""
        return self.map(logits)

    def goal(self, probs: Tensor) -> Tensor:
        """What probabilities should become. (batch, classes) → (batch, classes)."""
        raise ValueError(
            f"{type(self).__name__} has no explicit target: it lowers a quantity of the prediction itself. "
            "Add it as a loss (X+Y), or put Sharpening, PseudoLabel, ADS or TopM where a target is needed (X-Y)."
        )

    def cost(self, logits: Tensor) -> Tensor:
        """One loss per sample, before the gate. (batch, classes) → (batch,)."""
        if not self.explicit():
            raise NotImplementedError(f"{type(self).__name__} does not say what it costs: give it goal or cost")
        probs = self.predict(logits)
        return fenchel_young(self.map, logits, probs, self.goal(probs.detach()))

    def mean_cost(self, logits: Tensor) -> Tensor:
        """The mean of `cost`; a faster way to it may be given. (batch, classes) → scalar."""
        return self.cost(logits).mean()

    def prepare(self, classes: int, samples: int) -> None:
        """Make the buffers that depend on the data; `samples` are all training samples."""
        self.gate.prepare(classes, samples)

    def observe(self, probs: Tensor, seen: Seen) -> None:
        """Learn from the predictions of a training step, (m, classes) of all ranks, before targets are made."""
        self.gate.observe(probs, seen)

    @property
    def observes(self) -> bool:
        """Whether it learns from what it sees."""
        return type(self).observe is not Strategy.observe or type(self.gate).observe is not Gate.observe

    def __repr__(self) -> str:
        told = [f"{s.name}={getattr(self, s.name):g}" for s in declared(self.Settings)]
        told += [f"{s.name}={getattr(self.gate, s.name):g}" for s in declared(self.gate.Settings)]
        told += [f"map={self.map.name}"] + ([f"gate={self.gate.name}"] if self.gate.name != self.gated else [])
        return f"{type(self).__name__}({', '.join(told)})"

    def _gated(self, logits: Tensor) -> Tensor:
        losses = self.cost(logits)
        return losses if self.gate.open else self.gate.weigh(self.predict(logits.detach())) * losses
