"""The command line as a person or a script meets it."""

import json
from pathlib import Path

import pytest

import halfsure
from halfsure.cli import main


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.strip() == halfsure.__version__


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
