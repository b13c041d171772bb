"""A trained model with everything needed to use it: map, classes, preprocessing."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from halfsure.bank.new_samples import Reopened, samples_of
from halfsure.bank.tuned import Kept, tuned_fields
from halfsure.data import DataError
from halfsure.encoders import Encoder
from halfsure.metrics import last_median
from halfsure.runs.encoder_file import read_encoder
from halfsure.runs.evidence import Again, Evidence, load_evidence, noted_temperature
from halfsure.runs.folder import Folder, flat_settings
from halfsure.runs.model_file import Stored, read_model, save_model
from halfsure.simplex import Map
from halfsure.training.errors import RunError
from halfsure.training.inference import logits_of
from halfsure.views.preprocessing import Preprocessing

__all__ = ["Answers", "Run", "error_on", "load", "readings", "save_model"]

MODEL = "model.safetensors"
VALUES_A_PASS = 2**22
"""Of the samples that go through the network together: large images go a few at a time."""
Name = TypeVar("Name")


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of samples; whoever asks, in whatever way, is told this."""

    order: Tensor
    """The classes of each sample, the most likely first. (n, classes)."""
    probs: Tensor
    """In the model's own map, at its temperature; float64. (n, classes)."""
    candidates: Tensor
    """Which classes the true one may be. bool (n, classes)."""
    sure: Tensor
    """Which samples get an answer: all, unless abstaining was asked for. bool (n,)."""

    @property
    def best(self) -> Tensor:
        """The most likely class of each sample. → (n,)."""
        return self.order[:, 0]

    def sets(self, names: Sequence[Name]) -> list[tuple[Name, ...]]:
        """The candidates of each sample by the names of the classes, the most likely first."""
        pairs = zip(self.candidates.tolist(), self.order.tolist(), strict=True)
        return [tuple(names[place] for place in places if row[place]) for row, places in pairs]


