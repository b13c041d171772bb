"""The experiments as they are declared: complete, in a fair order, and with the paper's own numbers."""

import re
import shlex
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pytest

from halfsure.methods import parse
from halfsure.paper import tuning
from halfsure.paper.cells import Cell, Column
from halfsure.paper.experiments import TABLES
from halfsure.paper.table import Table
from halfsure.paper.tuning import FAMILIES, Family, relative, trials, winner

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "ads.tex"
tables = pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
AT_SIZE = {name: table for name, table in TABLES.items() if table.columns["paper"]}
tables_at_size = pytest.mark.parametrize("table", AT_SIZE.values(), ids=list(AT_SIZE))


@tables
def test_rows_are_methods_that_are_held_against_rows(table: Table) -> None:
    names = [row.name for row in table.rows]
    assert len(set(names)) == len(names)
    for row in table.rows:
        assert parse(row.method).name == row.method
        others = [other for other in (row.against, row.control) if other is not None]
        assert len({row.name, *others}) == 1 + len(others)
        assert set(others) <= set(names)


@tables_at_size
def test_all_methods_of_a_seed_come_before_the_next_seed(table: Table) -> None:
    cells = list(table.cells("paper", range(3)))
    assert len({cell.name for cell in cells}) == len(cells)
    seeds = [(seed, list(group)) for seed, group in groupby(cells, lambda cell: cell.seed)]
    assert [seed for seed, _ in seeds] == [0, 1, 2]
    assert {len(group) for _, group in seeds} == {len(table.rows) * len(table.columns["paper"])}


@tables_at_size
def test_a_cell_is_named_by_its_command(table: Table) -> None:
    """As a shell reads it."""
    for cell in table.cells("paper"):
        words = ["halfsure", "reproduce", table.name, "--protocol", "paper", "--cell", cell.name]
        assert shlex.split(cell.command) == words


@pytest.mark.parametrize("table", [table for table in TABLES.values() if table.paper], ids=lambda table: table.name)
def test_numbers_stand_in_columns_and_rows_that_exist(table: Table) -> None:
    columns = {str(column) for column in table.columns["paper"] or table.columns["cpu"]}
    rows = {row.name for row in table.rows}
    for column, numbers in table.paper.items():
        assert column in columns
        assert set(numbers) <= rows


def row_of(line: str) -> tuple[str, tuple[tuple[float, ...], ...]]:
    """A line of a table in the paper's source; it spells one method wrongly and has a stop too many in one number."""
    label, *cells = line.replace("\\bm", "").replace(".\\pm", "\\pm").split("&")
    found = (re.findall(r"\d+\.\d+", cell) for cell in cells)
    return re.sub(r"[\\\s]", "", label).lower().replace("macth", "match"), tuple(tuple(map(float, c)) for c in found)


@pytest.mark.skipif(not PAPER.exists(), reason="the paper is not here")
@pytest.mark.parametrize("name", ["table1", "table2", "table4"])
def test_numbers_are_those_of_the_paper(name: str) -> None:
    """Row by row, as its source has them."""
    rows = [row_of(line) for line in PAPER.read_text().splitlines() if "&" in line]
    paper = TABLES[name].paper
    methods = list(next(iter(paper.values())))
    assert len(methods) == {"table1": 6, "table2": 5, "table4": 2}[name]
    for method in methods:
        assert (method, tuple(column[method] for column in paper.values())) in rows


@pytest.mark.skipif(not PAPER.exists(), reason="the paper is not here")
def test_numbers_of_the_ablation_are_those_of_the_paper() -> None:
    """Its rows are what is put in, its columns VAT and FixMatch."""
    rows = dict(row_of(line) for line in PAPER.read_text().splitlines() if line.count("&") == 2)
    (ours,) = TABLES["table3"].paper.values()
    checked = 0
    names = {label: (f"vat@{label}", f"fixmatch@{label}") for label in rows if label.startswith("sparsemax")}
    names |= {"none": ("vat", "fixmatch"), "ads": ("vat+ads", "fixmatch-ads")}
    for label, methods in names.items():
        for method, number in zip(methods, rows[label], strict=True):
            own = [value for name, value in ours.items() if name.split(":")[0] == method]
            assert own in ([], [number])
            checked += len(own)
    assert checked == len(ours) == 10


@pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
def test_every_method_gets_six_trials_a_seed_on_held_out_samples_and_other_seeds(family: Family) -> None:
    cells: list[Cell] = list(trials(family))
    reported = {cell.seed for table in TABLES.values() for cell in table.cells("paper", range(10))}
    assert {cell.method for cell in cells} == set(family.spaces)
    for method in family.spaces:
        own = [cell for cell in cells if cell.method == method]
        assert len(own) == len({cell.name for cell in own}) == 6 * len(family.seeds)
        assert all(cell.held_out and cell.seed not in reported for cell in own)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("vat", {*tuning.STRATEGIES}),
        ("vat100", {*tuning.STRATEGIES}),
        ("colour", {"mixmatch+ns"}),
        ("cifar4000", {*tuning.STRATEGIES, *tuning.IN_SPARSEMAX}),
    ],
)
def test_strategies_are_added_to_what_their_base_chose_in_their_map(name: str, wanted: set[str]) -> None:
    chosen = tuning.winners()[name]
    strategies = {method: space for method, space in FAMILIES[name].spaces.items() if "+" in method}
    assert strategies.keys() >= wanted
    for method, space in strategies.items():
        base = chosen["vat@sparsemax" if method == "vat+ads" else method.partition("+")[0]]
        assert all(base.items() <= trial.items() for trial in space)


def families(table: Table, column: Column) -> list[Family]:
    """Those whose winners the table's cells may have, in the order in which they are asked."""
    if named := table.families.get(str(column)):
        return [FAMILIES[named]]
    return [family for family in FAMILIES.values() if {column.data, str(column)} & {*family.takers}]


def test_every_method_of_a_table_has_a_relative_that_was_tried() -> None:
    for table in TABLES.values():
        for column in table.columns["cpu"]:
            tried = {method for family in families(table, column) for method in family.spaces}
            assert not [row.name for row in table.rows if not {row.method, relative(row.method)} & tried]


@pytest.fixture
def told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winners that tell whose they are."""
    found = {name: {method: {"lr": method} for method in family.spaces} for name, family in FAMILIES.items()}
    monkeypatch.setattr(tuning, "winners", lambda: found)


def settings(name: str, place: int = 0) -> dict[str, dict[str, Any]]:
    """What the rows of a table get on one of its columns."""
    table = TABLES[name]
    return {row.name: table.cell("cpu", table.columns["cpu"][place], row, 0).settings for row in table.rows}


@pytest.mark.usefixtures("told_apart")
def test_whose_settings_a_row_gets() -> None:
    for name in ("table1", "table2", "table4", "svhn"):
        for row in TABLES[name].rows:
            assert settings(name)[row.name]["lr"] == row.settings.get("lr", row.method)
    for place in (0, 1):
        alone, sparse, *vat = [own["lr"] for own in settings("table3", place).values()]
        assert alone == sparse == "supervised"
        assert vat[:6] == [row.method for row in TABLES["table3"].rows[2:8]]
        assert vat[6:] == ["fixmatch", "fixmatch", "fixmatch", "fixmatch-ads"]


@pytest.mark.usefixtures("told_apart")
def test_rows_of_an_ablation_differ_in_nothing_but_what_they_are_named_for() -> None:
    for name in ("parts", "figure5"):
        table = TABLES[name]
        own = [
            {**each, **dict.fromkeys(row.settings)}
            for row, each in zip(table.rows, settings(name).values(), strict=True)
        ]
        common = {key: value for key, value in own[0].items() if not any(key in row.settings for row in table.rows)}
        assert all(common.items() <= each.items() for each in own)
        assert common["lr"] == {"parts": 4e-3, "figure5": "mixmatch-ads"}[name]


def test_what_ads_is_made_of_begins_and_ends_with_the_winners() -> None:
    for name in ("fixmatch", "fixmatch-sh", "fixmatch-ads", "mixmatch:l2", "mixmatch-ads:fy"):
        assert winner(Column("mnist", 40), name.partition(":")[0]).items() <= settings("parts")[name].items()


@pytest.mark.usefixtures("told_apart")
@pytest.mark.parametrize("name", ["table1", "table2", "table4", "svhn"])
def test_trials_have_a_fifth_of_the_steps_and_those_of_vat_with_20_labels_all_of_them(name: str) -> None:
    table = TABLES[name]
    for column, row in product(table.columns["cpu"], table.rows):
        family = next(family for family in families(table, column) if row.method in family.spaces)
        whole = family is tuning.VAT
        if not (whole and row.method == "supervised"):  # that winner serves two tables
            steps = table.cell("cpu", column, row, 0).settings["steps"]
            assert family.steps[parse(row.method).algorithm] * (1 if whole else 5) == steps


@pytest.mark.usefixtures("told_apart")
def test_a_table_may_ask_for_a_family_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same method on the same column has other settings in Table II."""
    own = {"lr": "of SVHN's own network"}
    monkeypatch.setitem(tuning.winners(), "svhn", dict.fromkeys(tuning.SVHN.spaces, own))
    column = Column("svhn", 250)
    assert winner(column, "fixmatch") == {"lr": "fixmatch"}
    assert winner(column, "fixmatch", "svhn") == own
    cells = [TABLES[name].cell("cpu", column, TABLES[name].rows[-1], 0) for name in ("table2", "svhn")]
    assert [cell.settings["lr"] for cell in cells] == ["fixmatch-ads", own["lr"]]
