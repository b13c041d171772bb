"""The content of resume.pt → tensors and plain values, looked through before torch sees any of it."""

import hashlib
import io
import pickletools
import re
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halfsure.training.errors import RunError

__all__ = ["CHECKPOINTS", "TRAILER", "read_state", "unpack"]

PICKLE = "archive/data.pkl"
PART = re.compile(r"archive/(data\.pkl|byteorder|version|\.format_version|\.storage_alignment|data/[0-9]+)")
"""The parts of what `torch.save` writes; torch itself would take names in other letters too."""
NAMES = {"torch._utils _rebuild_tensor_v2", "collections OrderedDict"}
STORAGES = {"Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"}
"""Kinds of numbers that the parts of a run may have; torch would take sparse, quantised and other tensors as well."""
ALLOWED = NAMES | {f"torch {kind}Storage" for kind in STORAGES}
OTHER_WAYS = {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "BYTEARRAY8"}
"""Opcodes that name or make objects in ways that `torch.save` does not take."""
PLAIN = (str, int, float, type(None))


def unpack(content: bytes) -> Any:
    """Read what `torch.save` wrote; anything else is a `ValueError`, and nothing in it can run code."""
    try:
        inner = _repacked(content)
    except Exception as error:  # zipfile and pickletools raise whatever their parts raise
        raise ValueError(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]:.200}") from None
    try:
        state = torch.load(io.BytesIO(inner), weights_only=True)
    except Exception as error:  # torch's own words would advise to load it without care
        raise ValueError(f"it is not what torch.save writes ({type(error).__name__})") from None
    _check(state, most=len(content))
    return state


def _repacked(content: bytes) -> bytes:
    """The parts that `torch.save` writes, in an archive made anew: torch reads just what was looked at."""
    kept = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(kept, "w") as written:
        members = [member for member in archive.infolist() if PART.fullmatch(member.filename)]
        if len({member.filename for member in members}) < len(members):
            raise ValueError("it holds two parts of one name")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it holds compressed parts, which torch.save does not write")
        if sum(member.file_size for member in members) > len(content):
            raise ValueError("its parts claim to be larger than the file")
        for member in members:
            part = archive.read(member)
            if member.filename == PICKLE:
                _refuse_foreign(part)
            written.writestr(zipfile.ZipInfo(member.filename), part)
    return kept.getvalue()


def _refuse_foreign(pickled: bytes) -> None:
    """Let pass what names tensors and their numbers only."""
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name in OTHER_WAYS or (opcode.name == "GLOBAL" and argument not in ALLOWED):
            raise ValueError(f"it asks for {argument or opcode.name!s:.80}, which no checkpoint needs")


def _check(state: Any, most: int) -> None:
    """See that there are containers, plain values, and tensors with a number of their own in every place.

    Whoever walks through a state walks through a part as often as it occurs. A few bytes can have a part occur any
    number of times: no more than `most`, the bytes of the file, are let pass.
    """
    waiting, met = [state], 0
    while waiting:
        value = waiting.pop()
        met += 1
        if met > most:
            raise ValueError("its parts refer to each other more often than those of a checkpoint do")
        if isinstance(value, Tensor):
            if value.numel() * value.element_size() > value.untyped_storage().nbytes() or value.is_meta:
                raise ValueError(f"a tensor claims to be {tuple(value.shape)}, more than the file holds")
            continue
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            waiting += value
        elif not isinstance(value, PLAIN):
            raise ValueError(f"it holds a {type(value).__name__}")  # noqa: TRY004 - all that is wrong is one kind


def read_state(file: Path) -> dict[str, Any]:
    """Read a checkpoint and check that it is whole; nothing in it can run code."""
    content, found, digest = file.read_bytes().rpartition(TRAILER)
    if not found or hashlib.sha256(content).hexdigest().encode() != digest:
        raise RunError(f"{file} is damaged")
    try:
        state = unpack(content)
    except ValueError as error:
        raise RunError(f"{file} cannot be read: {error}") from None
    if not isinstance(state, dict) or type(state.get("step")) is not int:
        raise RunError(f"{file} is not a checkpoint")
    return state


TRAILER = b"\nhalfsure sha256 "


CHECKPOINTS = ("resume.pt", "resume.previous.pt")
