"""The command line given wrong words and hostile names: a sentence, exit code 2, nothing overwritten or obeyed."""

import io
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfsure._shown import harmless
from halfsure.cli import main
from halfsure.cli.terminal import print_json, screen
from halfsure.data import Data, from_arrays
from halfsure.runs.run import load
from halfsure.runs.start import start
from tests.training.helpers import tiny

HOSTILE = ("\x1b]0;owned\x07", "[bold]b[/bold]", "\u202etxt.exe", "\x9b2J:cat:")
ACTS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def data() -> Data:
    samples = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    labels = np.arange(60) % len(HOSTILE)
    samples[np.arange(60), labels] += 5
    names = np.array(HOSTILE, dtype=object)
    labels = np.where(np.arange(60) < 16, labels, -1)
    found = from_arrays(samples, labels, test=(samples[:20], np.arange(20) % len(HOSTILE)))
    return replace(found, classes=tuple(names.tolist()))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    start(data(), tiny(steps=4, evaluations=2), out=folder)
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run whose classes are hostile, and arrays to use it on."""
    shutil.copytree(trained, tmp_path / "run")
    samples = data().test
    assert samples is not None
    names = [HOSTILE[label] for label in samples.labels]
    np.savez(tmp_path / "new.npz", X=samples.samples, y=np.array(names))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(words: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and all that was printed."""
    capfd.readouterr()
    try:
        code = main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    return code, "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "run", "new.npz"],
        ["predict", "run", "new.npz", "--json"],
        ["predict", "run", "new.npz", "--probabilities", "-o", "[red]x.csv"],
        ["evaluate", "run", "new.npz"],
        ["evaluate", "run", "new.npz", "--json"],
        ["report", "run"],
        ["report", "run", "-o", ":cat:[red]x.html"],
    ],
)
def test_no_class_acts_on_the_terminal(words: list[str], here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, text = said(words, capfd)
    assert code == 0
    assert not ACTS.search(text)
    for name in words:
        assert name in text or not name.startswith(("[red]", ":cat:"))
    if "--json" in words:
        assert set(json.loads(text)["predicted"]) == set(HOSTILE)  # to the letter
    if words[0] == "evaluate" and "--json" not in words:
        assert "[bold]b[/bold]" in text
        assert "�2J:cat:" in text


def test_errors_and_warnings_do_not_act_on_the_terminal(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkdir("evil\x1b[2J")
    shutil.copytree("run", "evil\x1b[2J/run")
    config = json.loads(Path("run/config.json").read_text())
    Path("run/config.json").write_text(json.dumps(config | {"source": "\x1b[2J\u202e[red]", "net": {}, "data": {}}))
    code, text = said(["resume", "run"], capfd)
    assert code == 2
    assert "opening �[2J�[red]" in text
    assert not ACTS.search(text)
    np.savez("new.npz", X=np.zeros((1, 5), np.float32), y=np.array(["\x1b[31mother"]))
    code, text = said(["evaluate", "run", "new.npz"], capfd)
    assert code == 2
    assert not ACTS.search(text)
    code, text = said(["predict", "evil\x1b[2J/run", "new.npz"], capfd)
    assert code == 2
    assert "evil�[2J/run holds a control character" in text
    assert not ACTS.search(text)


def test_a_terminal_gets_the_console_s_own_orders_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    console = screen()
    console.file = out
    console._force_terminal = True
    console.print("cat\x1b[2J", style="bold")
    assert "\x1b[2J" not in out.getvalue()
    assert "cat�[2J" in out.getvalue()


@pytest.mark.parametrize("text", ["\x1b", "\x9b", "\u202e", "\ud800", "\0", "\r"])
def test_json_on_the_screen_reads_back_as_it_was(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    print_json(screen(), {text: [text, "é", 1.5]})
    found = capfd.readouterr().out
    assert json.loads(found) == {text: [text, "é", 1.5]}
    assert not ACTS.search(found)
    assert "é" in found


def test_letters_of_every_language_are_harmless() -> None:
    words = "naïve Ελληνικά עברית العربية می‌خواهم हिन्दी 中文 👩‍🔬 − ½ \n\t"
    assert harmless(words) == words


BAD: dict[str, list[str]] = {
    "steps below 1": ["train", "digits", "--steps", "0"],
    "steps no number": ["train", "digits", "--steps", "many"],
    "steps beyond bounds": ["train", "digits", "--steps", "9" * 30],
    "steps of many digits": ["train", "digits", "--steps", "9" * 5000],
    "lr NaN": ["train", "digits", "--lr", "nan"],
    "lr infinite": ["train", "digits", "--lr", "inf"],
    "time": ["train", "digits", "--time", "9" * 400 + "s"],
    "no source": ["train", ""],
    "no such source": ["train", "no/such/thing"],
    "labels below the classes": ["train", "digits", "--labels", "3"],
    "labels negative": ["train", "digits", "--labels", "-40"],
    "folds negative": ["train", "digits", "--folds", "-1"],
    "a deep network": ["train", "digits", "--net", "wrn-100000-1000"],
    "a wide network": ["train", "digits", "--net", "mlp-" + "9" * 5000],
    "out is a file": ["train", "digits", "--out", "new.npz", "--steps", "2", "--net", "mlp-8"],
    "epochs": ["train", "digits", "--epochs", "3"],
    "seeds": ["compare", "digits", "--seeds", "9" * 5000],
    "many seeds": ["compare", "digits", "--seeds", "999999999999"],
    "methods": ["compare", "digits", "--methods", ","],
    "compare onto a file": ["compare", "digits", "--out", "new.npz"],
    "predict no model": ["predict", "nothing", "new.npz"],
    "predict a folder": ["predict", "run", "run"],
    "predict onto its data": ["predict", "run", "new.npz", "-o", "new.npz"],
    "predict onto a folder": ["predict", "run", "new.npz", "-o", "run"],
    "predict onto a file": ["predict", "run", "new.npz", "-o", "kept.csv"],
    "predict into nowhere": ["predict", "run", "new.npz", "-o", "no/x.csv"],
    "coverage": ["predict", "run", "new.npz", "--coverage", "nan"],
    "report of nothing": ["report"],
    "report of a file": ["report", "new.npz"],
    "report onto a file": ["report", "run", "-o", "kept.csv"],
    "report onto a folder": ["report", "run", "-o", "run"],
    "resume a file": ["resume", "new.npz"],
    "resume nothing": ["resume", ""],
    "an option without its value": ["predict", "run", "new.npz", "-o"],
    "an unknown set": ["data", "get", "../../etc"],
    "an unknown option": ["report", "run", "--titel", "x"],
    "a null in a path": ["predict", "run\0", "new.npz"],
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_words_end_in_a_sentence(name: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("kept.csv").write_text("kept")
    before = {file: file.read_bytes() for file in here.rglob("*") if file.is_file()}
    code, text = said(BAD[name], capfd)
    assert code == 2
    assert text.strip()
    assert "Traceback" not in text
    assert {file: file.read_bytes() for file in here.rglob("*") if file.is_file()} == before


def test_epochs_are_steps_here(capfd: pytest.CaptureFixture[str]) -> None:
    assert "the length of a run is --steps" in said(["train", "digits", "--epochs=3"], capfd)[1]


def test_predictions_are_not_written_through_a_link(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("kept.csv").write_text("kept")
    Path("x.csv.part").symlink_to("kept.csv")
    assert said(["predict", "run", "new.npz", "-o", "x.csv"], capfd)[0] == 0
    Path("y.csv").symlink_to("kept.csv")
    assert said(["predict", "run", "new.npz", "-o", "y.csv", "--force"], capfd)[0] == 0
    assert Path("kept.csv").read_text() == "kept"
    assert not Path("y.csv").is_symlink()
    assert load("run").classes == HOSTILE


def test_a_name_that_is_no_text_can_be_shown(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name: Any = os.fsdecode(b"caf\xe9.csv")
    assert said(["predict", "run", "new.npz", "-o", name], capfd)[0] == 0
    assert os.path.exists(b"caf\xe9.csv")
