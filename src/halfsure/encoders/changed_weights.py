"""An encoder that was tuned: the encoder as it came, and the weights that tuning changed."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from halfsure.encoders.encoder import Encoder, EncoderError

__all__ = ["Way", "fields_of_tuned", "tuned_from", "untuned_name"]

Way = Literal["pairs", "last", "all"]
"""How an encoder is tuned: by pairs of labeled samples, or its last blocks or all of it together with a classifier."""


def tuned_from(encoder: Encoder, changed: Mapping[str, Tensor], way: Way) -> Encoder:
    """The tuned encoder again, from the encoder as it came and the weights that tuning changed."""
    fields = fields_of_tuned(encoder, changed, way)
    net = encoder.network()
    state = net.state_dict()
    for name, value in changed.items():
        if name not in state or state[name].shape != value.shape:
            raise EncoderError(
                f"these tuned weights are not of {encoder.full_name}: no {name} {tuple(value.shape)} there"
            )
        if not value.isfinite().all():
            raise EncoderError(f"the tuned weights of {encoder.full_name} are damaged: {name} is not finite")
        state[name] = value.to(state[name].dtype)
    net.load_state_dict(state)
    tuned = encoder.with_network(net)
    tuned.changed = dict(changed)
    tuned.untuned_checksum, tuned.checksum, tuned.full_name = fields["tuned_from"], fields["sha256"], fields["name"]
    return tuned


def fields_of_tuned(encoder: Encoder, changed: Mapping[str, Tensor], way: Way) -> dict[str, Any]:
    """What a bank, a run and an export say of the tuned encoder, which need not be made for it."""
    if encoder.untuned_checksum:
        raise EncoderError(f"{encoder.full_name} is tuned already; give the encoder as it came")
    digest = _digest(encoder.checksum, changed)
    return encoder.as_json() | {
        "name": f"{encoder.full_name}+{way}",
        "sha256": digest,
        "tuned_from": encoder.checksum,
    }


def untuned_name(name: str) -> tuple[str, Way]:
    """The name of a tuned encoder → that of the encoder as it came, and how it was tuned."""
    came, _, way = name.rpartition("+")
    for known in get_args(Way):
        if way == known and came:
            return came, known
    raise EncoderError(f"{name} does not say how it was tuned")


def _digest(untuned: str, changed: Mapping[str, Tensor]) -> str:
    """Of the encoder as it came and of what changed."""
    digest = hashlib.sha256(untuned.encode())
    for name in sorted(changed):
        digest.update(name.encode())
        digest.update(changed[name].contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
