"""Samples to look at: the mistakes the model was surest of, and those it cannot decide about."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure._shown import without_places
from halfsure.bank.opening import find_source, open_again
from halfsure.data import Data, DataError, DataWarning, Part, Split
from halfsure.data.originals import Originals
from halfsure.report.pictures import picture
from halfsure.report.reading import Record
from halfsure.report.study import Study
from halfsure.runs.encoder_file import kept_encoder
from halfsure.runs.run import Run, load
from halfsure.runs.start import data_config_of
from halfsure.runs.with_encoder import as_seen_by
from halfsure.runs.writer import fingerprint
from halfsure.training.errors import RunError

__all__ = ["Chosen", "choose_ambiguous", "choose_mistakes", "samples"]

MANY = 12
LOOKED_AT = 5000
"""Samples the model is asked about, spread evenly over larger sets."""


@dataclass(frozen=True)
class Chosen:
    """Samples of one part of the data, with what the model says of them."""

    part: str
    samples: NDArray[Any] | Originals
    """Or the pictures and texts that they were made of."""
    indices: NDArray[np.int64]
    """Where each sample is in its part, (n,)."""
    names: NDArray[np.object_]
    """Its id, such as its file, or else its part and row, (n,)."""
    probs: NDArray[np.float64]
    """In the model's own map, (n, classes)."""
    labels: NDArray[np.int64]
    """−1 where not known, (n,)."""
    looked_at: int = 0
    """Out of how many they were chosen."""


def samples(study: Study) -> dict[str, object] | None:
    """Section: a dozen samples of either kind, of one run; none if they are not to be shown."""
    record = study.best.first
    if not study.shows_samples:
        return None
    try:
        run = load(record.path)
        data = as_seen_by(run, _data(study, record))
        mistakes, ambiguous = choose_mistakes(run, data), choose_ambiguous(run, data)
    except (DataError, RunError, OSError, ImportError, ValueError) as error:
        if study.data is not None and isinstance(error, DataError):
            raise
        return {"error": without_places(str(error), record.path)}
    if mistakes is None and ambiguous is None:
        return None
    return {"error": None, "mistakes": _cards(mistakes, run), "ambiguous": _cards(ambiguous, run)}


def choose_mistakes(run: Run, data: Data, many: int = MANY) -> Chosen | None:
    """Wrong predictions, the surest first: of test samples, else validation, else unlabeled ones with a known label."""
    for name, part in (("test", data.test), ("validation", data.val)):
        if part is not None and (part.labels >= 0).any():
            found = _ask(run, name, part, np.flatnonzero(part.labels >= 0))
            break
    else:
        hidden = _unlabeled(data)
        known = hidden[data.train.labels[hidden] >= 0]
        found = _ask(run, "unlabeled", data.train, known)
    wrong = found.probs.argmax(1) != found.labels
    # Sparse predictions are often exactly sure: among those the sample that comes first.
    order = np.lexsort((found.indices, -found.probs.max(1, initial=0)))
    return _take(found, [k for k in order if wrong[k]][:many])


def choose_ambiguous(run: Run, data: Data, many: int = MANY) -> Chosen | None:
    """Unlabeled samples with the most candidates, then those whose two best classes are closest."""
    found = _ask(run, "unlabeled", data.train, _unlabeled(data))
    if not len(found.indices):
        return None
    best = np.sort(found.probs, axis=1)
    order = np.lexsort((found.indices, best[:, -1] - best[:, -2], -(found.probs > 0).sum(1)))
    return _take(found, order[:many].tolist())


def _ask(run: Run, name: str, part: Part, rows: NDArray[np.int64]) -> Chosen:
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), LOOKED_AT)).astype(np.int64)] if len(rows) else rows
    taken, where = part.samples[some], "training" if name == "unlabeled" else name
    probs = run.probs(run.logits(taken)).numpy() if len(some) else np.zeros((0, len(run.classes)))
    shown = taken if part.originals is None else part.originals.take(some)
    ids = [""] * len(some) if part.ids is None else part.ids[some]
    names = [called or f"{where} sample {row}" for called, row in zip(ids, some, strict=True)]
    return Chosen(name, shown, some, np.array(names, dtype=object), probs, part.labels[some], len(some))


def _take(found: Chosen, rows: list[int]) -> Chosen | None:
    if not rows:
        return None
    samples = found.samples[rows] if isinstance(found.samples, np.ndarray) else found.samples.take(np.array(rows))
    each = ("indices", "names", "probs", "labels")
    return replace(found, samples=samples, **{name: getattr(found, name)[rows] for name in each})


def _unlabeled(data: Data) -> NDArray[np.int64]:
    return np.setdiff1d(data.seen, data.labeled)


def _data(study: Study, record: Record) -> Data:
    """The samples of a run: those given, or opened again by what the run recorded."""
    if study.data is not None:
        data = study.data
        split = Split.load(record.path / "split.json")
        data = data.with_labels(split.indices(data.train.labels, data.classes))
    else:
        if record.config.get("source") is None:
            raise RunError(
                "the run was begun from Python with data of its own; give the same data to halfsure.report.write"
            )
        source = find_source(str(record.config["source"]), record.path, study.source)
        try:
            config = data_config_of(record.config, source)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise RunError("its config.json does not say how the data were opened") from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # told when the run was begun
            data = open_again(record.path, source, config, record.seed, kept_encoder(record.path))
    if fingerprint(data) != record.config.get("fingerprint"):
        where = "those given" if study.data is not None else record.data_name
        raise DataError(f"the data of {record.path} were others than {where} now: samples, classes or labels differ")
    return data


def _cards(chosen: Chosen | None, run: Run) -> dict[str, Any] | None:
    if chosen is None:
        return None
    cards = []
    samples = [chosen.samples[row] for row in range(len(chosen.samples))]
    for sample, name, probs, label in zip(samples, chosen.names, chosen.probs, chosen.labels, strict=True):
        ranked = [(run.classes[c], probs[c]) for c in np.argsort(-probs, kind="stable")]
        shown = {"name": name, "picture": picture(sample)}
        truth, candidates = run.classes[label] if label >= 0 else None, [pair for pair in ranked if pair[1] > 0]
        cards.append(shown | {"predicted": ranked[0], "truth": truth, "candidates": candidates})
    return {"part": chosen.part, "looked_at": chosen.looked_at, "cards": cards}
