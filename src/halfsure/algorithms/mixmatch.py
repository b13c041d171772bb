"""MixMatch (Berthelot et al., 2019): guess a label from several views, then train on mixtures of everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch.nn import functional as F

from halfsure.algorithms.algorithm import TargetedAlgorithm, TargetedSettings, acts
from halfsure.algorithms.context import Context
from halfsure.algorithms.distances import Distance, distance_of
from halfsure.algorithms.losses import Losses
from halfsure.data import Data
from halfsure.nets.layers import frozen_statistics
from halfsure.settings import Between, register
from halfsure.simplex import SOFTMAX, Map, widen
from halfsure.targets import Sharpening, Strategy
from halfsure.views.batch import Batch, ViewName

__all__ = ["MixMatch"]


@dataclass(frozen=True)
class _Settings(TargetedSettings):
    mixup: Annotated[float, Between(1e-3)] = 0.75
    """mixmatch: both parameters of the Beta distribution that mixing weights are drawn from."""
    copies: Annotated[int, Between(1, 1000)] = 2
    """mixmatch: weak views a guess is made from."""
    distance: Distance | None = None
    """In mixmatch, if not given: l2 in softmax, fy elsewhere."""


@register
class MixMatch(TargetedAlgorithm):
    """J_S + α J_C on mixtures: labeled samples and all views of unlabeled ones, mixed with a partner from among all.

    The guess is the strategy's target of the mean prediction over the views; the pass that makes it leaves batch-norm
    statistics alone, the pass over the mixtures updates them. The added strategies act on the views before mixing,
    averaged over them, with their gradient.
    """

    name = "mixmatch"
    about = "guessed labels, trained on mixtures of all samples"
    built_in = Sharpening.name
    Settings = _Settings

    def __init__(
        self,
        strategy: Strategy | None = None,
        added: Sequence[Strategy] = (),
        *,
        mixup: float = _Settings.mixup,
        copies: int = _Settings.copies,
        distance: Distance | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(strategy or Sharpening(), added, **rest)
        if not self.strategy.gate.open:
            raise ValueError(
                f"the gate {self.strategy.gate.name} leaves samples without a target, and a mixture needs one of every "
                f"sample: take no gate ({self.strategy.name}~none), or sh, ads or top3"
            )
        checked = _Settings(mixup=mixup, copies=copies)
        self.mixup, self.copies = checked.mixup, checked.copies
        self.views = tuple[ViewName, ...](["weak"] * self.copies)
        # Its own squared distance has next to no gradient where a sparse prediction is wrong and sure.
        self.distance = distance_of(distance or ("l2" if self.map == SOFTMAX else "fy"))

    @classmethod
    def preset(cls, name: str, data: Data, map: Map, added: bool) -> dict[str, Any]:
        """Published for the mean square over classes; near agreement sparsemax's loss is half the *sum* of squares."""
        if name != "paper":
            own = {"distance": "l2", "weight": 75.0} if map == SOFTMAX else {"distance": "fy", "weight": 1.0}
            return {"lr": 2e-3, "ramp": 0.4, **own}
        weight = {"cifar100": 150.0, "svhn": 250.0, "svhn-extra": 250.0, "stl10": 50.0}.get(data.name, 75.0)
        own = {"distance": "l2", "weight": weight}
        if map != SOFTMAX:
            own = {"distance": "fy", "weight": 2 * weight / len(data.classes)}
        mix = {"mixup": 0.25 if data.name == "svhn-extra" else 0.75, "copies": 2, "ramp": 2**14 / 2**20, **own}
        return cls.long(data) | mix | {"optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.02, "schedule": "constant"}

    def step(self, context: Context) -> Losses:
        """A pass for the guesses and a pass over the mixtures."""
        model, batch = context.model, context.batch
        gradient = len(self.added) > 0 and torch.is_grad_enabled()
        with frozen_statistics(model), torch.set_grad_enabled(gradient):
            views = widen(model(torch.cat(batch.unlabeled))).unflatten(0, (self.copies, -1))
        mean = self.map(views.detach()).mean(0)
        self.see_probs(context, mean, mean[:0])
        target = self.strategy.aim(self.aligned(context, mean))
        distilled = [self.distil(logits) for logits in views]

        targets = torch.cat([F.one_hot(batch.labels, mean.shape[-1]).to(mean), *[target.probs] * self.copies])
        samples, targets = self._mix(torch.cat([batch.labeled, *batch.unlabeled]), targets, batch)
        logits = widen(model(samples))
        n = len(batch.labeled)
        return Losses(
            supervised=self.supervised(logits[:n], targets[:n]),
            consistency=target.weight.repeat(self.copies) * self.distance(self.map, logits[n:], targets[n:]),
            distillation=torch.stack([losses for losses, _ in distilled]).mean(0),
            diagnostics={"used": target.weight, "sharpened": acts(target, mean), **distilled[0][1]},
        )

    def _mix(self, samples: torch.Tensor, targets: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Every sample keeps the larger share of its mixture; its target is mixed alike."""
        generator = batch.draws.generator()
        drawn = generator.beta(self.mixup, self.mixup, len(samples))
        share = torch.from_numpy(drawn.clip(min=1 - drawn)).to(targets)
        partner = torch.from_numpy(generator.permutation(len(samples))).to(samples.device)
        of_sample = share.view(-1, *[1] * (samples.ndim - 1)).to(samples.dtype)
        mixed = samples[partner].lerp(samples, of_sample)
        return mixed, targets[partner].lerp(targets, share[:, None])
