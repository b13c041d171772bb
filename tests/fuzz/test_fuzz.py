"""A little of `make fuzz` on every run, and that the harness sees what it is there to see."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz import campaign
from tests.fuzz.__main__ import found
from tests.fuzz.campaign import fuzz
from tests.fuzz.strategies import mutated
from tests.fuzz.target import Target, all_targets

NUMBERS = st.integers(0, 255)


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", all_targets())
def test_reader_takes_or_refuses_what_it_is_given(name: str, count: int) -> None:
    tally = fuzz(all_targets()[name], count, seed=1)
    assert tally.wrong == {}
    assert tally.inputs == tally.accepted + tally.refused >= count


def test_inputs_are_taken_and_refused() -> None:
    def read(number: int, folder: Path) -> None:
        if number > 100:
            raise ValueError

    tally = fuzz(Target("half", NUMBERS, read, (ValueError,)), 200, seed=0)
    assert tally.inputs == 200
    assert min(tally.accepted, tally.refused) > 0
    assert not tally.wrong


def test_an_error_that_was_not_promised_is_found_with_its_smallest_input() -> None:
    def read(number: int, folder: Path) -> None:
        if number >= 17:
            raise KeyError(number)

    tally = fuzz(Target("odd", NUMBERS, read, (ValueError,)), 100, seed=0)
    [(what, value)] = tally.wrong.items()
    assert what.startswith("KeyError: ")
    assert "in read" in what
    assert value == "17"


@pytest.mark.parametrize("wait", [lambda: time.sleep(60), lambda: os.open("fifo", os.O_RDONLY)])
def test_a_hang_is_found(wait: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "SECONDS", 0.2)
    monkeypatch.setattr(campaign, "FOUND_ENOUGH", 1)
    monkeypatch.setattr(campaign, "ROUND", 1)
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")

    def read(number: int, folder: Path) -> None:
        try:
            wait()
        except Exception as error:
            raise ValueError from error

    tally = fuzz(Target("slow", NUMBERS, read, (ValueError,)), 1, seed=0)
    assert list(tally.wrong) == ["it took more than 0.2 seconds"]


def test_too_much_memory_is_found() -> None:
    def read(number: int, folder: Path) -> None:
        bytearray(2 * campaign.MEMORY)

    tally = fuzz(Target("large", NUMBERS, read, (ValueError,)), 1, seed=0)
    assert [what.split(":")[0] for what in tally.wrong] == ["MemoryError"]


def test_a_file_outside_the_folder_is_found() -> None:
    def read(number: int, folder: Path) -> None:
        (folder.parent / "elsewhere").write_text("")

    tally = fuzz(Target("loose", NUMBERS, read, ()), 1, seed=0)
    assert list(tally.wrong) == ["it wrote elsewhere outside its folder"]


def test_a_process_that_dies_is_found_with_its_input(tmp_path: Path) -> None:
    def read(number: int, folder: Path) -> None:
        if number >= 17:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if not pid:
        fuzz(Target("deadly", NUMBERS, read, ()), 200, 0, tmp_path / "input")
        os._exit(0)
    tally = found("deadly", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), tmp_path)
    [(what, value)] = tally.wrong.items()
    assert what == "the process ended with SIGKILL"
    assert int(value) >= 17


def test_edits_keep_some_files_whole_and_change_others() -> None:
    seen: set[bytes] = set()
    fuzz(Target("seen", mutated(b"valid file"), lambda value, folder: seen.add(value), ()), 300, seed=0)
    assert b"valid file" in seen
    assert len({len(value) for value in seen}) > 10
