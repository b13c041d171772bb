"""Splits and streams: balanced, repeatable, resumable, and the same whatever the batch, the rank or the version."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfsure.data.dataset import Data, DataError, Part
from halfsure.data.load import hold_out, load
from halfsure.data.random import keys, permutations, permute
from halfsure.data.splits import Split, draw_labels
from halfsure.data.streams import Stream, TwoStreams

CLASSES = tuple("abcde")
LABELS = np.random.default_rng(0).integers(0, 5, 1000).astype(np.int64)


# Randomness


def test_keys_are_splitmix64() -> None:
    """The published finaliser, in Python's integers."""

    def mix(state: int) -> int:
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
        return state ^ (state >> 31)

    def key(index: int, *salts: int) -> int:
        state = index
        for salt in (*salts, len(salts)):
            state = mix((state + 0x9E3779B97F4A7C15 * (2 * salt + 1)) % 2**64)
        return state

    assert keys([0, 1, 2**40], 7, 3).tolist() == [key(i, 7, 3) for i in (0, 1, 2**40)]
    assert mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF  # the first number of the reference generator seeded with 0


@given(st.integers(1, 700), st.integers(0, 2**63), st.integers(0, 50))
def test_a_permutation_holds_everything_once(size: int, seed: int, turn: int) -> None:
    order = permute(np.arange(size), size, seed, turn)
    assert sorted(order.tolist()) == list(range(size))
    some = np.arange(size)[::3]
    assert np.array_equal(permute(some, size, seed, turn), order[some])


@given(st.integers(1, 300), st.integers(0, 2**40), st.integers(1, 6), st.integers(0, 2**64 - 1))
def test_permutations_made_together_are_those_made_alone(size: int, first: int, count: int, seed: int) -> None:
    together = permutations(size, range(first, first + count), seed, 2)
    alone = [permute(np.arange(size), size, number, seed, 2) for number in range(first, first + count)]
    assert np.array_equal(together, alone)


def test_permutations_look_random() -> None:
    orders = np.array([permute(np.arange(10), 10, seed) for seed in range(3000)])
    for position in range(10):  # each value 300 times at each position: 5 standard deviations of the binomial
        counts = np.bincount(orders[:, position], minlength=10)
        assert np.abs(counts - 300).max() < 5 * np.sqrt(3000 * 0.1 * 0.9)
    followers = (np.diff(orders, axis=1) == 1).mean()  # a neighbour follows its neighbour one time in ten
    assert followers == pytest.approx(0.1, abs=5 * np.sqrt(0.09 / 27_000))


# Splits


@given(st.integers(5, 300), st.integers(0, 2**31))
def test_a_draw_is_balanced_and_repeatable(count: int, seed: int) -> None:
    drawn = draw_labels(LABELS, CLASSES, count, seed)
    assert len(drawn) == len(set(drawn.tolist())) == count
    counts = np.bincount(LABELS[drawn], minlength=5)
    assert counts.max() - counts.min() <= 1
    assert np.array_equal(drawn, draw_labels(LABELS, CLASSES, count, seed))


def test_a_larger_draw_keeps_the_smaller_one_and_seeds_differ() -> None:
    small, large = (set(draw_labels(LABELS, CLASSES, count, 3).tolist()) for count in (20, 100))
    assert small < large
    assert small != set(draw_labels(LABELS, CLASSES, 20, 4).tolist())


def test_every_sample_is_drawn_equally_often() -> None:
    labels = np.repeat(np.arange(2), 10).astype(np.int64)
    counts = np.bincount(
        np.concatenate([draw_labels(labels, ("x", "y"), 4, seed) for seed in range(2000)]), minlength=20
    )
    assert np.abs(counts - 400).max() < 5 * np.sqrt(2000 * 0.2 * 0.8)


def test_this_draw_never_changes() -> None:
    """Recorded once: a version that draws otherwise would silently change everyone's labels."""
    labels = np.arange(30).astype(np.int64) % 3
    assert draw_labels(labels, ("x", "y", "z"), 6, seed=0).tolist() == FIRST_DRAW


FIRST_DRAW = [3, 4, 15, 23, 28, 29]


