"""`halfsure reproduce` as one types it."""

import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from halfsure.cli import main
from halfsure.cli.options import read_options
from halfsure.cli.reproduce import Reproduce
from halfsure.paper import tuning
from halfsure.paper.cells import Column
from halfsure.paper.experiments import TABLES
from halfsure.paper.grid import run_cell
from halfsure.paper.results import Results
from halfsure.paper.table import Table
from tests.paper.small import DIGITS, FEW_STEPS, SMALL
from tests.training.helpers import images

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(TABLES, "small", SMALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What the command says, with its folders in the working folder."""
    asked = [word for name in ("out", "results") if f"--{name}" not in words for word in (f"--{name}", name)]
    assert main(["reproduce", *words, *asked]) == code
    found = capsys.readouterr()
    return found.out if code == 0 else found.err


def test_a_table_is_run_shown_listed_and_gone_on_with(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not run yet" in said(capsys, "small", "--show")
    said(capsys, "small", "--seeds", "1", "--jobs", "1")
    first = (here / "results" / "small.jsonl").read_text()
    assert first.count("\n") == 3
    assert (here / "results" / "controls.jsonl").read_text().count("\n") == 2
    said(capsys, "small", "--jobs", "1")
    both = (here / "results" / "small.jsonl").read_text()
    assert both.startswith(first)
    assert both.count("\n") == 6
    shown = said(capsys, "small", "--show", "--markdown", "tables.md")
    for text in (
        "4 steps of mlp-8 on 1,437 training samples, seeds 0 to 1",
        "30.00 ± 1.50",
        "fixmatch-ads:r=1",
        "logistic regression",
        "1-NN",
    ):
        assert text in shown
    errors = [line["test"]["error"] for line in Results(here / "results") if line["method"] == "supervised"]
    assert " ".join(f"{100 * error:.2f}" for error in errors) in (here / "tables.md").read_text().replace("*", "")
    listed = said(capsys, "small", "--list", "--seeds", "3").splitlines()
    assert len(listed) == 9
    assert sum("  # " in line and line.endswith(" %") for line in listed) == 6


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_every_listed_command_runs_its_cell_to_the_same_bits(
    here: Path, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    commands = [shlex.split(line) for line in said(capsys, "small", "--list", "--seeds", "1").splitlines()]
    assert [words[:3] for words in commands] == [["halfsure", "reproduce", "small"]] * 3
    said(capsys, "small", "--seeds", "1", "--jobs", jobs)
    for words in commands:
        found = said(capsys, *("again" if word == "out" else word for word in words[2:]))
        (new, old) = (line.split(" %")[0].split()[-1] for line in found.splitlines()[-2:])
        assert new == old
    assert (here / "results" / "small.jsonl").read_text().count("\n") == 3


def test_a_listed_command_carries_every_option_that_a_cell_has_a_use_for(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"device": "cuda:1", "root": "my sets", "out": "o", "results": "r", "budget": "90m"}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    for line in said(capsys, "small", "--list", *words).splitlines():
        found = read_options(Reproduce, shlex.split(line)[2:], "reproduce")
        assert {name: str(getattr(found, name)) for name in given} == given
        assert found.cell is not None
    # What is left has no meaning for one cell, or chose it.
    chose = {"what", "protocol", "column", "seeds", "jobs", "cell", "show", "list", "markdown", "figures"}
    assert {item.name for item in fields(Reproduce)} == chose | given.keys()


def test_nothing_is_written_into_the_working_folder_unless_it_is_asked_for(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work, cache = here / "work", here / "cache"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert main(["reproduce", "small", "--cell", "digits@20:supervised:s0"]) == 0
    assert main(["reproduce", "small", "--show"]) == 0
    assert main(["reproduce", "figure3"]) == 0
    assert list(work.iterdir()) == []
    (line,) = Results(cache / "halfsure" / "reproduce" / "results")
    assert line["method"] == "supervised"
    (work / "results").mkdir()
    (work / "results" / "small.jsonl").write_text(json.dumps({**line, "seed": 7}) + "\n")
    capsys.readouterr()
    assert main(["reproduce", "small", "--list", "--seeds", "8"]) == 0
    assert capsys.readouterr().out.count("  # ") == 2  # those in the working folder are shown too


def test_a_cell_by_itself_adds_its_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "small", "--cell", "digits@20:fixmatch-ads:r=1:s5")
    (line,) = Results(here / "results")
    assert (line["method"], line["seed"], line["config"]["r"]) == ("fixmatch-ads", 5, 1.0)


def test_one_column_by_itself(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    two = replace(SMALL, name="two", columns={"cpu": (*SMALL.columns["cpu"], Column("digits", 50)), "paper": ()})
    monkeypatch.setitem(TABLES, "two", two)
    both = said(capsys, "two", "--list").splitlines()
    assert [line for line in both if "digits@50" in line] == said(
        capsys, "two", "--list", "--column", "digits@50"
    ).splitlines()
    shown = said(capsys, "all", "--show", "--column", "digits@50", "--figures", "drawn")
    assert "digits@50" in shown
    assert "@20" not in shown
    names = said(capsys, "tuning", "--list", "--column", "cifar10@250")
    assert names.count("--cell 'cifar10@250:") == names.count("\n") == 42


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--jobs", "1"], "digits@20_supervised_s0"),
        pytest.param(["--cell", "digits@20:fixmatch-ads:s1"], "digits@20_fixmatch-ads_s1", marks=pytest.mark.slow),
    ],
)
def test_the_budget_stops_and_saves(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], name: str
) -> None:
    endless = Table("endless", "Endless", SMALL.rows, SMALL.columns, steps=10**6, settings=SMALL.settings)
    monkeypatch.setitem(TABLES, "endless", endless)
    assert "the time is over: stopped" in said(capsys, "endless", "--budget", "3s", *words)
    folder = here / "out" / "cpu" / "endless"
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name / "resume.safetensors").exists()
    assert not (here / "results" / "endless.jsonl").exists()


def test_what_failed_before_the_budget_was_over_is_told(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TABLES, "endless", replace(SMALL, name="endless", steps=10**6))
    folder = here / "out" / "cpu" / "endless"
    folder.mkdir(parents=True)
    (folder / "digits@20_supervised_s0").write_text("a file where the run's folder should be")
    assert main(["reproduce", "endless", "--jobs", "1", "--budget", "3s", "--out", "out", "--results", "results"]) == 1
    found = capsys.readouterr().out
    assert "the time is over: stopped" in found
    assert "digits@20_supervised_s0 failed: " in found


def test_a_cell_needs_no_other_column_to_be_tuned(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "winners", dict)
    monkeypatch.setitem(TABLES, "two", replace(SMALL, name="two", columns={"cpu": (Column("mnist", 20), DIGITS)}))
    assert "has not been tuned on mnist@20 yet" in said(capsys, "two", "--list", code=2)
    assert "test error" in said(capsys, "two", "--cell", "digits@20:supervised:s0")


def test_another_signal_is_not_the_budget(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("halfsure.cli.reproduce.run_cells", stop)
    assert "stopped" in said(capsys, "small", "--budget", "1h", code=128 + signal.SIGTERM)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nothing"], "there is no experiment 'nothing'; there are tuning, table1"),
        (["small", "--column", "x@1"], "small has no column x@1 in the cpu protocol"),
        (["small", "--cell", "x"], "small has no cell 'x'; --list shows its cells"),
        (["robustness", "--protocol", "paper"], "robustness has no columns in the paper protocol"),
        (["small", "--budget", "long"], "long"),
        (["small", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["small", "--jobs", "-1"], "--jobs must be at least 1, got -1"),
        (["small", "--markdown", "x.md"], "give both"),
        (["small", "--device", "mps", "--list"], "training on mps is not supported; say cpu, cuda or cuda:1"),
        (["small", "--device", "gpu"], "there is no device 'gpu'; say cpu, cuda or cuda:1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    found = said(capsys, *words, code=2)
    assert found.startswith("halfsure: ")
    assert text in found
    assert not any(here.iterdir())


def test_figures_of_theory_need_no_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "figure3 is" in said(capsys, "figure3", "--figures", "drawn")
    assert (here / "drawn" / "figure3.svg").is_file()
    assert "figure4 needs runs that are not there yet" in said(capsys, "figure4", "--show")


def test_new_winners_are_told_and_change_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfsure.cli.reproduce.run_cells", lambda *_, **__: [])
    monkeypatch.setattr("halfsure.cli.reproduce.choose", lambda rows: {"grey": {"vat": {"weight": 9.0}}})
    assert "has other winners than the tables are run with" in said(capsys, "tuning")
    assert '"weight": 9.0' in (here / "results" / "winners.json").read_text()


# The paper's protocol


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_cells_of_the_papers_protocol_have_its_networks_batches_and_length(table: Table) -> None:
    for cell in table.cells("paper", range(1)):
        grey = cell.column.data == "mnist"
        data = replace(images(28) if grey else images(32, 3), name=cell.column.data)
        config = cell.config(data)
        assert config.net == ("cnn13" if cell.variant == "cnn13" else "conv7" if grey else "wrn-28-2")
        beside_vat = table.name in ("table1", "table3") and cell.method.startswith("supervised")
        assert config.steps == (500_000 if beside_vat or cell.method.startswith("vat") else 2**20)
        assert (config.batch, config.unlabeled_batch) == (64, 64)
        with torch.device("meta"):
            config.network(data)


@pytest.mark.slow
def test_two_ranks_run_a_cell_of_the_papers_protocol_and_one_writes_its_line(tmp_path: Path) -> None:
    """Its steps are cut to a few."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["-m", "tests.paper.small", "--protocol", "paper", "--cell", "digits@20:fixmatch-ads:steps=3:s0"]
    folders = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launcher, *words, *folders],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = Results(tmp_path / "results")
    assert (line["protocol"], line["steps"]) == ("paper", 3)
    assert line["command"] == "halfsure reproduce few --protocol paper --cell 'digits@20:fixmatch-ads:steps=3:s0'"
    (alone,) = FEW_STEPS.cells("paper", range(1))
    assert run_cell(alone, runs=tmp_path / "alone")["test"]["error"] == pytest.approx(line["test"]["error"], abs=0.05)
