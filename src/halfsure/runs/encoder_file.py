"""encoder.safetensors of a run folder: the weights that tuning changed in the encoder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from halfsure._disk import write
from halfsure.bank.tuned import Kept
from halfsure.runs.tensor_file import pack, unpack
from halfsure.training.errors import RunError

__all__ = ["FILE", "keep_encoder", "kept_encoder", "read_encoder"]

FILE = "encoder.safetensors"
FORMAT = 1


def read_encoder(folder: Path, wanted: dict[str, Any] | None = None) -> Kept:
    """What a run folder keeps of its tuned encoder; `wanted` is what the run's model says of it."""
    file = folder / FILE
    if not file.is_file():
        raise RunError(f"{file} is missing, and the run's encoder was tuned: put it back, or train the run again")
    try:
        about, changed = unpack(file)
    except (ValueError, OSError) as error:
        raise RunError(f"{file} is damaged or no tuned encoder: {error}; put back a copy, or train again") from None
    fields = about.get("encoder") if isinstance(about, dict) and about.get("format") == FORMAT else None
    if not isinstance(fields, dict) or not isinstance(fields.get("tuned_from"), str):
        raise RunError(f"{file} is no tuned encoder of this version of halfsure")
    if wanted is not None and fields.get("sha256") != wanted.get("sha256"):
        raise RunError(f"{file} is of another run: the model beside it was trained with other tuned weights")
    return Kept(fields["tuned_from"], changed)


def kept_encoder(folder: Path) -> Kept | None:
    """The same; None where there is nothing whole, so that the encoder has to be tuned again."""
    try:
        return read_encoder(folder)
    except RunError:
        return None


def keep_encoder(folder: Path, fields: dict[str, Any], changed: Mapping[str, Tensor]) -> None:
    """Write what tuning changed, unless it is there; `fields` are what the tuned encoder says of itself."""
    try:
        read_encoder(folder, fields)
    except RunError:
        write(folder / FILE, pack({"format": FORMAT, "encoder": fields}, dict(changed)))
