"""Whether a state that was saved can be one of a run: fused optimisers would write wherever a wrong one points."""

import json
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

__all__ = ["check_state"]


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
