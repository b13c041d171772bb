"""The bank: what was put in comes out, whatever happened in between."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from halfsure.bank.shards import Bank, key_of
from halfsure.data import DataError

VIEWS, WIDTH = 3, 5


def opened(folder: Path, **about: str) -> Bank:
    bank = Bank(folder, about, views=VIEWS, dimension=WIDTH)
    assert bank.begin() == []
    return bank


def features(texts: list[str]) -> NDArray[Any]:
    """What a made-up encoder says of them: a function of the text alone."""
    rows = [np.frombuffer(key_of(text.encode()) * 2, np.uint8)[: VIEWS * WIDTH] for text in texts]
    return np.array(rows, np.float16).reshape(-1, VIEWS, WIDTH) / 7


def keys(texts: list[str]) -> list[bytes]:
    return [key_of(text.encode()) for text in texts]


def fill(bank: Bank, texts: list[str], batch: int = 4) -> list[str]:
    """Encode what is missing. → which texts that were."""
    todo = [texts[place] for place in bank.missing(keys(texts))]
    with bank.writer() as writer:
        for first in range(0, len(todo), batch):
            writer.add(keys(todo[first : first + batch]), features(todo[first : first + batch]))
    bank.look()
    return todo


@given(st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=12), min_size=1, max_size=4))
def test_each_sample_is_encoded_once_and_comes_back_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, sets: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("bank")
    known: set[str] = set()
    for texts in sets:
        bank = opened(folder)  # as another process would
        assert set(fill(bank, texts)) == set(texts) - known
        known |= set(texts)
        rows = bank.rows(keys(texts))
        assert len(rows) == len(texts)
        for view in range(VIEWS):
            np.testing.assert_array_equal(rows.take(np.arange(len(texts)), view), features(texts)[:, view])


def test_another_encoder_or_choice_of_views_has_another_bank(tmp_path: Path) -> None:
    first, second = opened(tmp_path, encoder="a"), opened(tmp_path, encoder="b")
    fill(first, ["x"])
    second.look()
    assert second.missing(keys(["x"])).tolist() == [0]
    assert first.path != Bank(tmp_path, {"encoder": "a"}, views=4, dimension=WIDTH).path


def test_rows_travel_to_other_processes_as_places_alone(tmp_path: Path) -> None:
    bank, texts = opened(tmp_path), [f"sample {i}" for i in range(500)]
    fill(bank, texts, batch=50)
    rows = bank.rows(keys(texts))
    rows.take(np.arange(3), 0)
    sent = pickle.dumps(rows)
    assert len(sent) < 500 * 16 + 1000
    some = np.array([499, 3, 3, 77])
    np.testing.assert_array_equal(pickle.loads(sent).take(some, [0, 1, 2, 0]), features(texts)[some, [0, 1, 2, 0]])


@pytest.mark.parametrize("kind", ["rows", "keys"])
@pytest.mark.parametrize("lost", [1, 7, 40])
def test_what_was_cut_off_is_made_again(tmp_path: Path, kind: str, lost: int) -> None:
    bank, texts = opened(tmp_path), ["a", "b", "c", "d"]
    fill(bank, texts)
    [file] = bank.path.glob(f"*.{kind}")
    os.truncate(file, file.stat().st_size - lost)
    again = opened(tmp_path)
    assert 0 < len(fill(again, texts)) < 4
    np.testing.assert_array_equal(again.rows(keys(texts)).take(np.arange(4), 1), features(texts)[:, 1])


def test_a_flipped_bit_is_noticed_and_its_row_made_again(tmp_path: Path) -> None:
    bank, texts = opened(tmp_path), ["a", "b", "c", "d"]
    fill(bank, texts)
    [file] = bank.path.glob("*.rows")
    content = bytearray(file.read_bytes())
    content[2 * VIEWS * WIDTH * 2 + 3] ^= 16
    file.write_bytes(content)
    again = Bank(tmp_path, {}, views=VIEWS, dimension=WIDTH)
    assert again.begin() == ["1 of 4 rows in 0000.rows of the bank are damaged, and are made again"]
    assert fill(again, texts) == ["c"]
    np.testing.assert_array_equal(again.rows(keys(texts)).take(np.arange(4), 0), features(texts)[:, 0])


def test_a_bank_of_another_format_is_made_again(tmp_path: Path) -> None:
    bank = opened(tmp_path)
    fill(bank, ["a"])
    (bank.path / "bank.json").write_text("{}")
    again = Bank(tmp_path, {}, views=VIEWS, dimension=WIDTH)
    assert "made again" in again.begin()[0]
    assert fill(again, ["a"]) == ["a"]


def test_what_float16_cannot_hold_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    bank = opened(tmp_path)
    for value in (np.nan, np.inf, 1e6):
        with bank.writer() as writer, pytest.raises(DataError, match="float16"):
            writer.add(keys(["a"]), np.full((1, VIEWS, WIDTH), value))
    bank.look()
    assert bank.missing(keys(["a"])).tolist() == [0]


def test_writers_side_by_side_have_shards_of_their_own(tmp_path: Path) -> None:
    bank, other = opened(tmp_path), opened(tmp_path)
    with bank.writer() as one, other.writer() as two:
        one.add(keys(["a"]), features(["a"]))
        two.add(keys(["b"]), features(["b"]))
    bank.look()
    np.testing.assert_array_equal(bank.rows(keys(["b", "a"])).take(np.arange(2), 2), features(["b", "a"])[:, 2])
    assert len(list(bank.path.glob("*.rows"))) == 2


CHILD = """
import sys
from pathlib import Path
from tests.bank.test_shards import fill, opened
bank = opened(Path(sys.argv[1]))
print("begun", flush=True)
fill(bank, [f"sample {i}" for i in range(3000)], batch=3)
"""


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_in_the_same_bits(tmp_path: Path) -> None:
    dice, texts = np.random.default_rng(5), [f"sample {i}" for i in range(3000)]
    for _ in range(20):
        with subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(dice.uniform(0, 0.2))
            child.send_signal(signal.SIGKILL)
    bank = opened(tmp_path)
    left = fill(bank, texts, batch=100)
    assert 0 < len(left) < 3000
    rows = bank.rows(keys(texts))
    for view in range(VIEWS):
        np.testing.assert_array_equal(rows.take(np.arange(3000), view), features(texts)[:, view])
