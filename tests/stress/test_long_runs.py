"""Nothing grows while a run trains, and what it writes can be read at any moment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from halfsure import SSLClassifier
from halfsure.report import write
from halfsure.runs.folder import Folder
from halfsure.runs.run import load
from halfsure.runs.start import start
from halfsure.training.config import Config
from halfsure.training.errors import StoppedError
from halfsure.training.evaluation import Evaluator
from tests.stress.footprint import Footprint, Footprints
from tests.training.helpers import rows, tiny

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fixmatch-ads", "vat+ads", "mixmatch"])
def test_a_step_leaves_nothing_behind(method: str, tmp_path: Path) -> None:
    """But for what Python and torch keep for later use: it fills up in bursts, a leak grows in every stretch."""
    watch = Footprints(*range(200, 1401, 200))
    start(rows(), tiny(method=method, steps=1400, evaluations=1, save_minutes=0.02), out=tmp_path, watch=watch)
    assert watch.steady("blocks") < 0.5
    assert watch.growth("tensors") == watch.growth("threads") == 0
    assert watch.growth("files") <= 0  # one that another test left open may be closed meanwhile


@pytest.mark.slow
def test_a_leak_of_one_object_a_step_is_seen() -> None:
    kept: list[object] = []
    seen = Footprints(100, 200, 300)

    def watch(done: int) -> None:
        kept.append(bytes(100))
        seen(done)

    start(rows(), tiny(method="supervised", steps=300, evaluations=1), watch=watch)
    assert seen.steady("blocks") > 0.95


@pytest.mark.slow
def test_fits_reports_and_predictions_give_everything_back(tmp_path: Path) -> None:
    data = rows()

    def once(number: int) -> None:
        start(data, tiny(steps=2, tensorboard=True), out=tmp_path / str(number))
        load(tmp_path / str(number)).predict(data.train.samples)
        write([tmp_path / str(number)], tmp_path / "report.html")

    once(0)
    before = Footprint.now()
    for number in range(1, 5):
        once(number)
    after = Footprint.now()
    assert (after.files, after.tensors) == (before.files, before.tensors)
    assert after.threads <= before.threads


def test_a_classifier_that_is_fitted_again_holds_one_model() -> None:
    model = SSLClassifier(method="supervised", steps=2, folds=0)
    samples, labels = rows().train.samples, rows().train.labels
    held = []
    for _ in range(3):
        model.fit(samples, labels)
        model.predict(samples)
        held.append(Footprint.now())
    assert held[-1].tensors == held[0].tensors
    assert held[-1].files == held[0].files


READER = """
import sys
from pathlib import Path
from halfsure.runs import Folder

folder, seen, reads = Folder(sys.argv[1]), 0, 0
print("ready", flush=True)
while not (folder.path / "end").exists() or not reads:
    lines = folder.metrics()
    steps = [line["step"] for line in lines]
    assert steps == sorted(set(steps)), steps
    assert len(lines) >= seen, (len(lines), seen)
    assert all(line["test"]["samples"] == 30 and "constant" in line for line in lines)
    seen, reads = len(lines), reads + 1
print(seen, reads)
"""


@pytest.mark.slow
def test_metrics_can_be_read_while_they_are_written(tmp_path: Path) -> None:
    """A reader in a tight loop sees whole lines only, and never fewer than before; a report can be made meanwhile."""
    config = tiny(method="supervised", steps=60, evaluations=60)
    command = [sys.executable, "-c", READER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}) as it:
        assert it.stdout is not None
        assert it.stdout.readline() == "ready\n"
        pages = []

        def watch(done: int) -> None:
            if done == 30:
                pages.append(write([tmp_path], tmp_path / "report.html").read_text())

        start(rows(), config, out=tmp_path, watch=watch)
        (tmp_path / "end").touch()
        seen, reads = map(int, it.stdout.read().split())
    assert it.returncode == 0
    assert seen >= 59  # it may have looked for the last time just before the end
    assert reads > 5
    assert "29 steps" in pages[0]


def test_any_part_of_a_last_line_is_left_out(tmp_path: Path) -> None:
    whole = [{"step": 1, "x": 0.5}, {"step": 22, "x": 10}]
    text = "".join(json.dumps(line) + "\n" for line in whole)
    for cut in range(len(text) + 1):
        (tmp_path / "metrics.jsonl").write_text(text[:cut])
        found = Folder(tmp_path).metrics()
        assert found == whole[: len(found)]
        assert len(found) >= text[:cut].count("\n")


def test_a_billion_steps_begin_at_once(tmp_path: Path) -> None:
    """Nothing is made of the steps beforehand; evaluations are due as often as was asked for."""

    def watch(done: int) -> None:
        if done == 3:
            os.kill(os.getpid(), 15)

    before = Footprint.now().resident
    with pytest.raises(StoppedError, match="stopped after step 3"):
        start(rows(), tiny(steps=10**9, evaluations=1000), out=tmp_path, watch=watch)
    assert Footprint.now().resident - before < 100 * 2**20
    evaluator = Evaluator.__new__(Evaluator)
    evaluator.config = Config(steps=10**9, evaluations=1000)
    near = range(10**9 - 2 * 10**6, 10**9 + 1)
    assert [step for step in (near[0], near[1], near[10**6], near[-1]) if evaluator.due(step)] == [
        near[0],
        near[10**6],
        near[-1],
    ]
