"""Naive twins of the algorithms: loops over samples and classes, from the formulas and a network of a few weights.

What an algorithm holds constant (targets, guesses, adversarial directions) is computed by `freeze`, once, so that
differences of `losses` in the weights are the gradient with those held fixed.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from halfsure.views.batch import Batch, Draws
from tests import reference

Row = list[float]
Rows = list[Row]
ALPHAS = {"softmax": 1.0, "sparsemax": 2.0, "entmax1.5": 1.5}
INPUTS, HIDDEN, CLASSES = 4, 5, 4
BUILT_IN = {"supervised": None, "vat": None, "mixmatch": "sh", "fixmatch": "pl"}
Numbers = dict[str, float]
# Not the defaults: thresholds that a random network sometimes passes, and numbers that tell the parts apart.
NUMBERS: Numbers = {
    "sh_temperature": 0.4,
    "pl_threshold": 0.55,
    "ns_threshold": 0.2,
    "ads_r": 1.7,
    "top3_r": 2.5,
    "top2_r": 1.4,
}


@dataclass(frozen=True)
class Net:
    """logits = second · tanh(first · x + first_bias) + second_bias, in lists."""

    first: Rows
    first_bias: Row
    second: Rows
    second_bias: Row

    def hidden(self, x: Row) -> Row:
        return [math.tanh(reference.dot(w, x) + b) for w, b in zip(self.first, self.first_bias, strict=True)]

    def logits(self, x: Row) -> Row:
        h = self.hidden(x)
        return [reference.dot(w, h) + b for w, b in zip(self.second, self.second_bias, strict=True)]

    def input_gradient(self, x: Row, delta: Row) -> Row:
        """Σ_k delta_k ∂logit_k/∂x, by the chain rule."""
        h = self.hidden(x)
        back = [sum(d * w[j] for d, w in zip(delta, self.second, strict=True)) for j in range(len(h))]
        inner = [(1 - a * a) * b for a, b in zip(h, back, strict=True)]
        return [sum(g * w[i] for g, w in zip(inner, self.first, strict=True)) for i in range(len(x))]

    def moved(self, by: Sequence[Tensor], step: float) -> "Net":
        """Weights moved along a direction, given in the order of the module's parameters."""
        first, first_bias, second, second_bias = (direction.tolist() for direction in by)

        def add(row: Row, other: Row) -> Row:
            return [a + step * b for a, b in zip(row, other, strict=True)]

        return Net(
            [add(a, b) for a, b in zip(self.first, first, strict=True)],
            add(self.first_bias, first_bias),
            [add(a, b) for a, b in zip(self.second, second, strict=True)],
            add(self.second_bias, second_bias),
        )


