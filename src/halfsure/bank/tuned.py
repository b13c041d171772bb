"""The labels of data tune the encoder that the data are seen through; features and views come from the tuned one.

Labeled training samples alone take part: neither those for validation and testing, nor what a fold holds out.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from halfsure.bank.bar import say
from halfsure.bank.encoded import Banked, Opener, TunedFrom, originals_of, plain_features
from halfsure.bank.making import CALLED
from halfsure.bank.network_inputs import Shown
from halfsure.data import Data, DataError, Part
from halfsure.data.dataset import UNLABELED
from halfsure.encoders import Encoder
from halfsure.encoders.changed_weights import tuned_from
from halfsure.encoders.encoder import EncoderError
from halfsure.encoders.pair_tuning import Tuning, labeled_rows, tune_pairs
from halfsure.encoders.pair_verdict import pays

__all__ = [
    "MOST_SECONDS",
    "Kept",
    "Tune",
    "encoding_with",
    "kept_of",
    "tune",
    "tune_again",
    "tuned_encoder",
    "tuned_fields",
    "tuned_in",
]

Tune = Literal["none", "pairs", "auto", "last", "all"]
MOST_SECONDS = 120.0
"""For which `auto` may try whether tuning pays, the tuning itself included."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What a run keeps of its tuned encoder."""

    untuned: str
    """Checksum of the encoder as it came."""
    changed: Mapping[str, Tensor]


def tune(
    data: Data, how: Tune, seed: int, console: Console | None = None, kept: Kept | None = None, *, unlabeled: int = 0
) -> Data:
    """The same data through an encoder that its labels have tuned, or as they are where that is not wanted.

    Args:
        data: seen through an encoder; of several columns of texts the first one's is tuned.
        how: pairs, or auto where held-out labels decide; what is trained with the classifier is not tuned first.
        seed: of the tuning; the same seed and labels give the same bits.
        console: where to say what is going on.
        kept: what a run keeps of its tuned encoder, which is then not tuned again.
        unlabeled: samples without a label that take part at most.
    """
    if how not in ("pairs", "auto"):
        return data
    place = _place(data)
    if place is None:
        return _untuned(data, how, "there are neither pictures nor texts that are seen through a pretrained encoder")
    banked = data.encoded[place]
    assert isinstance(banked, Banked)
    told = TunedFrom(banked.opener, seed, unlabeled)
    try:
        encoder, said = _restored(banked.opener, kept) or _tuned(data, place, how, told, console)
    except (EncoderError, ValueError) as error:
        return _untuned(data, how, str(error))
    if encoder is None:
        return _with_note(data, said)
    others = sum(isinstance(one, Banked) for one in data.encoded) - 1
    said += "; of the columns of texts the first is tuned" if others else ""
    return _with_note(_through(data, place, encoder, told, console), said)


def tune_again(data: Data, console: Console | None = None, kept: Kept | None = None) -> Data:
    """Data whose encoder was tuned on other labels, through one that these alone have tuned."""
    place = tuned_in(data)
    if place is None:
        return data
    banked = data.encoded[place]
    assert isinstance(banked, Banked) and banked.tuned is not None  # noqa: PT018
    base = replace(data, encoded=_replaced(data.encoded, place, replace(banked, opener=banked.tuned.opener)))
    try:
        encoder, _ = _restored(banked.tuned.opener, kept) or _tuned(base, place, "pairs", banked.tuned, console)
    except ValueError as error:
        raise DataError(f"a fold leaves too few labels: {error}; ask for more folds, or take tune none") from None
    assert encoder is not None
    return _through(data, place, encoder, banked.tuned, console)


def tuned_in(data: Data) -> int | None:
    """The place among the data's `encoded` whose encoder was tuned."""
    found = (place for place, one in enumerate(data.encoded) if isinstance(one, Banked) and one.tuned is not None)
    return next(found, None)


def tuned_encoder(data: Data) -> Encoder | None:
    """The encoder that was tuned, if one was."""
    place = tuned_in(data)
    banked = None if place is None else data.encoded[place]
    return banked.opener.encoder if isinstance(banked, Banked) else None


def kept_of(data: Data) -> Kept | None:
    """What a run is to keep of the encoder that was tuned, if one was."""
    encoder = tuned_encoder(data)
    return None if encoder is None else Kept(encoder.untuned_checksum, dict(encoder.changed))


def tuned_fields(encoding: Any) -> dict[str, Any] | None:
    """What an encoding says of its tuned encoder; None if none was tuned, or it says nothing that makes sense."""
    if not isinstance(encoding, dict):
        return None
    columns = encoding.get("columns")
    texts = [column.get("text") for column in columns if isinstance(column, dict)] if isinstance(columns, list) else []
    for one in (encoding, *texts):
        fields = one.get("encoder") if isinstance(one, dict) else None
        if isinstance(fields, dict) and "tuned_from" in fields:
            return fields
    return None


