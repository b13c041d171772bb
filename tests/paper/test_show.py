"""Lines become tables, figures and winners."""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from halfsure.metrics import paired_difference
from halfsure.paper import tuning
from halfsure.paper.cells import Cell, Column, identity
from halfsure.paper.controls import control
from halfsure.paper.experiments import TABLES
from halfsure.paper.figures import FIGURES, draw
from halfsure.paper.results import Line, Results
from halfsure.paper.robustness import ROBUSTNESS
from halfsure.paper.safety import SAFETY
from halfsure.paper.show import fill, markdown, sheets, trial_sheets
from halfsure.paper.table import Row, Table
from halfsure.paper.table1 import TABLE1
from halfsure.paper.tuning import Family, NotTunedError, choose, over, trials, winner
from tests.paper.small import DIGITS, SMALL

ROOT = Path(__file__).parents[2]


def made(table: Table, column: Column, row: Row, seed: int, error: float, **more: Any) -> Line:
    """The line of a run that never was."""
    cell = table.cell("cpu", column, row, seed)
    scores = {"error": error, "ece": 0.1, "sparse_support": 1.5, "top_m_accuracy": 0.9, "support": 2.0}
    scores |= {"dominant": 0.8, "softmax_dominant": 0.7, "softmax_ece": 0.3}
    lines = [
        {"step": step, "unlabeled": scores, "train": {"distillation": 0.1}, "histogram": [9] * 10} for step in (10, 20)
    ]
    config = {"net": cell.settings.get("net", "mlp-8")}
    return (
        cell.as_json()
        | {"test": scores, "dead": [], "steps": 20, "config": config, "data": {"shape": [50]}, "lines": lines}
        | more
    )


def of(folder: Path, lines: list[Line]) -> Results:
    results = Results(folder)
    for line in lines:
        results.add(line)
    return results


def test_differences_are_paired_over_the_seeds_that_both_have(tmp_path: Path) -> None:
    base, own, variant = {0: 0.30, 1: 0.34, 2: 0.31}, {0: 0.20, 2: 0.25, 3: 0.1}, {2: 0.22, 3: 0.11}
    lines = [made(SMALL, DIGITS, SMALL.rows[0], seed, error) for seed, error in base.items()]
    lines += [made(SMALL, DIGITS, SMALL.rows[1], seed, error) for seed, error in own.items()]
    lines += [made(SMALL, DIGITS, SMALL.rows[2], seed, error) for seed, error in variant.items()]
    results = of(tmp_path, lines)
    first, second, third = fill(SMALL, DIGITS, "cpu", results)
    assert first.difference is first.beyond is second.beyond is None
    assert second.difference == paired_difference([30.0, 31.0], [20.0, 25.0])
    assert third.difference == paired_difference([31.0], [22.0])
    assert third.beyond == paired_difference([25.0, 10.0], [22.0, 11.0])
    (sheet,) = sheets(SMALL, "cpu", results)
    head, rows = sheet.columns(wide=True)
    found = [dict(zip(head, row, strict=True)) for row in rows]
    assert found[0] | {"by seed": ""} == {
        "method": "supervised",
        "paper": "30.00 ± 1.50",
        "ours": "31.67 ± 2.08",
        "n": "3",
        "by seed": "",
        "against": "",
        "difference": "",
        "control": "",
        "beyond it": "",
        "ECE": "10.0",
        "ECE by softmax": "30.0",
        "confidence": "0.800",
        "candidates": "1.50",
    }
    assert found[0]["by seed"] == "30.00 34.00 31.00"
    assert found[1]["difference"] == "-8.00 [-33.41, +17.41]"
    assert found[2]["control"] == "fixmatch-ads"
    assert found[2]["beyond it"] == "-1.00 [-26.41, +24.41]"
    assert sheet.about == "test error in %, 20 steps of mlp-8 on 50 training samples, seeds 0 to 3"


def test_a_run_with_other_settings_is_not_shown(tmp_path: Path) -> None:
    line = made(SMALL, DIGITS, SMALL.rows[0], 0, 0.3)
    other = line | {"settings": line["settings"] | {"steps": 5}}
    results = of(tmp_path, [other])
    assert not fill(SMALL, DIGITS, "cpu", results)[0].runs
    (sheet,) = sheets(SMALL, "cpu", results)
    assert [row[sheet.head.index("ours")] for row in sheet.rows] == ["–"] * 3


def test_a_run_in_which_a_class_died_is_marked(tmp_path: Path) -> None:
    results = of(tmp_path, [made(SMALL, DIGITS, SMALL.rows[0], 0, 0.9, dead=["3"])])
    (sheet,) = sheets(SMALL, "cpu", results)
    assert "90.00*" in markdown([sheet], "made so")