@pytest.mark.parametrize(
    ("labels", "count", "message"),
    [
        (LABELS, 4, r"4 labels cannot cover 5 classes; ask for at least 5"),
        (np.array([0, 1, 2, 3, 3]), 5, r"class 'e' has 0 samples with a known label"),
        (np.array([0, 0, 1, 1, 2, 2, 3, 3, 4]), 10, r"class 'e' has 1 samples .* ask for 2 of it"),
    ],
)
def test_impossible_draws_are_refused(labels: Any, count: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        draw_labels(labels, CLASSES, count, 0)


@pytest.mark.parametrize(("count", "seed"), [(5.5, 0), ("5", 0), (5, None)])
def test_draws_take_whole_numbers(count: Any, seed: Any) -> None:
    with pytest.raises(DataError, match=r"must be whole numbers, got"):
        draw_labels(LABELS, CLASSES, count, seed)


def test_a_split_file_gives_the_same_samples_back(tmp_path: Path) -> None:
    drawn = draw_labels(LABELS, CLASSES, 50, 1)
    Split.of("mine", LABELS, drawn, CLASSES, 1).save(tmp_path / "split.json")
    assert [path.name for path in tmp_path.iterdir()] == ["split.json"]
    split = Split.load(tmp_path / "split.json")
    assert np.array_equal(split.indices(LABELS, CLASSES), drawn)
    assert split.seed == 1


def test_a_split_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "split.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        Split.of("mine", LABELS, draw_labels(LABELS, CLASSES, 50, 1), CLASSES, 1).save(tmp_path / "split.json")
    assert [path.name for path in tmp_path.iterdir()] == ["split.json"]


def test_a_split_of_other_data_is_refused() -> None:
    split = Split.of("mine", LABELS, draw_labels(LABELS, CLASSES, 50, 1), CLASSES, 1)
    with pytest.raises(DataError, match=r"drawn from 1000 samples of mine, here are 999"):
        split.indices(LABELS[:-1], CLASSES)
    with pytest.raises(DataError, match=r"it was drawn from other data"):
        split.indices((LABELS + 1) % 5, CLASSES)
    with pytest.raises(DataError, match=r"names the class 'e', which is not in the data"):
        split.indices(LABELS, CLASSES[:4])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, r"not a split file of format 1"),
        ({"labeled": [1]}, r"'labeled' must give a list"),
        ({"labeled": {"a": [-1]}}, r"'labeled' must give a list"),
        ({"labeled": {"a": [True]}}, r"'labeled' must give a list"),
        ({"size": "1000"}, r"'source', 'size' or 'seed'"),
        ({"seed": 1.5}, r"'source', 'size' or 'seed'"),
    ],
)
def test_broken_split_files_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "split.json"
    Split.of("mine", LABELS, draw_labels(LABELS, CLASSES, 5, 1), CLASSES, 1).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=message):
        Split.load(path)


@pytest.mark.parametrize("content", ["", "[]", "{", "\x00", "[" * 100_000])
def test_what_is_no_split_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "split.json").write_text(content)
    with pytest.raises(DataError, match="is not a split file"):
        Split.load(tmp_path / "split.json")
    with pytest.raises(DataError, match="cannot read the split file"):
        Split.load(tmp_path / "missing.json")


def test_sample_indices_out_of_range_or_twice_are_refused() -> None:
    with pytest.raises(DataError, match=r"sample 1000, but there are only 1000"):
        Split("mine", 0, 1000, {"a": [1000]}).indices(LABELS, CLASSES)
    twice = int(np.flatnonzero(LABELS == 0)[0])
    with pytest.raises(DataError, match=rf"sample {twice} twice"):
        Split("mine", 0, 1000, {"a": [twice, twice]}).indices(LABELS, CLASSES)


# Streams


@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 2**31))
def test_no_sample_comes_twice_in_a_pass(size: int, batch: int, seed: int) -> None:
    samples = np.arange(100, 100 + size)
    stream = Stream(samples, batch, seed=seed)
    for _ in range(3):
        seen = np.concatenate([stream.next() for _ in range(stream.batches)])
        assert len(set(seen.tolist())) == len(seen) == stream.batches * min(batch, size)
        assert set(seen.tolist()) <= set(samples.tolist())


def test_every_sample_comes_equally_often_over_many_passes() -> None:
    stream = Stream(np.arange(7), 3, seed=0)  # one of seven is passed over in each pass
    counts = np.bincount(np.concatenate([stream.next() for _ in range(2 * 3000)]), minlength=7)
    assert np.abs(counts - 3000 * 6 / 7).max() < 5 * np.sqrt(3000 * 6 / 7 * 1 / 7)


