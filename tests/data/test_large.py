"""Data larger than memory: what is mapped stays mapped, and nothing is written down for each row."""

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import nn

from halfsure.data import Data, DataError, arrays, copies, load
from halfsure.data.arrays import encode_labels, from_arrays
from halfsure.data.random import permute
from halfsure.data.streams import REMEMBERED, Stream
from halfsure.runs.writer import fingerprint
from halfsure.training.evaluation import SALT, Evaluator, others
from halfsure.training.inference import logits_of
from halfsure.training.ranks import Ranks
from halfsure.training.state import make_feed
from halfsure.views.feed import Feed
from halfsure.views.preprocessing import Preprocessing
from tests.training import helpers

KINDS = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]
ROWS = 400_000


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "CHUNK", 7)


def write(folder: Path, labels: Any, features: int = 4) -> Path:
    np.save(folder / "X.npy", np.random.default_rng(0).normal(size=(len(labels), features)).astype(np.float32))
    np.save(folder / "y.npy", labels)
    return folder


def outcome(labels: Any, classes: list[str] | None, indexed: bool | None) -> Any:
    """What becomes of labels: the indices and the classes, or the sentence that refuses them."""
    try:
        encoded, names = encode_labels(labels, classes, indexed=indexed)
    except DataError as error:
        return str(error)
    assert encoded.dtype == np.int64
    return encoded.tolist(), names


@given(
    st.lists(st.integers(-3, 6), max_size=30),
    st.sampled_from(KINDS),
    st.sampled_from([None, ["0", "1", "2", "3", "4", "5", "6"], ["a", "b", "c"], ["6", "2", "-1", "0"]]),
    st.sampled_from([None, True, False]),
)
def test_whole_numbers_in_an_array_mean_what_they_mean_in_a_list(
    values: list[int], kind: Any, classes: list[str] | None, indexed: bool | None
) -> None:
    labels = np.array(values, dtype=np.int64).astype(kind)  # in an unsigned kind −1 is a large number, and a label
    assert outcome(labels, classes, indexed) == outcome(labels.tolist(), classes, indexed)


def test_mapped_class_indices_stay_on_the_disk(tmp_path: Path) -> None:
    labels = np.array([0, 1, 2, -1, -1, -1, 1, 0, -1, 2])
    data = load(write(tmp_path, labels))
    assert isinstance(data.train.labels, np.memmap)
    assert isinstance(data.train.samples, np.memmap)
    assert data.train.labels.tolist() == labels.tolist()
    assert data.labeled.tolist() == [0, 1, 2, 6, 7, 9]
    assert fingerprint(data)["sha256"] == fingerprint(from_arrays(data.train.samples, labels, name=data.name))["sha256"]


@pytest.mark.parametrize("labels", [np.array([3, 5, -1, 3]), np.array([0, 1, -1], np.int32)])
def test_other_mapped_labels_become_class_indices(tmp_path: Path, labels: NDArray[Any]) -> None:
    data = load(write(tmp_path, labels))
    assert not isinstance(data.train.labels, np.memmap)
    assert data.train.labels.tolist() == [0, 1, -1, 0][: len(labels)]


def test_labels_in_memory_are_copied() -> None:
    labels = np.array([0, 1, -1])
    data = from_arrays(np.zeros((3, 2), np.float32), labels)
    labels[:] = 7
    assert data.train.labels.tolist() == [0, 1, -1]


@pytest.mark.parametrize("size", [5, 300, REMEMBERED + 3])
@pytest.mark.parametrize(("start", "step"), [(0, 1), (4, 3)])
def test_a_stream_over_a_range_is_that_over_its_numbers(size: int, start: int, step: int) -> None:
    numbers = range(start, start + step * size, step)
    lazy, written = (Stream(samples, 4, seed=1, name=2) for samples in (numbers, np.array(numbers)))
    for _ in range(5):
        assert lazy.next().tolist() == written.next().tolist()


@given(st.integers(0, 60), st.sets(st.integers(0, 59)))
def test_others_are_what_is_left(size: int, left_out: set[int]) -> None:
    gone = np.array(sorted(number for number in left_out if number < size), dtype=np.int64)
    left = np.setdiff1d(np.arange(size), gone)
    assert others(np.arange(len(left)), gone).tolist() == left.tolist()


@pytest.mark.parametrize("limit", [0, 1, 9, 47, 48, 49, 500])
@pytest.mark.parametrize("held_out", [False, True])
def test_the_unlabeled_samples_that_are_scored_are_drawn_from_all_of_them(limit: int, held_out: bool) -> None:
    data, config = helpers.rows(), helpers.tiny(unlabeled_sample=limit, seed=3)
    seen = np.arange(0, 60, 2) if held_out else np.arange(60)
    data = replace(data, unlabeled=seen if held_out else None)
    free = np.setdiff1d(seen, data.labeled)
    drawn = free[permute(np.arange(limit), len(free), 3, SALT)] if 0 < limit < len(free) else free
    assert evaluator(data, config).unlabeled.tolist() == sorted(drawn.tolist())


def test_logits_of_chosen_samples_are_those_of_a_copy() -> None:
    model, samples = nn.Linear(5, 3), helpers.rows().train.samples
    plain = Preprocessing("array", (5,), (0.0,) * 5, (1.0,) * 5)
    chosen = np.array([1, 4, 7, 8, 20, 59])
    found = logits_of(model, samples, plain, batch=4, chosen=chosen)
    assert torch.equal(found, logits_of(model, samples[chosen], plain, batch=4))


@pytest.mark.slow
def test_no_part_of_training_holds_a_number_for_each_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "CHUNK", 2**14)
    monkeypatch.setattr(copies, "MOST", 2**10)  # the first so many are compared, however many there are
    labels = np.full(ROWS, -1)
    labels[:12] = np.arange(12) % 3
    write(tmp_path, labels)
    config = helpers.tiny()
    traced(lambda: load(tmp_path))  # what is imported or kept for good is not counted
    data = load(tmp_path)
    parts: dict[str, Any] = {
        "load": lambda: load(tmp_path),
        "preprocessing": lambda: Preprocessing.of(data),
        "views": lambda: config.make_views(data, Preprocessing.of(data)),
        "streams": lambda: feed(data).next(0),
        "evaluator": lambda: evaluator(data, config),
        "fingerprint": lambda: fingerprint(data),
    }
    # A pass by chunks of 10,000 rows takes a few of these in float64, and a number a row would take 3.2 MB.
    assert {
        name: most for name, most in ((name, traced(part)) for name, part in parts.items()) if most > 4 * ROWS
    } == {}
    assert traced(lambda: np.arange(ROWS)) > 4 * ROWS


def traced(work: Any) -> int:
    """The most bytes that Python and NumPy held at once for it."""
    tracemalloc.start()
    try:
        kept = work()
        del kept
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def evaluator(data: Data, config: Any) -> Evaluator:
    return Evaluator(data, Preprocessing.of(data), config.algorithm(), config, ranks=Ranks())


def feed(data: Data) -> Feed:
    config = helpers.tiny()
    views = config.make_views(data, Preprocessing.of(data))
    return make_feed(data, views, ("weak", "strong"), config, ranks=Ranks(), device=torch.device("cpu"))
