"""One meaning of a name: a method asked for by name is the same training, whichever way it is asked for."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import halfsure
from halfsure import SSLClassifier
from halfsure.cli import main
from halfsure.data import Data, load
from halfsure.runs.folder import flat_settings

WITHOUT_EFFECT = {"tensorboard", "save_minutes", "unlabeled_sample"}
LONG = 10


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Images or rows in a file of one's own, twelve of them labeled."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    if request.param == "images":
        samples = (rng.integers(0, 80, (120, 8, 8, 1)) + 60 * y[:, None, None, None]).astype(np.uint8)
    else:
        samples = (rng.normal(size=(120, 5)) + y[:, None]).astype(np.float32)
    known = np.where(np.arange(90) < 12, y[:90], -1)
    np.savez("mine.npz", X=samples[:90], y=known, X_test=samples[90:], y_test=y[90:])
    return "mine.npz"


def _fit(source: str, method: str, **more: Any) -> Path:
    halfsure.fit(None, load(source), method, out="fit", threads=1, **more)
    return Path("fit")


def _classifier(source: str, method: str, **more: Any) -> Path:
    data: Data = load(source)
    known = {name: more.pop(name) for name in list(more) if name == "steps"}
    X, y = data.train.samples, data.train.labels
    SSLClassifier(method, folds=0, out="classifier", settings={"threads": 1, **more}, **known).fit(X, y)
    return Path("classifier")


def _options(more: dict[str, Any]) -> list[str]:
    return [word for name, value in {"threads": 1, **more}.items() for word in (f"--{name}", str(value))]


def _train(source: str, method: str, **more: Any) -> Path:
    assert main(["train", source, "--method", method, "--folds", "0", "--out", "train", *_options(more)]) == 0
    return Path("train")


def _compare(source: str, method: str, **more: Any) -> Path:
    command = ["compare", source, "--methods", method, "--seeds", "1", "--jobs", "1", "--out", "compare"]
    assert main([*command, *_options(more)]) == 0
    return Path("compare") / f"{method}-s0"


@pytest.mark.parametrize("method", ["fixmatch-ads", "vat+ads"])
@pytest.mark.parametrize("source", ["images", "rows"], indirect=True)
def test_four_doors_lead_to_the_same_bits(source: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfsure.report.write", lambda _, out, **__: Path(out))
    runs = [door(source, method, steps=LONG, evaluations=1) for door in (_fit, _classifier, _train, _compare)]
    settings = [flat_settings(json.loads((run / "config.json").read_text())) for run in runs]
    for each in settings[1:]:
        assert _counting(each) == _counting(settings[0])
    weights = [load_file(run / "model.safetensors") for run in runs]
    for each in weights[1:]:
        assert each.keys() == weights[0].keys()
        assert all(np.array_equal(each[name], weights[0][name]) for name in each)


@pytest.mark.parametrize("source", ["images", "rows"], indirect=True)
def test_the_length_that_is_not_given_is_the_same_too(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What each would train with, had the first step not been the last."""
    asked = []

    def stop(model: Any, data: Data, config: Any, **_: Any) -> None:
        asked.append(_counting(config.plain))
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["halfsure.runs.start"], "train", stop)
    for door in (_fit, _classifier, _train, _compare):
        with pytest.raises((KeyboardInterrupt, AssertionError)):  # of the command line, an exit code
            door(source, "fixmatch-ads")
    assert len(asked) == 4
    assert asked == [asked[0]] * 4
    assert asked[0]["steps"] == 60
    assert asked[0]["prior"] is None


def test_what_auto_adds_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    y = np.where(np.arange(40) < 12, np.arange(40) % 2, -1)
    np.savez("mine.npz", X=X, y=y)
    told = "auto also holds its targets to the class shares of the labels"
    few = ["--folds", "0", "--steps", "2", "--no-report"]
    for words, wanted in (([], "labels"), (["--method", "fixmatch-ads"], None), (["--prior", "uniform"], "uniform")):
        assert main(["train", "mine.npz", "--out", f"run{len(words)}{wanted}", *few, *words]) == 0
        config = json.loads(Path(f"run{len(words)}{wanted}/config.json").read_text())
        assert flat_settings(config)["prior"] == wanted
        assert (told in capsys.readouterr().out) == (wanted == "labels")
    for method, prior, wanted in (
        ("auto", "auto", "labels"),
        ("fixmatch-ads", "auto", None),
        ("fixmatch-ads", "labels", "labels"),
        ("auto", None, None),
    ):
        model = SSLClassifier(method, prior=prior, steps=2, folds=0).fit(X, y)
        assert model.run_.settings["prior"] == wanted
        assert (told in str(model.report_)) == (method == prior == "auto")


def _counting(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in WITHOUT_EFFECT}
