"""`halfsure report` as a person or a script meets it."""

from pathlib import Path

import pytest

from halfsure.cli import main
from tests.report.helpers import comparison, made_up_run, read_page


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    shown = capsys.readouterr()
    return shown.out, " ".join(shown.err.split())


def test_the_report_of_a_run_goes_into_its_folder_and_may_be_written_again(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up_run(here / "run")
    for _ in range(2):
        assert main(["report", "run"]) == 0
        assert "the report is in run/report.html (" in said(capsys)[0]
    assert read_page(here / "run/report.html").all("h1")


def test_the_report_of_a_comparison_goes_into_its_folder(here: Path) -> None:
    comparison(here / "c", ["supervised", "fixmatch"], [0])
    assert main(["report", "c", "--title", "Two of them"]) == 0
    assert "Two of them" in read_page(here / "c/report.html").text


def test_the_report_of_several_runs_goes_into_the_current_folder(here: Path) -> None:
    made_up_run(here / "a"), made_up_run(here / "b", "fixmatch")
    assert main(["report", "a", "b"]) == 0
    assert "2 methods on digits" in read_page(here / "report.html").text


def test_a_file_of_somebody_else_is_spared(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up_run(here / "run")
    mine = here / "run/report.html"
    mine.write_text("my own notes")
    assert main(["report", "run"]) == 2
    assert "run/report.html is not a report of halfsure" in said(capsys)[1]
    assert mine.read_text() == "my own notes"
    assert main(["report", "run", "--force"]) == 0
    assert "halfsure report" in mine.read_text()


def test_a_file_that_was_named_is_spared_even_if_it_is_a_report(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up_run(here / "run")
    assert main(["report", "run", "-o", "new/page.html"]) == 0
    before = (here / "new/page.html").read_bytes()
    assert main(["report", "run", "-o", "new/page.html", "--title", "other"]) == 2
    assert "choose another -o, or write over it with --force" in said(capsys)[1]
    assert (here / "new/page.html").read_bytes() == before
    assert main(["report", "run", "--out", "new/page.html", "--title", "other", "--force"]) == 0
    assert (here / "new/page.html").read_bytes() != before
    assert not (here / "run/report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no run in nowhere"),
        (["."], "there is no run in ."),
        (["run", "-o", "run"], "run is a folder; name a file"),
        (["broken"], "not valid JSON"),
    ],
)
def test_what_cannot_be_reported_is_refused_in_a_sentence(
    arguments: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up_run(here / "run")
    (here / "broken").mkdir()
    (here / "broken/config.json").write_text("{")
    assert main(["report", *arguments]) == 2
    out, err = said(capsys)
    assert message in err
    assert not out
    assert not list(here.rglob("report.html*"))


def test_a_report_needs_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 2
    assert "name a run folder: halfsure report RUN" in said(capsys)[1]
