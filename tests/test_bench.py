"""The table of benchmarks, and what scale.py knows of time and memory."""

import json
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import bench
import numpy as np
import pytest
import scale
import scale_run
import torch
from rows import Row
from torch import nn

import halfsure
from halfsure.data import load
from halfsure.training.ranks import Ranks

MB = 2**20
on_linux = pytest.mark.skipif(not scale.LINUX, reason="memory is read from Linux's /proc")


def some_rows(quick: bool) -> Iterator[Row]:
    yield Row("ours", "theirs", [2.0, 3.0], 2.0, "≥")
    yield Row("ours, worse", "theirs", [1.5], 1.0, "≤")
    yield Row("ours, for comparison", "theirs", [9.0 if quick else 1.0])


def test_rows_come_in_groups_and_targets_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    found = bench.bench({"first": some_rows, "second": some_rows}, quick=True)
    said = capsys.readouterr().out.splitlines()
    assert len(found) == 6
    assert [line for line in said if line.startswith("---")] == ["--- first", "--- second"]
    assert said[2:5] == [str(row) for row in some_rows(quick=True)]
    assert "2 of 4 targets reached" in said
    assert said[-2:] == ["  not: ours, worse, 1.50 × theirs, ≤ 1"] * 2
    assert any(line.startswith("6 rows in 0.0 minutes") for line in said)


def test_what_is_printed_is_written_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def late(quick: bool) -> Iterator[Row]:
        raise AssertionError("not among the quick ones")

    monkeypatch.setattr(bench, "GROUPS", {"losses": some_rows, "views": some_rows, "steps": late})
    monkeypatch.setattr(sys, "argv", ["bench.py", "--quick", "--out", str(tmp_path / "table.txt")])
    bench.main()
    assert (tmp_path / "table.txt").read_text(encoding="utf-8") == capsys.readouterr().out


def test_a_benchmark_that_breaks_leaves_the_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(quick: bool) -> Iterator[Row]:
        yield from some_rows(quick)
        raise RuntimeError("broken")

    (tmp_path / "table.txt").write_text("before")
    monkeypatch.setattr(bench, "GROUPS", {"losses": broken})
    monkeypatch.setattr(sys, "argv", ["bench.py", "--out", str(tmp_path / "table.txt")])
    with pytest.raises(RuntimeError, match="broken"):
        bench.main()
    assert (tmp_path / "table.txt").read_text() == "before"


@pytest.mark.parametrize("name", ["", "nowhere/table.txt"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "GROUPS", {})
    monkeypatch.setattr(sys, "argv", ["bench.py", "--out", str(tmp_path / name)])
    with pytest.raises(SystemExit) as end:
        bench.main()
    assert end.value.code == 2
    assert "name a file in a folder that exists" in capsys.readouterr().err


@on_linux
def test_the_peak_is_what_a_call_takes_and_gives_back() -> None:
    kept: list[torch.Tensor] = []

    def work() -> None:
        kept[:] = kept or [torch.ones(16 * MB)]  # stays: not counted
        torch.ones(8 * MB).sum()  # 32 MB

    assert scale.peak(work) == pytest.approx(32 * MB, abs=4 * MB)


@on_linux
def test_the_memory_of_another_process_is_looked_at_all_the_while() -> None:
    code = "import json, time; a = bytearray(b'x' * (96 << 20)); time.sleep(.3); del a; time.sleep(.3); print({size})"
    (least, said), (most, _) = (
        scale.watched([sys.executable, "-c", text]) for text in ("print('{\"a\": 1}')", code.replace("{size}", "'{}'"))
    )
    assert said == {"a": 1}
    assert 90 * MB < most - least < 220 * MB  # the text it was made from may be there beside it


def test_a_process_that_fails_ends_the_measurement() -> None:
    with pytest.raises(SystemExit, match="ended with 3"):
        scale.watched([sys.executable, "-c", "import sys; sys.exit(3)"])


def test_contenders_take_turns_and_their_seconds_are_the_processors() -> None:
    turns: list[str] = []

    def busy(name: str, seconds: float) -> None:
        turns.append(name)
        began = time.process_time()
        while time.process_time() - began < seconds:
            pass

    spent = scale.in_turn({"a": lambda: busy("a", 0.03), "b": lambda: busy("b", 0.005)}, rounds=3)
    assert [len(values) for values in spent.values()] == [3, 3]
    assert min(spent["a"]) >= 0.03 > min(spent["b"]) >= 0.005
    assert "".join(name for name, _ in groupby(turns)) == "ab" * 4  # once before the rounds


@pytest.mark.filterwarnings("ignore::halfsure.data.DataWarning")  # the rows come again and again
def test_mapped_rows_are_written_as_they_are_read(tmp_path: Path) -> None:
    scale.write(tmp_path, 2500, chunk=1000)
    data = load(tmp_path)
    assert data.train.samples.shape == (2500, scale.FEATURES)
    assert data.labeled.tolist() == list(range(scale.LABELS))
    assert np.array_equal(data.train.samples[0], data.train.samples[2000])
    assert len(np.unique(np.asarray(data.train.samples[:1000]), axis=0)) == 1000


def test_the_loss_of_a_step_is_that_of_the_method() -> None:
    given = scale.logits_batch(5)
    weak, strong = given.unlabeled
    scale.step_loss(given).backward()
    target = halfsure.sharpen(halfsure.sparsemax(weak.detach()))
    for logits, wanted in ((given.labeled, nn.functional.one_hot(given.labels, 5)), (strong, target)):
        assert logits.grad is not None
        expected = (halfsure.sparsemax(logits.detach()) - wanted) / len(logits)
        torch.testing.assert_close(logits.grad, expected)
    assert weak.grad is None or not weak.grad.any()


def test_every_work_on_logits_gets_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MANY", 20), ("CLASS_ROUNDS", 2), ("SHARE", 0.001)):
        monkeypatch.setattr(scale, name, value)
    found = list(scale.classes((2, scale.MANY)))
    assert len(found) == 2 * 5
    assert all(row.ratio == 1 for row in found if f"{scale.MANY:,} classes" in row.what)
    assert all(row.ratio > 0 and "ns a logit" in row.note for row in found)


@on_linux
def test_a_run_on_mapped_rows_says_what_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scale.write(tmp_path, 1000, chunk=1000)
    monkeypatch.setattr(scale_run, "ROW_STEPS", 6)
    monkeypatch.setattr(sys, "argv", ["scale_run.py", "rows", str(tmp_path)])
    scale_run.main()
    found = json.loads(capsys.readouterr().out)
    assert len(found["steps"]) == 5
    assert min(found["steps"]) > 0
    assert found["before"] > 10 * MB


def test_a_step_of_any_batch_goes_through_the_engine() -> None:
    training = scale_run.make_training(scale_run.features(), 16, Ranks())
    scale.step(training)()
    assert training.done == 1
    assert training.config.training.batch == scale.LABELED
    assert training.config.training.unlabeled_batch == 16