def make_module(seed: int = 0, scale: float = 1.0) -> nn.Sequential:
    """The network as a module of doubles; it takes (n, 2, 2), for a sample need not be a row."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def read_net(model: nn.Module) -> Net:
    """The same network in lists."""
    return Net(*(parameter.tolist() for parameter in model.parameters()))


def make_batch(
    labeled: int = 3, unlabeled: int = 5, views: int = 2, seed: int = 0, shape: tuple[int, ...] = (2, 2), **draws: Any
) -> Batch:
    """A batch of doubles; the views of a sample are near each other."""
    generator = torch.Generator().manual_seed(1000 + seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    x, base = normal(labeled, *shape), normal(unlabeled, *shape)
    labels = torch.randint(CLASSES, (labeled,), generator=generator)
    return Batch(
        x,
        labels,
        tuple(base + 0.3 * normal(unlabeled, *shape) for _ in range(views)),
        Draws(
            **{
                "seed": 11 + seed,
                "step": 7,
                "labeled": torch.arange(labeled).numpy() * 3 + 1,
                "unlabeled": torch.arange(unlabeled).numpy() * 5,
                **draws,
            }
        ),
    )


def rows(x: Tensor) -> Rows:
    """(n, …) → one list a sample."""
    flat: Rows = x.detach().flatten(1).tolist()
    return flat


def mean(values: Row) -> float:
    return sum(values) / len(values) if values else 0.0


def one_hot(k: int) -> Row:
    return [1.0 if i == k else 0.0 for i in range(CLASSES)]


def unit(vector: Row) -> Row:
    length = math.hypot(*vector)
    return [v / length for v in vector]


@dataclass(frozen=True)
class Goal:
    """A target and whether it counts."""

    probs: Row
    weight: float = 1.0
    kept: tuple[int, ...] = ()
    """For TopM: the classes that take part."""


def goal_of_probs(strategy: str, p: Row, numbers: Numbers = NUMBERS) -> Goal:
    """What a strategy wants a prediction to become."""
    if strategy == "sh":
        return Goal(reference.sharpen(p, 1 / numbers["sh_temperature"]))
    if strategy == "ads":
        return Goal(reference.sharpen(p, numbers["ads_r"]))
    if strategy == "pl":
        best = p.index(max(p))
        return Goal(one_hot(best), float(p[best] >= numbers["pl_threshold"]))
    m = int(strategy.removeprefix("top"))
    kept = sorted(range(len(p)), key=lambda i: p[i])[-m:]
    return Goal(reference.sharpen([v if i in kept else 0.0 for i, v in enumerate(p)], numbers[f"{strategy}_r"]))


def goal_of_logits(strategy: str, z: Row, alpha: float, numbers: Numbers = NUMBERS) -> Goal:
    """The same from logits; TopM leaves classes out before the map, and remembers which."""
    if strategy.startswith("top"):
        masked = reference.top_m_logits(z, int(strategy.removeprefix("top")))
        kept = tuple(i for i, v in enumerate(masked) if v > -math.inf)
        return replace(goal_of_probs(strategy, reference.entmax(masked, alpha), numbers), kept=kept)
    return goal_of_probs(strategy, reference.entmax(z, alpha), numbers)


def added_loss(strategy: str, z: Row, alpha: float, goal: Goal | None, numbers: Numbers = NUMBERS) -> float:
    """A distillation loss of one sample, its goal held fixed."""
    if strategy == "me":
        return reference.min_entropy(z, alpha)
    if strategy == "ns":
        return reference.negative_sampling(z, alpha, numbers["ns_threshold"])
    assert goal is not None
    if strategy == "ads":
        return reference.kl(goal.probs, reference.entmax(z, alpha))
    if strategy.startswith("top"):
        z = [v if i in goal.kept else -math.inf for i, v in enumerate(z)]
    return goal.weight * reference.fenchel_young(z, goal.probs, alpha)


def distance(name: str, z: Row, target: Row, alpha: float) -> float:
    """Dist of a prediction from a target."""
    if name == "fy":
        return reference.fenchel_young(z, target, alpha)
    p = reference.entmax(z, alpha)
    if name == "l2":
        return mean([(a - b) ** 2 for a, b in zip(target, p, strict=True)])
    return reference.kl(target, [max(v, 1e-8) for v in p])


@dataclass
class RunningPrior:
    """Shares of the classes in what was predicted; a prediction is scaled by the prior over them, 1e-6 at least."""

    prior: Row
    momentum: float = 0.99
    shares: Row = field(init=False)

    def __post_init__(self) -> None:
        self.shares = list(self.prior)

    def scale(self, batch: Rows) -> Rows:
        now = [mean([p[k] for p in batch]) for k in range(len(self.prior))]
        self.shares = [self.momentum * s + (1 - self.momentum) * n for s, n in zip(self.shares, now, strict=True)]
        scaled = [[v * q / max(s, 1e-6) for v, q, s in zip(p, self.prior, self.shares, strict=True)] for p in batch]
        return [[v / sum(p) for v in p] for p in scaled]


@dataclass(frozen=True)
class Frozen:
    """What carries no gradient: goals for J_C, inputs it is evaluated at, goals of the added strategies."""

    inputs: Rows = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    added: dict[tuple[str, int, int], Goal | None] = field(default_factory=dict)


Terms = tuple[Row, Row, Row]


@dataclass
class Twin:
    """An algorithm by its name, as the notation writes it."""

    algorithm: str
    alpha: float
    target: str | None
    added: list[str]
    numbers: Numbers = field(default_factory=lambda: NUMBERS)
    distance: str = "fy"
    epsilon: float = 0.6
    xi: float = 0.1
    power_steps: int = 1
    mixup: float = 0.75
    prior: RunningPrior | None = None
    class_weight: Row = field(default_factory=lambda: [1.0] * CLASSES)

    @classmethod
    def of(cls, name: str, **settings: Any) -> "Twin":
        """Take a full name `algorithm@map[±strategy]…` apart."""
        head, *parts = re.split(r"(?=[+-])", name)
        algorithm, map = head.split("@")
        target, added = BUILT_IN[algorithm], [part[1:] for part in parts if part[0] == "+"]
        replacing = [part[1:] for part in parts if part[0] == "-"]
        if replacing:
            (target,) = replacing
        else:  # what is built in is there once
            added = [part for part in added if part != target]
        if algorithm == "mixmatch" and map == "softmax":
            settings = {"distance": "l2", **settings}
        return cls(algorithm, ALPHAS[map], target, added, **settings)

    def probs(self, z: Row) -> Row:
        return reference.entmax(z, self.alpha)

    def supervised(self, z: Row, target: Row) -> float:
        weight = sum(w * t for w, t in zip(self.class_weight, target, strict=True))
        return weight * reference.fenchel_young(z, target, self.alpha)

    def scaled(self, batch: Rows) -> Rows:
        return self.prior.scale(batch) if self.prior else batch

    def views(self, batch: Batch) -> list[Rows]:
        """The unlabeled views whose logits the added strategies act on."""
        views = [rows(view) for view in batch.unlabeled]
        return views if self.algorithm == "mixmatch" else views[:1]

    def freeze(self, net: Net, batch: Batch) -> Frozen:
        """Everything that is held constant, at these weights."""
        added: dict[tuple[str, int, int], Goal | None] = {}
        for name in self.added:
            for k, view in enumerate(self.views(batch)):
                for j, u in enumerate(view):
                    explicit = name not in ("me", "ns")
                    added[name, k, j] = (
                        goal_of_logits(name, net.logits(u), self.alpha, self.numbers) if explicit else None
                    )
        freeze: dict[str, Callable[[Net, Batch], Frozen]] = {
            "vat": self._freeze_vat,
            "mixmatch": self._freeze_mixmatch,
            "fixmatch": self._freeze_fixmatch,
        }
        frozen = freeze[self.algorithm](net, batch) if self.algorithm in freeze else Frozen()
        return replace(frozen, added=added)

    def directions(self, net: Net, batch: Batch) -> Rows:
        """Unit vectors of the worst perturbation: gradients of KL(softmax(clean) || softmax(perturbed))."""
        found = []
        for samples, start in (
            (batch.labeled, batch.draws.normal("labeled", batch.labeled)),
            (batch.unlabeled[0], batch.draws.normal("unlabeled", batch.unlabeled[0])),
        ):
            for x, d in zip(rows(samples), rows(start), strict=True):
                clean = reference.softmax(net.logits(x))
                direction = unit(d)
                for _ in range(self.power_steps):
                    at = [a + self.xi * b for a, b in zip(x, direction, strict=True)]
                    delta = [a - b for a, b in zip(reference.softmax(net.logits(at)), clean, strict=True)]
                    direction = unit(net.input_gradient(at, delta))
                found.append(direction)
        return found

    def _freeze_vat(self, net: Net, batch: Batch) -> Frozen:
        samples = rows(batch.labeled) + rows(batch.unlabeled[0])
        goals = [Goal(self.probs(net.logits(x))) for x in samples]
        directions = self.directions(net, batch)
        moved = [
            [a + self.epsilon * b for a, b in zip(x, d, strict=True)] for x, d in zip(samples, directions, strict=True)
        ]
        return Frozen(moved, goals)

    def _freeze_fixmatch(self, net: Net, batch: Batch) -> Frozen:
        assert self.target is not None
        weak, strong = batch.unlabeled
        logits = [net.logits(u) for u in rows(weak)]
        if self.prior:
            goals = [goal_of_probs(self.target, p, self.numbers) for p in self.scaled([self.probs(z) for z in logits])]
        else:
            goals = [goal_of_logits(self.target, z, self.alpha, self.numbers) for z in logits]
        return Frozen(rows(strong), goals)

    def _freeze_mixmatch(self, net: Net, batch: Batch) -> Frozen:
        """Mixtures and their mixed targets, the labeled ones first."""
        assert self.target is not None
        views = self.views(batch)
        predictions = []
        for same in zip(*views, strict=True):
            each = [self.probs(net.logits(u)) for u in same]
            predictions.append([mean([p[k] for p in each]) for k in range(CLASSES)])
        guesses = [goal_of_probs(self.target, p, self.numbers) for p in self.scaled(predictions)]
        samples = rows(batch.labeled) + [u for view in views for u in view]
        goals = [Goal(one_hot(int(y))) for y in batch.labels] + guesses * len(views)
        generator = batch.draws.generator()
        shares = generator.beta(self.mixup, self.mixup, len(samples)).tolist()
        partners = generator.permutation(len(samples)).tolist()

        def mix(a: Row, b: Row, share: float) -> Row:
            share = max(share, 1 - share)
            return [share * v + (1 - share) * w for v, w in zip(a, b, strict=True)]

        mixed = [mix(x, samples[j], lam) for x, j, lam in zip(samples, partners, shares, strict=True)]
        targets = [
            Goal(mix(g.probs, goals[j].probs, lam), g.weight) for g, j, lam in zip(goals, partners, shares, strict=True)
        ]
        return Frozen(mixed, targets)

    def losses(self, net: Net, batch: Batch, frozen: Frozen) -> Terms:
        """J_S, J_C and J_D, a list of samples each."""
        inputs, goals = frozen.inputs, frozen.goals
        if self.algorithm == "mixmatch":
            n = len(batch.labeled)
            supervised = [self.supervised(net.logits(x), g.probs) for x, g in zip(inputs[:n], goals[:n], strict=True)]
            inputs, goals = inputs[n:], goals[n:]
        else:
            supervised = [
                self.supervised(net.logits(x), one_hot(int(y)))
                for x, y in zip(rows(batch.labeled), batch.labels, strict=True)
            ]
        consistency = [
            g.weight * distance(self.distance, net.logits(x), g.probs, self.alpha)
            for x, g in zip(inputs, goals, strict=True)
        ]
        return supervised, consistency, self._distillation(net, batch, frozen) if self.added else []

    def _distillation(self, net: Net, batch: Batch, frozen: Frozen) -> Row:
        views = self.views(batch)
        totals = []
        for j in range(len(views[0])):
            by_view = []
            for k, view in enumerate(views):
                z = net.logits(view[j])
                goals = [frozen.added[name, k, j] for name in self.added]
                each = zip(self.added, goals, strict=True)
                by_view.append(sum(added_loss(name, z, self.alpha, goal, self.numbers) for name, goal in each))
            totals.append(mean(by_view))
        return totals


def slope(twin: Twin, net: Net, batch: Batch, by: Sequence[Tensor], weights: tuple[float, float]) -> float:
    """Central difference of J along a direction of the weights, with what is frozen held at its value here."""
    frozen = twin.freeze(net, batch)
    (alpha, beta), h = weights, 1e-6

    def total(at: Net) -> float:
        supervised, consistency, distillation = twin.losses(at, batch, frozen)
        return mean(supervised) + alpha * mean(consistency) + beta * mean(distillation)

    return (total(net.moved(by, h)) - total(net.moved(by, -h))) / (2 * h)
