"""A trained model with everything needed to use it: map, classes, preprocessing."""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from halfsure.data import DataError
from halfsure.metrics import last_median
from halfsure.runs.folder import Folder, flat_settings
from halfsure.runs.model_file import Stored, read_model, save_model
from halfsure.simplex import Map
from halfsure.training.errors import RunError
from halfsure.training.inference import logits_of
from halfsure.views.preprocessing import Preprocessing

__all__ = ["Run", "load", "readings", "save_model"]


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
    """How pictures or a table become samples, as `halfsure.data.new.read` takes it; None for plain arrays."""

    def logits(self, samples: NDArray[Any], batch: int = 500) -> Tensor:
        """Samples as they were stored for training, uint8 images or float rows → (n, classes)."""
        return _finite(logits_of(self.model, samples, self.preprocessing, batch=batch))

    def predict_proba(self, samples: NDArray[Any]) -> NDArray[np.float32]:
        """Probabilities in the model's own map. → (n, classes)."""
        probs: NDArray[np.float32] = self.map(self.logits(samples)).float().numpy()
        return probs

    def predict(self, samples: NDArray[Any]) -> list[str]:
        """The best class of each sample, by its name."""
        return [self.classes[index] for index in self.best(samples).tolist()]

    def best(self, samples: NDArray[Any], batch: int = 500) -> Tensor:
        """The index of the best class of each sample; no more logits than a batch has are kept. → (n,)."""
        starts = range(0, max(len(samples), 1), batch)
        parts = ((start, samples[start : start + batch]) for start in starts)
        found = [
            _finite(logits_of(self.model, part, self.preprocessing, batch=batch), start).argmax(-1)
            for start, part in parts
        ]
        return torch.cat(found)

    def predict_set(self, samples: NDArray[Any]) -> list[tuple[str, ...]]:
        """The candidate classes of each sample, those whose probability is not zero, the most likely first."""
        probs = self.predict_proba(samples)
        orders = np.argsort(-probs, axis=1, kind="stable")
        return [tuple(self.classes[i] for i in order if row[i] > 0) for row, order in zip(probs, orders, strict=True)]

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


def load(path: str | os.PathLike[str], model: nn.Module | None = None) -> Run:
    """Open a run folder or its model file. A network of one's own has to be given again, its weights are replaced.

    Examples:
        >>> import halfsure
        >>> halfsure.load("runs/nothing")
        Traceback (most recent call last):
        halfsure.training.errors.RunError: there is no run in runs/nothing
    """
    alone = Path(path).is_file()  # a model file is whole without its folder
    folder = Folder(Path(path).parent if alone else path)
    file = Path(path) if alone else folder.path / "model.safetensors"
    config = folder.config
    if config is None and not alone:
        raise RunError(f"there is no run in {folder.path}")
    if not file.is_file():
        raise RunError(f"{folder.path} has no model yet: the run saved nothing before it ended; start it again")
    stored = read_model(file)
    model = _filled(stored, file, model).eval().requires_grad_(False)
    return Run(
        model,
        stored.map,
        stored.classes,
        stored.preprocessing,
        folder.metrics() if config else [],
        config or {},
        folder.path if config else None,
        stored.encoding,
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
            "that the model was trained on"
        )
    return logits


def readings(metrics: list[dict[str, Any]], k: int) -> dict[str, float | None]:
    """The test error at the last evaluation, as the median of the last k, and where validation was best.

    Never the best on test: that would be selected on the data it is judged by.
    """
    tested = [(_error(line, "test"), _error(line, "val"), line["step"]) for line in metrics]
    errors = [test for test, _, _ in tested if test is not None]
    validated = [(val, -step, test) for test, val, step in tested if test is not None and val is not None]
    return {
        "last": errors[-1] if errors else None,
        "median": last_median(errors, k),
        "validated": min(validated)[2] if validated else None,
    }


def _error(line: dict[str, Any], part: str) -> float | None:
    """The error on a part of the data, if an evaluation has it."""
    scores = line.get(part)
    error = scores.get("error") if isinstance(scores, dict) else None
    return error if isinstance(error, int | float) and not isinstance(error, bool) and math.isfinite(error) else None
