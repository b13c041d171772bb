"""Runs that are checked on held-out labels: `train --folds`, trust.json, `predict --coverage` and `--abstain`."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halfsure
from halfsure.cli import main
from halfsure.data import load as load_data
from halfsure.runs.model_file import set_temperature
from halfsure.training.errors import RunError
from halfsure.trust import abstain_threshold, class_scores, fit_temperature, wilson
from halfsure.verdict.check import load_evidence
from halfsure.verdict.folds import deal, without

pytestmark = pytest.mark.filterwarnings("always::halfsure.training.CollapseWarning")

SMALL = ["--net", "mlp-8", "--steps", "40", "--evaluations", "2", "--unlabeled-batch", "16", "--no-tensorboard"]
FOLDS = 3


def write_rows(file: Path, labels: int = 30, count: int = 120) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(count) % 3
    X = rng.normal(size=(count, 4)) + 2.0 * truth[:, None]
    np.savez(file, X=X.astype(np.float32), y=np.where(np.arange(count) < labels, truth, -1))


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checked")
    write_rows(folder / "rows.npz")
    words = ["--folds", str(FOLDS), "--jobs", "1", "--out", str(folder / "run"), *SMALL]
    assert main(["train", str(folder / "rows.npz"), *words]) == 0
    return folder


def predicted(folder: Path, *words: str) -> list[dict[str, str]]:
    out = folder / "out.csv"
    assert main(["predict", str(folder / "run"), str(folder / "rows.npz"), "-o", str(out), "--force", *words]) == 0
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_folds_are_runs_without_their_part_of_the_labels(checked: Path) -> None:
    data = load_data(checked / "rows.npz")
    held = deal(data, FOLDS, 0)
    for number, some in enumerate(held):
        run = halfsure.load(checked / "run" / "folds" / f"{number + 1}-of-{FOLDS}")
        assert run.finished
        assert run.config["fingerprint"]["labeled"] == 30 - len(some)
        assert not set(some) & set(without(data, some).unlabeled.tolist())  # type: ignore[union-attr]


def test_trust_json_says_what_the_folds_say(checked: Path) -> None:
    content = json.loads((checked / "run" / "trust.json").read_text())
    data, hits, logits, labels = load_data(checked / "rows.npz"), [], [], []
    for number, some in enumerate(deal(data, FOLDS, 0)):
        run = halfsure.load(checked / "run" / "folds" / f"{number + 1}-of-{FOLDS}")
        found = run.predict(data.train.samples[some])
        hits += [name == data.classes[k] for name, k in zip(found, data.train.labels[some], strict=True)]
        logits.append(run.logits(data.train.samples[some]))
        labels.append(torch.from_numpy(data.train.labels[some]))
    assert content["accuracy"] == pytest.approx(sum(hits) / 30)
    assert content["interval"] == pytest.approx(list(wilson(sum(hits), 30)))
    heat = fit_temperature(torch.cat(logits), torch.cat(labels), run.map)
    assert content["evidence"]["temperature"] == pytest.approx(heat)


def test_predictions_are_read_at_the_temperature_of_the_check(checked: Path) -> None:
    run = halfsure.load(checked / "run")
    evidence = load_evidence(run)
    assert evidence is not None
    samples = load_data(checked / "rows.npz").train.samples
    probs = run.map(run.logits(samples).double() / evidence.temperature)
    rows = predicted(checked)
    assert [float(row["probability"]) for row in rows] == pytest.approx(probs.amax(-1).tolist(), abs=1e-6)


def test_coverage_makes_conformal_sets(checked: Path) -> None:
    run = halfsure.load(checked / "run")
    evidence = load_evidence(run)
    assert evidence is not None
    samples = load_data(checked / "rows.npz").train.samples
    held = [
        (scores, halfsure.load(checked / "run" / "folds" / f"{k + 1}-of-{FOLDS}"))
        for k, scores in enumerate(evidence.conformal.scores)
    ]
    for coverage in ("0.7", "0.9"):
        rows = predicted(checked, "--coverage", coverage)
        for place in (0, 1, 50, 119):
            expected = set()
            for k, name in enumerate(run.classes):
                matches = sum(
                    int((scores >= class_scores(fold.logits(samples[place : place + 1]), fold.map)[0, k]).sum())
                    for scores, fold in held
                )
                if (1 + matches) / 31 > 1 - float(coverage) + 1e-9:
                    expected.add(name)
            found = set(rows[place]["candidates"].split("|"))
            assert found == expected | {rows[place]["label"]}  # the answer is always a candidate


def test_abstaining_leaves_labels_empty(checked: Path) -> None:
    evidence = load_evidence(halfsure.load(checked / "run"))
    assert evidence is not None
    least = abstain_threshold(evidence.confidence, evidence.right, 0.8)
    rows = predicted(checked, "--abstain", "0.8")
    for row in rows:
        assert (row["label"] == "") == (float(row["probability"]) < least - 1e-6)
    assert {row["label"] for row in predicted(checked, "--abstain", "1")} == {""}


def test_the_report_shows_the_check(checked: Path) -> None:
    page = (checked / "run" / "report.html").read_text(encoding="utf-8")
    right = int(load_evidence(halfsure.load(checked / "run")).right.sum())  # type: ignore[union-attr]
    assert f"{right} of 30 were right" in page
    assert "Sets with a coverage" in page


def test_what_was_not_checked_cannot_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path / "rows.npz")
    assert main(["train", str(tmp_path / "rows.npz"), "--folds", "0", "--out", str(tmp_path / "run"), *SMALL]) == 0
    assert not (tmp_path / "run" / "trust.json").exists()
    words = ["predict", str(tmp_path / "run"), str(tmp_path / "rows.npz"), "--coverage", "0.9"]
    assert main(words) == 2
    assert "was not checked on held-out labels" in " ".join(capsys.readouterr().err.split())


def test_a_class_with_one_label_cannot_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path / "rows.npz", labels=4)
    words = ["train", str(tmp_path / "rows.npz"), "--out", str(tmp_path / "run"), *SMALL]
    assert main([*words, "--folds", "3"]) == 2
    assert "has a single label" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_resume_trains_the_folds_that_are_missing(checked: Path) -> None:
    file = checked / "run" / "trust.json"
    before = file.read_bytes()
    file.unlink()
    assert main(["resume", str(checked / "run"), "--jobs", "1"]) == 0
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: "not JSON",
        lambda content: [content],
        lambda content: content | {"format": 99},
        lambda content: content | {"folds": 10**12},
        lambda content: content | {"folds": "../.."},
        lambda content: content | {"evidence": None},
        lambda content: content | {"evidence": content["evidence"] | {"temperature": "hot"}},
        lambda content: content | {"evidence": content["evidence"] | {"confidence": [float("nan")]}},
    ],
)
def test_a_spoilt_trust_json_is_refused_in_words(checked: Path, spoil: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = checked / "run" / "trust.json"
    before = file.read_text()
    spoilt = spoil(json.loads(before))
    try:
        file.write_text(spoilt if isinstance(spoilt, str) else json.dumps(spoilt))
        with pytest.raises(RunError, match=r"trust\.json"):
            load_evidence(halfsure.load(checked / "run"))
        words = ["predict", str(checked / "run"), str(checked / "rows.npz")]
        assert main([*words, "--coverage", "0.9"]) == 2
        assert "trust.json" in capsys.readouterr().err.replace("\n", "")
        assert main(words) == 0  # the temperature is the model's own
    finally:
        file.write_text(before)


def test_json_is_all_that_is_printed(checked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["resume", str(checked / "run"), "--jobs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    content = json.loads((checked / "run" / "trust.json").read_text())
    assert found["run"] == str(checked / "run")
    assert found["check"]["accuracy"] == content["accuracy"]
    assert Path(found["report"]).is_file()
    assert found["test_error"]["last"] is None


def test_a_single_label_of_a_class_means_no_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path / "rows.npz", labels=4)
    assert main(["train", str(tmp_path / "rows.npz"), "--out", str(tmp_path / "run"), "--no-report", *SMALL]) == 0
    assert "not checked: a class has a single label" in capsys.readouterr().out
    assert not (tmp_path / "run" / "trust.json").exists()


def test_evaluation_reads_a_model_as_prediction_does(checked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = predicted(checked)
    capsys.readouterr()
    assert main(["evaluate", str(checked / "run"), str(checked / "rows.npz"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    probs = np.array([float(row["probability"]) for row in rows[:30]])
    right = np.array([row["label"] == str(place % 3) for place, row in enumerate(rows[:30])])
    assert found["error"] == pytest.approx(1 - right.mean())
    edges = np.ceil(probs * 15 - 1e-9)
    gaps = [abs((probs[edges == b] - right[edges == b]).sum()) for b in set(edges.tolist())]
    assert found["ece"] == pytest.approx(sum(gaps) / 30, abs=1e-5)


def test_drawn_labels_do_not_stand_for_the_shares_of_the_data(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.npz", labels=60)
    for words, prior in (([], "labels"), (["--labels", "12"], None)):
        out = tmp_path / f"run {len(words)}"
        assert main(["train", str(tmp_path / "rows.npz"), "--folds", "0", "--out", str(out), *words, *SMALL]) == 0
        assert json.loads((out / "config.json").read_text())["config"]["algorithm"]["prior"] == prior


def test_a_negative_number_of_folds_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.npz")
    assert main(["train", str(tmp_path / "rows.npz"), "--folds", "-1", "--out", str(tmp_path / "run"), *SMALL]) == 2
    assert not (tmp_path / "run").exists()


def test_another_number_of_folds_checks_the_same_run_anew(checked: Path) -> None:
    words = ["--folds", "2", "--jobs", "1", "--out", str(checked / "run"), *SMALL]
    files = [checked / "run" / name for name in ("trust.json", "model.safetensors")]
    before = [file.read_bytes() for file in files]
    try:
        assert main(["train", str(checked / "rows.npz"), *words]) == 0
        content = json.loads(files[0].read_text())
        assert content["folds"] == 2
        assert halfsure.load(checked / "run").temperature == content["evidence"]["temperature"]
    finally:
        for file, content in zip(files, before, strict=True):
            file.write_bytes(content)


def told(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[str, str]:
    """What `predict` prints, and what it warns of."""
    capsys.readouterr()
    assert main(["predict", str(folder / "run"), str(folder / "rows.npz"), *words]) == 0
    said = capsys.readouterr()
    return said.out, " ".join(said.err.split())


def test_abstaining_says_first_how_many_got_a_label(checked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = [row["label"] for row in predicted(checked, "--abstain", "0.8")]
    count = sum(name != "" for name in named)
    assert 0.05 * len(named) < count < len(named) == 120
    out, _ = told(capsys, checked, "--abstain", "0.8", "-o", str(checked / "out.csv"), "--force")
    assert out.splitlines()[0] == f"{count} of 120 samples got a label; the model abstained on {120 - count}."
    assert out.splitlines()[1] == f"The rows are in {checked / 'out.csv'}"
    out, _ = told(capsys, checked, "--abstain", "0.99", "-o", str(checked / "out.csv"), "--force")
    assert out.startswith("0 of 120 samples got a label; the model abstained on 120. No probability is high enough: ")
    assert "of 30 held-out labels were right, and 99 % takes at least 99 without a mistake. Ask for less" in out
    assert f"The rows are in {checked / 'out.csv'}" in out
    assert "predictions are in" not in out
    out, _ = told(capsys, checked, "--abstain", "1")
    assert "and 100 % cannot be shown at all" in out
    found = json.loads(told(capsys, checked, "--abstain", "1", "--json")[0])
    assert (found["answered"], found["abstained"], found["samples"]) == (0, 120, 120)


def test_a_threshold_that_new_samples_miss_is_told(checked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(checked / "odd.npz", X=np.full((40, 4), 2.0, np.float32))  # just between the classes
    run = halfsure.load(checked / "run")
    assert run.evidence is not None
    least = run.evidence.threshold(0.8)
    capsys.readouterr()
    assert main(["predict", str(checked / "run"), str(checked / "odd.npz"), "--abstain", "0.8"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    sure = bool(run.predict_proba(np.full((1, 4), 2.0, np.float32)).max() >= least)
    assert first.startswith(f"{40 * sure} of 40 samples got a label")
    assert (f"from a probability of {least:.3f} on, which these samples lack" in first) == (not sure)


def test_a_temperature_at_its_cap_is_told_wherever_it_is_shown(
    checked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(checked / "run", tmp_path / "run")
    shutil.copy(checked / "rows.npz", tmp_path)
    _, before = told(capsys, tmp_path)
    assert "cap" not in before
    content = json.loads((tmp_path / "run" / "trust.json").read_text())
    content["evidence"]["temperature"] = 10.0
    (tmp_path / "run" / "trust.json").write_text(json.dumps(content))
    set_temperature(tmp_path / "run" / "model.safetensors", 10.0)
    assert "The temperature is at its cap, 10: " in told(capsys, tmp_path)[1]
    assert main(["evaluate", str(tmp_path / "run"), str(tmp_path / "rows.npz")]) == 0
    assert "The temperature is at its cap, 10: " in " ".join(capsys.readouterr().err.split())
    assert main(["report", str(tmp_path / "run"), "--force"]) == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "The temperature is at its cap, 10: " in page
    assert "which these labels ask for" not in page
