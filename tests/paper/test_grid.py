"""Cells are run, stopped, gone on with, and found again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from halfsure.data import DataError
from halfsure.learners.classic import baseline_errors
from halfsure.paper.cells import Cell, identity
from halfsure.paper.controls import CONTROLS, control, run_controls
from halfsure.paper.grid import run_cell, run_cells
from halfsure.paper.results import Results
from halfsure.runs.parallel import Outcome
from tests.paper.small import DIGITS, cell


def run(cells: list[Cell], folder: Path) -> Results:
    results = Results(folder / "results")
    run_cells(cells, results, runs=folder / "runs", workers=1)
    return Results(folder / "results")


def test_a_finished_cell_is_a_line_that_can_be_repeated(tmp_path: Path) -> None:
    (line,) = run([cell()], tmp_path)
    assert {"test", "unlabeled", "readings", "config", "versions", "git", "created", "command", "seconds"} <= set(line)
    assert line["steps"] == 4
    assert [each["step"] for each in line["lines"]] == [2, 4]
    again = run_cell(cell(), runs=tmp_path / "again")
    assert again["test"] == line["test"]
    assert again["config"] == line["config"]


def test_what_has_a_line_is_not_run_again_and_what_differs_is(tmp_path: Path) -> None:
    run([cell(), cell(seed=1)], tmp_path)
    found = run([cell(), cell(seed=1), replace(cell(lr=0.01), variant="lr=0.01")], tmp_path)
    assert [line["settings"].get("lr") for line in found] == [None, None, 0.01]
    assert len((tmp_path / "results" / "other.jsonl").read_text().splitlines()) == 3


def test_a_run_counts_for_every_experiment_that_has_it(tmp_path: Path) -> None:
    found = run([cell()], tmp_path)
    assert found.find(replace(cell(), experiment="another")) is not None
    assert found.find(replace(cell(), protocol="paper")) is None
    assert found.find(replace(cell(), held_out=5)) is None
    assert found.find(cell(seed=1)) is None


def test_a_run_that_fails_leaves_the_others_and_no_line(tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    (tmp_path / "runs" / "cpu" / "other").mkdir(parents=True)
    (tmp_path / "runs" / "cpu" / "other" / cell().name.replace(":", "_")).write_text(
        "a file where the run's folder should be"
    )
    failed: list[Outcome] = []
    run_cells([cell(), cell(seed=1)], results, runs=tmp_path / "runs", workers=1, failed=failed.append)
    (outcome,) = failed
    assert "is a file" in str(outcome.error)
    assert [line["seed"] for line in results] == [1]


def test_nobody_sees_the_test_error_of_a_trial(tmp_path: Path) -> None:
    (line,) = run([replace(cell(), held_out=100)], tmp_path)
    assert "test" not in line
    assert line["readings"] is None
    assert line["lines"] is None
    assert 0 <= line["val"]["error"] <= 1
    assert Results(tmp_path / "results").find(replace(cell(), held_out=100)) == line


def test_a_line_that_was_cut_off_costs_no_other(tmp_path: Path) -> None:
    results = Results(tmp_path)
    lines = [cell(seed=seed).as_json() | {"test": {"error": seed / 10}} for seed in range(3)]
    results.add(lines[0])
    results.add(lines[1])
    file = tmp_path / "other.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    broken = Results(tmp_path)
    assert list(broken) == lines[:1]
    broken.add(lines[2])
    assert list(Results(tmp_path)) == [lines[0], lines[2]]


def test_files_of_something_else_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "accuracy.jsonl").write_text(json.dumps({"method": "vat", "error": 1}) + "\n")
    assert list(Results(tmp_path)) == []
    assert list(Results(tmp_path / "missing")) == []


def test_a_line_that_no_run_wrote_is_named(tmp_path: Path) -> None:
    whole = cell().as_json() | {"test": {"error": 0.5}}
    for broken in ({"experiment": "other"}, whole | {"test": {}}, whole | {"test": 3}, whole | {"seed": "x"}):
        (tmp_path / "other.jsonl").write_text(json.dumps(whole) + "\n" + json.dumps(broken) + "\n")
        with pytest.raises(DataError, match="run 2 has no settings or no error"):
            Results(tmp_path)


def test_identity_holds_whatever_a_run_follows_from_and_nothing_else() -> None:
    base = cell()
    same = [replace(base, experiment="x"), replace(base, variant="x")]
    more_labels = replace(base, column=replace(DIGITS, labels=30))
    other = [replace(base, seed=1), replace(base, method="vat"), cell(lr=0.1), more_labels]
    assert {identity(each.as_json()) for each in same} == {identity(base.as_json())}
    assert len({identity(each.as_json()) for each in [base, *other]}) == 5


def test_controls_have_the_labels_of_their_column_and_seed(tmp_path: Path) -> None:
    results = Results(tmp_path)
    cells = [cell(), cell("vat"), cell(seed=1), replace(cell(seed=2), held_out=50)]
    run_controls(cells, results)
    run_controls(cells, results)
    lines = list(results)
    assert [(line["method"], line["seed"]) for line in lines] == [(name, seed) for seed in (0, 1) for name in CONTROLS]
    data = cell(seed=1).open()
    assert data.test is not None
    wanted = baseline_errors(data, data.test)
    for name in CONTROLS:
        found = results.find(control(name, DIGITS, 1, "cpu"))
        assert found is not None
        assert found["test"]["error"] == wanted[name]


@pytest.mark.slow
def test_side_by_side_gives_the_same_bits(tmp_path: Path) -> None:
    cells = [cell(), cell("fixmatch-ads")]
    alone = {line["method"]: line["test"] for line in run(cells, tmp_path / "alone")}
    results = Results(tmp_path / "both")
    run_cells(cells, results, runs=tmp_path / "runs", workers=2)
    assert {line["method"]: line["test"] for line in results} == alone
