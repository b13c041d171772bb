"""A bank on the disk: what was put in comes out, whatever happened in between."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from halfsure.bank import shards
from halfsure.bank.shards import KEY, Bank, BusyError, Keys
from halfsure.data import DataError
from halfsure.data.originals import key_of

WIDTH = 5
SIZE = 2 * WIDTH


def opened(folder: Path, **about: str) -> Bank:
    bank = Bank(folder, about, dimension=WIDTH)
    assert bank.begin() == []
    return bank


def features(texts: list[str]) -> NDArray[Any]:
    """What a made-up encoder says of them: a function of the text alone."""
    rows = [np.frombuffer(key_of(text.encode()), np.uint8)[:WIDTH] for text in texts]
    return np.array(rows, np.float16).reshape(-1, WIDTH) / 7


def keys(texts: list[str]) -> Keys:
    return np.frombuffer(b"".join(key_of(text.encode()) for text in texts), "<u8").reshape(-1, 2)


def fill(bank: Bank, texts: list[str], group: int = 4) -> list[str]:
    """Encode what is missing. → which texts that were."""
    missing = bank.places(keys(texts)) < 0
    todo = list(dict.fromkeys(text for text, lacks in zip(texts, missing, strict=True) if lacks))
    with bank.writer() as writer:
        for first in range(0, len(todo), group):
            writer.add(keys(todo[first : first + group]), features(todo[first : first + group]))
    assert bank.look() == []
    return todo


def found(bank: Bank, texts: list[str]) -> NDArray[Any]:
    places = bank.places(keys(texts))
    assert (places >= 0).all()
    return bank.rows(places[:, None]).take(np.arange(len(texts)), 0)


@given(st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=12), min_size=1, max_size=4))
def test_each_row_is_made_once_and_comes_back_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, sets: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("bank")
    known: set[str] = set()
    for texts in sets:
        bank = opened(folder)  # as another process would
        assert set(fill(bank, texts)) == set(texts) - known
        known |= set(texts)
        np.testing.assert_array_equal(found(bank, texts), features(texts))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=9))
def test_keys_that_share_their_first_half_are_told_apart(pairs: list[tuple[int, int]]) -> None:
    there, asked = np.array(pairs, np.uint64), np.array([(a, b) for a in range(1, 4) for b in range(1, 5)], np.uint64)
    places = shards._Index(there).places(asked)
    for key, place in zip(map(tuple, asked.tolist()), places, strict=True):
        assert (place >= 0) == (key in pairs)
        assert place < 0 or pairs[place] == key


def test_another_encoder_has_another_bank(tmp_path: Path) -> None:
    first, second = opened(tmp_path, name="a"), opened(tmp_path, name="b")
    fill(first, ["x"])
    second.look()
    assert (second.places(keys(["x"])) < 0).all()
    assert first.path != Bank(tmp_path, {"name": "a"}, dimension=4).path
    assert Bank(tmp_path, {"name": "hf:../../etc"}, dimension=4).path.parent == tmp_path


def test_rows_travel_to_other_processes_as_places_alone(tmp_path: Path) -> None:
    bank, texts = opened(tmp_path), [f"sample {i}" for i in range(500)]
    fill(bank, texts, group=50)
    rows = bank.rows(bank.places(keys(texts)).reshape(250, 2))
    rows.take(np.arange(3), 0)
    sent = pickle.dumps(rows)
    assert len(sent) < 500 * 4 + 1000
    some, views = np.array([249, 3, 3, 77]), np.array([0, 1, 0, 1])
    np.testing.assert_array_equal(pickle.loads(sent).take(some, views), features(texts)[2 * some + views])


def test_rows_are_an_array_of_the_first_view(tmp_path: Path) -> None:
    bank, texts = opened(tmp_path), [f"sample {i}" for i in range(20)]
    fill(bank, texts)
    rows = bank.rows(bank.places(keys(texts)).reshape(10, 2))
    whole = features(texts)[::2].astype(np.float32)
    assert (rows.shape, rows.dtype, rows.ndim, len(rows), rows.views) == ((10, WIDTH), np.dtype("f4"), 2, 10, 2)
    mask = np.arange(10) % 3 == 0
    for key in (3, -1, slice(2, 8, 3), slice(0, 0), np.array([5, 5, 0]), mask, [1, 2]):
        np.testing.assert_array_equal(rows[key], whole[key])
        assert rows[key].dtype == np.float32
    np.testing.assert_array_equal(np.asarray(rows), whole)
    assert np.asarray(rows, np.float64).dtype == np.float64
    np.testing.assert_array_equal(rows.select(mask).take([1], [1]), features(texts)[[7]])
    with pytest.raises(IndexError):
        rows[10]


def test_shards_have_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD", 7 * SIZE)
    bank, texts = opened(tmp_path), [f"sample {i}" for i in range(50)]
    fill(bank, texts[:21])
    fill(bank, texts)
    assert len(list(bank.path.glob("*.rows"))) > 4
    assert all(file.stat().st_size <= 10 * SIZE for file in bank.path.glob("*.rows"))
    np.testing.assert_array_equal(found(bank, texts[::-1]), features(texts[::-1]))


@pytest.mark.parametrize("kind", ["rows", "keys"])
@pytest.mark.parametrize("lost", [1, 7, 40])
def test_what_was_cut_off_is_made_again_by_whole_groups(tmp_path: Path, kind: str, lost: int) -> None:
    bank, texts = opened(tmp_path), ["a", "b", "c", "d", "e", "f", "g", "h"]
    fill(bank, texts)
    [file] = bank.path.glob(f"*.{kind}")
    os.truncate(file, file.stat().st_size - lost)
    again = opened(tmp_path)
    assert fill(again, texts) in (texts[4:], texts)
    np.testing.assert_array_equal(found(again, texts), features(texts))


@pytest.mark.parametrize(("kind", "place"), [("rows", 2 * SIZE + 3), ("keys", 2 * KEY.itemsize + 3)])
def test_a_flipped_bit_is_noticed_and_its_row_made_again(tmp_path: Path, kind: str, place: int) -> None:
    bank, texts = opened(tmp_path), ["a", "b", "c", "d"]
    fill(bank, texts)
    [file] = bank.path.glob(f"*.{kind}")
    content = bytearray(file.read_bytes())
    content[place] ^= 16
    file.write_bytes(content)
    again = Bank(tmp_path, {}, dimension=WIDTH)
    [said] = again.begin()
    assert said.startswith("1 of 4 rows in 0000.rows of the bank")
    assert again.look() == []  # once is enough
    assert fill(again, texts) == ["c"]
    np.testing.assert_array_equal(found(again, texts), features(texts))
    assert fill(opened(tmp_path), texts) == []


def test_rows_that_have_not_changed_are_not_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(opened(tmp_path), ["a", "b"])

    def refuse(*_: Any) -> None:
        raise AssertionError("it reads the features")

    monkeypatch.setattr(shards, "_checksums", refuse)
    np.testing.assert_array_equal(found(opened(tmp_path), ["b"]), features(["b"]))


@pytest.mark.parametrize("content", ["{}", "", '{"format": 1, "dimension": 5}', "[" * 100])
def test_a_bank_of_another_format_is_made_again(tmp_path: Path, content: str) -> None:
    bank = opened(tmp_path)
    fill(bank, ["a"])
    (bank.path / "bank.json").write_text(content)
    again = Bank(tmp_path, {}, dimension=WIDTH)
    assert again.begin() == [f"the bank {bank.path.name} was damaged or of another version, and is made again"]
    assert fill(again, ["a"]) == ["a"]


def test_the_notice_of_the_weights_is_in_the_folder(tmp_path: Path) -> None:
    bank = Bank(tmp_path, {"name": "a", "mean": (0.5, 0.5)}, dimension=WIDTH, notice="Apache-2.0, somebody")
    bank.begin()
    assert (bank.path / "NOTICE.txt").read_text() == "Apache-2.0, somebody\n"
    fill(bank, ["x"])
    assert Bank(tmp_path, {"name": "a", "mean": (0.5, 0.5)}, dimension=WIDTH).begin() == []  # tuples are lists in JSON


def test_what_float16_cannot_hold_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    bank = opened(tmp_path)
    for value in (np.nan, np.inf, 1e6):
        with bank.writer() as writer, pytest.raises(DataError, match="finite and at most 65,504"):
            writer.add(keys(["a"]), np.full((1, WIDTH), value))
    bank.look()
    assert bank.places(keys(["a"])).tolist() == [-1]


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    bank, other = opened(tmp_path), opened(tmp_path)
    with bank.writer(), pytest.raises(BusyError, match="being filled"), other.filling(wait=False):
        pass
    with other.filling(wait=False):
        pass


def test_a_reader_beside_a_writer_sees_whole_groups(tmp_path: Path) -> None:
    bank, reader, texts = opened(tmp_path), opened(tmp_path), ["a", "b", "c"]
    with bank.writer() as writer:
        writer.add(keys(texts), features(texts))
        assert reader.look() == []
        np.testing.assert_array_equal(found(reader, texts), features(texts))


def test_a_full_disk_is_a_sentence_and_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bank, texts = opened(tmp_path), ["a", "b", "c", "d"]
    fill(bank, texts)
    before = [file.stat().st_size for file in sorted(bank.path.glob("0000.*s"))]
    full = Full(monkeypatch, after=3)
    with pytest.raises(DataError, match=r"cannot be written: No space left on device; what was encoded before is kept"):
        fill(bank, ["e", "f", "g"])
    full.over()
    assert [file.stat().st_size for file in sorted(bank.path.glob("0000.*s"))] == before
    assert fill(opened(tmp_path), ["a", "e"]) == ["e"]


class Full:
    """A disk that takes so many more bytes of rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        self._patch, true = monkeypatch, Path.open

        def opened(path: Path, mode: str = "r", *arguments: Any, **more: Any) -> Any:
            file = true(path, mode, *arguments, **more)
            return Narrow(file, after) if mode == "ab" else file

        self._patch.setattr(Path, "open", opened)

    def over(self) -> None:
        self._patch.undo()


class Narrow:
    def __init__(self, file: Any, left: int) -> None:
        self._file, self._left = file, left

    def __enter__(self) -> "Narrow":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, content: bytes) -> int:
        self._file.write(content[: self._left])
        raise OSError(28, "No space left on device")
