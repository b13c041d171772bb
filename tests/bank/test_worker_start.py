"""A process of the bank that dies before it can encode, while it imports or prepares itself: told at once."""

import importlib
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfsure.bank import banked, views_wanted, workers
from halfsure.data import DataError
from halfsure.data.originals import PictureArray
from halfsure.encoders import own
from tests.bank.scenes import SIDE, pictures, some_features

LONG = 30.0
"""Seconds after which it hangs; it takes less than one."""


class Heavy:
    """An encoder of more bytes than a pipe takes, as real ones are."""

    __name__ = "heavy"

    def __init__(self) -> None:
        self.weights = np.zeros(2**20)

    def __call__(self, samples: Any) -> Any:
        return some_features(samples)


def outcome(folder: Path, shape: tuple[int, ...]) -> list[BaseException | None]:
    """What came of encoding with two processes, or nothing if it hangs."""
    found = list[BaseException | None]()

    def encode() -> None:
        encoder = own(Heavy(), "image", side=SIDE)
        try:
            banked(PictureArray(pictures(150, shape=shape)), encoder, views_wanted(0, 0), folder=folder, workers=2)
        except BaseException as error:
            found.append(error)
        else:
            found.append(None)

    thread = threading.Thread(target=encode, daemon=True)
    thread.start()
    thread.join(LONG)
    return found


@pytest.mark.parametrize("shape", [(12, 20, 3), (64, 64, 3)], ids=["small jobs", "jobs larger than a pipe"])
@pytest.mark.parametrize(
    "changed",
    ["import os; os._exit(3)", "begin = 1 +", "def begin(*_):\n    raise RuntimeError"],
    ids=["dies while importing", "a broken file", "raises when it begins"],
)
def test_a_process_that_cannot_begin_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, shape: tuple[int, ...]
) -> None:
    """A source file of the process changes after this process has imported it."""
    source = tmp_path / "beginning_of_a_worker.py"
    source.write_text("def begin(*_):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(workers, "_begin", importlib.import_module(source.stem).begin)
    monkeypatch.setattr(workers, "ALONE", 0.0)
    monkeypatch.setattr(workers, "WORTH", 0.0)
    source.write_text(changed)
    try:
        [error] = outcome(tmp_path / "bank", shape)
    finally:
        del sys.modules[source.stem]
    assert isinstance(error, DataError)
    assert "a process that encodes died" in str(error)


def test_where_the_encoder_cannot_be_written_this_process_encodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "ALONE", 0.0)
    monkeypatch.setattr(workers, "WORTH", 0.0)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(workers, "dumps", full)
        patch.setattr(workers, "_ways", lambda _: [("unpack", b"")])
        assert outcome(tmp_path / "bank", (12, 20, 3)) == [None]
