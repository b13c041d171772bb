"""`halfsure bank`: what is there, and how it is removed."""

import json
from pathlib import Path

import pytest

from halfsure.bank import banked, views_wanted
from halfsure.bank.shards import FORMAT, lock_of
from halfsure.cli import main
from halfsure.data.originals import PictureArray, Texts
from tests.bank.scenes import counting, pictures

Shown = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bank of pictures where banks are looked for, and one of texts."""
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path))
    monkeypatch.delenv("HALFSURE_BANK")
    banked(Texts(["a", "b c"]), counting("text")[0], views_wanted(0, 0))
    before = set(tmp_path.glob("bank/*"))
    banked(PictureArray(pictures(7)), counting()[0], views_wanted(2, 1))
    [found] = (path for path in set(tmp_path.glob("bank/*")) - before if path.is_dir())
    return found


def test_the_list_says_how_much_there_is(bank: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["bank", "list"]) == 0
    first, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("2 banks, ")
    assert first.endswith(f"in {bank.parent}")
    [row] = (row for row in rows if bank.name in row)
    assert row.split()[1:11] == ["own:counting", "float32", "7", "1", "plain", "+", "2", "weak", "+", "1"]


def test_json_and_info_have_the_same_facts(bank: Path, capsys: Shown) -> None:
    assert main(["bank", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert main(["bank", "info", bank.name, "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert info in listed
    assert (info["samples"], info["rows"], info["problem"]) == (7, 28, None)
    assert info["views"]["weak"] == {"views": 2, "rows": 14}
    assert info["encoder"]["name"] == "own:counting"
    assert main(["bank", "info", bank.name[:-2]]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{bank.name} is whole"
    assert any(line.split() == ["weak", "2", "×", "7"] for line in shown)


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "damaged: bank.json cannot be read"), ('{"format": 1, "dimension": 3}', f"format 1, not {FORMAT}")],
)
def test_what_cannot_be_used_is_listed_as_such(bank: Path, capsys: Shown, content: str, words: str) -> None:
    (bank / "bank.json").write_text(content)
    assert main(["bank", "list"]) == 0
    assert words in capsys.readouterr().out
    assert main(["bank", "info", bank.name]) == 1
    assert words in capsys.readouterr().out.splitlines()[0]


def test_clear_removes_what_was_named(bank: Path, capsys: Shown) -> None:
    assert main(["bank", "clear", bank.name]) == 2
    assert "add --yes" in capsys.readouterr().err
    assert main(["bank", "clear"]) == 2
    assert main(["bank", "clear", bank.name, "--all"]) == 2
    assert bank.is_dir()
    assert main(["bank", "clear", bank.name, "--yes"]) == 0
    assert capsys.readouterr().out.startswith("Removed 1 bank, ")
    assert not bank.exists()
    assert main(["bank", "clear", "--all", "--yes"]) == 0
    assert main(["bank", "clear", "--all", "--yes"]) == 0
    assert capsys.readouterr().out.endswith(f"There is no bank in {bank.parent}.\n")
    assert main(["bank", "list"]) == 0
    assert capsys.readouterr().out == f"There is no bank in {bank.parent}.\n"


def test_a_bank_that_is_being_filled_stays(bank: Path, capsys: Shown) -> None:
    with lock_of(bank):
        assert main(["bank", "list"]) == 0
        assert f"{bank.name} is being filled" in capsys.readouterr().out
        assert main(["bank", "clear", "--all", "--yes"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Removed 1 bank, ")
    assert said[1] == f"Kept: the bank {bank.name} is being filled by another process."
    assert bank.is_dir()


def test_a_name_that_is_not_there_is_answered_by_those_that_are(bank: Path, capsys: Shown) -> None:
    assert main(["bank", "info", "none"]) == 2
    assert f"there is no bank 'none'; there are {bank.name}" in capsys.readouterr().err
    assert main(["bank", "info", "own"]) == 2
    assert "several banks are called 'own'" in capsys.readouterr().err
