"""Encoders that are trained together with the classifier: what changes, what is kept, and who sees which features."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from halfsure import SSLClassifier
from halfsure.bank.encoded import Banked
from halfsure.bank.end_to_end import end_to_end
from halfsure.bank.opening import DataConfig, open_data
from halfsure.data import Data, DataError
from halfsure.encoders import open_encoder, own
from halfsure.nets import build
from halfsure.nets.tunable import Tunable
from halfsure.report import write
from halfsure.runs import Run
from halfsure.runs.run import load
from halfsure.runs.start import fit, go_on, start
from halfsure.runs.with_encoder import EndToEndRun, as_seen_by
from halfsure.settings import find
from halfsure.training import Config, preset
from halfsure.training.errors import RunError
from halfsure.training.optimisers import OptimiserSettings
from halfsure.verdict.check import assess
from halfsure.verdict.folds import deal
from tests.bank.conftest import COLOURS, pixels

pytestmark = pytest.mark.usefixtures("toy_encoders")
SHORT: dict[str, Any] = {"steps": 6, "evaluations": 2, "batch": 8, "unlabeled_batch": 8}
PICTURES: dict[str, Any] = {"encoder": "toy-tunable", "encoder_side": 24, "labels": 8}
METHODS = ("supervised", "fixmatch-sh", "mixmatch", "vat+me")  # in softmax, whose losses are never exactly zero


def opened(source: Path | str, **settings: Any) -> Data:
    return open_data(str(source), DataConfig.of(str(source), **settings), 0)


def begun(photos: Path, out: Path, way: str = "last", method: str = "fixmatch-ads", **more: Any) -> tuple[Data, Run]:
    config = DataConfig.of(str(photos), **PICTURES, tune=way)
    data = open_data(str(photos), config, 0)
    settings = preset(data, method, "quick", 0).replace(**SHORT)
    return data, start(data, settings, out=out, source=str(photos), data_config=config, **more)


def names_in(file: Path) -> set[str]:
    with safe_open(file, "pt") as opened_file:
        return set(opened_file.keys())


@pytest.mark.parametrize(("way", "changed"), [("last", {"3"}), ("all", {"2", "3"})])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_to_be_trained_changes_and_nothing_else(
    photos: Path, tmp_path: Path, way: str, changed: set[str], method: str
) -> None:
    _, run = begun(photos, tmp_path / "run", way, method)
    assert run.tuned is not None
    assert {name.partition(".")[0] for name in run.tuned.changed} == changed
    came = open_encoder("toy-tunable").network().state_dict()
    assert all(not torch.equal(value, came[name]) for name, value in run.tuned.changed.items())
    # Only that is written down, in the checkpoint too.
    assert names_in(tmp_path / "run" / "encoder.safetensors") == run.tuned.changed.keys()
    for copy in ("model", "average"):
        start = f"{copy}/encoder.module."
        saved = [name for name in names_in(tmp_path / "run" / "resume.safetensors") if name.startswith(start)]
        assert {name.removeprefix(start).partition(".")[0] for name in saved} == changed


def test_a_run_predicts_what_training_measured(photos: Path, tmp_path: Path) -> None:
    data, run = begun(photos, tmp_path / "run", "all")
    assert data.test is not None
    kept = load(tmp_path / "run")
    probs = kept.predict_proba(photos / "test")
    np.testing.assert_array_equal(run.predict_proba(photos / "test"), probs)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kept)).predict_proba(photos / "test"), probs)
    error = float(np.mean(probs.argmax(1) != data.test.labels))
    assert run.metrics[-1]["test"]["error"] == pytest.approx(error)
    # A second way: the trained network on pixels, beside the encoder and the classifier of the run.
    whole = EndToEndRun(data)
    network = whole.network(run.model)
    assert run.tuned is not None
    state = network.encoder.module.state_dict() | dict(run.tuned.changed)
    network.encoder.module.load_state_dict(state)
    inputs = whole.inputs
    assert inputs.test is not None
    mean, std = torch.tensor([0.5] * 3), torch.tensor([0.5] * 3)
    squares = torch.from_numpy(inputs.test.samples[:]).float() / 255
    with torch.no_grad():
        logits = network(((squares - mean) / std).permute(0, 3, 1, 2))
    np.testing.assert_allclose(run.probs(logits).numpy(), probs, atol=1e-5)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["data"]["encoder"], config["data"]["tune"]) == ("toy-tunable", "all")
    assert kept.encoding is not None
    assert kept.encoding["encoder"]["name"] == "toy-tunable+all"


def test_a_run_is_resumed_to_the_bit(photos: Path, tmp_path: Path) -> None:
    _, whole = begun(photos, tmp_path / "whole")

    class StopError(Exception):
        pass

    def stop(step: int) -> None:
        if step == 5:
            raise StopError

    with pytest.raises(StopError):
        begun(photos, tmp_path / "cut", watch=stop)
    half_way = load(tmp_path / "cut")
    assert half_way.predict_proba(photos / "test").shape == (8, 2)  # of step 3
    older = (tmp_path / "cut" / "encoder.safetensors").read_bytes()
    go_on(tmp_path / "cut")
    files = ("model.safetensors", "encoder.safetensors")
    for name in files:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    # Killed between the two files: refused where it is used, and mended where it is gone on with.
    (tmp_path / "cut" / "encoder.safetensors").write_bytes(older)
    with pytest.raises(RunError, match="is of another run"):
        load(tmp_path / "cut").predict(photos / "test")
    go_on(tmp_path / "cut")
    mended = load(tmp_path / "cut").predict_proba(photos / "test")
    np.testing.assert_array_equal(mended, whole.predict_proba(photos / "test"))


def test_folds_have_encoders_of_their_own(photos: Path, tmp_path: Path) -> None:
    data, run = begun(photos, tmp_path / "run")
    held = deal(data, 2, 0)
    assess(tmp_path / "run", data, Config.from_json(run.config["config"]), folds=2, workers=2)
    checked = load(tmp_path / "run")
    assert checked.evidence is not None
    first, second = checked.evidence.runs
    assert first.encoding != second.encoding != checked.encoding
    for fold, some, scored in zip(checked.evidence.runs, held, (first, second), strict=True):
        assert fold is scored
        logits = fold.logits(as_seen_by(fold, data).train.samples[some])
        paths = [data.train.originals.paths[row] for row in some]  # type: ignore[union-attr]
        by_file = np.concatenate([fold.predict_proba(path) for path in paths])
        np.testing.assert_allclose(fold.probs(logits).numpy(), by_file, atol=1e-6)
    sets = checked.predict_set(photos / "test", coverage=0.6)
    assert len(sets) == 8
    write([tmp_path / "run"], tmp_path / "report.html", data=data)
    assert "toy-tunable" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_classifier_on_pictures(jobs: int) -> None:
    images = np.stack([pixels(colour, number) for number in range(12) for colour in COLOURS])
    y = np.where(np.arange(24) < 12, np.arange(24) % 2, -1)
    settings = {"tune": "all", "evaluations": 1, "batch": 8, "unlabeled_batch": 8}
    how: dict[str, Any] = {"folds": 2, "steps": 5, "n_jobs": jobs, "settings": settings}
    layers = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 6))
    model = SSLClassifier("fixmatch-ads", encoder=own(layers, "image", side=16, name="mine"), **how).fit(images, y)
    assert model.run_.is_tuned
    probs = model.predict_proba(images)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(images), probs)
    rest = y < 0
    np.testing.assert_array_equal(model.transduction_[rest], model.classes_[probs[rest].argmax(1)])
    assert len(model.predict_set(images, coverage=0.6)) == 24


@pytest.mark.parametrize("method", METHODS)
def test_the_classifier_on_texts(method: str) -> None:
    texts = ["zoo zebra lazy jazz" if row % 2 else "good bad mood food" for row in range(30)]
    y = np.where(np.arange(30) < 10, np.arange(30) % 2, -1)
    settings = {"tune": "all", "evaluations": 1, "batch": 8, "unlabeled_batch": 8, "tune_rate": 1.0}
    model = SSLClassifier(method, encoder="toy-tunable-texts", folds=0, steps=30, settings=settings).fit(texts, y)
    assert model.run_.encoding is not None
    assert model.run_.encoding["columns"][0]["text"]["encoder"]["name"] == "toy-tunable-texts+all"
    assert model.score(texts, np.arange(30) % 2) == 1.0


def test_the_encoder_learns_at_its_own_rate() -> None:
    layers = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    layers[0].requires_grad_(False)
    model = Tunable(layers, build("linear", (3,), 2), lambda net, x: net(x), mean=[0.0] * 3, std=[1.0] * 3, rate=0.25)
    optimiser = find("optimizer", "adam").make(model, OptimiserSettings(lr=0.01, weight_decay=0.1))
    found = {
        tuple(weight.shape): (group.get("rate", 1.0), group["weight_decay"])
        for group in optimiser.param_groups
        for weight in group["params"]
    }
    assert found == {(2, 3): (1.0, 0.1), (2,): (1.0, 0.0), (3, 5): (0.25, 0.1), (3,): (0.25, 0.0)}


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_an_encoder_without_a_rate_stays_as_it_came(photos: Path, rate: float) -> None:
    data = opened(photos, **PICTURES, tune="all", tune_rate=rate)
    run = fit(None, data, "supervised", **SHORT)
    came = open_encoder("toy-tunable").network().state_dict()
    assert run.tuned is not None
    same = [torch.equal(value, came[name]) for name, value in run.tuned.changed.items()]
    assert all(same) if rate == 0 else not any(same)


def test_views_are_fresh_and_depend_on_nothing_but_sample_step_and_stream(photos: Path) -> None:
    data = opened(photos, **PICTURES, tune="last")
    one = end_to_end(data)
    assert isinstance(one, Banked)
    samples = EndToEndRun(data).inputs.train.samples

    def view(rows: list[int], step: int, stream: int = 0, name: Any = "strong", seed: int = 0) -> Tensor:
        indices = np.array(rows)
        return one.fresh_view(name, seed)(samples[indices], indices, step, stream)

    first = view([3, 5], 2)
    assert torch.equal(first, view([3, 5], 2))
    assert torch.equal(first[1:], view([5], 2))
    others = [view([3, 5], 3), view([3, 5], 2, 1), view([3, 5], 2, name="weak"), view([3, 5], 2, seed=1)]
    assert not any(torch.equal(first, other) for other in others)


def test_frozen_weights_are_not_part_of_the_state() -> None:
    layers = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    layers[0].requires_grad_(False)
    made = [
        Tunable(layers, build("linear", (3,), 2), lambda net, x: net(x), mean=[0.0] * 3, std=[1.0] * 3, rate=0.1)
        for _ in range(2)
    ]
    state = made[0].state_dict()
    encoder = {name.removeprefix("encoder.module.") for name in state if name.startswith("encoder")}
    assert encoder == {"1.weight", "1.bias", "2.weight", "2.bias"}  # norms keep their statistics
    inside = nn.ModuleList([made[0]]).state_dict()
    assert {name.removeprefix("0.") for name in inside} == state.keys()
    made[1].load_state_dict(state)
    x = torch.randn(6, 4)
    assert torch.equal(made[0](x), made[1](x))
    with pytest.raises(RuntimeError, match="Missing"):
        made[1].load_state_dict({name: value for name, value in state.items() if "2.weight" not in name})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": "none"}, "for data of which an encoder makes all features"),
        ({"encoder": "toy-pictures"}, "toy-pictures cannot be tuned"),
        ({"encoder": "toy-tunable", "tune_rate": 2.0}, "tune_rate"),
    ],
)
def test_what_cannot_be_trained_is_refused(photos: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, ValueError), match=message) as refused:
        opened(photos, tune="all", labels=8, **settings)
    assert "\n" not in str(refused.value)


def test_tables_and_encoders_without_blocks_are_refused(tmp_path: Path) -> None:
    words = np.random.default_rng(0).choice(["good", "bad", "mood", "zoo", "lazy", "one", "two"], (12, 6))
    rows = "\n".join(f"{row},{' '.join(words[row])},{'ab'[row % 2]}" for row in range(12))
    (tmp_path / "t.csv").write_text(f"stars,review,label\n{rows}\n")
    for encoder, message in (("toy-tunable-texts", "without other columns"), ("toy-texts", "without other columns")):
        with pytest.raises(DataError, match=message):
            opened(tmp_path / "t.csv", encoder=encoder, label_column="label", tune="all")
    texts = ["good mood it is", "lazy zoo it is"] * 6
    y = [0, 1, 0, 1, *[-1] * 8]
    with pytest.raises(DataError, match="its samples are no tensor"):
        SSLClassifier(encoder="toy-texts", settings={"tune": "all"}).fit(texts, y)
    with pytest.raises(DataError, match="which of its blocks are the last: take tune all or pairs"):
        SSLClassifier(encoder="toy-tunable-texts", settings={"tune": "last"}).fit(texts, y)
    about: dict[str, Any] = {"encoder": "toy-tunable-texts", "label_column": "label", "tune": "all", "drop": "stars"}
    data = opened(tmp_path / "t.csv", **about)
    with pytest.raises(RunError, match="omit your own network"):
        fit(nn.Linear(12, 2), data, "supervised", steps=1)


def test_another_way_is_another_run(photos: Path, tmp_path: Path) -> None:
    begun(photos, tmp_path / "run", "last")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    with pytest.raises(RunError, match=r"another run: tune was last at a rate of 0\.05, now all at a rate of 0\.05"):
        begun(photos, tmp_path / "run", "all")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "copy" / "model.safetensors"
    ).read_bytes()
