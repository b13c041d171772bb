"""Model files and checkpoints made to do harm: real attacks, none of which runs code, crashes or takes the memory."""

import io
import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors import safe_open
from safetensors.torch import save

from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder
from halfsure.runs.run import load
from halfsure.runs.start import start
from halfsure.training.errors import RunError
from tests.hostile.children import GIB, in_child
from tests.runs.stored import about, assembled, signed, with_about
from tests.training.helpers import rows, tiny


class Attack:
    """Writes a file as soon as it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.marker}'",)


def saved(value: Any, **how: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, **how)
    return buffer.getvalue()


ATTACKS: dict[str, Callable[[Path], bytes]] = {
    **{
        f"a pickle of protocol {number}": lambda marker, number=number: pickle.dumps(Attack(marker), number)  # type: ignore[misc]
        for number in range(6)
    },
    "torch.save": lambda marker: saved({"step": 1, "x": Attack(marker)}),
    "torch.save as it was before archives": lambda marker: saved(
        {"step": 1, "x": Attack(marker)}, _use_new_zipfile_serialization=False
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_pickle_runs(name: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    content = ATTACKS[name](marker)
    for file in ("resume.pt", "resume.previous.safetensors", "resume.safetensors"):
        (tmp_path / file).write_bytes(content)
        with pytest.raises(RunError):
            Folder(tmp_path).resume()
    for file in ("model.safetensors", "config.json"):
        (tmp_path / file).write_bytes(content)
        with pytest.raises(RunError):
            load(tmp_path if file == "config.json" else tmp_path / file)
    assert not marker.exists()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_attacks_are_real(name: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "file").write_bytes(ATTACKS[name](marker))
    if "torch" in name:
        torch.load(tmp_path / "file", weights_only=False)
    else:
        pickle.loads((tmp_path / "file").read_bytes())
    assert marker.exists()


def half_way(folder: Path) -> Any:
    """The state of a run in the middle; its folder is as a run that was stopped leaves it."""
    start(rows(), tiny(steps=4, evaluations=2), out=folder)
    os.replace(folder / "resume.previous.safetensors", folder / "resume.safetensors")
    state = read_state(folder / "resume.safetensors")
    assert 0 < state["step"] < 4
    return state


def put(folder: Path, state: Any) -> None:
    """Make it the only checkpoint of a folder."""
    Folder(folder).save(state)
    (folder / "resume.previous.safetensors").unlink(missing_ok=True)


def nested() -> Any:
    """As deep as a checkpoint can be."""
    inner: Any = []
    for _ in range(300):
        inner = [inner]
    return inner


def other_moments(state: Any) -> None:
    """A moment of one number for a weight of many: the fused step would write beyond it."""
    for moments in state["optimizer"]["state"].values():
        moments["exp_avg"] = torch.zeros(1)


def turned_moments(state: Any) -> None:
    for moments in state["optimizer"]["state"].values():
        moments["exp_avg"] = torch.zeros(moments["exp_avg"].shape[::-1]).permute(*range(moments["exp_avg"].ndim)[::-1])


WRONG: dict[str, tuple[Callable[[Any], None], str]] = {
    "moments of other shapes": (other_moments, "the moments of its optimiser do not fit"),
    "moments of other strides": (turned_moments, "the moments of its optimiser do not fit"),
    "moments of other numbers": (
        lambda s: s["optimizer"]["state"][0].update(exp_avg=s["optimizer"]["state"][0]["exp_avg"].double()),
        "the moments of its optimiser do not fit",
    ),
    "moments of nothing": (lambda s: s["optimizer"]["state"].update({99: {}}), "the moments of its optimiser"),
    "another optimiser": (lambda s: s["optimizer"]["param_groups"][0].update(maximize=True), "has other settings"),
    "a setting that is a tensor": (
        lambda s: s["optimizer"]["param_groups"][0].update(betas=(torch.zeros(3), 0.9)),
        "has other settings",
    ),
    "no optimiser": (lambda s: s.update(optimizer=3), "holds no optimiser"),
    "a step beyond the end": (lambda s: s.update(step=10**18), "is of step 1,000,000,000,000,000,000"),
    "a step before the start": (lambda s: s.update(step=-1), "is of step -1"),
    "a time": (lambda s: s.update(seconds="long"), "how long the run took"),
    "streams": (lambda s: s.update(streams=[]), "which samples come next"),
    "a pass": (lambda s: s["streams"]["labeled"].update({"pass": 2**62}), "which samples come next"),
    "losses": (lambda s: s.update(window=[{"total": "x"}]), "the losses since the last evaluation"),
    "no losses": (lambda s: s.update(window=3), "the losses since the last evaluation"),
    "evaluations": (lambda s: s.update(metrics=[{"step": 2, "x": torch.zeros(2)}], step=-1), "is of step -1"),
    "evaluations of evaluations": (lambda s: s.update(metrics=nested(), step=-1), "is of step -1"),
    "a setting of settings": (lambda s: s["settings"].update(lr=nested()), "is not what the run was begun with: lr is"),
    "groups of groups": (lambda s: s["optimizer"]["param_groups"][0].update(eps=nested()), "has other settings"),
    "weights of weights": (lambda s: s["model"].update({next(iter(s["model"])): nested()}), "the network is not the"),
    "versions of nothing": (lambda s: s["model"].__dict__.update(_metadata={"": 3}), "the network is not the one"),
    "weights": (lambda s: s.update(model=[1]), "the network is not the one"),
    "a weight": (lambda s: s["average"].update({next(iter(s["average"])): torch.zeros(2)}), "the network is not the"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_state_that_no_run_saved_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    change, sentence = WRONG[name]
    state = half_way(tmp_path)
    change(state)
    put(tmp_path, state)
    with pytest.raises(RunError, match=sentence) as error:
        start(rows(), tiny(steps=4, evaluations=2), out=tmp_path)
    assert "\n" not in str(error.value)


def test_moments_with_gaps_between_them_are_refused(tmp_path: Path) -> None:
    """A few numbers could claim any amount of memory, and the fused step would write to all of it."""
    half_way(tmp_path)
    (tmp_path / "resume.previous.safetensors").unlink(missing_ok=True)
    file = tmp_path / "resume.safetensors"
    text = json.dumps(about(file.read_bytes()))
    name = '{"$tensor": "optimizer/state/0/exp_avg", "strides": ['
    assert name in text
    for gap in ("100", "1000000000000", "-"):
        file.write_bytes(signed(with_about(file.read_bytes(), text.replace(name, name + gap))))
        with pytest.raises(RunError, match="is damaged"):
            start(rows(), tiny(steps=4, evaluations=2), out=tmp_path)


def test_a_state_that_was_packed_anew_goes_on(tmp_path: Path) -> None:
    state = half_way(tmp_path)
    put(tmp_path, state)
    shown = io.StringIO()
    assert start(rows(), tiny(steps=4, evaluations=2), out=tmp_path, console=Console(file=shown, width=200)).finished
    assert f"going on from step {state['step']}" in shown.getvalue()


def claim(shape: list[int], end: int) -> bytes:
    """A file whose one tensor claims so many numbers, in so many bytes."""
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}
    return assembled({"x": entry}, bytes(64) if end else b"")


CLAIMS = {
    "10¹² numbers": claim([10**12], 4 * 10**12),
    "10¹² numbers in 64 bytes": claim([10**12], 64),
    "sizes that overflow": claim([2**62, 4], 64),
    "sizes that overflow to none": claim([2**62, 4], 0),
    "sizes below zero": claim([-16], 64),
    "no numbers in sizes beyond torch": claim([0, 2**63], 0),
    "a header of 10 GB": struct.pack("<Q", 10**10) + bytes(64),
    "a header of all bytes there are": struct.pack("<Q", 2**64 - 1) + bytes(64),
    "a header of lists": assembled(b"[" * 10**6),
}


@pytest.mark.parametrize("file", ["model.safetensors", "resume.safetensors"])
@pytest.mark.parametrize("name", CLAIMS)
def test_no_file_takes_the_memory(name: str, file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(CLAIMS[name])
    read: Callable[[], object] = Folder(tmp_path).resume if file[0] == "r" else lambda: load(tmp_path / file)
    said = in_child(read, memory=GIB // 2)
    assert said.startswith("RunError: "), said


@pytest.mark.parametrize(
    "changes",
    [
        {"preprocessing": {"kind": "array", "shape": [3], "mean": [10**400] * 3, "std": [1.0] * 3}},
        {"net": {"name": "mlp", "norm": None, "dropout": 10**400}},
        {"encoding": {"kind": "table", "label": "y", "columns": [{"name": "x", "kind": "number", "mean": 10**400}]}},
    ],
)
def test_numbers_beyond_all_bounds(changes: dict[str, Any], tmp_path: Path) -> None:
    told, weights = parts_of(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(save(weights, {"halfsure": json.dumps({**told, **changes})}))
    with pytest.raises(RunError, match="damaged"):
        load(tmp_path / "model.safetensors")


def test_a_model_nested_as_deep_as_can_be_read_is_refused(tmp_path: Path) -> None:
    """What json can read it cannot always write again, depending on how deep the caller stands."""
    told, weights = parts_of(tmp_path)
    for depth in range(700, 1000, 3):
        text = json.dumps({**told, "encoding": "here"}).replace('"here"', '{"a":' * depth + "1" + "}" * depth)
        (tmp_path / "model.safetensors").write_bytes(save(weights, {"halfsure": text}))
        with pytest.raises(RunError, match="damaged"):
            load(tmp_path / "model.safetensors")


def parts_of(folder: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What the model file of a short run tells, and its weights."""
    start(rows(), tiny(steps=1), out=folder)
    with safe_open(folder / "model.safetensors", "pt") as opened:
        told = json.loads(opened.metadata()["halfsure"])
        return told, {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a dict
