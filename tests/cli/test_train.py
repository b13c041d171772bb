"""`halfsure train`, `resume` and `methods` as a person or a script meets them."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import halfsure
from halfsure.cli import main
from halfsure.methods import catalogue
from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder, flat_settings
from halfsure.runs.run import load
from halfsure.settings import parts
from halfsure.training.state import Training
from tests.training.helpers import differences, images, lines, rows

pytestmark = pytest.mark.filterwarnings("always::halfsure.training.CollapseWarning")

SMALL = ["--net", "mlp-8", "--steps", "6", "--evaluations", "2", "--unlabeled-batch", "16", "--no-tensorboard"]
SMALL += ["--no-report", "--folds", "0"]  # tests/report and test_cli_trust.py have those
FILES = {"config.json", "split.json", "metrics.jsonl", "model.safetensors", "resume.safetensors"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path / "sets"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    shown = capsys.readouterr()
    return shown.out, " ".join(shown.err.split())


def recorded(folder: Path) -> dict[str, Any]:
    """The settings in a config.json, by their flat names."""
    return flat_settings(json.loads((folder / "config.json").read_text()))


def test_train_on_digits_leaves_a_run_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "digits", "--labels", "40", "--seed", "2", *SMALL]) == 0
    out, _ = said(capsys)
    folder = here / "runs" / "digits-fixmatch-ads-40-s2"
    assert {file.name for file in folder.iterdir()} >= FILES
    assert "1,437 samples, 40 of them labeled, 10 classes, 360 to test on" in out
    assert "fixmatch-ads with mlp-8 for 6 steps" in out
    config = json.loads((folder / "config.json").read_text())
    assert config["source"] == "digits"
    assert config["config"]["run"]["seed"] == 2
    assert config["data"]["labels"] == 40
    assert config["versions"]["halfsure"] == halfsure.__version__
    split = json.loads((folder / "split.json").read_text())
    assert [len(samples) for samples in split["labeled"].values()] == [4] * 10
    run = load(folder)
    assert run.finished
    assert [line["step"] for line in run.metrics] == [3, 6]
    assert run.metrics[-1]["test"]["samples"] == 360
    assert f"{100 * run.metrics[-1]['test']['error']:.2f} % at the end" in out
    assert f"the run is in {folder.relative_to(here)}" in out
    assert "\x1b" not in out  # plain lines: nobody watches
    assert all(line == line.rstrip() for line in out.splitlines())
    assert len([line for line in out.splitlines() if line.startswith("step ")]) == 2


def test_the_same_command_again_says_that_it_is_finished(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "digits", "--out", "run", *SMALL]
    assert main(command) == 0
    before = {file.name: file.read_bytes() for file in (here / "run").iterdir()}
    first, _ = said(capsys)
    assert main(command) == 0
    again, _ = said(capsys)
    assert "finished" in again
    assert "going on from" not in again
    assert first.splitlines()[-2:] == again.splitlines()[-2:]  # the result is told again
    assert main(["resume", "run", "--no-report"]) == 0
    assert {file.name: file.read_bytes() for file in (here / "run").iterdir()} == before


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have a run stopped by SIGTERM in a step."""
    import os  # noqa: PLC0415 - of this fixture alone
    import signal  # noqa: PLC0415

    update = Training.update

    def patch(step: int | None) -> None:
        def updating(self: Training) -> Any:
            if self.done == step:
                os.kill(os.getpid(), signal.SIGTERM)
            return update(self)

        monkeypatch.setattr(Training, "update", updating)

    return patch


@pytest.mark.parametrize("how", ["same command", "resume"])
def test_a_stopped_run_goes_on_to_the_same_bits(
    how: str, here: Path, capsys: pytest.CaptureFixture[str], stop_after: Any
) -> None:
    command = ["train", "digits", "--labels", "20", "--val", "50", "--method", "vat+ads", *SMALL]
    assert main([*command, "--out", "whole"]) == 0
    stop_after(3)
    said(capsys)
    assert main([*command, "--out", "stopped"]) == 128 + 15
    _, err = said(capsys)
    assert "halfsure: stopped after step 4. The last good checkpoint is that of step 4; " in err
    assert "go on with: halfsure resume stopped" in err
    stop_after(None)
    assert main([*command, "--out", "stopped"] if how == "same command" else ["resume", "stopped"]) == 0
    out, _ = said(capsys)
    assert "going on from step 4" in out
    assert differences(*(read_state(here / name / "resume.safetensors") for name in ("whole", "stopped"))) == []
    assert differences(*(lines(here / name) for name in ("whole", "stopped"))) == []
    assert lines(here / "whole")[-1]["val"]["samples"] == 50


