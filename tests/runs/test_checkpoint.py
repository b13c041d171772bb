"""Checkpoints: every state comes back as it was, and a file that nobody saved does no harm and ends in a sentence."""

import json
import math
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load as load_safetensors
from torch import Tensor, nn

from halfsure import _disk
from halfsure.metrics import score
from halfsure.runs.checkpoint import pack_state, read_state
from halfsure.runs.tensor_file import pack, unpack
from halfsure.simplex import get_map
from halfsure.training.errors import RunError
from tests.hostile.children import in_child
from tests.runs.stored import about, assembled, parts, signed, with_about

KINDS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.uint8]
KINDS += [torch.int64, torch.int32, torch.int16, torch.int8, torch.complex64]
KEYS = ["$tensor", "$dict", "$tuple", "$float", "$", "versions", "strides", "__metadata__", "0", "a/b", "a", "b", "ü\0"]


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Of any bits, kind, shape and layout: turned, channels last, with gaps, or one number in many places."""
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    kind = draw(st.sampled_from(KINDS))
    chance = np.random.default_rng(draw(st.integers(0, 99)))
    drawn = chance.integers(0, 2 if kind == torch.bool else 256, math.prod(shape) * kind.itemsize)
    value = torch.tensor(drawn.tolist(), dtype=torch.uint8).view(kind).reshape(shape)
    layout = draw(st.sampled_from(["as it is", "turned", "channels last", "gaps", "spread", "part"]))
    if layout == "turned":
        return value.permute(draw(st.permutations(range(value.ndim))))
    if layout == "channels last" and value.ndim == 4:
        return value.contiguous(memory_format=torch.channels_last)
    if layout == "gaps" and value.ndim:
        return value[..., ::2]
    if layout == "spread":
        return value.unsqueeze(-1).expand(*shape, 3)
    if layout == "part" and value.ndim:
        return value[1:, ...] if draw(st.booleans()) else value[:1, ...]
    return value


WHOLE = st.integers(1 - 10**19, 10**19 - 1)
NUMBERS = WHOLE | st.floats() | st.sampled_from([0.0, -0.0, 5e-324, 1e-05, 2**53 + 1])
PLAIN = st.none() | st.booleans() | NUMBERS | st.text(max_size=5)
STATES = st.recursive(
    PLAIN | tensors(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3) | WHOLE, inner, max_size=4)
    ),
    max_leaves=12,
)


def bits(value: Tensor) -> list[int]:
    flat: list[int] = value.clone(memory_format=torch.contiguous_format).flatten().view(torch.uint8).tolist()
    return flat


def unlike(one: Any, other: Any, at: str = "") -> str:  # noqa: PLR0911 - one for each kind of value
    """Where two values differ, in a bit, a type or a stride; "" if they do not."""
    if type(one) is not type(other):
        return f"{at}: {type(one)} and {type(other)}"
    if isinstance(one, Tensor):
        told = [(value.dtype, value.shape, value.stride(), bits(value)) for value in (one, other)]
        return "" if told[0] == told[1] else f"{at}: {told[0]} and {told[1]}"
    if isinstance(one, dict):
        if [(type(key), key) for key in one] != [(type(key), key) for key in other]:
            return f"{at}: {list(one)} and {list(other)}"
        return next(filter(None, (unlike(one[key], other[key], f"{at}/{key}") for key in one)), "")
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return f"{at}: of length {len(one)} and {len(other)}"
        pairs = enumerate(zip(one, other, strict=True))
        return next(filter(None, (unlike(*pair, f"{at}/{place}") for place, pair in pairs)), "")
    if isinstance(one, float):
        return "" if struct.pack("d", one) == struct.pack("d", other) or {str(one), str(other)} == {"nan"} else at
    return "" if one == other else f"{at}: {one!r} and {other!r}"


def clones(value: Any) -> Any:
    """The same with every tensor cloned, which is what has to come back."""
    if isinstance(value, dict):
        return {key: clones(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(clones, value))
    return value.clone() if isinstance(value, Tensor) else value


def all_tensors(value: Any) -> list[Tensor]:
    inner = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list | tuple) else []
    return [value] if isinstance(value, Tensor) else [found for part in inner for found in all_tensors(part)]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoint") / "resume.safetensors"


@settings(max_examples=400)
@given(state=STATES)
def test_every_state_comes_back_as_it_was(file: Path, state: Any) -> None:
    file.write_bytes(pack_state({"step": 1, "x": state}))
    found = read_state(file)["x"]
    assert unlike(found, clones(state)) == ""
    places = [tensor.untyped_storage().data_ptr() for tensor in all_tensors(found) if tensor.numel()]
    assert len(set(places)) == len(places)


@settings(max_examples=100)
@given(state=STATES)
def test_others_can_read_the_tensors_and_check_the_sum(state: Any) -> None:
    content = pack_state({"step": 1, "x": state})
    assert parts(signed(content)) == parts(content)
    read = load_safetensors(content)
    assert len(read) == len(all_tensors(state))
    header, _ = parts(content)
    for name, value in read.items():
        begin, _ = header[name]["data_offsets"]
        assert begin % value.itemsize == 0  # after eight bytes and a header of a multiple of eight
    assert (len(content) - sum(value.nbytes for value in read.values())) % 8 == 0


def test_tensors_that_share_memory_come_apart(file: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    state = {"step": 1, "all": whole, "again": whole, "row": whole[1], "turned": whole.t()}
    file.write_bytes(pack_state(state))
    found = read_state(file)
    assert unlike(found, state) == ""
    found["all"].zero_()
    del found["all"], state["all"]
    assert unlike(found, state) == ""


def test_one_name_for_two_paths_is_made_two(file: Path) -> None:
    state = {"step": 1, "a/b": torch.ones(1), "a": {"b": torch.zeros(1)}, "0": torch.ones(2), 0: torch.zeros(2)}
    file.write_bytes(pack_state(state))
    assert unlike(read_state(file), state) == ""


def test_names_are_paths() -> None:
    content = pack_state(
        {"model": nn.Linear(2, 1).state_dict(), "optimizer": {"state": {3: {"exp_avg": torch.ones(1)}}}}
    )
    assert parts(content)[0].keys() == {"__metadata__", "model/weight", "model/bias", "optimizer/state/3/exp_avg"}
    assert '{"$tensor": "model/weight", "strides": [2, 1]}' in parts(content)[0]["__metadata__"]["halfsure"]


def test_the_versions_of_modules_come_back(file: Path) -> None:
    state = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).state_dict()
    file.write_bytes(pack_state({"step": 1, "model": state}))
    found = read_state(file)["model"]
    assert type(found) is OrderedDict
    assert found._metadata == state._metadata  # type: ignore[attr-defined]
    assert found._metadata["1"] == {"version": 2}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "value", [{1.5: 1}, {True: 1}, {10**19: 1}, {1}, b"x", np.float64(1), -(10**19), print, torch.Size([1])]
)
def test_what_a_checkpoint_cannot_hold_is_refused_when_it_is_saved(value: Any) -> None:
    with pytest.raises(RunError, match=r"^a checkpoint cannot hold model/x(/10*)?, which is a "):
        pack_state({"step": 1, "model": {"x": value}})


@pytest.mark.parametrize("value", [torch.eye(3).to_sparse(), torch.zeros(2, dtype=torch.complex128)])
def test_so_are_tensors_that_no_file_holds(value: Tensor) -> None:
    with pytest.raises(RunError, match=r"^model/x cannot be saved: it is torch\."):
        pack_state({"step": 1, "model": {"x": value}})


def test_a_run_of_any_number_of_evaluations_is_read_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON may have so many lists and objects; a longer one more of them, but not in fewer letters."""
    scores = score(torch.randn(50, 3), torch.arange(50) % 3, get_map("softmax"))
    state = {"step": 1, "metrics": [{"step": 1, "test": scores, "val": scores}] * 50}
    file.write_bytes(pack_state(state))
    monkeypatch.setattr(_disk, "NESTED", 200)
    assert file.read_bytes().count(b"[") > 200
    assert read_state(file) == state
    file.write_bytes(pack_state({"step": 1, "metrics": [[]] * 2000}))
    with pytest.raises(RunError, match="it is nested more than anything"):
        read_state(file)


