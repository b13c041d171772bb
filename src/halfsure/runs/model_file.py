"""model.safetensors → weights and what they mean, with nothing in the file taken on trust."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from halfsure._disk import write
from halfsure.nets import build, family
from halfsure.runs.folder import Folder
from halfsure.runs.tensor_file import pack, unpack
from halfsure.simplex import Map, get_map
from halfsure.training.errors import RunError
from halfsure.views.maker import maker_of_kind
from halfsure.views.preprocessing import Preprocessing

__all__ = ["Stored", "read_model", "save_model", "set_temperature"]

FORMAT = 2
OLD = 1
"""The format of version 0.1, whose convolutional networks called their layers features."""
LARGEST = 2**24
"""Values of a sample: 4096 × 4096 grey pixels. A model file of a few bytes can claim any size."""
DTYPES = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
ABOUT = {"format", "map", "classes", "net", "preprocessing", "encoding", "temperature", "sha256"}


@dataclass(frozen=True)
class Stored:
    """What a model file holds."""

    weights: dict[str, Tensor]
    map: Map
    classes: tuple[str, ...]
    net: dict[str, Any] | None
    """Name, norm and dropout of a network of halfsure; None for one of the user's own."""
    preprocessing: Preprocessing
    encoding: dict[str, Any] | None
    temperature: float | None
    """What the logits are divided by; None where the model was not checked on held-out labels."""

    def network(self) -> nn.Module:
        """The network that the weights are of, its own not loaded yet."""
        if self.net is None:
            raise ValueError("it was trained with a network of one's own; give it: load(path, model=...)")
        net, shape = self.net, self.preprocessing.shape
        _refuse_deep(str(net["name"]), len(self.weights))
        with torch.device("meta"):  # without memory: whatever sizes are claimed, the weights have to agree first
            self._agree(build(shape=shape, classes=len(self.classes), **net))
        return build(shape=shape, classes=len(self.classes), **net)

    def _agree(self, model: nn.Module) -> None:
        wanted = model.state_dict()
        if odd := sorted(wanted.keys() ^ self.weights.keys()):
            there = "unknown to it" if odd[0] in self.weights else "missing"
            raise ValueError(f"the network does not fit the weights: {odd[0]:.80} is {there}")
        for name, value in wanted.items():
            found = self.weights[name]
            same_kind = found.dtype in DTYPES if value.is_floating_point() else found.dtype == value.dtype
            if found.shape != value.shape or not same_kind:
                raise ValueError(f"the network does not fit the weights: {name} is {_kind(found)}, not {_kind(value)}")


def read_model(file: Path) -> Stored:
    """Read a model file; whatever else it may be is refused in a sentence, and nothing in it can run code."""
    if not file.is_file():  # a pipe would have us wait for ever
        raise RunError(f"{file} is no file")
    try:
        about, weights = unpack(file)
    except (ValueError, OSError) as error:
        raise RunError(
            f"{file} cannot be read, it is damaged, cut off or no model: {error}. halfsure resume {file.parent} writes "
            "it anew, if that is its run folder; else take another copy"
        ) from None
    if not isinstance(about, dict) or "format" not in about:
        raise RunError(f"{file} is not a model of halfsure: it does not say what its weights mean")
    if about["format"] not in (FORMAT, OLD):
        raise RunError(
            f"{file} is a model of format {about['format']!r:.40}, and this halfsure reads format {FORMAT}: "
            "open it with the version that wrote it"
        )
    if odd := about.keys() - ABOUT:  # in the word sha256 a bit can flip as well
        raise RunError(f"{file} is damaged: no model says anything of {min(odd)!r:.40}")
    if about["format"] == OLD:
        weights = {re.sub(r"^features\.", "body.", name): value for name, value in weights.items()}
    try:
        return Stored(
            weights,
            _map(about.get("map")),
            _classes(about.get("classes")),
            _net(about.get("net")),
            _preprocessing(about.get("preprocessing")),
            _encoding(about.get("encoding")),
            _temperature(about.get("temperature")),
        )
    except ValueError as error:
        raise RunError(f"{file} is damaged: {error}") from None


