"""New samples for a trained model, seen through the encoder that the model was trained with."""

import os
from dataclasses import dataclass, field, replace
from functools import cache, partial
from json import dumps, loads
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.bank.encoded import Opener, Plan, PretrainedText, plain_features
from halfsure.data import DataError, new
from halfsure.data.arrays import as_samples
from halfsure.data.originals import PictureArray
from halfsure.data.text import TextEncoding, TextRows
from halfsure.encoders import Encoder
from halfsure.encoders.choosing import Changed, restore

__all__ = ["ENCODED", "Reopened", "read", "samples_of"]

ENCODED = "encoded"
"""The kind of an encoding that goes through an encoder of pictures."""


@dataclass(frozen=True, eq=False)
class Reopened:
    """The encoders that a model was trained with, opened again when they are needed."""

    own: Encoder | None = None
    """An encoder of one's own, which has to be given again."""
    changed: Changed | None = None
    """Gives the weights that tuning changed."""
    tuned: dict[str, Encoder] = field(default_factory=dict, repr=False)
    """Encoders that were tuned and are open, by their checksum."""

    def open(self, fields: Any) -> Encoder:
        """The encoder that a model says this of."""
        if not isinstance(fields, dict):
            raise DataError("the model does not say which encoder it was trained with: its file is damaged")
        if "tuned_from" not in fields:
            return restore(fields, self.own) if self.own is not None else _restore(dumps(fields))
        name = str(fields.get("sha256"))
        if name not in self.tuned:
            self.tuned[name] = restore(fields, self.own, self.changed)
        return self.tuned[name]

    def __getstate__(self) -> dict[str, Any]:
        """A session of onnxruntime cannot be pickled; it is opened again."""
        return vars(self) | {"tuned": {}}


Given = Encoder | Reopened | None
"""An encoder of one's own, or those of a run."""


def read(
    source: str | os.PathLike[str],
    encoding: dict[str, Any] | None,
    *,
    shape: tuple[int, ...],
    encoder: Given = None,
    **options: Any,
) -> new.New:
    """Read samples for a model, as `halfsure.data.new.read` does, and encode them as the model's were."""
    if (encoding or {}).get("kind") != ENCODED:
        return new.read(source, encoding, shape=shape, restored=partial(_restored, given=encoder), **options)
    assert encoding is not None
    found = new.read(source, encoding.get("of"), shape=None, **options)
    assert found.originals is not None
    return replace(found, samples=plain_features(found.originals, _reopened(encoder).open(encoding.get("encoder"))))


def samples_of(
    X: Any,  # noqa: N803 - scikit-learn's name
    encoding: dict[str, Any] | None,
    *,
    shape: tuple[int, ...],
    kind: str,
    encoder: Given = None,
) -> NDArray[Any]:
    """Whatever a person has → samples of a model, as `halfsure.data.new.samples_of`; features are taken as they are."""
    if (encoding or {}).get("kind") != ENCODED:
        return new.samples_of(X, encoding, shape=shape, kind=kind, restored=partial(_restored, given=encoder))
    assert encoding is not None
    if isinstance(X, str | os.PathLike):
        return read(X, encoding, shape=shape, encoder=encoder).samples
    rows, found = as_samples(X, "X")
    if found == "image":
        return np.asarray(plain_features(PictureArray(rows), _reopened(encoder).open(encoding.get("encoder"))))
    if rows.shape[1:] != shape:
        raise DataError(f"X has samples of shape {rows.shape[1:]}, but the model takes pictures")
    return rows


def _reopened(given: Given) -> Reopened:
    return given if isinstance(given, Reopened) else Reopened(given)


@cache
def _restore(fields: str) -> Encoder:
    return restore(loads(fields))


def _restored(fields: Any, given: Given = None) -> TextRows:
    """What encodes the texts of a model."""
    if not isinstance(fields, dict) or "encoder" not in fields:
        return TextEncoding.from_json(fields)
    encoder = fields["encoder"]
    return PretrainedText(Opener(str(encoder.get("name")), partial(_reopened(given).open, encoder)), Plan())