def test_more_than_a_header_can_hold_is_told_when_it_is_saved() -> None:
    with pytest.raises(OSError, match="the evaluations take more than 100 MB"):
        pack_state({"step": 1, "metrics": ["x" * 10**8]})


def test_too_little_memory_is_told_as_such() -> None:
    state = {"step": 1, "x": torch.zeros(2**24), "y": torch.zeros(2**12, 2**12).t()}
    assert in_child(lambda: pack_state(state), memory=2**28) == "done"
    # What other tests freed could serve for a small copy: only one that is larger than any of it must fail.
    large = {"step": 1, "x": torch.zeros(1).expand(2**30)}
    assert in_child(lambda: pack_state(large), memory=2**20) == "MemoryError: "


SMALL = pack_state({"step": 1, "x": torch.tensor([1.0, 2.0]), "y": (1e-05, {3: torch.ones(2, 1, dtype=torch.bool)})})


def refusal(content: bytes, file: Path) -> str:
    """Why a file is refused."""
    file.write_bytes(content)
    with pytest.raises(RunError) as error:
        read_state(file)
    sentence = str(error.value)
    assert sentence.startswith(f"{file} is damaged: ")
    assert "\n" not in sentence
    assert len(sentence) < len(str(file)) + 300
    return sentence


@pytest.mark.parametrize("bit", [0, 1, 2, 5])  # of letters 5 is their case, of digits the others lead to digits
def test_a_bit_that_flips_is_noticed_in_every_byte(bit: int, file: Path) -> None:
    for place in range(len(SMALL)):
        content = bytearray(SMALL)
        content[place] ^= 1 << bit
        refusal(bytes(content), file)