def save_model(folder: Folder, model: nn.Module, about: dict[str, Any]) -> None:
    """Write model.safetensors: weights and, as JSON beside them, what they mean."""
    write(folder.path / "model.safetensors", pack({"format": FORMAT, **about}, model.state_dict()))


def set_temperature(file: Path, temperature: float) -> None:
    """Write a model file anew with the temperature that held-out labels ask for."""
    stored = read_model(file)
    if stored.temperature != temperature:
        about, weights = unpack(file)
        told = {name: value for name, value in about.items() if name != "sha256"}
        write(file, pack({**told, "temperature": temperature}, weights))


def _map(name: Any) -> Map:
    if not isinstance(name, str):
        raise ValueError(f"its map is no name, {name!r:.40}")  # noqa: TRY004 - all that is wrong with a file is one kind
    return get_map(name)


def _classes(names: Any) -> tuple[str, ...]:
    sound = isinstance(names, list) and len(names) > 1 and all(isinstance(name, str) for name in names)
    if not sound or len(set(names)) < len(names):
        raise ValueError("its classes are no list of different names")
    "".join(names).encode()  # a lone surrogate could never be written out again; the error is a ValueError
    return tuple(names)


def _net(net: Any) -> dict[str, Any] | None:
    if net is None:
        return None
    if not isinstance(net, dict) or not isinstance(net.get("name"), str):
        raise ValueError("what it says of its network makes no sense")  # noqa: TRY004 - one kind of error
    given = {name: value for name, value in net.items() if name != "name" and value is not None}
    try:
        family(net["name"])[0].Settings(**given)
    except TypeError:
        raise ValueError("what it says of its network makes no sense") from None
    return {"name": net["name"], **given}


def _preprocessing(values: Any) -> Preprocessing:
    lists = isinstance(values, dict) and all(isinstance(values.get(key), list) for key in ("shape", "mean", "std"))
    if not lists or not isinstance(values.get("kind"), str):
        raise ValueError("its preprocessing makes no sense")
    dimensions = maker_of_kind(values["kind"]).dimensions
    shape, mean, std = values["shape"], values["mean"], values["std"]
    sides = len(shape) == dimensions and all(type(side) is int and side >= 1 for side in shape)
    if sides and math.prod(shape) > LARGEST:
        raise ValueError(f"its samples would have the shape {tuple(shape)}, more than {LARGEST:,} values")
    scaled = sides and len(mean) == len(std) == shape[-1] and all(map(_is_number, mean + std)) and min(std) > 0
    if not scaled or (values["kind"] == "image" and shape[-1] not in (1, 3)):
        raise ValueError("its preprocessing makes no sense")
    if values["kind"] == "image" and not all(abs(number) <= 1e6 for number in mean + std):
        raise ValueError("its pixels would become numbers far from 1")
    return Preprocessing.from_json(values)


def _encoding(encoding: Any) -> dict[str, Any] | None:
    if encoding is None:
        return None
    if not isinstance(encoding, dict) or not isinstance(encoding.get("kind"), str):
        raise ValueError("what it says of its data makes no sense")  # noqa: TRY004
    return encoding


def _temperature(value: Any) -> float | None:
    if value is not None and not (_is_number(value) and value > 0):
        raise ValueError(f"its temperature is no number above 0, {value!r:.40}")
    return None if value is None else float(value)


def _refuse_deep(name: str, tensors: int) -> None:
    """A network of so many layers would take for ever to build, and has more tensors than the file."""
    sizes = name.split("-")[1:]
    layers = int(sizes[0]) if name.startswith("wrn-") and sizes[0].isdecimal() else len(sizes)
    if layers > tensors:
        raise ValueError(f"the network does not fit the weights: {name:.40} has more tensors than the {tensors} here")


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
