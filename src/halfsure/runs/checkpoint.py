"""The state of a run ↔ a file: its tensors as they are, all else as JSON that names them.

What JSON lacks is an object with a `$`: `{"$tensor": "model/head.weight", "strides": [4, 1]}`, `{"$tuple": [0.9, 1]}`,
`{"$float": "nan"}`, and `{"$dict": [[0, …]]}` for a dict whose keys are not all text, or begin with `$` themselves.
"""

import math
from collections import OrderedDict
from pathlib import Path
from typing import Any

from torch import Tensor, empty_like

from halfsure._disk import DIGITS, reason
from halfsure.runs.tensor_file import pack, unpack
from halfsure.training.errors import RunError

__all__ = ["pack_state", "read_state"]


def pack_state(state: Any) -> bytes:
    """The content of a checkpoint, of dicts, lists, tuples, plain values and tensors."""
    tensors: dict[str, Tensor] = {}
    return pack({"state": _to_json(state, tensors)}, tensors)


def read_state(file: Path) -> dict[str, Any]:
    """Read a checkpoint and check that it is whole; each tensor is as a clone of it would have been."""
    try:
        about, tensors = unpack(file)
        found = _from_json(about, tensors)
    except (ValueError, TypeError, RuntimeError) as error:  # the last two are what Python and torch make of nonsense
        raise RunError(f"{file} is damaged: {reason(error):.200}") from None
    match found:
        case {"state": {"step": int()} as state, "sha256": str()} if not tensors:
            return dict(state)
    raise RunError(f"{file} is damaged: it is not a checkpoint")


def _to_json(value: Any, tensors: dict[str, Tensor], above: str = "", key: str | int = "") -> Any:
    """What stands for a value; its tensors join the others, named by their paths."""
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if value is None or kind in (bool, str) or (kind is int and abs(value) < 10**DIGITS):
        return value
    path = f"{above}/{key}" if above else str(key)
    if isinstance(value, Tensor):
        while path in tensors or path == "__metadata__":
            path += "'"
        tensors[path] = value
        return {"$tensor": path, "strides": empty_like(value, device="meta").stride()}
    if kind in (list, tuple):
        parts = [_to_json(part, tensors, path, place) for place, part in enumerate(value)]
        return parts if kind is list else {"$tuple": parts}
    if isinstance(value, dict) and {*map(type, value)} <= {str, int}:
        entries = {key: _to_json(part, tensors, path, key) for key, part in value.items()}
        versions = getattr(value, "_metadata", None)  # of a network's modules, which may refuse to do without
        if versions is None and all(type(key) is str and key[:1] != "$" for key in value):
            return entries
        pairs = [(_to_json(key, tensors, path, key), part) for key, part in entries.items()]
        return {"$dict": pairs, "versions": _to_json(versions, tensors, path, "versions")}
    raise RunError(f"a checkpoint cannot hold {path}, which is a {kind.__name__}")


def _from_json(value: Any, tensors: dict[str, Tensor]) -> Any:  # noqa: PLR0911 - one for each kind of value
    """The value that JSON stands for. Each tensor is taken from the others: none can be had twice."""
    match value:
        case list():
            return [_from_json(part, tensors) for part in value]
        case {"$tuple": parts}:
            return tuple(_from_json(parts, tensors))
        case {"$float": "nan" | "inf" | "-inf" as number}:
            return float(number)
        case {"$tensor": str(name), "strides": strides} if name in tensors:
            tensor = tensors.pop(name)
            # In as much memory as it has numbers: strides can claim any amount.
            return tensor.new_empty(tensor.numel()).as_strided(tensor.shape, strides).copy_(tensor)
        case {"$tensor": _}:
            raise ValueError("it refers to a tensor twice, or to one that is not there")
        case {"$dict": pairs}:
            entries = OrderedDict((key, _from_json(part, tensors)) for key, part in pairs)
            if value.get("versions") is None:
                return dict(entries)
            entries._metadata = _from_json(value["versions"], tensors)  # type: ignore[attr-defined]
            return entries
        case dict():
            return {key: _from_json(part, tensors) for key, part in value.items()}
    return value
