"""MixMatch (Berthelot et al., 2019): guess a label from several views, then train on mixtures of everything."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from halfsure._checks import check_count, check_number
from halfsure.algorithms.algorithm import Losses, TargetedAlgorithm, acts
from halfsure.algorithms.distances import distance as find_distance
from halfsure.nets.layers import frozen_statistics
from halfsure.simplex import SOFTMAX, widen
from halfsure.targets import PseudoLabel, Sharpening, Strategy
from halfsure.views.batch import Batch, ViewName

__all__ = ["MixMatch"]


class MixMatch(TargetedAlgorithm):
    """J_S + α J_C on mixtures: labeled samples and all views of unlabeled ones, mixed with a partner from among all.

    The guess is the strategy's target of the mean prediction over the views; the pass that makes it leaves batch-norm
    statistics alone, the pass over the mixtures updates them. The added strategies act on the views before mixing,
    averaged over them, with their gradient.
    """

    name = "mixmatch"
    settings = ("mixup", "copies", "distance")

    def __init__(
        self,
        strategy: Strategy | None = None,
        added: Sequence[Strategy] = (),
        *,
        mixup: float = 0.75,
        copies: int = 2,
        distance: str | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(strategy or Sharpening(), added, **rest)
        if isinstance(self.strategy, PseudoLabel) and self.strategy.threshold > 0:
            raise ValueError(
                "PseudoLabel leaves samples below its threshold without a target, and a mixture needs one of every "
                "sample: set its threshold to 0, or take Sharpening, ADS or TopM"
            )
        self.mixup = check_number("mixup", mixup, 1e-3)
        """Both parameters of the Beta distribution that mixing weights are drawn from."""
        self.copies = check_count("copies", copies, 1)
        """How many weak views a guess is made from."""
        self.views = tuple[ViewName, ...](["weak"] * self.copies)
        # Its own squared distance has next to no gradient where a sparse prediction is wrong and sure.
        self.distance = find_distance(distance or ("l2" if self.map == SOFTMAX else "fy"))

    def step(self, model: nn.Module, batch: Batch) -> Losses:
        """A pass for the guesses and a pass over the mixtures."""
        with frozen_statistics(model), torch.set_grad_enabled(len(self.added) > 0 and torch.is_grad_enabled()):
            views = widen(model(torch.cat(batch.unlabeled))).unflatten(0, (self.copies, -1))
        mean = self.map(views.detach()).mean(0)
        target = self.guess(mean if self.prior is None else self.prior(mean))
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
