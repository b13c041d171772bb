"""What a run measures of itself: scores of the averaged model on test, validation and unlabeled samples."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from halfsure.algorithms import Algorithm
from halfsure.data import Data
from halfsure.data.random import permute
from halfsure.metrics import dead_classes, pseudo_labels, score
from halfsure.training.class_shares import label_shares, prior_shares
from halfsure.training.config import Config
from halfsure.training.inference import logits_of
from halfsure.training.ranks import Ranks
from halfsure.views.preprocessing import Preprocessing

__all__ = ["Evaluator"]

SALT = 0xE7A1  # keeps the samples that are scored apart from other draws
TELLING = 2000  # labeled samples that are looked at where all others are predicted alike


def others(places: NDArray[np.int64], left_out: NDArray[np.int64]) -> NDArray[np.int64]:
    """What stands at these places of 0, 1, 2 … once a few numbers, given ascending, are left out. (n,) → (n,)."""
    return places + np.searchsorted(left_out - np.arange(len(left_out)), places, side="right")


class Evaluator:
    """Scores a model on test, validation and unlabeled samples."""

    def __init__(
        self, data: Data, preprocessing: Preprocessing, algorithm: Algorithm, config: Config, *, ranks: Ranks
    ) -> None:
        self.data, self.preprocessing, self.algorithm, self.config, self.ranks = (
            data,
            preprocessing,
            algorithm,
            config,
            ranks,
        )
        self.unlabeled = self._unlabeled()
        """Those of the unlabeled samples that are scored."""

    def due(self, step: int) -> bool:
        """Whether to evaluate after so many steps: evenly, the last time at the end, and at the start if asked."""
        number, steps = self.config.evaluation.evaluations, self.config.training.steps
        return step * number // steps > (step - 1) * number // steps or (
            step == 1 and self.config.evaluation.from_start
        )

    def line(self, step: int, model: nn.Module) -> dict[str, Any]:
        """One line of metrics.jsonl."""
        last = step == self.config.training.steps
        line: dict[str, Any] = {}
        known: dict[str, Tensor] = {}
        self.ranks.share_buffers(model)
        for name, part in (("test", self.data.test), ("val", self.data.val)):
            if part is not None and len(part):
                limit = 0 if last or name == "val" else self.config.evaluation.test_sample
                chosen = self._some(len(part), limit)
                known[name] = torch.from_numpy(part.labels[chosen])
                line[name], _ = self._score(model, part.samples, known[name], chosen)
        if len(self.unlabeled):
            chosen = self.unlabeled
            known["unlabeled"] = torch.from_numpy(self.data.train.labels[chosen])
            line["unlabeled"], logits = self._score(model, self.data.train.samples, known["unlabeled"], chosen)
            line["pseudo_labels"] = pseudo_labels(self.algorithm.audit(logits), known["unlabeled"])
        judged = next((name for name in ("unlabeled", "test", "val") if name in line), None)
        line["dead"] = self._dead(line[judged]["predicted"], known[judged]) if judged else []
        line["constant"] = self._constant(model, [line[name]["predicted"] for name in known])
        return line

    def _score(
        self, model: nn.Module, samples: NDArray[Any], labels: Tensor, chosen: NDArray[np.int64]
    ) -> tuple[dict[str, Any], Tensor]:
        logits = self._logits(model, samples, chosen)
        return score(logits, labels, self.algorithm.map), logits

    def _logits(self, model: nn.Module, samples: NDArray[Any], chosen: NDArray[np.int64]) -> Tensor:
        batch = self.config.evaluation.eval_batch
        logits = logits_of(model, samples, self.preprocessing, batch=batch, ranks=self.ranks, chosen=chosen)
        if not bool(logits.isfinite().all()):
            raise FloatingPointError("the output of the averaged model")
        return logits

    def _unlabeled(self) -> NDArray[np.int64]:
        """The unlabeled samples to score, ascending."""
        data, limit = self.data, self.config.evaluation.unlabeled_sample
        labeled = np.unique(data.labeled)
        if isinstance(data.seen, range):  # of ten million samples only some are scored, and the others not written down
            return others(self._some(len(data.seen) - len(labeled), limit), labeled)
        free = np.setdiff1d(data.seen, labeled)
        return free[self._some(len(free), limit)]

    def _some(self, count: int, limit: int) -> NDArray[np.int64]:
        """Places among so many samples: all, or as many as the limit says, always the same ones."""
        if not limit or limit >= count:
            return np.arange(count)
        return np.sort(permute(np.arange(limit), count, self.config.run.seed, SALT))

    def _dead(self, predicted: list[int], labels: Tensor) -> list[str]:
        """Classes that the model hardly predicts any more, although they are there."""
        known = labels[labels >= 0]
        if len(known) == len(labels):
            expected = torch.bincount(known, minlength=len(self.data.classes)).tolist()
        else:
            expected = self._shares().tolist()
        return [self.data.classes[index] for index in dead_classes(predicted, expected)]

    def _shares(self) -> NDArray[np.float64]:
        """Share of each class that predictions should have: a prior that was given, or that of the labels."""
        prior = prior_shares(self.data, getattr(self.config.sections["algorithm"], "prior", None))
        return label_shares(self.data) if prior is None else np.array(prior)

    def _constant(self, model: nn.Module, predicted: list[list[int]]) -> str | None:
        """The class that is predicted for every sample, of whatever class; None if there is no such."""
        if np.count_nonzero(np.sum(predicted, axis=0)) > 1:
            return None
        # There are labels of every class: a model that tells nothing apart gives itself away on them, and needs no
        # guess about what the other samples are.
        labeled = self.data.labeled
        first = np.unique(self.data.train.labels[labeled], return_index=True)[1][:TELLING]
        chosen = labeled[np.union1d(first, self._some(len(labeled), TELLING))]
        best = self._logits(model, self.data.train.samples, chosen).argmax(-1)
        counts = best.bincount(minlength=len(self.data.classes)).tolist()
        everywhere = np.flatnonzero(np.sum([counts, *predicted], axis=0))
        return self.data.classes[int(everywhere[0])] if len(everywhere) == 1 else None