def _place(data: Data) -> int | None:
    return next((place for place, one in enumerate(data.encoded) if isinstance(one, Banked)), None)


def _untuned(data: Data, how: Tune, why: str) -> Data:
    """Refuse, or where nobody asked for it by name do without."""
    if how == "pairs":
        raise DataError(f"the encoder cannot be tuned: {why}; or take tune none")
    return _with_note(data, f"not tuned: {why}")


def _with_note(data: Data, note: str) -> Data:
    """After what is said of the encoder itself."""
    return replace(data, notes=(*data.notes[:1], note, *data.notes[1:]))


def _restored(opener: Opener, kept: Kept | None) -> tuple[Encoder, str] | None:
    """The tuned encoder that a run has kept, and a sentence; None if it has kept none of this encoder."""
    if kept is None or kept.untuned != opener.encoder.checksum:
        return None
    said = f"{opener.encoder.full_name} is tuned by pairs, with the weights that the run has kept"
    return tuned_from(opener.encoder, kept.changed, "pairs"), said


def _tuned(data: Data, place: int, how: Tune, told: TunedFrom, console: Console | None) -> tuple[Encoder | None, str]:
    """The tuned encoder, None if it does not pay; and a sentence."""
    banked = data.encoded[place]
    assert isinstance(banked, Banked)
    encoder, seed, unlabeled = banked.opener.encoder, told.seed, told.unlabeled
    labels = np.full(len(data.train), UNLABELED)
    labels[data.labeled] = data.train.labels[data.labeled]
    labeled_rows(labels, labels)
    samples = Shown(originals_of(data.train, place), encoder)
    tuning = Tuning(flip=banked.plan.flip, most_unlabeled=unlabeled)
    rest = _Some(samples, np.setdiff1d(data.seen, data.labeled)) if unlabeled else None
    about = f"{len(data.labeled):,} labels"
    if rest is not None and len(rest):
        about += f" and the surest of {min(len(rest), unlabeled):,} unlabeled {CALLED[encoder.kind]}"
    reason = ""
    if how == "auto":
        say(console, f"whether tuning {encoder.full_name} by pairs of {about} pays is tried on held-out labels")
        verdict = pays(encoder, samples, labels, unlabeled=rest, seed=seed, tuning=tuning, most_seconds=MOST_SECONDS)
        if not verdict.pays:
            return None, verdict.sentence
        reason = f"; {verdict.sentence}"
    say(console, f"tuning {encoder.full_name} by pairs of {about}")
    began = time.monotonic()
    tuned = tune_pairs(encoder, samples, labels, unlabeled=rest, seed=seed, tuning=tuning)
    return tuned, f"{encoder.full_name} is tuned by pairs of {about}, in {time.monotonic() - began:.0f} s{reason}"


@dataclass(frozen=True)
class _Some:
    """Some of the samples, read when they are drawn."""

    samples: Shown
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Any:
        return self.samples[int(self.rows[place])]


def _through(data: Data, place: int, encoder: Encoder, tuned: TunedFrom, console: Console | None) -> Data:
    """The same data with the features of one place from another encoder."""
    old = data.encoded[place]
    assert isinstance(old, Banked)
    opener = Opener(encoder.full_name, partial(_opened, tuned.opener, dict(encoder.changed)))
    vars(opener)["encoder"] = encoder  # it is open already
    banked = replace(old, opener=opener, tuned=tuned, made={})

    def part(was: Part) -> Part:
        features = plain_features(originals_of(was, place), encoder, console)
        if old.features != slice(0, was.samples.shape[1]):
            rows = np.array(was.samples)
            rows[:, old.features] = features
            features = rows
        return replace(was, samples=features)

    return replace(
        data,
        train=part(data.train),
        val=None if data.val is None else part(data.val),
        test=None if data.test is None else part(data.test),
        encoding=encoding_with(data.encoding, place, encoder.as_json()),
        encoded=_replaced(data.encoded, place, banked),
    )


def _opened(untuned: Opener, changed: Mapping[str, Tensor]) -> Encoder:
    return tuned_from(untuned.encoder, changed, "pairs")


def _replaced(items: Sequence[Any], place: int, item: Any) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


def encoding_with(old: dict[str, Any] | None, place: int, fields: dict[str, Any]) -> dict[str, Any]:
    """How samples are made, with the tuned encoder in place of the one that came: of pictures, or of a text column."""
    assert old is not None
    if "columns" not in old:
        return old | {"encoder": fields}
    texts = [number for number, column in enumerate(old["columns"]) if column["text"]]
    column = old["columns"][texts[place]]
    changed = column | {"text": column["text"] | {"encoder": fields}}
    return old | {"columns": list(_replaced(old["columns"], texts[place], changed))}
