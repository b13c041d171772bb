"""The command line as a person or a script meets it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import halfsure
from halfsure.cli import COMMANDS, main
from halfsure.bank.opening import DataSettings
from halfsure.methods import AddedSettings
from halfsure.settings import Setting, declared
from halfsure.settings.registry import every_part
from halfsure.training.config import FIXED_SECTIONS


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path))


@pytest.mark.parametrize("word", ["version", "--version"])
def test_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out.strip() == halfsure.__version__


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_the_overview_has_a_line_for_each_command(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([word])
    assert stopped.value.code == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    for name, row in COMMANDS.items():
        assert f"  {name:<9} {row.about}" in shown.out.splitlines()
    assert all(len(line) <= 100 for line in shown.out.splitlines())


def test_no_command_at_all_is_answered_by_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "usage: halfsure COMMAND" in shown.err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_reads_well(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"usage: halfsure {command} ")
    assert "None" not in shown.out
    assert "config options" not in shown.out
    assert shown.err == ""


GROUPS = {
    "data": "Which samples, and which of them are labeled.",
    "run": "What to train.",
    "training": "For how long, and on how much at a time.",
    "network": "The network; one of your own trains from Python.",
    "optimiser": "Learning rate and its course.",
    "method": "What the parts of a method can be told.",
    "views": "How samples are changed at random.",
    "evaluation": "How often to look, and at how much.",
    "machine": "Where and how to compute.",
}


def settings() -> list[Setting]:
    """Those of every part, whatever a run uses."""
    kinds = [DataSettings, AddedSettings, *FIXED_SECTIONS.values(), *(part.Settings for _, part in every_part())]
    return [setting for kind in kinds for setting in declared(kind)]


def option(name: str) -> str:
    return rf" --{name.replace('_', '-')}(?![\w-])"


def helped(capsys: pytest.CaptureFixture[str], word: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["train", word])
    assert stopped.value.code == 0
    shown = capsys.readouterr()
    assert "None" not in shown.out
    assert shown.err == ""
    return shown.out


def in_a_row(shown: str) -> str:
    return " ".join(shown.replace("│", " ").split())


def test_every_setting_is_in_a_group_with_its_docstring(capsys: pytest.CaptureFixture[str]) -> None:
    shown = helped(capsys, "--help-all")
    for title, about in GROUPS.items():
        assert f" {title} options " in shown
        assert about in shown
    words = in_a_row(shown)
    for setting in settings():
        assert len(re.findall(option(setting.name), words)) == 1, setting.name
        assert setting.about
        for told in re.split(r"\{\w+\}", setting.about):  # where the help names the parts there are
            assert told in words
    for name in ("pl_threshold", "ns_threshold"):  # a method may have both
        assert len(re.findall(option(name), words)) == 1, name


def test_the_short_help_has_what_most_people_need_and_names_the_long_one(capsys: pytest.CaptureFixture[str]) -> None:
    words = in_a_row(helped(capsys, "--help"))
    assert "halfsure train --help-all lists every setting." in words
    for setting in settings():
        assert len(re.findall(option(setting.name), words)) == setting.everyday, setting.name
    for name in ("out", "folds", "json", "method", "labels", "steps", "time", "net", "seed", "preset"):
        assert re.search(option(name), words), name
    assert "chosen by the kind of data if not given. --preset" in words  # and so has no default
    assert "--help-all" not in in_a_row(helped(capsys, "--help-all"))


@pytest.mark.parametrize(
    ("word", "meant"), [("trian", "train"), ("compair", "compare"), ("predct", "predict"), ("reprot", "report")]
)
def test_a_command_that_was_misspelt_is_suggested(word: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([word, "digits"])
    assert stopped.value.code == 2
    assert f"there is no command '{word}'; did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["train", "digits", "--stepz", "3"], "--steps"),
        (["compare", "digits", "--method", "vat"], "--methods"),
        (["compare", "digits", "--seed", "3"], "--seeds"),
        (["predict", "run", "data", "--lenyent"], "--lenient"),
        (["evaluate", "run", "data", "--jsn"], "--json"),
        (["demo", "--job", "2"], "--jobs"),
    ],
)
def test_an_option_that_was_misspelt_is_suggested(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert meant in shown.err


def test_the_overview_needs_none_of_the_commands() -> None:
    code = "import sys, halfsure.cli as c; sys.argv[1:] = ['--help']\ntry: c.main()\nexcept SystemExit: pass\n"
    code += "print([name for name in ('tyro', 'sklearn', 'pandas', 'matplotlib', 'joblib') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


def test_data_list_names_every_set_and_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list", "--json"]) == 0
    sets = {entry["name"]: entry["here"] for entry in json.loads(capsys.readouterr().out)}
    wanted = {"digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "svhn", "svhn-extra", "stl10"}
    assert set(sets) == wanted
    assert sets["digits"] is True
    assert sets["cifar10"] is False
    assert main(["data", "list"]) == 0
    assert "32×32×3" in capsys.readouterr().out


def test_data_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "info", "cifar10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["classes"][3] == "cat"
    assert main(["data", "info", "cifar10"]) == 0
    assert "airplane" in capsys.readouterr().out


def test_data_check_says_what_is_missing_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", "mnist", "--json"]) == 1
    assert set(json.loads(capsys.readouterr().out).values()) == {"missing"}
    assert main(["data", "check", "digits"]) == 0


@pytest.mark.parametrize("command", ["get", "info", "check"])
def test_an_unknown_set_is_refused_with_the_known_ones(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", command, "mnits"]) == 2
    shown = capsys.readouterr()
    assert "there is no official set 'mnits'" in shown.err.replace("\n", " ")
    assert "fashion-mnist" in shown.err
    assert shown.out.strip() == ""


@pytest.mark.parametrize("arguments", [[], ["date"], ["data", "list", "--rot", "x"], ["data", "get"]])
def test_wrong_words_end_in_usage_and_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize("numbers", [2**50, None])
def test_too_little_memory_is_told_in_a_sentence(
    numbers: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def greedy(*_: object) -> object:
        return torch.empty(numbers) if numbers else bytearray(2**60)

    monkeypatch.setattr("halfsure.cli.methods.Methods.run", greedy)
    assert main(["methods"]) == 1
    assert capsys.readouterr().err.startswith("halfsure: there is too little memory for this")


def test_other_errors_of_torch_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfsure.cli.methods.Methods.run", lambda *_: torch.zeros(2) @ torch.zeros(3))
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        main(["methods"])
