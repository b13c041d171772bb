"""Many runs at once: the same results as one by one, and nothing lost when some fail, die or are stopped."""

import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from halfsure.bank.opening import DataConfig, open_data, open_seeds
from halfsure.runs.board import Board
from halfsure.runs.checkpoint import read_state
from halfsure.runs.parallel import Job, Outcome, run_many
from halfsure.runs.start import start
from halfsure.training.errors import StoppedError
from halfsure.training.state import Training
from tests.training.helpers import differences, lines, rows, tiny


def jobs(out: Path, count: int = 3, **changes: Any) -> list[Job]:
    return [Job(out / f"run{seed}", tiny(seed=seed, **changes), rows()) for seed in range(count)]


def same(one: Path, other: Path) -> bool:
    states = (read_state(one / "resume.safetensors"), read_state(other / "resume.safetensors"))
    return not differences(*states) and not differences(lines(one), lines(other))


def test_one_by_one_is_what_start_does(tmp_path: Path) -> None:
    outcomes = run_many(jobs(tmp_path / "many", 2), workers=1)
    for seed, outcome in zip((0, 1), outcomes, strict=True):
        run = start(rows(), tiny(seed=seed, threads=1), out=tmp_path / f"alone{seed}")
        assert outcome.finished
        assert same(outcome.job.out, tmp_path / f"alone{seed}")
        assert outcome.readings() == run.readings()


def test_finished_runs_are_recognised_and_changed_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_many(jobs(tmp_path), workers=1)

    def refuse(self: Training) -> None:
        raise AssertionError("nothing is left to train")

    monkeypatch.setattr(Training, "update", refuse)
    again = run_many(jobs(tmp_path), workers=1)
    assert [outcome.metrics for outcome in again] == [outcome.metrics for outcome in first]
    assert all(outcome.seconds == 0 for outcome in again)
    other = rows()
    other.train.samples[0] += 1
    [changed] = run_many([replace(jobs(tmp_path)[0], data=other)], workers=1)
    assert changed.error is not None
    assert "the data or its labels are not the same" in changed.error
    [settings] = run_many(jobs(tmp_path, 1, lr=0.5), workers=1)
    assert settings.error is not None
    assert "lr was 0.01, now 0.5" in settings.error


def test_a_source_is_opened_where_no_data_are_given(tmp_path: Path) -> None:
    data = rows()
    np.savez(tmp_path / "x.npz", X=data.train.samples, y=data.train.labels)
    config = DataConfig()
    job = Job(tmp_path / "run", tiny(), source=str(tmp_path / "x.npz"), data_config=config)
    [outcome] = run_many([job], workers=1)
    assert outcome.finished
    [missing] = run_many([replace(job, out=tmp_path / "other", source="gone.npz")], workers=1)
    assert missing.error == "there is no file gone.npz"


def test_a_failing_job_does_not_keep_the_others_from_finishing(tmp_path: Path) -> None:
    planned = jobs(tmp_path)
    planned[1] = replace(planned[1], config=planned[1].config.replace(optimizer="sgd", lr=1e30))
    screen = io.StringIO()
    outcomes = run_many(planned, workers=1, console=Console(file=screen, width=200))
    assert [outcome.finished for outcome in outcomes] == [True, False, True]
    assert outcomes[1].error is not None
    assert "became infinite or NaN" in outcomes[1].error
    told = screen.getvalue().splitlines()
    assert [line.split()[:4] for line in told] == [[str(i + 1), "of", "3", f"run{i}"] for i in range(3)]
    assert "failed: " in told[1]


@pytest.mark.parametrize("error", [RuntimeError("odd"), MemoryError()])
def test_errors_nobody_thought_of_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(self: Training) -> None:
        raise error

    monkeypatch.setattr(Training, "update", fail)
    [outcome] = run_many(jobs(tmp_path, 1), workers=1)
    assert outcome.error is not None
    assert type(error).__name__ in outcome.error


def test_a_signal_stops_all_and_the_same_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update = Training.update

    def stopping(self: Training) -> Any:
        if self.done == 5 and self.config.run.seed == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self)

    monkeypatch.setattr(Training, "update", stopping)
    with pytest.raises(StoppedError, match="stopped with 1 of 3 runs finished") as stopped:
        run_many(jobs(tmp_path / "stopped"), workers=1)
    assert stopped.value.signal == signal.SIGINT
    assert read_state(tmp_path / "stopped" / "run1" / "resume.safetensors")["step"] == 6
    assert not (tmp_path / "stopped" / "run2").exists()
    monkeypatch.setattr(Training, "update", update)
    run_many(jobs(tmp_path / "stopped"), workers=1)
    run_many(jobs(tmp_path / "whole"), workers=1)
    assert all(same(tmp_path / "stopped" / f"run{i}", tmp_path / "whole" / f"run{i}") for i in range(3))


