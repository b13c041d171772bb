"""The command line as a person or a script meets it."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch

import halfsure
from halfsure.cli import COMMANDS, main
from halfsure.cli.groups import GROUPS
from halfsure.training.config import Config


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


def test_every_setting_is_in_a_group_with_its_docstring(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    shown = capsys.readouterr().out
    for title, (_, about) in GROUPS.items():
        assert f" {title} options " in shown
        assert about in shown
    words = " ".join(shown.replace("│", " ").split())
    for item in fields(Config):
        assert len(re.findall(rf" --{item.name.replace('_', '-')}(?![\w-])", words)) == 1, item.name
    assert "Decay of the averaged weights that are evaluated and saved; 0 takes the weights themselves." in words


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
