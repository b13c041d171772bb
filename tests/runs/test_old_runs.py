"""Run folders of version 0.1 can be used: predicted with, evaluated, reported; only resumed they can not be.

What 0.1 itself said of them lies beside them; `tests/fixtures/README.md` tells how they were made.
"""

import csv
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import halfsure
from halfsure.cli import main
from halfsure.data.new import read

FIXTURES = Path(__file__).parents[1] / "fixtures"
NEW = {"table": "new.csv", "images": "new.npz"}
WORDS = ("name", "label", "candidates")
COVERAGE = {"table": ["--coverage", "0.8"], "images": []}
GIVEN = {
    "table": ["method", "net", "steps", "lr", "ema", "r", "class_weight", "prior"],
    "images": [
        *("method", "net", "norm", "steps", "optimizer", "lr", "weight_decay", "schedule", "ema", "ramp", "ramp_shape"),
        *("weight", "distill_weight", "threshold", "mixup", "copies", "shift", "normalise"),
    ],
}
"""Settings that 0.1 was told; the others came from its presets."""


@pytest.fixture(params=["table", "images"])
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run folder of 0.1 and its data, in a working folder of its own."""
    if request.param == "table":
        pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")
    shutil.copytree(FIXTURES / f"run-0.1-{request.param}", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return str(request.param)


def table(file: str) -> list[dict[str, str]]:
    with open(file, newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def probabilities(rows: list[dict[str, str]]) -> NDArray[np.float64]:
    """The columns p_CLASS. → (n, classes)."""
    return np.array([[float(value) for name, value in row.items() if name.startswith("p_")] for row in rows])


def test_a_loaded_model_says_what_it_said(kind: str) -> None:
    run, rows = halfsure.load("run"), table("predictions.csv")
    new = read(NEW[kind], run.encoding, shape=run.preprocessing.shape)
    assert run.predict(new.samples) == [row["label"] for row in rows]
    np.testing.assert_allclose(run.predict_proba(new.samples), probabilities(rows), rtol=0, atol=1e-6)
    assert len(set(run.predict(new.samples))) == len(run.classes)


def test_predict_writes_what_it_wrote(kind: str) -> None:
    assert main(["predict", "run", NEW[kind], "-o", "again.csv", "--probabilities", *COVERAGE[kind]]) == 0
    rows, before = table("again.csv"), table("predictions.csv")
    assert list(rows[0]) == list(before[0])
    for row, old in zip(rows, before, strict=True):
        assert {name: row[name] for name in WORDS} == {name: old[name] for name in WORDS}
    np.testing.assert_allclose(probabilities(rows), probabilities(before), rtol=0, atol=1e-6)


def test_evaluate_measures_what_it_measured(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "run", NEW[kind], "--json"]) == 0
    found, before = json.loads(capsys.readouterr().out), json.loads(Path("evaluation.json").read_text())
    assert found["error"] == before["error"]
    assert {name: found[name] for name in before} == approximately(before)


def approximately(value: Any) -> Any:
    """Equal but for rounding, also inside lists and dicts."""
    if isinstance(value, dict):
        return {name: approximately(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [approximately(inner) for inner in value]
    return pytest.approx(value, rel=1e-5) if isinstance(value, float) else value


class Cells(HTMLParser):
    """The rows of all tables of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip()


def test_report_names_the_method_and_its_settings(kind: str) -> None:
    settings = json.loads(Path("run/config.json").read_text())["config"]
    assert main(["report", "run"]) == 0
    rows = Cells(Path("run/report.html").read_text(encoding="utf-8")).rows
    for name in GIVEN[kind]:
        # However settings are grouped and written: distill_weight may be distill.weight.
        said = [row for row in rows if re.sub(r"\W", "_", row[0]).endswith(name)]
        assert any(str(settings[name]) in row for row in said), f"{name} is not {settings[name]} in {said}"


@pytest.mark.parametrize("kind", ["table"], indirect=True)
def test_resume_says_that_it_needs_the_old_version(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(path for path in Path("run").rglob("*") if path.name != ".lock")
    assert main(["resume", "run"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(r"halfsure: .*\b0\.1\b", said)
    assert sorted(path for path in Path("run").rglob("*") if path.name != ".lock") == before