def test_nonsense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        run_many(jobs(tmp_path), workers=0)
    with pytest.raises(ValueError, match="the same folder"):
        run_many(jobs(tmp_path) + jobs(tmp_path), workers=1)
    assert run_many([], workers=3) == []


def test_seeds_share_samples_and_are_what_each_opens_alone() -> None:
    config = DataConfig(labels=20, val=30)
    together = open_seeds("digits", config, [3, 4])
    for seed, data in zip((3, 4), together, strict=True):
        alone = open_data("digits", config, seed)
        np.testing.assert_array_equal(data.labeled, alone.labeled)
        assert data.val is not None
        assert alone.val is not None
        np.testing.assert_array_equal(data.val.samples, alone.val.samples)
    assert together[0].train.samples is together[1].train.samples
    assert together[0].labeled.tolist() != together[1].labeled.tolist()


# In processes. Starting one takes seconds, so that one script does all that needs them.

SCRIPT = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from rich.console import Console
from halfsure.data.reader import Reader
from halfsure.runs.parallel import run_many
from halfsure.settings import register
from halfsure.training.errors import StoppedError
from tests.runs.test_parallel import jobs

@register
class Deadly(Reader):
    name = about = "deadly"
    @classmethod
    def takes(cls, source):
        return source == "deadly"
    @classmethod
    def read(cls, source, settings):
        os.kill(os.getpid(), signal.SIGKILL)

out, steps = Path(sys.argv[1]), int(sys.argv[2])
planned = jobs(out, steps=steps)
if "die" in sys.argv:
    run_many(jobs(out / "before"), workers=2)
    os.chdir(out)  # the processes are used again, and stand where they were started
    planned = jobs(Path("many"), steps=steps)
    planned[1] = replace(planned[1], data=None, source="deadly")
try:
    for outcome in run_many(planned, workers=2, console=Console(width=200)):
        print(outcome.job.name, outcome.finished, outcome.error)
except StoppedError as stopped:
    print(stopped)
    sys.exit(128 + stopped.signal)
"""
ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def script(*arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


@pytest.mark.slow
def test_processes_give_the_same_bits_and_one_that_dies_takes_no_other_with_it(tmp_path: Path) -> None:
    process = script(tmp_path, 12, "die")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "run1 False its process died: it may have run out of memory" in out
    assert "run0 True None" in out
    assert "run2 True None" in out
    assert {child.name for child in tmp_path.iterdir()} == {"before", "many"}
    for seed in (0, 2):
        start(rows(), tiny(seed=seed, threads=1), out=tmp_path / f"alone{seed}")
        assert same(tmp_path / "many" / f"run{seed}", tmp_path / f"alone{seed}")


@pytest.mark.slow
def test_a_signal_to_the_parent_stops_the_processes_after_a_step(tmp_path: Path) -> None:
    process = script(tmp_path / "many", 10**7)
    deadline = time.monotonic() + 240
    while not all((tmp_path / "many" / f"run{i}" / "resume.safetensors").is_file() for i in (0, 1)):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "stopped with 0 of 3 runs finished" in out
    assert "Traceback" not in err
    steps = [read_state(tmp_path / "many" / f"run{i}" / "resume.safetensors")["step"] for i in (0, 1)]
    assert all(steps)  # what was done when the signal came is saved, though no evaluation was due
    assert not (tmp_path / "many" / "run2").exists()


# What is seen


def test_the_board_in_a_terminal() -> None:
    screen = io.StringIO()
    with Board(Console(file=screen, force_terminal=True, width=100), ["a", "long name"], [10, 20]) as board:
        for done in ([3, -1], [10, 7]):
            board.update(done)
            time.sleep(0.3)  # it is drawn ten times a second
        board.ended(0, "test error 5 %")
        board.update([10, 12])
    shown = screen.getvalue()
    for text in ("3/10", "7/20", "12/20", "1 of 2 runs", "1 of 2  a          test error 5 %"):
        assert text in shown


def test_the_board_elsewhere_tells_what_is_running_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfsure.runs.board.SECONDS", 0.0)
    screen = io.StringIO()
    with Board(Console(file=screen, width=100), ["a", "b"], [10, 2000]) as board:
        board.update([10, 1500])
        board.ended(0, "done")
        board.update([10, 1600])
    assert screen.getvalue().splitlines() == [
        "a at 10 of 10, b at 1,500 of 2,000",
        "1 of 2  a    done",
        "b at 1,600 of 2,000",
    ]


def test_nothing_is_said_without_a_console(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfsure.runs.board.SECONDS", 0.0)
    with Board(None, ["a"], [1]) as board:
        board.update([1])
        board.ended(0, "done")
    assert capfd.readouterr() == ("", "")


def test_an_outcome_says_whether_it_is_one() -> None:
    job = jobs(Path("x"), 1)[0]
    assert Outcome(job, []).finished
    assert not Outcome(job, [], error="x").finished
    assert not Outcome(job, [], stopped=2).finished