@dataclass(frozen=True)
class Run:
    """A trained model, read through the map it was trained in."""

    model: nn.Module
    """The averaged weights, in evaluation mode."""
    map: Map
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    metrics: list[dict[str, Any]]
    """One entry an evaluation."""
    config: dict[str, Any]
    """What config.json holds: every setting, versions, and what the data was."""
    path: Path | None = field(default=None)
    encoding: dict[str, Any] | None = field(default=None)
    """How pictures or a table become samples, as `halfsure.bank.new_samples.read` takes it; None for plain arrays."""
    temperature: float = 1.0
    """What the logits are divided by before they become probabilities; 1 if no labels were held out to fit it."""
    held: Evidence | None = field(default=None, repr=False)
    """What held-out labels say, where that is not in the folder."""
    encoder: Encoder | None = field(default=None, repr=False)
    """An encoder of one's own, which was given again; others are opened by their names."""
    tuned: Kept | None = field(default=None, repr=False)
    """What tuning changed in the encoder, where that is not read from the folder."""

    @cached_property
    def evidence(self) -> Evidence | None:
        """What held-out labels say of the model; None if it was not checked, or its file is all there is."""
        return load_evidence(self) if self.held is None else self.held

    def logits(self, samples: NDArray[Any], batch: int | None = None) -> Tensor:
        """Samples as they were stored for training, uint8 images or float rows → (n, classes)."""
        return _finite(logits_of(self.model, samples, self.preprocessing, batch=batch or self._batch))

    def probs(self, logits: Tensor) -> Tensor:
        """Logits → probabilities, in the model's own map and at its temperature, in float64. The shape stays."""
        return self.map(logits.double() / self.temperature)

    def answers(
        self,
        samples: NDArray[Any],
        *,
        coverage: float | None = None,
        abstain: float | None = None,
        again: Again | None = None,
    ) -> Answers:
        """All that is told of stored samples.

        With `coverage` the candidates are sets that hold the true class as often as that, else the classes whose
        probability is not zero. With `abstain` only those samples get an answer whose answers are right as often as
        that. Both are by held-out labels. `again` gives the same samples as another run sees them: where the encoder
        was tuned, the models of the folds have encoders of their own.
        """
        least = 0.0 if abstain is None else self._checked("abstain").threshold(abstain)
        sets = None if coverage is None else self._checked("coverage").sets(samples, coverage, again)
        return self.read(self.logits(samples), sets, least)

    def read(self, logits: Tensor, sets: Tensor | None = None, least: float = 0.0) -> Answers:
        """What logits say; `sets` are candidates to use instead, `least` the probability from which on it answers."""
        probs, order = self.probs(logits), logits.argsort(dim=-1, descending=True, stable=True)
        # The answer is always a candidate: sets come from the folds' models, and coverage can only rise by it.
        candidates = probs > 0 if sets is None else sets.scatter(-1, order[:, :1], True)
        return Answers(order, probs, candidates, probs.amax(-1) >= least)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 - scikit-learn's name
        """Probabilities in the model's own map, at its temperature. → (n, classes).

        X is whatever the model was trained on: arrays, a DataFrame, a list of texts, or a path to any of them, to
        a picture or to a folder of pictures.
        """
        probs: NDArray[np.float64] = self.probs(self.logits(self.samples(X))).numpy()
        return probs

    def predict(self, X: Any) -> list[str]:  # noqa: N803
        """The best class of each sample, by its name; X is as for `predict_proba`."""
        return [self.classes[index] for index in self.best(self.samples(X)).tolist()]

    def best(self, samples: NDArray[Any], batch: int | None = None) -> Tensor:
        """The index of the best class of each sample; no more logits than a batch has are kept. → (n,)."""
        batch = batch or self._batch
        starts = range(0, max(len(samples), 1), batch)
        parts = ((start, samples[start : start + batch]) for start in starts)
        found = [
            _finite(logits_of(self.model, part, self.preprocessing, batch=batch), start).argmax(-1)
            for start, part in parts
        ]
        return torch.cat(found)

    def predict_set(self, X: Any, coverage: float | None = None) -> list[tuple[str, ...]]:  # noqa: N803
        """The candidate classes of each sample, the most likely first; X is as for `predict_proba`.

        Without `coverage` those whose probability is not zero; with it sets that hold the true class about that often,
        which takes a run that was checked on held-out labels.
        """
        again: Again = lambda run: run.samples(X)  # noqa: E731
        return self.answers(self.samples(X), coverage=coverage, again=again).sets(self.classes)

    def samples(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Whatever a person has → samples as the model takes them; X is as for `predict_proba`."""
        about = self.preprocessing
        return samples_of(X, self.encoding, shape=about.shape, kind=about.kind, encoder=self.encoders)

    @cached_property
    def encoders(self) -> Reopened:
        """The encoders that the model was trained with, opened when they are needed."""
        return Reopened(self.encoder, self._changed)

    @property
    def is_tuned(self) -> bool:
        """Whether labels tuned an encoder for it, so that no other model has the same features."""
        return tuned_fields(self.encoding) is not None

    def _changed(self) -> Mapping[str, Tensor]:
        """The weights that tuning changed."""
        if self.tuned is not None:
            return self.tuned.changed
        if self.path is None:
            raise RunError(
                "the encoder of this model was tuned, and a model file alone does not hold it: give the run folder"
            )
        return read_encoder(self.path, tuned_fields(self.encoding)).changed

    def _checked(self, what: str) -> Evidence:
        """What held-out labels say, for a question that cannot be answered without them."""
        if self.evidence is not None:
            return self.evidence
        if self.path is None:
            raise RunError(
                f"{what} needs the run folder: a model file alone does not hold what the check on held-out labels found"
            )
        raise RunError(f"{self.path} was not checked on held-out labels: train it with --folds 5, or omit {what}")

    @property
    def _batch(self) -> int:
        return max(1, min(500, VALUES_A_PASS // math.prod(self.preprocessing.shape)))

    @property
    def finished(self) -> bool:
        """Whether the run got to its last step."""
        return bool(self.metrics) and self.metrics[-1]["step"] == self.settings.get("steps")

    def readings(self) -> dict[str, float | None]:
        """The test error in three honest ways: see `readings`."""
        last = self.settings.get("last")
        return readings(self.metrics, last if type(last) is int and last > 0 else 1)

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting by its flat name."""
        return flat_settings(self.config)


def load(path: str | os.PathLike[str], model: nn.Module | None = None, encoder: Encoder | None = None) -> Run:
    """Open a run folder or its model file.

    A network of one's own has to be given again, its weights are replaced; so has an encoder of one's own.

    Examples:
        >>> import halfsure
        >>> halfsure.load("runs/nothing")
        Traceback (most recent call last):
        halfsure.training.errors.RunError: there is no run in runs/nothing
    """
    alone = Path(path).is_file()  # a model file is whole without its folder
    folder = Folder(Path(path).parent if alone else path)
    file = Path(path) if alone else folder.path / MODEL
    config = folder.config if file.name == MODEL else None  # by another name it is none of the folder's
    if config is None and not alone:
        raise RunError(f"there is no run in {folder.path}")
    if not file.is_file():
        raise RunError(f"{folder.path} has no model yet: the run saved nothing before it ended; start it again")
    stored = read_model(file)
    model = _filled(stored, file, model).eval().requires_grad_(False)
    noted = stored.temperature
    return Run(
        model,
        stored.map,
        stored.classes,
        stored.preprocessing,
        folder.metrics() if config else [],
        config or {},
        folder.path if config else None,
        stored.encoding,
        noted if noted is not None else noted_temperature(folder.path) if config else 1.0,
        encoder=encoder,
    )


def _filled(stored: Stored, file: Path, model: nn.Module | None) -> nn.Module:
    """The network of a model file with its weights, or the one that is given."""
    try:
        model = stored.network() if model is None else model
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise RunError(f"{file}: {str(error).splitlines()[-1].strip()}") from None
    kinds = {value.dtype for value in stored.weights.values() if value.is_floating_point()}
    try:
        model.to(kinds.pop() if len(kinds) == 1 else None).load_state_dict(stored.weights)
    except RuntimeError as error:
        why = str(error).splitlines()[-1].strip()
        raise RunError(f"the network does not fit the weights in {file}: {why}") from None
    return model


def _finite(logits: Tensor, first: int = 0) -> Tensor:
    """The same logits, if all are finite; `first` is the number of the first sample."""
    if len(lost := (~logits.isfinite().all(-1)).nonzero()):
        raise DataError(
            f"the model's output for sample {first + int(lost[0])} is not finite: its values lie too far from those "
            "that the model was trained on, or the model's weights are damaged"
        )
    return logits


def readings(metrics: list[dict[str, Any]], k: int) -> dict[str, float | None]:
    """The test error at the last evaluation, as the median of the last k, and where validation was best.

    Never the best on test: that would be selected on the data it is judged by.
    """
    tested = [(error_on(line, "test"), error_on(line, "val"), line["step"]) for line in metrics]
    errors = [test for test, _, _ in tested if test is not None]
    validated = [(val, -step, test) for test, val, step in tested if test is not None and val is not None]
    return {
        "last": errors[-1] if errors else None,
        "median": last_median(errors, k),
        "validated": min(validated)[2] if validated else None,
    }


def error_on(line: dict[str, Any], part: str) -> float | None:
    """The error on a part of the data, if an evaluation has it."""
    scores = line.get(part)
    error = scores.get("error") if isinstance(scores, dict) else None
    return error if isinstance(error, int | float) and not isinstance(error, bool) and math.isfinite(error) else None
