"""Virtual Adversarial Training (Miyato et al., 2018): the prediction should not change where it changes most easily."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from halfsure._checks import check_count, check_number
from halfsure.algorithms.algorithm import Algorithm, Losses, Replay, constant_weights
from halfsure.algorithms.distances import distance as find_distance
from halfsure.nets.layers import frozen_statistics
from halfsure.simplex import SOFTMAX, Map, fenchel_young, widen
from halfsure.targets import Strategy
from halfsure.views.batch import Batch

__all__ = ["VAT"]


class VAT(Algorithm):
    """J_S + α J_C: every sample of the batch, the labeled ones too, against itself moved by ε in its worst direction.

    Only the clean pass updates batch-norm statistics; all passes share one dropout mask. The added strategies act on
    the clean unlabeled logits.
    """

    name = "vat"
    views = ("weak",)
    settings = ("epsilon", "xi", "power_steps", "distance")

    def __init__(
        self,
        map: Map | str = SOFTMAX,
        added: Sequence[Strategy] = (),
        *,
        epsilon: float = 0.6,
        xi: float = 0.1,
        power_steps: int = 1,
        distance: str = "fy",
        **rest: Any,
    ) -> None:
        super().__init__(map, added, **rest)
        self.epsilon = check_number("epsilon", epsilon, 0)
        """How far samples are moved, in the L2 norm of the model's inputs."""
        self.xi = check_number("xi", xi, 1e-8)
        """How far to step for a finite difference, in the same units."""
        self.power_steps = check_count("power_steps", power_steps)
        self.distance = find_distance(distance)

    def step(self, model: nn.Module, batch: Batch) -> Losses:
        """A clean pass, the power steps, and a perturbed pass."""
        (unlabeled,) = batch.unlabeled
        samples = torch.cat([batch.labeled, unlabeled])
        start = [batch.draws.normal("labeled", batch.labeled), batch.draws.normal("unlabeled", unlabeled)]
        replay = Replay(samples.device)
        clean = widen(model(samples))
        with frozen_statistics(model):
            worst = self.direction(model, samples, clean.detach(), torch.cat(start), replay)
            with replay():
                perturbed = widen(model(samples + self.epsilon * worst))
        labeled_logits, unlabeled_logits = clean.split([len(batch.labeled), len(unlabeled)])
        distillation, acted = self.distil(unlabeled_logits)
        return Losses(
            supervised=self.supervised(labeled_logits, batch.labels),
            consistency=self.distance(self.map, perturbed, self.map(clean.detach())),
            distillation=distillation,
            diagnostics=acted,
        )

    def direction(
        self,
        model: nn.Module,
        samples: Tensor,
        clean: Tensor,
        start: Tensor,
        replay: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Tensor:
        """The unit vectors along which predictions change most, by power iteration. (n, …) → (n, …).

        Always by the softmax KL: through sparsemax the gradient is exactly zero for every sample that is sure. And
        always in full precision, where a step of ξ is not lost.
        """
        probs = SOFTMAX(clean)
        worst = unit(start)
        for _ in range(self.power_steps):
            moved = worst.detach().requires_grad_()
            full = torch.autocast(samples.device.type, enabled=False)
            with constant_weights(model) as bare, replay(), full, torch.enable_grad():
                logits = widen(bare(samples + self.xi * moved))
                change = fenchel_young(SOFTMAX, logits, SOFTMAX(logits), probs).sum()
                (gradient,) = torch.autograd.grad(change, moved)
            # Where nothing changes at all, the direction stays as it was.
            flat = gradient.flatten(1).abs().amax(1).view(-1, *[1] * (gradient.ndim - 1)) == 0
            worst = torch.where(flat, worst, unit(gradient))
        return worst.detach()


def unit(vectors: Tensor) -> Tensor:
    """Each sample scaled to length 1; a zero stays zero. (n, …) → (n, …)."""
    # By the largest entry first: the squares of a gradient of 1e-25 would underflow.
    shape = (-1, *[1] * (vectors.ndim - 1))
    tiny = torch.finfo(vectors.dtype).tiny
    scaled = vectors / vectors.flatten(1).abs().amax(1).clamp(min=tiny).view(shape)
    length: Tensor = torch.linalg.vector_norm(scaled.flatten(1), dim=1)
    return scaled / length.clamp(min=tiny).view(shape)
