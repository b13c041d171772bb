"""Model files and checkpoints made to do harm: real attacks, none of which runs code, crashes or takes the memory."""

import hashlib
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors import safe_open
from safetensors.torch import save

from halfsure.runs.checkpoint import TRAILER, unpack
from halfsure.runs.folder import Folder
from halfsure.runs.run import load
from halfsure.runs.start import start
from halfsure.training.errors import RunError
from tests.hostile.children import GIB, in_child
from tests.training.helpers import rows, tiny

MEGABYTE = 2**20


class Attack:
    """Writes a file as soon as it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.marker}'",)


def packed(pickled: bytes, **members: bytes) -> bytes:
    """An archive as `torch.save` writes them, around a pickle of one's own."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        parts = {"data.pkl": pickled, "byteorder": b"little", "version": b"3\n"}
        for name, content in (parts | {f"data/{key}": value for key, value in members.items()}).items():
            archive.writestr(f"archive/{name}", content)
    return out.getvalue()


def saved(value: Any, **how: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, **how)
    return buffer.getvalue()


def order(marker: Path) -> bytes:
    return f"touch '{marker}'".encode()


def text(content: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(content)) + content


ATTACKS: dict[str, Callable[[Path], bytes]] = {
    **{
        f"a pickle of protocol {number}": lambda marker, number=number: pickle.dumps(Attack(marker), number)  # type: ignore[misc]
        for number in range(6)
    },
    "torch.save": lambda marker: saved({"step": 1, "x": Attack(marker)}),
    "torch.save as it was before archives": lambda marker: saved(
        {"step": 1, "x": Attack(marker)}, _use_new_zipfile_serialization=False
    ),
    "GLOBAL": lambda marker: packed(b"\x80\x02cos\nsystem\n" + text(order(marker)) + b"\x85R."),
    "GLOBAL of posix": lambda marker: packed(b"\x80\x02cposix\nsystem\n" + text(order(marker)) + b"\x85R."),
    "STACK_GLOBAL": lambda marker: packed(
        b"\x80\x04" + text(b"os") + text(b"system") + b"\x93" + text(order(marker)) + b"\x85R."
    ),
    "INST": lambda marker: packed(b"(S" + repr(order(marker).decode()).encode() + b"\nios\nsystem\n."),
    "OBJ": lambda marker: packed(b"(cos\nsystem\n" + text(order(marker)) + b"o."),
    "eval": lambda marker: packed(
        b"\x80\x02c__builtin__\neval\n"
        + text(f"__import__('os').system({order(marker).decode()!r})".encode())
        + b"\x85R."
    ),
}


def sign(content: bytes) -> bytes:
    return content + TRAILER + hashlib.sha256(content).hexdigest().encode()


@pytest.mark.parametrize("name", ATTACKS)
def test_no_pickle_runs(name: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    content = ATTACKS[name](marker)
    (tmp_path / "resume.pt").write_bytes(sign(content))
    with pytest.raises(RunError, match=r"resume\.pt cannot be read"):
        Folder(tmp_path).resume()
    for file in ("model.safetensors", "config.json"):
        (tmp_path / file).write_bytes(content)
        with pytest.raises(RunError):
            load(tmp_path if file == "config.json" else tmp_path / file)
    assert not marker.exists()


@pytest.mark.parametrize("name", [name for name in ATTACKS if "torch.save" not in name])
def test_the_attacks_are_real(name: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    content = ATTACKS[name](marker)
    if content.startswith(b"PK"):
        content = zipfile.ZipFile(io.BytesIO(content)).read("archive/data.pkl")
    pickle.loads(content)
    assert marker.exists()


def test_a_script_of_torch_is_refused() -> None:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), buffer)
    with pytest.raises(ValueError, match=r"compressed parts|asks for"):
        unpack(buffer.getvalue())


def bomb(size: int) -> bytes:
    """A megabyte that inflates to a gigabyte, where torch itself would inflate it."""
    plain = zipfile.ZipFile(io.BytesIO(saved({"step": 1, "x": torch.zeros(4)})))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in plain.infolist():
            large = member.filename.endswith("data/0")
            with archive.open(member.filename, "w") as file:
                for _ in range(size // MEGABYTE if large else 1):
                    file.write(bytes(MEGABYTE) if large else plain.read(member))
    return out.getvalue()


def renamed(content: bytes) -> bytes:
    """The same archive with its pickle in capital letters, which torch takes for the same."""
    return content.replace(b"archive/data.pkl", b"archive/DATA.PKL")


def nest(depth: int) -> Any:
    """A few bytes that stand for 2^depth of them."""
    inner: Any = ["laugh"]
    for _ in range(depth):
        inner = [inner, inner]
    return inner


def overlapping() -> bytes:
    """A thousand members that are all the same bytes."""
    content = bytearray(packed(b"\x80\x02}.", a=bytes(MEGABYTE)))
    end = content.rindex(b"PK\x05\x06")
    first = content.index(b"PK\x01\x02")
    entry = content[content.rindex(b"PK\x01\x02") : end]
    directory = bytes(content[first:end]) + bytes(entry) * 1000
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1004, 1004, len(directory), first, 0)
    return bytes(content[:first]) + directory + tail


