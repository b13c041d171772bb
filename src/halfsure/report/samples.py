"""Samples to look at: the mistakes the model was surest of, and those it cannot decide about."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data import Data, DataError, Split
from halfsure.data.opening import DataConfig, open_again
from halfsure.report.markup import section, text
from halfsure.report.panels import figure
from halfsure.report.pictures import picture
from halfsure.report.reading import Record
from halfsure.report.study import Study
from halfsure.runs.run import Run, load
from halfsure.runs.writer import fingerprint
from halfsure.training.errors import RunError

__all__ = ["Chosen", "choose_ambiguous", "choose_mistakes", "samples"]

MANY = 12
LOOKED_AT = 5000
"""Samples the model is asked about, spread evenly over larger sets."""
NAMED = 4
"""Candidates that are named; of more the number."""


@dataclass(frozen=True)
class Chosen:
    """Samples of one part of the data, with what the model says of them."""

    part: str
    samples: NDArray[Any]
    indices: NDArray[np.int64]
    """Where each sample is in its part, (n,)."""
    probs: NDArray[np.float64]
    """In the model's own map, (n, classes)."""
    labels: NDArray[np.int64]
    """−1 where not known, (n,)."""
    looked_at: int = 0
    """Out of how many they were chosen."""


def samples(study: Study) -> str:
    """Section: a dozen samples of either kind, of one run."""
    record = study.best.first
    whose = (
        f" The run is {study.best.name} with seed {record.seed}: the first seed of the method with the lowest error."
    )
    which = "" if study.single else whose
    try:
        run, data = load(record.path), _data(study, record)
        mistakes, ambiguous = choose_mistakes(run, data), choose_ambiguous(run, data)
    except (DataError, RunError, OSError, ImportError, ValueError) as error:
        if study.data is not None and isinstance(error, DataError):
            raise
        why = f"The samples cannot be shown: {error}."
        return section("samples", "Samples", f'<p class="note">{text(why)}</p>')
    content = _cards(
        "Most confident mistakes", mistakes, run, f"Wrong predictions with the largest probability.{which}"
    )
    content += _cards(
        "Most ambiguous unlabeled samples",
        ambiguous,
        run,
        f"Samples with the most candidates; of equally many those whose two best classes are closest.{which}",
    )
    return section("samples", "Samples", content) if content else ""


def choose_mistakes(run: Run, data: Data, many: int = MANY) -> Chosen | None:
    """Wrong predictions, the surest first: of test samples, else validation, else unlabeled ones with a known label."""
    for name, part in (("test", data.test), ("validation", data.val)):
        if part is not None and (part.labels >= 0).any():
            found = _ask(run, name, part.samples, part.labels, np.flatnonzero(part.labels >= 0))
            break
    else:
        hidden = _unlabeled(data)
        known = hidden[data.train.labels[hidden] >= 0]
        found = _ask(run, "unlabeled", data.train.samples, data.train.labels, known)
    wrong = found.probs.argmax(1) != found.labels
    # Sparse predictions are often exactly sure: among those the sample that comes first.
    order = np.lexsort((found.indices, -found.probs.max(1, initial=0)))
    return _take(found, [k for k in order if wrong[k]][:many])


def choose_ambiguous(run: Run, data: Data, many: int = MANY) -> Chosen | None:
    """Unlabeled samples with the most candidates, then those whose two best classes are closest."""
    found = _ask(run, "unlabeled", data.train.samples, data.train.labels, _unlabeled(data))
    if not len(found.indices):
        return None
    best = np.sort(found.probs, axis=1)
    order = np.lexsort((found.indices, best[:, -1] - best[:, -2], -(found.probs > 0).sum(1)))
    return _take(found, order[:many].tolist())


def _ask(run: Run, part: str, stored: NDArray[Any], labels: NDArray[np.int64], rows: NDArray[np.int64]) -> Chosen:
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), LOOKED_AT)).astype(np.int64)] if len(rows) else rows
    taken = stored[some]
    probs = run.map(run.logits(taken).double()).numpy() if len(some) else np.zeros((0, len(run.classes)))
    return Chosen(part, taken, some, probs, labels[some], len(some))


def _take(found: Chosen, rows: list[int]) -> Chosen | None:
    if not rows:
        return None
    return replace(found, **{name: getattr(found, name)[rows] for name in ("samples", "indices", "probs", "labels")})


def _unlabeled(data: Data) -> NDArray[np.int64]:
    seen = np.arange(len(data.train)) if data.unlabeled is None else data.unlabeled
    return np.setdiff1d(seen, data.labeled)


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
        try:
            config = DataConfig(**record.config["data"])
        except (KeyError, TypeError):
            raise RunError("its config.json does not say how the data were opened") from None
        data = open_again(record.path, record.config["source"], config, record.seed)
    if fingerprint(data) != record.config.get("fingerprint"):
        where = "those given" if study.data is not None else Path(str(record.config.get("source"))).name
        raise DataError(f"the data of {record.path} were others than {where} now: samples, classes or labels differ")
    return data


def _cards(title: str, chosen: Chosen | None, run: Run, caption: str) -> str:
    if chosen is None:
        return ""
    cards = "\n".join(_card(chosen, k, run) for k in range(len(chosen.indices)))
    looked = f" Chosen from {chosen.looked_at:,} {chosen.part} samples."
    return figure(title, f'<ul class="cards">\n{cards}\n</ul>', caption + looked)


def _card(chosen: Chosen, k: int, run: Run) -> str:
    probs, truth = chosen.probs[k], int(chosen.labels[k])
    order = np.argsort(-probs, kind="stable").tolist()
    candidates = [c for c in order if probs[c] > 0]
    pairs = [f"{text(run.classes[c])} {probs[c]:.2f}" for c in candidates[:NAMED]]
    named = " ".join(f'<span class="pair">{pair}{"," * (k < len(pairs))}</span>' for k, pair in enumerate(pairs, 1))
    more = f" and {len(candidates) - NAMED} more" if len(candidates) > NAMED else ""
    true = f"<div><dt>true</dt> <dd><b>{text(run.classes[truth])}</b></dd></div>" if truth >= 0 else ""
    name = f"{'training' if chosen.part == 'unlabeled' else chosen.part} sample {int(chosen.indices[k])}"
    return (
        f"<li>{picture(chosen.samples[k], name)}<dl>"
        f"<div><dt>predicted</dt> <dd><b>{text(run.classes[order[0]])}</b> {probs[order[0]]:.2f}</dd></div>{true}"
        f"<div><dt>candidates</dt> <dd>{named}{more}</dd></div></dl>"
        f'<p class="where">{text(name)}</p></li>'
    )