def test_a_run_goes_on_from_another_folder(
    here: Path, capsys: pytest.CaptureFixture[str], stop_after: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says `halfsure resume RUN`; where one stands should not matter, nor how the source was written."""
    write_npz(here / "mine.npz")
    stop_after(3)
    assert main(["train", "mine.npz", "--out", str(here / "run"), *SMALL]) == 143
    stop_after(None)
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert main(["resume", str(here / "run")]) == 0, said(capsys)[1]


@pytest.mark.parametrize(
    ("more", "differs"),
    [
        (["--lr", "0.5"], "lr was 0.002, now 0.5"),
        (["--steps", "9"], "steps was 6, now 9"),
        (["--labels", "30"], "the data or its labels are not the same"),
        (["--method", "vat"], "method was 'fixmatch-ads', now 'vat'"),
        (["--seed", "1"], "seed was 0, now 1"),
    ],
)
def test_a_changed_setting_is_refused_by_name(
    more: list[str], differs: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "digits", "--out", "run", *SMALL]
    assert main(command) == 0
    before = {file.name: file.read_bytes() for file in (here / "run").iterdir()}
    said(capsys)
    assert main([*command, *more]) == 2
    _, err = said(capsys)
    assert "holds another run" in err
    assert differs in err
    assert {file.name: file.read_bytes() for file in (here / "run").iterdir()} == before


BAD: dict[str, tuple[list[str], str]] = {
    "method": (["--method", "fixmach-ads"], "there is no algorithm 'fixmach'; did you mean fixmatch?"),
    "meaningless method": (["--method", "fixmatch-me"], "makes no explicit target"),
    "labels": (["--labels", "5000"], "ask for fewer labels"),
    "too few labels": (["--labels", "3"], "3 labels cannot cover 10 classes"),
    "net": (["--net", "resnet"], "there is no network called 'resnet'"),
    "net too large": (["--net", "cnn13"], "needs images of at least 12 pixels"),
    "dropout": (["--net", "mlp", "--dropout", "3"], "dropout must be"),
    "no strong views": (["--ops", "0", "--cutout", "0"], "needs strong views"),
    "steps and time": (["--steps", "2", "--time", "5m"], "give either steps or a time, not both"),
    "time": (["--time", "soon"], "a time is a number with s, m, h or d"),
    "no time": (["--time", "0s"], "a time is a number with s, m, h or d"),
    "epsilon": (["--epsilon", "1"], "has no setting 'epsilon', which belongs to the algorithm vat"),
    "steps": (["--steps", "0"], "steps must be a whole number of at least 1"),
    "optimizer": (["--optimizer", "adm"], "there is no optimizer 'adm'; did you mean adam?"),
    "lr": (["--lr", "-1"], "lr must be"),
    "seed": (["--seed", "-1"], "seed must be"),
    "val": (["--val", "5000"], "cannot be held out for validation"),
    "split": (["--split", "none.json"], "cannot read the split file"),
    "split and labels": (["--split", "none.json", "--labels", "20"], "either a number of labels to draw or a split"),
    "weights": (["--class-weight", "1", "2"], "class_weight has 2 values"),
    "prior": (["--prior", "1", "2"], "prior has 2 values"),
    "prior without targets": (
        ["--prior", "uniform", "--method", "vat"],
        "has no setting 'prior', which belongs to the algorithm fixmatch",
    ),
    "views of rows": (["--weak-noise", "1"], "has no setting 'weak_noise', which belongs to the views rows"),
    "device": (["--device", "gpu"], "there is no device 'gpu'"),
    "cuda": (["--device", "cuda:7"], "CUDA"),
    "more candidates than classes": (["--method", "fixmatch-top30"], "TopM keeps 30 classes, but there are only 10"),
    "shift": (["--shift", "8"], "a shift of 8 pixels"),
    "shift, vat": (["--shift", "30", "--method", "vat"], "a shift of 30 pixels"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_trained_is_refused_in_a_sentence_and_leaves_nothing(
    case: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options, message = BAD[case]
    if case == "cuda":
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    given = ["--no-tensorboard", "--out", "made", *([] if "--time" in options else ["--steps", "2"])]
    assert main(["train", "digits", *given, *options]) == 2
    out, err = said(capsys)
    assert message in err
    assert err.startswith("halfsure: ")
    assert "Traceback" not in err + out
    assert [file.name for file in here.iterdir()] == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("digit", "did you mean digits?"),
        ("nothing.npz", "there is no file nothing.npz"),
        ("nothing.csv", "nothing.csv"),
        ("cifar10", "cifar10 is not there"),
        ("some/where", "neither an official set nor a folder"),
    ],
)
def test_a_source_that_is_not_there(source: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", source, *(["--label-column", "y"] if source.endswith("csv") else [])]) == 2
    _, err = said(capsys)
    assert message in err
    assert err.startswith("halfsure: ")
    assert [file.name for file in here.iterdir()] == []


@pytest.mark.parametrize(
    "options",
    [["--lerning-rate", "1"], ["--steps", "many"], ["--preset", "fast"], ["--norm", "x"], []],
)
def test_wrong_words_end_in_usage(options: list[str], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["train", *(["digits", *options] if options else [])])
    assert stopped.value.code == 2
    assert "Traceback" not in said(capsys)[1]
    assert [file.name for file in here.iterdir()] == []


@pytest.mark.parametrize("where", ["none", "empty", "file"])
def test_resume_where_there_is_no_run(where: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty").mkdir()
    (here / "file").write_text("x")
    assert main(["resume", where]) == 2
    assert f"there is no run in {where}" in said(capsys)[1]
    assert {file.name for file in here.iterdir()} == {"empty", "file"}


def test_out_that_is_a_file_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "file").write_text("x")
    assert main(["train", "digits", "--out", "file", *SMALL]) == 2
    assert "file" in said(capsys)[1]


@pytest.mark.parametrize(
    ("section", "setting", "value"),
    [
        ("optimizer", "lr", -1),
        ("training", "steps", "many"),
        ("run", "method", "fixmach"),
        ("run", "net", "resnet"),
        ("run", "optimiser", "x"),
        ("optimiser", "lr", 0.1),
        ("views", "weak_noise", 0.1),
        ("strategies", "sh", {"temperature": 0.5}),
    ],
)
def test_resume_of_a_config_that_was_edited_wrongly_is_refused_in_a_sentence(
    section: str, setting: str, value: Any, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "digits", "--out", "run", *SMALL]) == 0
    file = here / "run" / "config.json"
    config = json.loads(file.read_text())
    config["config"].setdefault(section, {})[setting] = value
    file.write_text(json.dumps(config))
    said(capsys)
    assert main(["resume", "run"]) == 2
    assert said(capsys)[1].startswith("halfsure: ")


def test_a_run_begun_from_python_is_gone_on_with_from_python(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    halfsure.fit(None, rows(), "vat", steps=2, evaluations=1, out="run", tensorboard=False)
    assert main(["resume", "run"]) == 2
    assert "go on with the same call of fit" in said(capsys)[1]


def test_a_run_that_breaks_off_ends_with_1(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Folder.save

    def full(self: Folder, state: dict[str, Any]) -> None:
        if state["step"]:
            raise OSError(28, "No space left on device")
        save(self, state)

    monkeypatch.setattr(Folder, "save", full)
    assert main(["train", "digits", "--out", "run", *SMALL]) == 1
    err = said(capsys)[1]
    assert "step 3 could not be saved: No space left on device. The last good checkpoint is that of step 0" in err


def write_npz(file: Path) -> None:
    data = rows()
    assert data.test is not None
    train, test = data.train, data.test
    np.savez(file, X=train.samples, y=train.labels, X_test=test.samples, y_test=test.labels)


def write_csv(file: Path) -> None:
    data = rows()
    names = {-1: "", 0: "red", 1: "green", 2: "blue"}
    text = ["a,b,c,d,e,colour,kind"]
    for row, label in zip(data.train.samples, data.train.labels, strict=True):
        text.append(",".join([*(f"{value:.4f}" for value in row), "xyz"[int(row[3] > 0)], names[int(label)]]))
    file.write_text("\n".join(text) + "\n")


def write_images(folder: Path) -> None:
    data = images(12, count=24)
    for place, (sample, label) in enumerate(zip(data.train.samples, data.train.labels, strict=True)):
        part = folder / ("unlabeled" if label < 0 else f"labeled/class{label}")
        part.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sample[..., 0]).save(part / f"{place}.png")


@pytest.mark.parametrize("kind", ["npz", "csv", "images"])
def test_own_data_train(kind: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if kind == "npz":
        write_npz(here / "mine.npz")
        command, classes = ["mine.npz"], ["0", "1", "2"]
    elif kind == "csv":
        pytest.importorskip("pandas")
        write_csv(here / "mine.csv")
        command, classes = ["mine.csv", "--label-column", "kind"], ["blue", "green", "red"]
    else:
        write_images(here / "mine")
        command, classes = ["mine", "--net", "conv7-4", "--val", "0"], ["class0", "class1", "class2"]
    assert main(["train", *command[:1], *SMALL, *command[1:]]) == 0, said(capsys)[1]
    run = load(here / "runs" / "mine-fixmatch-ads-12-s0")
    assert sorted(run.classes) == classes
    assert run.finished
    assert f"12 of them labeled, {12 if kind == 'images' else 48} have no label, 3 classes" in said(capsys)[0]
    assert main(["resume", "runs/mine-fixmatch-ads-12-s0"]) == 0


def test_the_split_of_a_run_serves_another(here: Path) -> None:
    assert main(["train", "digits", "--labels", "20", "--seed", "5", "--out", "one", *SMALL]) == 0
    assert main(["train", "digits", "--split", "one/split.json", "--method", "vat", "--out", "two", *SMALL]) == 0
    splits = [json.loads((here / name / "split.json").read_text())["labeled"] for name in ("one", "two")]
    assert splits[0] == splits[1]
    (here / "one" / "split.json").unlink()
    assert main(["resume", "two"]) == 0  # a run has its own


def test_time_becomes_steps(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "digits", "--out", "run", "--net", "mlp-8", "--time", "2s", "--no-tensorboard", "--no-report"]
    assert main(command) == 0
    assert "with mlp-8 for 2s" in said(capsys)[0]
    steps = recorded(here / "run")["steps"]
    assert steps >= 1  # how many depends on how busy the machine is
    assert lines(here / "run")[-1]["step"] == steps
    assert lines(here / "run")[-1]["seconds"] < 20
    for again in (command, ["resume", "run", "--no-report"]):
        assert main(again) == 0
        assert recorded(here / "run")["steps"] == steps
    assert lines(here / "run")[-1]["step"] == steps


def test_options_win_over_the_preset_and_the_preset_over_defaults(here: Path) -> None:
    options = ["--preset", "paper", "--method", "vat+ads", "--weight", "0.5", "--steps", "1", "--net", "mlp-4"]
    few = ["--evaluations", "1", "--no-tensorboard", "--no-report"]
    assert main(["train", "digits", "--out", "run", *options, *few]) == 0
    config = recorded(here / "run")
    assert config["weight"] == 0.5
    assert config["steps"] == 1
    assert (config["lr"], config["schedule"], config["distill_weight"]) == (3e-3, "drop", 0.1)


def test_settings_of_several_values(here: Path) -> None:
    options = ["--class-weight", "balanced", "--prior", *["1", "1", "1", "1", "1", "1", "1", "1", "1", "2"]]
    assert main(["train", "digits", "--out", "run", *SMALL, *options]) == 0
    config = recorded(here / "run")
    assert config["class_weight"] == "balanced"
    assert config["prior"] == [1] * 9 + [2]
    assert main(["train", "digits", "--out", "run", *SMALL, *options]) == 0


def test_tensorboard_events_are_written_where_it_is_installed(here: Path) -> None:
    pytest.importorskip("tensorboard")
    command = ["train", "digits", "--out", "run", *[option for option in SMALL if option != "--no-tensorboard"]]
    assert main(command) == 0
    assert list((here / "run" / "tensorboard").iterdir())


def test_methods_lists_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    wanted = dict(catalogue())
    assert set(told["methods"]) == {name for name, why in wanted.items() if not why}
    assert told["refused"] == {name: why for name, why in wanted.items() if why}
    for title, role in {"algorithms": "algorithm", "strategies": "strategy", "gates": "gate"}.items():
        assert told[title] == {name: part.about for name, part in parts(role).items()}
    assert main(["methods"]) == 0
    words = set(re.split(r"\s+", capsys.readouterr().out))
    assert set(told["methods"]) <= words
    assert {*parts("algorithm"), *parts("gate"), *parts("strategy")} - {"top"} | {"topM"} <= words
    assert "fixmatch-me:" in words


def test_methods_on_a_narrow_screen_are_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["methods"]) == 0
    words = set(capsys.readouterr().out.split())
    assert {name for name, why in catalogue() if not why} <= words


def test_the_live_display_in_a_terminal(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()

    def console(*, stderr: bool = False, **more: Any) -> Console:
        file = sys.stderr if stderr else screen
        return Console(file=file, force_terminal=not stderr, width=100, **more)

    monkeypatch.setattr("halfsure.cli.terminal.Console", console)
    monkeypatch.setattr("halfsure.training.progress.SECONDS", {True: 0.0, False: 30.0})
    assert main(["train", "digits", "--out", "run", *SMALL]) == 0
    assert "6/6" in screen.getvalue()
    assert "loss" in screen.getvalue()
    assert "\x1b" in screen.getvalue()
    assert "test error" in screen.getvalue()


def test_lines_from_time_to_time_where_nobody_watches(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfsure.training.progress.SECONDS", {True: 0.0, False: 0.0})
    assert main(["train", "digits", "--out", "run", *SMALL]) == 0
    out, _ = said(capsys)
    assert re.search(r"step 2 of 6  loss \d+\.\d+ = S \d+\.\d+ \+ C \d+\.\d+ \+ D \d+\.\d+  \d+ s left", out)
    assert "\x1b" not in out


def test_a_collapse_is_a_warning_not_an_end(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [*SMALL, "--steps", "100", "--lr", "0"]
    assert main(["train", "digits", "--out", "run", *options]) == 0
    _, err = said(capsys)
    assert err.startswith("warning: fixmatch-ads hardly predicts ")
