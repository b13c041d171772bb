"""The content of resume.pt → tensors and plain values, looked through before torch sees any of it."""

import io
import json
import pickletools
import re
import zipfile
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

__all__ = ["check_state", "unpack"]

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


def check_state(state: dict[str, Any], optimizer: Optimizer, steps: int) -> None:
    """Refuse, as a `ValueError`, a state that no run of so many steps with this optimiser can have saved."""
    if not 0 <= state["step"] <= steps:
        raise ValueError(f"it is of step {state['step']:,}, and the run has {steps:,}")
    if not _is_number(state.get("seconds")):
        raise ValueError("it does not say how long the run took")
    streams = state.get("streams")
    if not isinstance(streams, dict) or streams.keys() != {"labeled", "unlabeled"}:
        raise ValueError("it does not say which samples come next")
    for place in streams.values():
        counts = list(place.values()) if isinstance(place, dict) and place.keys() == {"pass", "position"} else [None]
        if not all(type(count) is int and 0 <= count <= steps for count in counts):
            raise ValueError("it does not say which samples come next")
    windows = state.get("window")
    if not isinstance(windows, list) or not windows or not all(map(_is_window, windows)):
        raise ValueError("it does not hold the losses since the last evaluation")
    _check_optimizer(state.get("optimizer"), optimizer)


def _is_window(window: Any) -> bool:
    """Whether it is what `Window.state` gives: a sum and a count for each name."""
    return isinstance(window, dict) and all(
        isinstance(name, str) and isinstance(sums, list) and len(sums) == 2 and all(map(_is_number, sums))
        for name, sums in window.items()
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_optimizer(saved: Any, optimizer: Optimizer) -> None:
    """The fused steps of torch look at no shape: a moment smaller than its weight would have them write beyond it."""
    mine = optimizer.state_dict()["param_groups"]
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    if not isinstance(saved, dict) or not isinstance(saved.get("state"), dict):
        raise ValueError("it holds no optimiser")  # noqa: TRY004
    if not _same_groups(saved.get("param_groups"), mine):
        raise ValueError("its optimiser has other settings")
    for place, moments in saved["state"].items():
        fits = type(place) is int and 0 <= place < len(weights) and isinstance(moments, dict)
        if not fits or not all(_is_moment(name, value, weights[place]) for name, value in moments.items()):
            raise ValueError("the moments of its optimiser do not fit the weights")


def _same_groups(saved: Any, mine: list[dict[str, Any]]) -> bool:
    """Whether settings are the same, but for the learning rate, which every step sets, and those of another torch."""
    if not isinstance(saved, list) or len(saved) != len(mine) or not all(isinstance(group, dict) for group in saved):
        return False
    try:
        json.dumps(saved)
    except (TypeError, ValueError, RecursionError):  # tensors among them: not even to be compared
        return False
    pairs = list(zip(saved, mine, strict=True))
    same = [(before[key], now[key]) for before, now in pairs for key in now if key in before and key != "lr"]
    return all("params" in before for before, _ in pairs) and all(
        type(before) is type(now) and before == now for before, now in same
    )


def _is_moment(name: object, value: Any, weight: Tensor) -> bool:
    if name == "step":
        return isinstance(value, Tensor) and value.shape == () and value.dtype == torch.float32
    if value is None:
        return name == "momentum_buffer"
    same = isinstance(value, Tensor) and (value.shape, value.dtype) == (weight.shape, weight.dtype)
    channels_last = same and value.ndim == 4 and value.is_contiguous(memory_format=torch.channels_last)
    return bool(same and (value.is_contiguous() or channels_last))
