"""A model file that is damaged, foreign or hostile gives a sentence: never a traceback, never all of the memory."""

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import halfsure
from halfsure.data import DataError
from halfsure.data.new import read
from halfsure.runs.run import load
from halfsure.training.errors import RunError
from tests.runs.stored import about, assembled, parts, with_about
from tests.training.helpers import images, rows

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*not writable:UserWarning"),
    pytest.mark.filterwarnings("ignore::halfsure.training.CollapseWarning"),
]


@pytest.fixture(scope="module", params=["rows", "images"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A real model, of 8 hidden units or of convolutions, whose weights do not tell the size of the images."""
    folder = tmp_path_factory.mktemp("run") / "run"
    data, net = (rows(), "mlp-8") if request.param == "rows" else (images(), "conv7-2")
    halfsure.fit(None, data, "supervised", steps=1, evaluations=1, out=folder, tensorboard=False, net=net)
    return Content((folder / "model.safetensors").read_bytes())


class Content(bytes):
    """Bytes that do not fill the screen when a test fails."""

    def __repr__(self) -> str:
        return f"<{len(self):,} bytes>"


def use(file: Path) -> None:
    """Open a model and predict with it, as the command line does."""
    run = load(file)
    shape = run.preprocessing.shape
    samples = np.zeros((2, *shape), np.uint8 if len(shape) == 3 else np.float32)
    np.save(file.with_name("x.npy"), samples)
    new = read(file.with_name("x.npy"), run.encoding, shape=shape)
    assert run.predict_proba(new.samples).shape == (2, len(run.classes))


def survives(content: bytes, file: Path) -> bool:
    """Whether a file can be used; anything but a refusal in one line is a failure of the test."""
    file.write_bytes(content)
    try:
        use(file)
    except (RunError, DataError) as error:
        refusal = str(error)
    else:
        return True
    assert refusal
    assert "\n" not in refusal
    return False


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("model") / "model.safetensors"


def test_a_whole_file_needs_no_folder(whole: bytes, file: Path) -> None:
    assert survives(whole, file)
    assert survives(with_about(whole, about(whole)), file)
    run = load(file)
    assert (run.config, run.metrics, run.path, run.finished) == ({}, [], None, False)
    assert run.readings()["last"] is None


@given(data=st.data())
def test_any_part_of_a_file_is_refused(whole: bytes, file: Path, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(whole) - 1))
    assert not survives(whole[:place], file)


@given(data=st.data())
def test_bytes_that_changed_are_refused_or_do_no_harm(whole: bytes, file: Path, data: st.DataObject) -> None:
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    content = bytearray(whole)
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, header - 1), st.integers(0, 255)), min_size=1)):
        content[place] = value
    survives(bytes(content), file)


@given(data=st.data())
def test_a_bit_that_flipped_anywhere_is_noticed(whole: bytes, file: Path, data: st.DataObject) -> None:
    flipped = bytearray(whole)
    flipped[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    content = bytes(flipped)
    if survives(content, file):  # the last of 17 digits may change and leave the number as it is
        assert about(content) == about(whole)
        assert parts(content)[1] == parts(whole)[1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**12) | st.just(-1),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in nested JSON something can be put."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [here, *(place for key, part in inner for place in places(part, (*here, key)))]


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = changed(value[place[0]], place[1:], new)
    return copy


@given(data=st.data())
def test_any_json_anywhere_is_refused_or_does_no_harm(whole: bytes, file: Path, data: st.DataObject) -> None:
    told = about(whole)
    for _ in range(data.draw(st.integers(1, 2))):
        told = changed(told, data.draw(st.sampled_from(places(told))), data.draw(JSON))
        if not isinstance(told, dict):
            break
    survives(with_about(whole, told), file)


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "another version": ({"format": 3}, "of format 3, and this halfsure reads format 2"),
    "classes a number": ({"classes": 3}, "its classes are no list"),
    "one class": ({"classes": ["a"]}, "its classes are no list"),
    "a class twice": ({"classes": ["a", "b", "a"]}, "its classes are no list"),
    "half a letter": ({"classes": ["a", "b", "\ud800"]}, "damaged"),
    "too many classes": ({"classes": [str(i) for i in range(4)]}, "does not fit the weights"),
    "net a number": ({"net": 7}, "its network makes no sense"),
    "no such net": ({"net": {"name": "os.system", "norm": "none"}}, "there is no network called 'os.system'"),
    "a deep net": ({"net": {"name": "wrn-496-1", "norm": "none"}}, "does not fit the weights"),
    "a deeper net": ({"net": {"name": "wrn-600004-1", "norm": "none"}}, "is too deep"),
    "the deepest net": ({"net": {"name": f"wrn-{6 * 10**9 + 4}-1", "norm": "none"}}, "more layers or units than any"),
    "a long net": ({"net": {"name": "mlp" + "-1" * 400, "norm": "none"}}, "does not fit the weights"),
    "a longer net": ({"net": {"name": "mlp" + "-1" * 10**5, "norm": "none"}}, "more layers or units than any"),
    "a wide net": ({"net": {"name": f"mlp-{10**12}-{10**12}", "norm": "none"}}, ""),
    "a wider net": ({"net": {"name": f"mlp-{10**30}", "norm": "none"}}, ""),
    "a norm": ({"net": {"name": "mlp-8", "norm": ["none"]}}, "norm is one of batch, group, none"),
    "dropout": ({"net": {"name": "mlp-8", "norm": "none", "dropout": "all"}}, "dropout must be"),
    "a setting of no net": ({"net": {"name": "mlp-8", "norm": "none", "stride": 2}}, "its network makes no sense"),
    "map a list": ({"map": ["softmax"]}, "its map is no name"),
    "no such map": ({"map": "hardmax"}, "a map is softmax"),
    "encoding": ({"encoding": [1]}, "what it says of its data makes no sense"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_words_are_refused_in_a_sentence(case: str, whole: bytes, file: Path) -> None:
    changes, message = HOSTILE[case]
    file.write_bytes(with_about(whole, about(whole) | changes))
    with pytest.raises(RunError) as error:
        load(file)
    assert message in str(error.value)
    assert str(file) in str(error.value)


@pytest.mark.parametrize("told", ["", "{", "[" * 100_000, "null", "[]", '{"format": 1}', "9" * 5000])
def test_what_is_no_description_is_refused(told: str, whole: bytes, file: Path) -> None:
    file.write_bytes(with_about(whole, told))
    with pytest.raises(RunError):
        load(file)


@pytest.mark.parametrize("shape", [[10**12], [10**12, 10**12, 1], [10**6, 10**6, 3], [4096, 4097, 1], [0], [], [8.5]])
def test_a_claimed_size_takes_no_memory(shape: list[Any], whole: bytes, file: Path) -> None:
    told = about(whole)
    channels = shape[-1] if shape and shape[-1] in (1, 3) else 1
    claim = {"shape": shape, "mean": [0.5] * channels, "std": [0.5] * channels}
    told["preprocessing"] |= claim | {"kind": "image" if len(shape) == 3 else "array"}
    file.write_bytes(with_about(whole, told))
    tracemalloc.start()
    with pytest.raises(RunError):
        load(file)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_weights_that_are_no_numbers_of_a_network_are_refused(whole: bytes, file: Path) -> None:
    header, tensors = parts(with_about(whole, about(whole)))
    name = next(name for name in header if name != "__metadata__")
    header[name]["dtype"] = "I32"
    file.write_bytes(assembled(header, tensors))
    with pytest.raises(RunError, match="is int32"):
        load(file)


def test_a_pickle_is_not_opened(file: Path) -> None:
    torch.save({"weight": torch.zeros(2)}, file)
    with pytest.raises(RunError, match="cannot be read"):
        load(file)