HEAVY: dict[str, Callable[[], bytes]] = {
    "an archive that inflates": lambda: bomb(GIB),
    "members that overlap": overlapping,
    "a tensor of one number in 10¹² places": lambda: saved({"step": 1, "x": torch.zeros(1).expand(10**12)}),
    "a sparse tensor": lambda: saved({"step": 1, "x": torch.eye(3).to_sparse()}),
    "a tensor without numbers": lambda: saved({"step": 1, "x": torch.empty(10**12, device="meta")}),
    "a complex tensor": lambda: saved({"step": 1, "x": torch.zeros(3, dtype=torch.complex64)}),
    "10¹² zero bytes": lambda: packed(b"\x80\x02c__builtin__\nbytearray\n\x8a\x06\x00\x10\xa5\xd4\xe8\x00\x85R."),
    "lists in lists": lambda: packed(b"\x80\x02" + b"(" * 100_000 + b"l" * 100_000 + b"."),
    "a list that holds itself often": lambda: packed(
        b"\x80\x02]q\x00"
        + b"".join(b"](" + b"h" + bytes([k]) + b"h" + bytes([k]) + b"eq" + bytes([k + 1]) for k in range(60))
        + b"."
    ),
    "a pickle under another name": lambda: renamed(saved({"step": 1, "x": torch.eye(3).to_sparse()})),
    "a storage that is not there": lambda: packed(
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpu\x8a\x06\x00\x10\xa5\xd4\xe8\x00tQK\x00K\x04\x85K\x01\x85\x89}tR."
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "inflates" in name else []) for name in HEAVY]
)
def test_no_checkpoint_takes_the_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / "resume.pt").write_bytes(sign(HEAVY[name]()))
    said = in_child(lambda: Folder(tmp_path).resume(), memory=GIB // 2)
    assert said.startswith("RunError: "), said


def state_of(folder: Path) -> Any:
    return torch.load(io.BytesIO((folder / "resume.pt").read_bytes().rpartition(TRAILER)[0]), weights_only=True)


def half_way(folder: Path) -> Any:
    """The state of a run in the middle; its folder is as a run that was stopped leaves it."""
    start(rows(), tiny(steps=4, evaluations=2), out=folder)
    os.replace(folder / "resume.previous.pt", folder / "resume.pt")
    state = state_of(folder)
    assert 0 < state["step"] < 4
    return state


def put(folder: Path, state: Any) -> None:
    (folder / "resume.pt").write_bytes(sign(saved(state)))


def other_moments(state: Any) -> None:
    """A moment of one number for a weight of many: the fused step would write beyond it."""
    for moments in state["optimizer"]["state"].values():
        moments["exp_avg"] = torch.zeros(1)


def wide_moments(state: Any) -> None:
    for moments in state["optimizer"]["state"].values():
        moments["exp_avg"] = torch.zeros(*moments["exp_avg"].shape[:1], 64)[:, : moments["exp_avg"].numel()]


WRONG: dict[str, tuple[Callable[[Any], None], str]] = {
    "moments of other shapes": (other_moments, "the moments of its optimiser do not fit"),
    "moments of other strides": (wide_moments, "the moments of its optimiser do not fit"),
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
    "a pass": (lambda s: s["streams"]["labeled"].update({"pass": 2**70}), "which samples come next"),
    "losses": (lambda s: s.update(window=[{"total": "x"}]), "the losses since the last evaluation"),
    "no losses": (lambda s: s.update(window=3), "the losses since the last evaluation"),
    "evaluations": (lambda s: s.update(metrics=[{"step": 2, "x": torch.zeros(2)}], step=-1), "is of step -1"),
    "evaluations of evaluations": (lambda s: s.update(metrics=nest(40)), "refer to each other"),
    "a setting of settings": (lambda s: s["settings"].update(lr=nest(40)), "refer to each other"),
    "groups of groups": (lambda s: s["optimizer"]["param_groups"][0].update(zz=nest(28)), "refer to each other"),
    "weights": (lambda s: s.update(model=[1]), "the network is not the one"),
    "a weight": (lambda s: s["average"].update({next(iter(s["average"])): torch.zeros(2)}), "the network is not the"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_state_that_no_run_saved_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    change, sentence = WRONG[name]
    state = half_way(tmp_path)
    change(state)
    put(tmp_path, state)
    (tmp_path / "resume.previous.pt").unlink(missing_ok=True)
    with pytest.raises(RunError, match=sentence) as error:
        start(rows(), tiny(steps=4, evaluations=2), out=tmp_path)
    assert "\n" not in str(error.value)


def test_a_state_that_was_packed_anew_goes_on(tmp_path: Path) -> None:
    state = half_way(tmp_path)
    put(tmp_path, state)
    shown = io.StringIO()
    assert start(rows(), tiny(steps=4, evaluations=2), out=tmp_path, console=Console(file=shown, width=200)).finished
    assert f"going on from step {state['step']}" in shown.getvalue()


def header(told: dict[str, Any], size: int | None = None) -> bytes:
    text = json.dumps(told).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text


CLAIMS = {
    "10¹² numbers": header({"x": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}),
    "a header of 10 GB": header({}, 10**10),
    "a header of all bytes there are": header({}, 2**64 - 1),
    "sizes that overflow": header({"x": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}),
    "sizes below zero": header({"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}}),
    "a header of lists": struct.pack("<Q", 10**6) + b"[" * 10**6,
}


@pytest.mark.parametrize("name", CLAIMS)
def test_no_model_file_takes_the_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(CLAIMS[name] + bytes(64))
    said = in_child(lambda: load(tmp_path / "model.safetensors"), memory=GIB // 2)
    assert said.startswith("RunError: "), said


def test_the_advice_to_load_without_care_is_not_passed_on(tmp_path: Path) -> None:
    (tmp_path / "resume.pt").write_bytes(sign(packed(b"\x80\x02}q\x00(X\x01\x00\x00\x00aK\x01u0.")))
    with pytest.raises(RunError, match=r"not what torch\.save writes") as error:
        Folder(tmp_path).resume()
    assert "weights_only" not in str(error.value)


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