def test_controls_stand_below_the_rows(tmp_path: Path) -> None:
    lines = [made(SMALL, DIGITS, SMALL.rows[0], seed, 0.3) for seed in (0, 1)]
    controls = [control("1-NN", DIGITS, seed, "cpu").as_json() for seed in (0, 1, 2)]  # the last has no run beside it
    lines += [line | {"test": {"error": 0.4 + line["seed"] / 10}} for line in controls]
    filled = fill(SMALL, DIGITS, "cpu", of(tmp_path, lines))[-1]
    assert filled.row.name == "1-NN"
    assert list(filled.errors.values()) == pytest.approx([40, 50])
    assert filled.mean("ece") is None


def test_a_table_fits_a_screen_of_80_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_tuned(monkeypatch)
    for table in (TABLE1, SMALL):
        column = table.columns["cpu"][0]
        lines = [made(table, column, row, seed, 0.9 - seed / 2) for row in table.rows for seed in range(2)]
        for sheet in sheets(table, "cpu", of(tmp_path / table.name, lines)):
            head, rows = sheet.columns(wide=False)
            widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
            assert sum(widths) + 2 * len(widths) - 2 <= 80, (head, widths)


def test_variants_can_be_columns(tmp_path: Path) -> None:
    settings = [{"weight": 0.3, "epsilon": 1.4}, {"weight": 1.0, "epsilon": 1.4}]
    rows = tuple(Row(method, None, each) for each in settings for method in ("vat", "vat+ads"))
    table = Table("grid", "Grid", rows, {"cpu": (DIGITS,)}, 20, matrix=True)
    results = of(tmp_path, [made(table, DIGITS, row, 0, place / 10) for place, row in enumerate(rows)])
    (sheet,) = sheets(table, "cpu", results)
    assert sheet.head == ("method", "weight=0.3,epsilon=1.4", "weight=1,epsilon=1.4")
    assert sheet.rows == [("vat", "0.00", "20.00"), ("vat+ads", "10.00", "30.00")]
    assert ROBUSTNESS.matrix


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Family:
    rates = {"lr": (1e-3, 2e-3)}
    spaces = {"supervised": over(**rates), "vat": over(ramp=(0.4,), **rates)}
    family = Family(DIGITS, ("digits",), (100, 101), {"supervised": 4, "vat": 4}, spaces)
    monkeypatch.setitem(tuning.FAMILIES, "small", family)
    return family


def tried(family: Family, errors: dict[tuple[float, int], float], method: str = "supervised") -> list[Line]:
    """Lines of trials."""
    cells = {(cell.settings["lr"], cell.seed): cell for cell in trials(family) if cell.method == method}
    return [cells[which].as_json() | {"val": {"error": error}} for which, error in errors.items()]


ERRORS = {(1e-3, 100): 0.2, (1e-3, 101): 0.5, (2e-3, 100): 0.4, (2e-3, 101): 0.2}


