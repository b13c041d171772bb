"""What held-out labels say of a run: its temperature, sets with a coverage, when to abstain; and trust.json."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure._disk import read_json
from halfsure.training.errors import RunError
from halfsure.trust import Conformal, Guarantee, abstain_threshold, class_scores, fit_temperature

if TYPE_CHECKING:
    from halfsure.runs.run import Run

__all__ = [
    "FILE",
    "FORMAT",
    "Again",
    "Evidence",
    "Fold",
    "fold_folder",
    "load_evidence",
    "noted_temperature",
    "read_content",
]

FILE = "trust.json"
FORMAT = 1
Again = Callable[["Run"], NDArray[Any]]
"""Gives samples as a model takes them."""


@dataclass(frozen=True)
class Fold:
    """A model, and samples with known labels that had no part in its training, not even without their labels."""

    run: "Run"
    labels: Tensor
    """Their classes. (n,)."""
    logits: Tensor
    """What the model makes of them. (n, classes)."""
    samples: NDArray[Any] | None = None
    """All training samples as the model sees them, where that is through an encoder of its own."""

    @property
    def right(self) -> Tensor:
        """Which of them the model gets right. → bool (n,)."""
        return self.logits.argmax(-1) == self.labels


@dataclass(frozen=True, eq=False)
class Evidence:
    """What held-out labels say of a model: its temperature, candidate sets with a coverage, when to abstain."""

    runs: "tuple[Run, ...]"
    """The models of the folds."""
    temperature: float
    """What the logits of the final model are divided by."""
    conformal: Conformal
    confidence: Tensor
    """Largest probability of each held-out sample. (n,)."""
    right: Tensor
    """Which of them were right. bool (n,)."""

    @classmethod
    def of(cls, folds: Sequence[Fold], weights: Tensor | None = None, *, calibrate: bool = True) -> "Evidence":
        """Gather it from folds; `weights` are the data's class shares over those of the labels."""
        labels, logits = (torch.cat([getattr(fold, name) for fold in folds]) for name in ("labels", "logits"))
        map = folds[0].run.map
        each = None if weights is None else weights[labels]
        temperature = fit_temperature(logits, labels, map, each) if calibrate else 1.0
        scores = [class_scores(fold.logits, map).gather(1, fold.labels[:, None])[:, 0] for fold in folds]
        return cls(
            tuple(fold.run for fold in folds),
            temperature,
            Conformal(tuple(scores), tuple(fold.labels for fold in folds), weights),
            map(logits.double() / temperature).amax(-1),
            logits.argmax(-1) == labels,
        )

    def sets(self, samples: NDArray[Any], coverage: float, again: Again | None = None) -> Tensor:
        """Which classes are candidates, by the models of the folds. → bool (n, classes).

        Where an encoder was tuned each fold has its own: `again` gives the samples as a fold's model sees them.
        """
        if again is None and any(run.is_tuned for run in self.runs):
            raise RunError(
                "each fold of this run has tuned an encoder of its own: give the pictures or texts themselves, not "
                "their features, for sets with a coverage"
            )
        seen = (samples if again is None or not run.is_tuned else again(run) for run in self.runs)
        scores = [class_scores(run.logits(some), run.map) for run, some in zip(self.runs, seen, strict=True)]
        return self.conformal.sets(scores, coverage)

    def guarantee(self, coverage: float) -> Guarantee:
        """What is promised of such sets."""
        return self.conformal.guarantee(coverage)

    def threshold(self, precision: float) -> float:
        """The probability from which on predictions are right as often as wanted; inf if there is none."""
        weights = self.conformal.weights
        each = None if weights is None else weights[torch.cat(self.conformal.labels)]
        return abstain_threshold(self.confidence, self.right, precision, each)

    def to_json(self) -> dict[str, Any]:
        """All but the models."""
        return {
            "temperature": self.temperature,
            "conformal": self.conformal.to_json(),
            "confidence": self.confidence.tolist(),
            "right": self.right.tolist(),
        }

    @classmethod
    def from_json(cls, values: Any, runs: "Sequence[Run]") -> "Evidence":
        """Read what `to_json` gave; anything else is refused."""
        if not isinstance(values, dict) or set(values) != {"temperature", "conformal", "confidence", "right"}:
            raise ValueError("what held-out labels say must be stored as temperature, conformal, confidence and right")
        temperature, confidence, right = values["temperature"], values["confidence"], values["right"]
        if not (isinstance(temperature, float) and math.isfinite(temperature) and temperature > 0):
            raise ValueError(f"a temperature must be a number above 0, got {temperature!r}")
        if not (isinstance(confidence, list) and isinstance(right, list) and len(confidence) == len(right)):
            raise ValueError("confidence and right must be lists of the same length")
        if not (all(type(c) is float and 0 <= c <= 1 for c in confidence) and all(type(r) is bool for r in right)):
            raise ValueError("confidence must be a list of numbers from 0 to 1, right one of true and false")
        conformal = Conformal.from_json(values["conformal"])
        if len(conformal.scores) != len(runs):
            raise ValueError(f"there are {len(runs)} models of folds, and scores of {len(conformal.scores)}")
        if (held := sum(map(len, conformal.scores))) != len(right):
            raise ValueError(f"there are scores of {held} held-out samples, and confidences of {len(right)}")
        sure, flags = torch.tensor(confidence, dtype=torch.float64), torch.tensor(right, dtype=torch.bool)
        return cls(tuple(runs), temperature, conformal, sure, flags)


def fold_folder(path: Path, number: int, count: int) -> Path:
    """Where the run of a fold is; another number of folds has other folders."""
    return path / "folds" / f"{number + 1}-of-{count}"


def load_evidence(run: "Run") -> Evidence | None:
    """What held-out labels say of a run, None if it was not checked."""
    from halfsure.runs.run import load  # noqa: PLC0415 - which has this module's Evidence

    content = None if run.path is None else read_content(run.path)
    if run.path is None or content is None:
        return None
    file = run.path / FILE
    try:
        count = content["folds"]
        if not isinstance(count, int) or not 1 <= count <= 1000:
            raise ValueError(f"{count!r:.40} is no number of folds")  # noqa: TRY301
        runs = [load(fold_folder(run.path, number, count), encoder=run.encoder) for number in range(count)]
        evidence = Evidence.from_json(content["evidence"], runs)
    except (ValueError, KeyError) as error:
        raise RunError(f"{file} cannot be used: {error}") from None
    if any(fold.classes != run.classes for fold in runs):
        raise RunError(f"{file}: the folds have other classes than the run")
    if evidence.temperature != run.temperature:
        raise RunError(
            f"{file} is of the temperature {evidence.temperature:.3f}, and the model's is {run.temperature:.3f}: they "
            f"belong to different checks; check it again with: halfsure resume {run.path}"
        )
    return evidence


def noted_temperature(path: Path) -> float:
    """The temperature in trust.json, for models from before their own file had it; 1 if the run was not checked."""
    evidence = (read_content(path) or {}).get("evidence")
    found = evidence.get("temperature") if isinstance(evidence, dict) else None
    return found if isinstance(found, float) and math.isfinite(found) and found > 0 else 1.0


def read_content(path: Path) -> dict[str, Any] | None:
    """What trust.json of a run holds; None if the run was not checked."""
    file = path / FILE
    if not file.is_file():
        return None
    try:
        content = read_json(file)
    except ValueError as error:
        raise RunError(f"{file} cannot be used: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RunError(f"{file} is not of this version of halfsure")
    return content
