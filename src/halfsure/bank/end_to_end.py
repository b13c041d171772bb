"""Data whose encoder is trained together with the classifier on its features, on pixels and words.

Outside training such data are what they always are: features of the encoder as it came. Training sees pixels and words,
and a trained model sees features of its own tuned encoder.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from halfsure.bank.encoded import Banked, EndToEnd, originals_of, plain_features
from halfsure.bank.network_inputs import Inputs
from halfsure.bank.tuned import encoding_with
from halfsure.data import Data, DataError, Part
from halfsure.data.originals import Originals
from halfsure.encoders import Encoder
from halfsure.encoders.changed_weights import fields_of_tuned
from halfsure.encoders.encoder import EncoderError

__all__ = [
    "KIND",
    "end_to_end",
    "for_training",
    "how_trained",
    "seen_through",
    "train_encoder",
    "trainable",
    "trained_encoder",
]

KIND = "end-to-end"
"""The kind of data that training sees."""


def train_encoder(data: Data, way: str, rate: float) -> Data:
    """The same data, whose encoder is to be trained together with the classifier; as they are for another `way`."""
    if way not in ("last", "all"):
        return data
    how: Literal["last", "all"] = "last" if way == "last" else "all"
    instead = "take tune pairs or none"
    if len(data.encoded) != 1 or not isinstance(data.encoded[0], Banked):
        raise DataError(f"tune {way} is for data of which an encoder makes all features, and these are not: {instead}")
    banked = data.encoded[0]
    if banked.features != slice(0, data.train.samples.shape[1]):
        raise DataError(f"tune {way} is for pictures and texts without other columns: {instead}")
    encoder = banked.opener.encoder
    try:
        encoder.continuous([""] if encoder.kind == "text" else torch.zeros(0))
        trainable(encoder, how)
    except EncoderError as error:
        raise DataError(str(error)) from None
    what = "the last blocks of" if way == "last" else "all of"
    note = f"{what} {encoder.full_name} are trained with the classifier, at {rate:g} times its rate"
    trained = replace(banked, end_to_end=EndToEnd(how, rate))
    return replace(data, encoded=(trained,), notes=(*data.notes[:1], note, *data.notes[1:]))


def end_to_end(data: Data) -> Banked | None:
    """What is encoded, if its encoder is to be trained together with the classifier."""
    found = (one for one in data.encoded if isinstance(one, Banked) and one.end_to_end is not None)
    return next(found, None)


def how_trained(data: Data) -> EndToEnd | None:
    """How the encoder is to be trained, if it is."""
    banked = end_to_end(data)
    return None if banked is None else banked.end_to_end


def trainable(encoder: Encoder, way: Literal["last", "all"]) -> nn.Module:
    """A copy of an encoder's network, of which what is to be trained requires a gradient."""
    net = encoder.network()
    if way == "last":
        wanted = {weight for block in encoder.last_blocks(net) for weight in block.parameters()}
        for weight in net.parameters():
            weight.requires_grad_(weight.requires_grad and weight in wanted)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs leave it out
    return net


def for_training(data: Data) -> Data:
    """The same data as pixels and words."""
    banked = end_to_end(data)
    assert banked is not None

    def part(was: Part) -> Part:
        inputs: Any = Inputs(originals_of(was, 0), banked.opener.encoder)
        return replace(was, samples=inputs)

    return _with_parts(replace(data, kind=KIND), part)


def trained_encoder(data: Data, changed: dict[str, Tensor]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the trained encoder says of itself, and how new samples then become features."""
    banked, how = end_to_end(data), how_trained(data)
    assert banked is not None and how is not None  # noqa: PT018
    fields = fields_of_tuned(banked.opener.encoder, changed, how.way)
    return fields, encoding_with(data.encoding, 0, fields)


def seen_through(data: Data, open_encoder: Callable[[], Encoder]) -> Data:
    """The same data as a trained model sees them, through its encoder; others stay as they are."""
    if end_to_end(data) is None:
        return data
    encoder = open_encoder()

    def part(was: Part) -> Part:
        features: Any = _Features(originals_of(was, 0), encoder)
        return replace(was, samples=features)

    return _with_parts(data, part)


def _with_parts(data: Data, part: Callable[[Part], Part]) -> Data:
    train, val, test = (None if was is None else part(was) for was in (data.train, data.val, data.test))
    assert train is not None
    # All parts change at once: one after the other their samples would not have the same shape.
    return replace(data, train=train, val=val, test=test)


@dataclass(frozen=True, eq=False)
class _Features:
    """Features of samples by an encoder, as an array: they are made, or looked up in the bank, when asked for."""

    originals: Originals
    encoder: Encoder

    def __len__(self) -> int:
        return len(self.originals)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features."""
        return len(self), self.encoder.dimension

    def __getitem__(self, key: Any) -> NDArray[np.float32]:
        rows = np.arange(len(self))[key]
        return np.asarray(plain_features(self.originals.take(rows), self.encoder), np.float32)
