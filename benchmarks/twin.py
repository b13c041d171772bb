"""A training step as one writes it in plain PyTorch, after the public code of FixMatch, MixMatch and VAT.

Channels first, eager, every image through Pillow by itself, SGD and averaged weights in their plain loops. The
mathematics are the engine's: from the same weights and the same draws come the same losses, weights, statistics and
averages, but for rounding (tests/test_benchmarks.py). Its random draws are made beforehand and cost it nothing.
"""

import copy
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

from halfsure.data import Data, TwoStreams
from halfsure.training.config import Config
from halfsure.views import StrongImage, WeakImage
from halfsure.views import draws as _draws
from halfsure.views.batch import Draws

__all__ = ["Drawn", "PlainWideResNet", "Samples", "Twin"]

ROOT = Path(__file__).parents[1]
MOMENTUM = 0.001


class PlainWideResNet(nn.Module):
    """WRN-depth-width with batch norm, its parts named as ours are. (n, 3, h, w) → (n, classes)."""

    def __init__(self, classes: int, depth: int, width: int) -> None:
        super().__init__()
        channels = [16, 16 * width, 32 * width, 64 * width]
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.blocks = nn.Sequential()
        for group in range(3):
            for place in range((depth - 4) // 6):
                inputs = channels[group + (place > 0)]
                stride = 2 if group > 0 and place == 0 else 1
                self.blocks.append(Block(inputs, channels[group + 1], stride, first=group == place == 0))
        self.norm = nn.BatchNorm2d(channels[3], momentum=MOMENTUM)
        self.head = nn.Linear(channels[3], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images → logits."""
        x = F.leaky_relu(self.norm(self.blocks(self.stem(x))), 0.1, inplace=True)
        logits: Tensor = self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


class Block(nn.Module):
    """Norm, activation, convolution, twice, beside a shortcut. (n, inputs, h, w) → (n, outputs, h/stride, w/stride)."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, first: bool) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs, momentum=MOMENTUM)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs, momentum=MOMENTUM)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None
        self.first = first

    def forward(self, x: Tensor) -> Tensor:
        """The branch and the shortcut, added."""
        active = F.leaky_relu(self.norm1(x), 0.1, inplace=True)
        branch: Tensor = self.conv2(F.leaky_relu(self.norm2(self.conv1(active)), 0.1, inplace=True))
        aside = active if self.first else x
        return branch + (aside if self.shortcut is None else self.shortcut(aside))


@dataclass(frozen=True)
class Drawn:
    """Every random choice of a step."""

    draws: Draws
    plans: list[NDArray[np.int64]]
    """What happens to each image: of the labeled samples, then of each view of the unlabeled ones."""
    starts: Tensor | None
    """vat: where the power iteration begins, (n + m, 3, h, w)."""


@dataclass(frozen=True)
class Samples:
    """The images of a step through their views, (n, 3, h, w) each and contiguous."""

    labeled: Tensor
    labels: Tensor
    unlabeled: list[Tensor]
    drawn: Drawn


class Twin:
    """Model, averaged model and optimiser, and the step that changes them."""

    def __init__(self, weights: dict[str, Tensor], data: Data, config: Config) -> None:
        _, depth, width = config.net.split("-")
        self.data, self.config, self.done = data, config, 0
        self.model = PlainWideResNet(len(data.classes), int(depth), int(width))
        self.model.load_state_dict(weights)
        self.model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # torch's stubs leave it out
        self.average = copy.deepcopy(self.model).eval()
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        rest = [p for p in self.model.parameters() if p.ndim == 1]
        groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": rest, "weight_decay": 0.0}]
        self.optimizer = SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=True)
        self.views = self._views()
        self.streams = TwoStreams(data, config.batch, config.unlabeled_batch, seed=config.seed)
        self.loss = LOSSES[config.method]

    def _views(self) -> list[WeakImage | StrongImage]:
        """The settings of each view: of the labeled samples, then of the unlabeled ones."""
        made: Any = self.config.make_views(self.data, self.config.preprocessing(self.data))
        names = {"fixmatch": ("weak", "strong"), "mixmatch": ("weak", "weak"), "vat": ("weak",)}[self.config.method]
        return [made[name] for name in ("weak", *names)]

    def draw(self) -> Drawn:
        """Make the random choices of the next step; steps have to be drawn in their order."""
        chosen, step, seed = self.streams.next(), self.done, self.config.seed
        height, width = self.data.train.samples.shape[1:3]
        plans = []
        for stream, view in enumerate(self.views):
            sides = _draws.sides(height, width, flip=view.flip, shift=view.shift, ops=view.ops)
            indices = chosen.unlabeled if stream else chosen.labeled
            plans.append(_draws.image_plan(_draws.base_key(view.kind, seed, stream, step), indices, sides))
        draws = Draws(seed, step, chosen.labeled, chosen.unlabeled)
        starts = None
        if self.config.method == "vat":
            shapes = [torch.empty(len(some), 3, height, width) for some in (chosen.labeled, chosen.unlabeled)]
            starts = torch.cat([draws.normal("labeled", shapes[0]), draws.normal("unlabeled", shapes[1])])
        return Drawn(draws, plans, starts)

    def see(self, drawn: Drawn) -> Samples:
        """Send every image through Pillow."""
        labeled, unlabeled = drawn.draws.labeled, drawn.draws.unlabeled
        pixels = self.data.train.samples
        pillow = _pillow()
        views = [
            pillow.view(pixels[unlabeled if place else labeled], plan, view)
            for place, (plan, view) in enumerate(zip(drawn.plans, self.views, strict=True))
        ]
        return Samples(views[0], torch.from_numpy(self.data.train.labels[labeled]), views[1:], drawn)

    def update(self, drawn: Drawn) -> Tensor:
        """One step, from stored images to new weights and averages. → its loss."""
        return self.step(self.see(drawn))

    def step(self, samples: Samples) -> Tensor:
        """The same from images that went through their views."""
        config, step = self.config, self.done
        for group in self.optimizer.param_groups:
            group["lr"] = config.lr * math.cos(7 / 16 * math.pi * step / config.steps)
        for module in self.model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = max(MOMENTUM, 1 / (step + 1))
        weight = config.weight * min(1.0, step / config.steps / config.ramp if config.ramp else 1.0)
        self.optimizer.zero_grad()
        loss = self.loss(self.model, samples, config, weight)
        loss.backward()
        self.optimizer.step()
        follow(self.average, self.model, min(config.ema, (1 + step) / (10 + step)))
        self.done += 1
        return loss.detach()


def fixmatch(model: nn.Module, samples: Samples, config: Config, weight: float) -> Tensor:
    """Cross-entropy on labels, and on the pseudo-labels of weak views that are sure."""
    weak, strong = samples.unlabeled
    logits: Tensor = model(torch.cat([samples.labeled, weak, strong]))
    logits_x, logits_weak, logits_strong = logits.split([len(samples.labeled), len(weak), len(strong)])
    sure, pseudo = logits_weak.detach().softmax(-1).max(-1)
    mask = (sure >= config.threshold).float()
    unlabeled: Tensor = (F.cross_entropy(logits_strong, pseudo, reduction="none") * mask).mean()
    return F.cross_entropy(logits_x, samples.labels) + weight * unlabeled


def mixmatch(model: nn.Module, samples: Samples, config: Config, weight: float) -> Tensor:
    """Divergence and squared distance from mixed targets, at mixed samples.

    The published code has cross-entropy for the divergence: the entropy of the targets more, which has no gradient.
    """
    with torch.no_grad(), untracked(model):
        guess = model(torch.cat(samples.unlabeled)).softmax(-1).view(2, len(samples.unlabeled[0]), -1).mean(0)
        guess = guess ** (1 / config.temperature)
        guess = guess / guess.sum(-1, keepdim=True)
    inputs = torch.cat([samples.labeled, *samples.unlabeled])
    targets = torch.cat([F.one_hot(samples.labels, guess.shape[-1]).to(guess), guess, guess])
    generator = samples.drawn.draws.generator()
    share = torch.from_numpy(generator.beta(config.mixup, config.mixup, len(inputs))).to(guess)
    share = torch.max(share, 1 - share)
    partner = torch.from_numpy(generator.permutation(len(inputs)))
    mixed = share.view(-1, 1, 1, 1) * inputs + (1 - share).view(-1, 1, 1, 1) * inputs[partner]
    goals = share[:, None] * targets + (1 - share)[:, None] * targets[partner]
    n, logits = len(samples.labeled), model(mixed)
    labeled = F.kl_div(logits[:n].log_softmax(-1), goals[:n], reduction="batchmean")
    return labeled + weight * F.mse_loss(logits[n:].softmax(-1), goals[n:])


def vat(model: nn.Module, samples: Samples, config: Config, weight: float) -> Tensor:
    """Cross-entropy on labels, and the divergence between predictions at and near each sample.

    As in public code, the pass that looks for the direction goes back into the weights too; those gradients are
    dropped.
    """
    assert samples.drawn.starts is not None
    inputs = torch.cat([samples.labeled, *samples.unlabeled])
    clean = model(inputs)
    probs = clean.detach().softmax(-1)
    with untracked(model):
        direction = unit(samples.drawn.starts).requires_grad_()
        moved = model(inputs + config.xi * direction).log_softmax(-1)
        F.kl_div(moved, probs, reduction="sum").backward()
        assert direction.grad is not None
        worst = unit(direction.grad)
        model.zero_grad()
        moved = model(inputs + config.epsilon * worst).log_softmax(-1)
    supervised = F.cross_entropy(clean[: len(samples.labels)], samples.labels)
    return supervised + weight * F.kl_div(moved, probs, reduction="batchmean")


LOSSES: dict[str, Callable[[nn.Module, Samples, Config, float], Tensor]] = {
    "fixmatch": fixmatch,
    "mixmatch": mixmatch,
    "vat": vat,
}


@torch.no_grad()
def follow(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Move averaged weights towards the new ones; buffers are copied."""
    averaged, weights = average.state_dict(), dict(model.named_parameters())
    for name, value in model.state_dict().items():
        averaged[name].copy_(decay * averaged[name] + (1 - decay) * value if name in weights else value)


@contextmanager
def untracked(model: nn.Module) -> Iterator[None]:
    """Inside, batch norms leave their running statistics alone."""

    def switch(module: nn.Module) -> None:
        if isinstance(module, nn.BatchNorm2d):
            module.track_running_stats = not module.track_running_stats

    model.apply(switch)
    try:
        yield
    finally:
        model.apply(switch)


def unit(vectors: Tensor) -> Tensor:
    """Each sample scaled to length 1. (n, …) → (n, …)."""
    lengths: Tensor = vectors.flatten(1).norm(dim=1)
    return vectors / lengths.clamp(min=1e-30).view(-1, 1, 1, 1)


def _pillow() -> Any:
    """The views on Pillow that the tests hold ours against."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return import_module("tests.views.twin")