def test_every_cut_is_noticed(file: Path) -> None:
    for length in range(len(SMALL)):
        refusal(SMALL[:length], file)
    refusal(SMALL + b"\0", file)


def test_a_file_whose_checksum_was_left_out_is_refused(file: Path) -> None:
    assert "not a checkpoint" in refusal(with_about(SMALL, about(SMALL)), file)


def described(content: bytes, told: Any) -> bytes:
    """The same tensors with another meaning, under a checksum that is right."""
    return signed(with_about(content, told))


def tensor(name: Any = "x", strides: Any = (1,)) -> dict[str, Any]:
    return {"$tensor": name, "strides": strides}


NESTED: Any = [1]
for _ in range(600):
    NESTED = [NESTED]
FOREIGN: dict[str, Any] = {
    "a tensor twice": [tensor(), tensor()],
    "a tensor that is not there": [tensor(), tensor("z")],
    "a tensor without strides": {"$tensor": "x"},
    "a tensor of no name": tensor(3),
    "a tensor of many names": tensor(["x"]),
    "a tensor that nothing refers to": 1,
    "strides beyond the numbers": tensor(strides=[2]),
    "strides of 10¹⁸": tensor(strides=[10**18]),
    "strides beyond torch": tensor(strides=[10**19 - 1]),
    "strides below zero": tensor(strides=[-1]),
    "all numbers in one place": tensor(strides=[0]),
    "too many strides": tensor(strides=[1, 1]),
    "no strides": tensor(strides=[]),
    "strides of text": tensor(strides="1"),
    "strides of fractions": tensor(strides=[1.5]),
    "strides of lists": tensor(strides=[[1]]),
    "a tuple of nothing": [tensor(), {"$tuple": None}],
    "a tuple of a number": [tensor(), {"$tuple": 3}],
    "pairs of one": [tensor(), {"$dict": [[1]]}],
    "pairs of three": [tensor(), {"$dict": [[1, 2, 3]]}],
    "a number for pairs": [tensor(), {"$dict": 3}],
    "lists for keys": [tensor(), {"$dict": [[[1], 2]]}],
    "lists in lists": [tensor(), NESTED],
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_no_run_describes_is_refused(name: str, file: Path) -> None:
    whole = pack_state({"step": 1, "x": torch.ones(2)})
    file.write_bytes(described(whole, {"state": {"step": 1, "x": tensor()}}))
    read_state(file)  # what is below is refused for what it says
    refusal(described(whole, {"state": {"step": 1, "y": FOREIGN[name]}}), file)


@pytest.mark.parametrize("told", [None, 3, [], {}, {"state": None}, {"state": []}, {"state": {"step": "1"}}, "{", ""])
def test_json_that_is_no_state_is_refused(told: Any, file: Path) -> None:
    content = with_about(pack_state({}), told)
    refusal(content, file)
    refusal(signed(content), file)


def entry(kind: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


ABOUT = {"__metadata__": {"halfsure": '{"state": {"step": 1, "x": {"$tensor": "x", "strides": [1]}}}'}}
LIES: dict[str, bytes] = {
    "10¹² numbers": assembled(ABOUT | {"x": entry(shape=[10**12], offsets=[0, 4 * 10**12])}, bytes(8)),
    "10¹² numbers in no place": assembled(ABOUT | {"x": entry(shape=[10**12])}, bytes(8)),
    "sizes that overflow": assembled(ABOUT | {"x": entry(shape=[2**62, 8])}, bytes(8)),
    "an empty tensor beyond torch": assembled(ABOUT | {"x": entry(shape=[0, 2**63], offsets=[0, 0])}),
    "sizes below zero": assembled(ABOUT | {"x": entry(shape=[-2])}, bytes(8)),
    "two tensors in one place": assembled(ABOUT | {"x": entry(), "y": entry()}, bytes(8)),
    "a gap": assembled(ABOUT | {"x": entry(offsets=[8, 16])}, bytes(16)),
    "numbers of half a byte": assembled(ABOUT | {"x": entry("F4", [16])}, bytes(8)),
    "numbers of a byte": assembled(ABOUT | {"x": entry("F8_E4M3", [8])}, bytes(8)),
    "numbers of no kind": assembled(ABOUT | {"x": entry("F31")}, bytes(8)),
    "one name twice": assembled(b'{"x": %b, "x": %b}' % ((json.dumps(entry()).encode(),) * 2), bytes(8)),
    "a header beyond the file": struct.pack("<Q", 10**10) + b"{}",
    "a header of lists": assembled(b"[" * 10**6),
    "JSON of lists": with_about(SMALL, "[" * 10**6),
    "JSON of many lists": with_about(SMALL, '{"state": [' + "[]," * 10**6 + "[]]}"),
    "JSON of long numbers": described(SMALL, '{"state": {"step": ' + "9" * 5000 + "}}"),
    "JSON of NaN": described(SMALL, '{"state": {"step": 1, "y": NaN}}'),
}


@pytest.mark.parametrize("name", LIES)
def test_a_header_that_lies_takes_no_memory(name: str, file: Path) -> None:
    content = signed(LIES[name])
    refusal(content, file)
    assert in_child(lambda: read_state(file), memory=2**27).startswith("RunError: ")


def test_tensors_out_of_line_are_read_all_the_same(file: Path) -> None:
    header = {"__metadata__": {"halfsure": json.dumps({"state": {"step": 1, "x": tensor(), "y": tensor("y")}})}}
    header |= {"y": entry("U8", [1], [0, 1]), "x": entry("F64", [2], [1, 17])}
    file.write_bytes(signed(assembled(header, b"\7" + struct.pack("dd", 1.5, -2.5))))
    found = read_state(file)
    assert (found["x"].tolist(), found["y"].tolist()) == ([1.5, -2.5], [7])
    assert found["x"].data_ptr() % 8 == 0


@settings(max_examples=300)
@given(data=st.data())
def test_any_json_under_a_right_checksum_is_taken_or_refused(data: st.DataObject, file: Path) -> None:
    leaves = PLAIN | st.sampled_from(["x", "nan", 1, 2**62])
    keys = st.sampled_from(["$tensor", "strides", "$tuple", "$dict", "$float", "versions", "step"])
    values = st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
    )
    told = {"state": {"step": 1, "x": data.draw(values | st.just(tensor())), "y": data.draw(values)}}
    content = described(pack_state({"step": 1, "x": torch.ones(2)}), told)
    file.write_bytes(content)
    try:
        state = read_state(file)
    except RunError:
        refusal(content, file)
        return
    assert sum(found.untyped_storage().nbytes() for found in all_tensors(state)) == 8


def test_the_checksum_is_the_one_that_models_of_version_0_1_have(file: Path) -> None:
    weights = {"b": torch.arange(3, dtype=torch.int64), "a": torch.ones(2, 2)}
    told = {"format": 1, "map": "softmax", "classes": ["ü", "1e-05"]}
    content = pack(told, weights)
    assert parts(signed(content)) == parts(content)  # `signed` follows the words, not the code
    file.write_bytes(content)
    found, tensors = unpack(file)
    assert {key: found[key] for key in told} == told == about(content)
    assert unlike(dict(sorted(tensors.items())), dict(sorted(weights.items()))) == ""