@given(st.integers(4, 50), st.integers(4, 20), st.integers(0, 30), st.integers(1, 4))
def test_a_restored_stream_goes_on_with_the_same_bits(size: int, batch: int, steps: int, ranks: int) -> None:
    def fresh() -> Stream:
        return Stream(np.arange(size), batch, seed=5, rank=ranks - 1, ranks=ranks)

    stream = fresh()
    for _ in range(steps):
        stream.next()
    resumed = fresh()
    resumed.restore(json.loads(json.dumps(stream.state())))
    for _ in range(10):
        assert np.array_equal(stream.next(), resumed.next())


@given(st.integers(4, 50), st.integers(4, 20), st.integers(1, 4))
def test_ranks_share_out_the_same_global_batch(size: int, batch: int, ranks: int) -> None:
    whole = Stream(np.arange(size), batch, seed=2)
    shards = [Stream(np.arange(size), batch, seed=2, rank=rank, ranks=ranks) for rank in range(ranks)]
    for _ in range(8):
        parts = [shard.next() for shard in shards]
        assert sorted(np.concatenate(parts).tolist()) == sorted(whole.next().tolist())


def test_two_streams_run_at_their_own_pace() -> None:
    labeled = draw_labels(LABELS, CLASSES, 10, 0)
    data = Data("toy", "array", CLASSES, Part(np.zeros((1000, 2), np.float32), LABELS), labeled)
    streams = TwoStreams(data, labeled=64, unlabeled=64, seed=0)
    batch = streams.next()
    assert sorted(batch.labeled.tolist()) == labeled.tolist()  # fewer labels than the batch: all of them
    assert len(batch.unlabeled) == 64
    again = TwoStreams(data, labeled=64, unlabeled=64, seed=0)
    again.restore(streams.state())
    assert np.array_equal(again.next().unlabeled, streams.next().unlabeled)


def test_a_pass_over_ten_million_samples_costs_a_batch() -> None:
    stream = Stream(np.arange(10_000_000), 64, seed=0)
    stream.restore({"pass": 3, "position": 100_000})
    assert len(set(stream.next().tolist())) == 64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": np.arange(0)}, r"at least one sample"),
        ({"batch": 0}, r"batch size must be at least 1"),
        ({"rank": 2, "ranks": 2}, r"rank 2 is not one of 2"),
        ({"batch": 8, "ranks": 4}, r"a batch of 3 cannot be dealt out to 4 ranks"),
    ],
)
def test_impossible_streams_are_refused(settings: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"samples": np.arange(3), "batch": 1, "seed": 0} | settings
    with pytest.raises(DataError, match=message):
        Stream(**fields)
    with pytest.raises(DataError, match=r"3 batches a pass and cannot go on"):
        Stream(np.arange(3), 1, seed=0).restore({"pass": 0, "position": 4})


# Data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ("a",)}, r"only the class 'a'; a classifier needs at least two"),
        ({"labeled": np.array([0, 1])}, r"no labeled sample of 'a', 'b'|no labeled sample of"),
        ({"test": Part(np.zeros((1, 3), np.float32), np.array([0]))}, r"shape \(3,\) beside .* \(2,\)"),
        ({"test": Part(np.zeros((1, 2), np.float32), np.array([9]))}, r"outside 0 … 4"),
    ],
)
def test_data_that_cannot_be_trained_on_is_refused(change: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {
        "name": "toy",
        "kind": "array",
        "classes": CLASSES,
        "train": Part(np.zeros((1000, 2), np.float32), LABELS),
        "labeled": draw_labels(LABELS, CLASSES, 5, 0),
    }
    Data(**fields)
    with pytest.raises(DataError, match=message):
        Data(**(fields | change))
    with pytest.raises(DataError, match=r"2 samples but 1 labels"):
        Part(np.zeros((2, 2)), np.array([0]))


def test_seen_is_everything_or_what_is_not_held_out() -> None:
    data = load("digits", labels=40)
    assert list(data.seen) == list(range(len(data.train)))
    held = hold_out(data, 100, seed=3)
    assert len(held.seen) == len(data.train) - 100
    assert set(data.labeled.tolist()) <= set(held.seen)
    assert held.val is not None
    gone = np.setdiff1d(np.arange(len(data.train)), held.seen)
    np.testing.assert_array_equal(data.train.samples[gone], held.val.samples)
