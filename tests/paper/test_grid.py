"""Cells are run, stopped, gone on with and shown."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from halfsure.cli import main
from halfsure.metrics import paired_difference
from halfsure.paper import tuning
from halfsure.paper.cells import Cell, Column
from halfsure.paper.grid import run_cell, run_cells
from halfsure.paper.results import Results
from halfsure.paper.show import fill, lines
from halfsure.paper.table import Row, Table
from halfsure.paper.tuning import Family, choose, over, winner

DIGITS = Column("digits", 20)
SHORT = {"steps": 4, "evaluations": 2, "test_sample": 50, "unlabeled_sample": 50, "net": "mlp-8"}


def cell(method: str = "supervised", seed: int = 0, **changes: Any) -> Cell:
    return Cell("small", DIGITS, method, seed, settings=SHORT | changes)


def run(cells: list[Cell], folder: Path) -> None:
    run_cells(cells, runs=folder / "runs", results=folder / "results", workers=1)


def test_a_finished_cell_is_a_line_that_can_be_repeated(tmp_path: Path) -> None:
    run([cell()], tmp_path)
    (line,) = Results(tmp_path / "results", "small")
    assert {"test", "unlabeled", "readings", "config", "versions", "git", "created", "command", "seconds"} <= set(line)
    assert line["steps"] == 4
    assert [each["step"] for each in line["lines"]] == [2, 4]
    again = tmp_path / "again"
    run_cell(cell(), runs=again, results=again, root=None, console=None)
    (other,) = Results(again, "small")
    assert other["test"] == line["test"]
    assert other["config"] == line["config"]


def test_what_has_a_line_is_not_run_again_and_what_differs_is(tmp_path: Path) -> None:
    run([cell(), cell(seed=1)], tmp_path)
    run([cell(), cell(seed=1), cell(lr=0.01)], tmp_path)
    assert [line["settings"].get("lr") for line in Results(tmp_path / "results", "small")] == [None, None, 0.01]


def test_nobody_sees_the_test_error_of_a_trial(tmp_path: Path) -> None:
    run([replace(cell(), held_out=100)], tmp_path)
    (line,) = Results(tmp_path / "results", "small")
    assert "test" not in line
    assert line["readings"] is None
    assert line["lines"] is None
    assert 0 <= line["val"]["error"] <= 1


def made(method: str, seed: int, error: float, **more: Any) -> dict[str, Any]:
    scores = {"error": error, "ece": 0.1, "sparse_support": 1.5}
    own = {"column": vars(DIGITS), "protocol": "cpu", "method": method, "trial": "", "seed": seed}
    return own | {"test": scores, "dead": [], **more}


def test_differences_are_paired_over_the_seeds_that_both_have() -> None:
    table = Table("small", "Small", (Row("supervised"), Row("vat", "supervised")), {"cpu": (DIGITS,)}, 4)
    base, own = {0: 0.30, 1: 0.34, 2: 0.31}, {0: 0.20, 2: 0.25, 3: 0.1}
    runs = [made("supervised", s, e) for s, e in base.items()] + [made("vat", s, e) for s, e in own.items()]
    first, second = fill(table, DIGITS, "cpu", runs)
    assert first.difference is None
    assert second.difference == paired_difference([30.0, 31.0], [20.0, 25.0])
    text = [" ".join(cells) for cells in lines([first, second])]
    assert "31.67 ± 2.08" in text[0]
    assert "-8.00 [" in text[1]


def test_a_collapsed_run_is_marked() -> None:
    table = Table("small", "Small", (Row("vat"),), {"cpu": (DIGITS,)}, 4)
    (row,) = lines(fill(table, DIGITS, "cpu", [made("vat", 0, 0.9, dead=["3"])]))
    assert "90.00*" in row[3]


def test_the_winner_has_the_lowest_mean_validation_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = over(lr=(1e-3, 2e-3))
    family = Family(DIGITS, ("digits",), (100, 101), {"supervised": 4}, {"supervised": space, "vat": space})
    monkeypatch.setattr(tuning, "FAMILIES", {"small": family})
    monkeypatch.setattr(tuning, "WINNERS", tmp_path / "winners.json")
    errors = {(1e-3, 100): 0.2, (1e-3, 101): 0.5, (2e-3, 100): 0.4, (2e-3, 101): 0.2}
    rows = [
        {"method": "supervised", "column": vars(DIGITS), "settings": {"lr": lr, "steps": 4}, "val": {"error": error}}
        for (lr, _), error in errors.items()
    ]
    choose(rows)
    assert winner("digits", "supervised") == {"lr": 2e-3}
    assert json.loads((tmp_path / "winners.json").read_text())["small"]["supervised"]["tried"][0]["validation"] == [0.2, 0.5]
    with pytest.raises(ValueError, match="vat has not been tuned"):
        winner("digits", "vat")
    tuning._winners.cache_clear()


@pytest.mark.parametrize("words", [["nothing"], ["table1", "--cell", "x", "--protocol", "paper"], ["table1", "--budget", "long"]])
def test_what_does_not_exist_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *words]) == 2
    assert capsys.readouterr().err.startswith("halfsure: ")
