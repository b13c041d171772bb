"""`halfsure compare` and `demo` as a person or a script meets them."""

import json
import os
import signal
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from halfsure.cli import demo, main
from halfsure.data import load
from halfsure.metrics import paired_difference
from halfsure.runs.parallel import run_many
from halfsure.training.state import Training
from tests.training.helpers import known, lines, rows

SMALL = ["--net", "mlp-8", "--steps", "6", "--evaluations", "2", "--unlabeled-batch", "16", "--no-tensorboard"]
TWO = ["--methods", "supervised,fixmatch-ads", "--seeds", "2", "--jobs", "1", *SMALL]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path / "sets"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def reports(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Path]]:
    """What was asked of the report; drawing has tests of its own."""
    asked: list[tuple[Any, Path]] = []

    def write(runs: Sequence[Path], out: Path, **_: Any) -> Path:
        asked.append((list(runs), out))
        out.write_text("<html>")
        return out

    monkeypatch.setattr("halfsure.report.write", write)
    return asked


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    shown = capsys.readouterr()
    return shown.out, " ".join(shown.err.split())


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["compare", *arguments, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_numbers_are_those_of_the_runs(here: Path, capsys: pytest.CaptureFixture[str], reports: list[Any]) -> None:
    told = compared(capsys, "digits", "--labels", "20", *TWO)
    out = here / "compare" / "digits-20"
    assert {child.name for child in out.iterdir()} == {
        *("compare.json", "report.html", "supervised-s0", "fixmatch-ads-s0", "supervised-s1", "fixmatch-ads-s1")
    }
    assert reports == [([Path("compare/digits-20")], Path("compare/digits-20/report.html"))]
    errors = {}
    for method in ("supervised", "fixmatch-ads"):
        last = [lines(out / f"{method}-s{seed}")[-1]["test"] for seed in (0, 1)]
        errors[method] = [score["error"] for score in last]
        row = told["methods"][method]
        assert row["by_seed"] == {"0": errors[method][0], "1": errors[method][1]}
        assert row["mean"] == pytest.approx(np.mean(errors[method]))
        assert row["sd"] == pytest.approx(np.std(errors[method], ddof=1))
        assert row["ece"] == pytest.approx(np.mean([score["ece"] for score in last]))
        assert row["candidates"] == pytest.approx(np.mean([score["sparse_support"] for score in last]))
    gap = told["methods"]["fixmatch-ads"]["difference"]
    assert gap == paired_difference(errors["supervised"], errors["fixmatch-ads"])
    assert told["methods"]["supervised"]["difference"] is None
    splits = [
        json.loads((out / f"{name}/split.json").read_text())["labeled"] for name in ("supervised-s1", "fixmatch-ads-s1")
    ]
    assert splits[0] == splits[1]
    assert splits[0] != json.loads((out / "supervised-s0" / "split.json").read_text())["labeled"]
    recorded = json.loads((out / "compare.json").read_text())
    assert recorded["format"] == 1
    assert (recorded["source"], recorded["methods"], recorded["seeds"]) == (
        "digits",
        ["supervised", "fixmatch-ads"],
        [0, 1],
    )
    assert recorded["command"].startswith("halfsure compare digits --labels 20 --methods supervised,fixmatch-ads")
    assert recorded["settings"]["data"]["labels"] == 20
    assert recorded["settings"]["data"]["reader"] == {}
    assert recorded["settings"]["config"]["fixmatch-ads"]["net"] == "mlp-8"
    assert main(["resume", str(out / "supervised-s0")]) == 0  # each cell is a run like any other


def test_the_table_and_how_to_read_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["digits", *TWO, "--baselines"]
    assert main(["compare", *command]) == 0
    out, _ = said(capsys)
    told = compared(capsys, *command)
    for name, row in (told["methods"] | told["baselines"]).items():
        [line] = [line for line in out.splitlines() if line.startswith(f"{name} ") and "±" in line]
        assert f"{100 * row['mean']:.2f} ± {100 * row['sd']:.2f}" in line
        assert " ".join(f"{100 * error:.1f}" for error in row["by_seed"].values()) in line.replace("*", "")
        if row["difference"]:
            assert f"{100 * row['difference']['mean']:+.2f} [{100 * row['difference']['low']:+.1f}," in line
    words = " ".join(out.split())
    assert "Error on the test samples at the end" in words
    assert "scikit-learn's defaults" in words
    assert "the report is compare/digits-40/report.html" in words
    assert "1 of 4 supervised-s0 test error" in words
    assert "\x1b" not in out


def test_all_methods_of_a_seed_come_before_the_next_seed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def noting(jobs: Any, **more: Any) -> Any:
        seen.extend(job.name for job in jobs)
        return run_many(jobs, **more)

    monkeypatch.setattr("halfsure.cli.compare.run_many", noting)
    compared(capsys, "digits", "--methods", "vat,supervised", "--seeds", "4,2", "--jobs", "1", *SMALL)
    assert seen == ["vat-s4", "supervised-s4", "vat-s2", "supervised-s2"]


def test_every_method_has_its_preset_what_was_given_and_the_same_steps(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--seeds", "1", "--jobs", "1", "--evaluations", "1", "--no-tensorboard", "--net", "mlp-4"]
    given = ["--steps", "3", "--ema", "0.5", "--xi", "0.2"]
    compared(capsys, "digits", "--methods", "fixmatch,vat", *options, *given, "--out", "x")
    configs = json.loads((here / "x" / "compare.json").read_text())["settings"]["config"]
    assert configs["vat"]["epsilon"] == 0.8  # the preset's
    assert configs["vat"]["xi"] == 0.2  # given, and for one method alone
    assert "xi" not in configs["fixmatch"]
    assert (configs["fixmatch"]["lr"], configs["vat"]["lr"]) == (2e-3, 1e-3)
    assert {config["ema"] for config in configs.values()} == {0.5}
    assert {config["steps"] for config in configs.values()} == {3}
    assert lines(here / "x" / "vat-s0")[-1]["step"] == 3


def test_baselines_are_what_scikit_learn_says(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = compared(capsys, "digits", *TWO, "--baselines")
    for seed in (0, 1):
        data = load("digits", labels=40, seed=seed)
        assert data.test is not None
        x, y = data.train.samples[data.labeled].reshape(40, -1) / 255.0, data.train.labels[data.labeled]
        test = data.test.samples.reshape(360, -1) / 255.0
        for name, model in (
            ("logistic regression", LogisticRegression()),
            ("1-NN", KNeighborsClassifier(1)),
        ):
            error = np.mean(model.fit(x, y).predict(test) != data.test.labels)
            assert told["baselines"][name]["by_seed"][str(seed)] == pytest.approx(error, abs=1 / 360)
    recorded = json.loads((here / "compare" / "digits-40" / "compare.json").read_text())["baselines"]
    assert recorded == {name: row["by_seed"] for name, row in told["baselines"].items()}
    again = compared(capsys, "digits", *TWO)  # those that are there are shown
    assert again["baselines"] == told["baselines"]


def test_the_same_command_again_trains_nothing_and_draws_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, reports: list[Any]
) -> None:
    first = compared(capsys, "digits", *TWO)

    def refuse(self: Training) -> None:
        raise AssertionError("nothing is left to train")

    monkeypatch.setattr(Training, "update", refuse)
    assert compared(capsys, "digits", *TWO) == first
    assert len(reports) == 1


def test_a_stopped_comparison_goes_on(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compared(capsys, "digits", *TWO, "--out", "whole")
    update = Training.update

    def stopping(self: Training) -> Any:
        if self.done == 4 and self.config.seed == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return update(self)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "update", stopping)
        assert main(["compare", "digits", *TWO, "--out", "stopped"]) == 143
    assert "stopped with 2 of 4 runs finished, the others saved; the same command goes on" in said(capsys)[1]
    assert compared(capsys, "digits", *TWO, "--out", "stopped")["methods"] == whole["methods"]


@pytest.mark.parametrize(
    ("more", "differs"),
    [
        (["--steps", "7"], "steps was 6, now 7"),
        (["--methods", "supervised,vat"], "methods was ['supervised', 'fixmatch-ads'], now ['supervised', 'vat']"),
        (["--seeds", "3"], "seeds was [0, 1], now [0, 1, 2]"),
        (["--labels", "30"], "labels was None, now 30"),
        (["--lr", "0.5"], "lr was 0.002, now 0.5"),
    ],
)
def test_another_command_into_the_same_folder_is_refused(
    more: list[str], differs: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compare", "digits", *TWO, "--out", "x"]
    assert main(command) == 0
    before = {file: file.read_bytes() for file in here.rglob("*") if file.is_file()}
    said(capsys)
    assert main([*command, *more]) == 2
    assert f"x holds another comparison: {differs}" in said(capsys)[1]
    assert {file: file.read_bytes() for file in here.rglob("*") if file.is_file()} == before


BAD: dict[str, tuple[list[str], str]] = {
    "method": (["--methods", "supervised,fixmach"], "there is no algorithm 'fixmach'; did you mean fixmatch?"),
    "twice": (["--methods", "fixmatch,fixmatch+pl"], "names a method twice: fixmatch, fixmatch"),
    "seeds": (["--seeds", "many"], "--seeds is a number such as 5 or a list"),
    "no seeds": (["--seeds", "0"], "--seeds must name one seed or more"),
    "a seed twice": (["--seeds", "1,1"], "each once"),
    "jobs": (["--jobs", "0"], "--jobs must be at least 1"),
    "time": (["--time", "5m"], "choose them with --steps, not --time"),
    "setting": (["--epsilon", "1"], "has no setting 'epsilon', which belongs to the algorithm vat"),
    "foreign": (["--weak-noise", "1"], "has no setting 'weak_noise', which belongs to the views rows"),
    "a value": (["--r", "0.5"], "r must be"),
    "two parts": (
        ["--threshold", "0.9", "--methods", "fixmatch,fixmatch+ns"],
        "more than one part has a threshold; say pl_threshold or ns_threshold",
    ),
    "labels": (["--labels", "3"], "3 labels cannot cover 10 classes"),
    "net": (["--net", "cnn13"], "needs images of at least 12 pixels"),
    "full": (["--out", "full"], "full holds something else than a comparison"),
    "file": (["--out", "full/x"], "holds something else than a comparison"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    case: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "full").mkdir()
    (here / "full" / "x").write_text("precious")
    options, message = BAD[case]
    assert main(["compare", "digits", *TWO, *options]) == 2
    out, err = said(capsys)
    assert message in err
    assert err.startswith("halfsure: ")
    assert out == ""
    assert sorted(str(file.relative_to(here)) for file in here.rglob("*")) == ["full", "full/x"]


def test_data_without_anything_to_measure_by_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = rows()
    np.savez(here / "x.npz", X=data.train.samples, y=data.train.labels)
    assert main(["compare", "x.npz", *TWO]) == 2
    err = said(capsys)[1]
    assert "x has nothing to compare methods by" in err
    assert "--test" in err
    assert not (here / "compare").exists()
    assert "Train on fewer with --labels" in err  # and whoever does so is not refused again
    assert compared(capsys, "x.npz", *TWO, "--labels", "6")["part"] == "unlabeled"
    assert main(["compare", "x.npz", *TWO, "--epochs", "3"]) == 2
    assert "--time" not in said(capsys)[1]  # which a comparison has not


def test_known_labels_that_are_not_trained_on_serve_where_there_is_no_test_part(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = known(rows())
    np.savez(here / "x.npz", X=data.train.samples, y=data.train.labels)
    told = compared(capsys, "x.npz", *TWO, "--labels", "12", "--baselines")
    assert told["part"] == "unlabeled"
    last = lines(here / "compare" / "x-12" / "supervised-s0")[-1]["unlabeled"]
    assert (last["labeled"], last["error"]) == (48, told["methods"]["supervised"]["by_seed"]["0"])
    held = compared(capsys, "x.npz", *TWO, "--labels", "12", "--val", "20", "--out", "held", "--baselines")
    assert held["part"] == "val"
    assert lines(here / "held" / "supervised-s0")[-1]["val"]["samples"] == 20


def test_a_failing_run_is_told_and_the_others_are_shown(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Training.update

    def breaking(self: Training) -> Any:
        if self.config.method == "fixmatch-ads" and self.config.seed == 1 and self.done == 3:
            raise RuntimeError("a broken wire")
        return update(self)

    monkeypatch.setattr(Training, "update", breaking)
    assert main(["compare", "digits", *TWO, "--json"]) == 1
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert told["failed"] == {"fixmatch-ads-s1": "RuntimeError: a broken wire"}
    assert list(told["methods"]["fixmatch-ads"]["by_seed"]) == ["0"]
    assert told["methods"]["fixmatch-ads"]["difference"]["n"] == 1
    assert "halfsure: fixmatch-ads-s1 failed: RuntimeError: a broken wire" in shown.err
    monkeypatch.setattr(Training, "update", update)
    assert compared(capsys, "digits", *TWO)["failed"] == {}


def test_collapsed_runs_are_marked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "digits", *TWO, "--lr", "0", "--out", "x"]) == 0
    out, _ = said(capsys)
    dead = lines(here / "x" / "supervised-s1")[-1]["dead"]
    assert dead
    assert f"* supervised, seed 1, hardly predicts {', '.join(dead)}: its error is no result" in out
    [row] = [line for line in out.splitlines() if line.startswith("supervised ") and "±" in line]
    assert row.count("*") == 2


def test_json_is_all_there_is_on_standard_output(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "digits", *TWO, "--json"]) == 0
    shown = capsys.readouterr()
    json.loads(shown.out)
    assert "4 of 4" in shown.err


# The demo


def test_the_demo(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"STEPS": 4, "SEEDS": (0, 1), "METHODS": ("supervised", "fixmatch-ads")}.items():
        monkeypatch.setattr(demo, name, value)  # the whole takes a minute
    assert main(["demo", "--no-pictures", "--jobs", "1"]) == 0
    out, _ = said(capsys)
    told = " ".join(out.split())
    names = ("supervised", "fixmatch-ads", "logistic regression", "1-NN")
    rows_shown = [line for line in out.splitlines() if "±" in line and line.startswith(names)]
    assert len(rows_shown) == len(names)
    assert "How to read it" in told
    assert "the report is halfsure-demo/report.html" in told
    errors = [lines(here / "halfsure-demo" / f"fixmatch-ads-s{seed}")[-1]["test"]["error"] for seed in (0, 1)]
    assert f"{100 * statistics.mean(errors):.2f} ± {100 * statistics.stdev(errors):.2f}" in out
    assert main(["demo", "--jobs", "1", "--json", "--out", "halfsure-demo"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 4


def test_what_the_demo_says_of_the_labels_is_true() -> None:
    data = load("digits", labels=demo.LABELS)
    assert f"{len(data.train) - demo.LABELS:,} digits without a label" in demo.HOW_TO_READ
    assert f"the same {demo.LABELS} labels" in demo.HOW_TO_READ


def test_the_console_and_the_report_take_the_same_reference(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from halfsure.report.study import read  # noqa: PLC0415 - the fixture has replaced what draws

    for methods, wanted in (("fixmatch-ads,supervised", "supervised"), ("vat,fixmatch", "vat")):
        options = ["--methods", methods, "--seeds", "1", "--jobs", "1", *SMALL, "--out", methods]
        told = compared(capsys, "digits", *options)
        assert told["against"] == read([here / methods]).reference.name == wanted
        assert [name for name, row in told["methods"].items() if row["difference"] is None] == [wanted]
        assert main(["compare", "digits", *options]) == 0
        assert f"against {wanted}" in said(capsys)[0]


@pytest.mark.parametrize(
    "content", ["{", '{"format": 2}', '{"format": 1, "methods": [1]}', '{"format": 1, "baselines": 3}']
)
def test_a_damaged_comparison_is_refused_by_the_same_reader(
    content: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from halfsure.report.study import read  # noqa: PLC0415
    from halfsure.training.errors import RunError  # noqa: PLC0415

    (here / "x").mkdir()
    (here / "x" / "compare.json").write_text(content)
    with pytest.raises(RunError) as refusal:
        read([Path("x")])
    assert main(["compare", "digits", *TWO, "--out", "x"]) == 2
    assert " ".join(str(refusal.value).split()) in said(capsys)[1]
