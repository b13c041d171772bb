"""Some of every kind of accident, and proof that the checks after them can fail.

All of them are `make faults`. They fork, and so have a process of their own: one of pytest's may have threads.
"""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder
from halfsure.runs.start import start
from tests.faults.kinds import KINDS
from tests.faults.lives import End
from tests.faults.scene import STEPS, check_end, check_folder
from tests.training.helpers import rows, tiny

HERE = Path(__file__).parents[2]
ROW = re.compile(r"(\S.*?) +(\d+) +(\d+) +(\d+)(?: +\d+)?")


@pytest.fixture(scope="module")
def told() -> str:
    """What `make faults` prints when it is to be quick."""
    return faults("--quick")


def faults(*options: str) -> str:
    command = [sys.executable, "-m", "tests.faults", *options]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_nothing_is_lost(told: str) -> None:
    found = [row for row in map(ROW.fullmatch, told.splitlines()) if row]
    table = {row[1]: [int(number) for number in row.groups()[1:]] for row in found}
    total = table.pop("all")
    assert all(injected == survived > 0 and lost == 0 for injected, survived, lost in table.values()), told
    assert total == [sum(column) for column in zip(*table.values(), strict=True)]
    assert total[0] >= sum(not kind.slow for kind in KINDS)


@pytest.mark.slow
def test_it_may_be_started_in_the_background_of_a_shell() -> None:
    """Such a job begins with SIGINT and SIGHUP ignored, which its children would inherit."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        told = faults("--only", "stopped before it trains")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "LOST" not in told
    assert told.splitlines()[-1].split()[1:4] == ["6", "6", "0"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("faults") / "whole"
    start(rows(), tiny(steps=STEPS, evaluations=3, net="mlp-8"), out=out)
    return out


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_whole_copy_passes(copy: Path, whole: Path) -> None:
    assert check_folder(copy, whole) == []
    assert check_end(copy, whole) == []


def test_a_bit_of_any_part_is_noticed(copy: Path, whole: Path) -> None:
    folder, state = Folder(copy), read_state(copy / "resume.safetensors")
    lines = folder.metrics()
    lines[1]["test"]["error"] += 1e-12
    folder.keep_metrics(lines)
    assert any("metrics[1].test.error" in text for text in check_end(copy, whole))
    assert any("metrics[1].test.error" in text for text in check_folder(copy, whole))
    name, value = next(iter(state["model"].items()))
    value.view(torch.int32).flatten()[0] ^= 1
    folder.save(state)
    assert any(name in text for text in check_end(copy, whole))
    (copy / "resume.safetensors.part").touch()
    assert "resume.safetensors.part was left behind" in check_end(copy, whole)


def test_what_is_lost_is_noticed(copy: Path, whole: Path) -> None:
    (copy / "resume.safetensors").write_bytes(b"")
    assert "resume.safetensors is damaged" in check_folder(copy, whole)[0]
    for name in ("resume.safetensors", "resume.previous.safetensors"):
        (copy / name).unlink()
    assert check_folder(copy, whole) == ["no checkpoint is left"]
    (copy / "config.json").unlink()
    assert check_folder(copy, whole) == ["config.json is lost"]


def test_a_wrong_end_is_noticed() -> None:
    assert End(0, "the run is in x").wrong(0, "the run is in") == []
    assert len(End(1, "Traceback (most recent call last):\nBoom").wrong(2, "halfsure: ")) == 3