def test_the_winner_has_the_lowest_mean_validation_error(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = tried(family, ERRORS)
    given_up = lines[0] | {"settings": lines[0]["settings"] | {"lr": 1.0}, "val": {"error": 0.0}}
    chosen = choose(of(tmp_path / "all", [*lines, given_up]))
    assert chosen["small"] == {"supervised": {"lr": 2e-3}}
    assert "small" not in choose(of(tmp_path / "some", lines[1:]))  # not before all of it has been tried
    monkeypatch.setattr(tuning, "winners", lambda: chosen)
    assert winner(DIGITS, "supervised") == winner(Column("digits", 50), "supervised") == {"lr": 2e-3}
    with pytest.raises(NotTunedError, match="vat has not been tuned"):
        winner(DIGITS, "vat")
    assert winner(Column("stl10", 20), "vat") == {}


def test_a_column_with_trials_of_its_own_takes_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    own = replace(tuning.VAT, column=Column("svhn", 20), takers=("svhn@20",))
    monkeypatch.setattr(tuning, "FAMILIES", {"own": own, "all": replace(own, takers=("svhn",))})
    monkeypatch.setattr(tuning, "winners", lambda: {name: {"vat": {"lr": name}} for name in ("own", "all")})
    assert winner(Column("svhn", 20), "vat") == {"lr": "own"}
    assert winner(Column("svhn", 200), "vat") == {"lr": "all"}


def test_a_table_that_is_not_tuned_says_so(family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "winners", dict)
    line = made(SMALL, Column("svhn", 20), Row("vat"), 0, 0.3)
    (sheet,) = sheets(SMALL, "cpu", of(tmp_path, [line]))
    assert "has not been tuned on digits@20 yet" in sheet.about


def test_trials_are_shown_with_what_was_chosen(family: Family, tmp_path: Path) -> None:
    (sheet,) = trial_sheets(of(tmp_path, tried(family, ERRORS)), {"small": family})
    assert sheet.rows[0] == ("supervised", "lr 0.001 0.002", "", "35.0 30.0", "4", "lr=0.002")
    assert sheet.rows[1] == ("vat", "lr 0.001 0.002", "ramp=0.4", "– –", "0", "–")


def test_trials_come_trial_by_trial(family: Family) -> None:
    names = [cell.name for cell in trials(family)]
    assert names[:3] == [
        "digits@20:supervised:lr=0.001:s100",
        "digits@20:vat:lr=0.001:s100",
        "digits@20:supervised:lr=0.002:s100",
    ]


def as_if_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    untuned: dict[str, dict[str, tuning.Settings]] = {
        name: {method: {} for method in family.spaces} for name, family in tuning.FAMILIES.items()
    }
    monkeypatch.setattr(tuning, "winners", lambda: untuned)


def lines_for_figures(monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    as_if_tuned(monkeypatch)
    mnist, cifar = Column("mnist", 20), Column("cifar10", 250)
    lines = [made(TABLE1, mnist, row, seed, 0.3) for row in TABLE1.rows for seed in (0, 1)]
    return lines + [made(SAFETY, cifar, row, 0, 0.5) for row in SAFETY.rows]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_and_the_same_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = of(tmp_path, lines_for_figures(monkeypatch))
    once, twice = draw(name, results, tmp_path / "a"), draw(name, results, tmp_path / "b")
    assert once is not None
    assert twice is not None
    assert once.read_bytes() == twice.read_bytes()
    assert ElementTree.parse(once).getroot().tag.endswith("svg")


@pytest.mark.parametrize(("name", "panels"), [("figure4", 4), pytest.param("figure6", 7, marks=pytest.mark.slow)])
def test_a_second_column_is_a_second_row_of_panels(
    name: str, panels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = lines_for_figures(monkeypatch)
    more = [made(TABLE1, Column("mnist", 100), row, 0, 0.3) for row in TABLE1.rows]
    some = [line for line in more if line["method"] in ("vat", "supervised")]
    for extra, rows in (([], 1), (some, 1), (more, 2)):
        file = draw(name, of(tmp_path / f"{len(extra)}", [*lines, *extra]), tmp_path)
        assert file is not None
        assert file.read_text(encoding="utf-8").count('id="axes_') == rows * panels


def test_figures_wait_for_their_runs(tmp_path: Path) -> None:
    drawn = {name for name in FIGURES if draw(name, Results(tmp_path / "none"), tmp_path) is not None}
    assert drawn == {"figure1", "figure3"}


def test_figure_1_has_the_edges_that_theory_has(tmp_path: Path) -> None:
    """ADS acts strictly between 1/(e+1) and e/(e+1), but for the middle; the drawing's bars begin and end there."""
    figure = FIGURES["figure1"](Results(tmp_path))
    assert figure is not None
    (axes,) = figure.axes
    place = [label.get_text().split(":")[0] for label in axes.get_yticklabels()].index("ADS")
    bars = axes.collections[place].get_paths()
    ends = [(np.asarray(path.vertices)[:, 0].min(), np.asarray(path.vertices)[:, 0].max()) for path in bars]
    assert ends[0][0] == pytest.approx(1 / (np.e + 1), abs=1e-3)
    assert ends[-1][1] == pytest.approx(np.e / (np.e + 1), abs=1e-3)
    assert len(ends) == 2  # the middle is left out


def committed() -> Results:
    return Results(ROOT / "results")


def test_columns_of_committed_runs_are_rows_of_figure_6() -> None:
    figure = FIGURES["figure6"](committed())
    assert figure is not None
    assert {axes.get_ylabel() for axes in figure.axes} >= {"mnist@20", "mnist@100", "cifar10@4000"}


def test_the_tables_are_run_with_the_winners_of_the_committed_trials() -> None:
    assert tuning.winners() == choose(committed())


def test_the_document_has_what_the_committed_lines_give() -> None:
    found = [sheet for table in TABLES.values() for sheet in sheets(table, "cpu", committed())]
    found += trial_sheets(committed(), tuning.FAMILIES)
    wanted = markdown(found, "halfsure reproduce all --show --markdown docs/tables.md")
    assert (ROOT / "docs" / "tables.md").read_text(encoding="utf-8") == wanted


def test_committed_lines_are_those_of_declared_cells() -> None:
    """So that the command of every line runs what it says, and nothing is kept that no table shows."""
    cells = [cell for family in tuning.FAMILIES.values() for cell in trials(family)]
    for table in TABLES.values():
        for column in table.columns["cpu"]:
            with suppress(NotTunedError):
                cells += [*replace(table, columns={"cpu": (column,)}).cells("cpu", range(10))]
    declared: dict[str, list[Cell]] = {}
    for cell in cells:  # one run may serve cells of several tables
        declared.setdefault(identity(cell.as_json()), []).append(cell)
    for line in committed():
        if line["experiment"] == "controls":
            continue
        (cell,) = [cell for cell in declared[identity(line)] if cell.experiment == line["experiment"]]
        assert line["command"] == cell.command
        assert line["config"]["steps"] == line["steps"] == cell.settings["steps"]
        assert re.fullmatch(r"[0-9a-f]{40}", line["git"])
        assert ("val" in line) == bool(line["held_out"]) != ("test" in line)
        assert all(line["config"][name] == value for name, value in line["settings"].items())
