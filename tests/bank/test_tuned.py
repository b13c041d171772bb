"""Encoders that the labels tune: the same bits again, from the run folder too, and never by held-out samples."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from halfsure import SSLClassifier
from halfsure.bank import banked, views_wanted
from halfsure.bank import tuned as module
from halfsure.bank.encoded import Banked, originals_of
from halfsure.bank.network_inputs import Shown
from halfsure.bank.opening import DataConfig, open_data, open_seeds
from halfsure.bank.tuned import tuned_encoder, tuned_in
from halfsure.cli import main
from halfsure.data import Data, DataError
from halfsure.encoders import EncoderError, open_encoder, own
from halfsure.encoders.pair_tuning import Tuning, tune_pairs
from halfsure.encoders.pair_verdict import TuningVerdict
from halfsure.runs import Run
from halfsure.runs.run import load
from halfsure.runs.start import go_on, start
from halfsure.training import Config, preset
from halfsure.training.errors import RunError
from halfsure.trust import class_scores
from halfsure.verdict.check import assess
from halfsure.verdict.folds import deal, without
from tests.bank.conftest import COLOURS, TOY, pixels

pytestmark = pytest.mark.usefixtures("toy_encoders")
SHORT: dict[str, Any] = {"steps": 6, "evaluations": 1, "batch": 8, "unlabeled_batch": 8}
TUNABLE: dict[str, Any] = {"encoder": "toy-tunable", "tune": "pairs", "encoder_side": 24, "tune_unlabeled": 0}


@pytest.fixture
def reviews(tmp_path: Path) -> str:
    """A table with a number and two texts, and another one to test on."""
    rng = np.random.default_rng(0)
    for name, count in (("reviews", 30), ("test", 10)):
        lines = ["stars,review,title,label"]
        for row in range(count):
            words = " ".join(rng.choice(["zoo", "zebra", "lazy"] if row % 2 else ["good", "bad", "mood"], 6))
            title = " ".join(rng.choice(["one", "two", "three"], 5))
            lines.append(f"{rng.normal():.3f},{words},{title},{'z' if row % 2 else 'o'}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    return str(tmp_path / "reviews.csv")


def opened(source: Path | str, seed: int = 0, **settings: Any) -> Data:
    return open_data(str(source), DataConfig.of(str(source), **settings), seed)


def short(data: Data, method: str = "fixmatch-ads") -> Config:
    return preset(data, method, "quick", 0).replace(**SHORT)


def begun(photos: Path, out: Path, labels: int = 8) -> tuple[Data, Run]:
    config = DataConfig.of(str(photos), **TUNABLE, labels=labels)
    data = open_data(str(photos), config, 0)
    return data, start(data, short(data), out=out, source=str(photos), data_config=config)


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("nothing is to be tuned again")


class Watched:
    """Tuning, with the rows that it looked at and the labels that it got."""

    def __init__(self) -> None:
        self.calls: list[tuple[set[int], NDArray[np.int64]]] = []

    def __call__(self, encoder: Any, samples: Any, labels: Any, **how: Any) -> Any:
        looked = set[int]()

        class Seen:
            def __len__(self) -> int:
                return len(samples)

            def __getitem__(self, row: int) -> Any:
                looked.add(int(row))
                return samples[row]

        found = tune_pairs(encoder, Seen(), labels, **how)
        self.calls.append((looked, np.array(labels)))
        return found


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched()
    monkeypatch.setattr(module, "tune_pairs", found)
    return found


def test_features_and_views_come_from_the_tuned_encoder(photos: Path) -> None:
    data = opened(photos, **TUNABLE, labels=8, val=4)
    came = opened(photos, **TUNABLE | {"tune": "none"}, labels=8, val=4)
    encoder = tuned_encoder(data)
    assert encoder is not None and encoder.untuned_checksum == "a layer of colours"  # noqa: PT018
    squares = [Shown(originals_of(data.train, 0), encoder)[row] for row in data.labeled]
    twin = tune_pairs(open_encoder("toy-tunable"), squares, data.train.labels[data.labeled], seed=0, tuning=Tuning())
    assert twin.checksum == encoder.checksum
    for name in ("train", "val", "test"):
        part, before = getattr(data, name), getattr(came, name)
        rows = np.asarray(banked(part.originals, encoder, views_wanted(0, 0)))
        np.testing.assert_array_equal(part.samples, rows)
        assert not np.array_equal(part.samples, before.samples)
        np.testing.assert_array_equal(part.labels, before.labels)
    (one,) = data.encoded
    assert isinstance(one, Banked)
    strong = banked(one.originals, encoder, one.plan.views("strong"))
    np.testing.assert_array_equal(np.asarray(one.rows("strong")), np.asarray(strong))
    assert data.encoding is not None and data.encoding["encoder"]["tuned_from"] == "a layer of colours"  # noqa: PT018
    assert "toy-tunable is tuned by pairs of 8 labels, in " in data.notes[1]


def test_the_same_labels_give_the_same_bits_and_others_do_not(photos: Path, watched: Watched) -> None:
    config = DataConfig.of(str(photos), **TUNABLE, labels=8)
    first, other = open_seeds(str(photos), config, [0, 1])
    again = open_data(str(photos), config, 0)
    np.testing.assert_array_equal(first.train.samples, again.train.samples)
    names = [encoder.checksum for encoder in map(tuned_encoder, (first, other, again)) if encoder]
    assert names[0] == names[2] != names[1]
    for (looked, labels), data in zip(watched.calls, (first, other, again), strict=True):
        assert looked <= set(data.labeled.tolist())
        np.testing.assert_array_equal(np.flatnonzero(labels >= 0), data.labeled)


def test_a_run_is_resumed_to_the_bit_without_tuning(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = begun(photos, tmp_path / "whole")
    config = DataConfig.of(str(photos), **TUNABLE, labels=8)
    data = open_data(str(photos), config, 0)

    class StopError(Exception):
        pass

    def stop(step: int) -> None:
        if step == 3:
            raise StopError

    with pytest.raises(StopError):
        start(data, short(data), out=tmp_path / "cut", source=str(photos), data_config=config, watch=stop)
    shutil.copytree(tmp_path / "cut", tmp_path / "lost")
    with monkeypatch.context() as patched:
        patched.setattr(module, "tune_pairs", never)
        again = go_on(tmp_path / "cut")
    content = (tmp_path / "whole" / "encoder.safetensors").read_bytes()
    (tmp_path / "lost" / "encoder.safetensors").write_bytes(content[:-9])
    tuned_twice = go_on(tmp_path / "lost")
    for run in (again, tuned_twice):
        for mine, other in zip(whole.model.parameters(), run.model.parameters(), strict=True):
            assert torch.equal(mine, other)
    assert (tmp_path / "lost" / "encoder.safetensors").read_bytes() == content


def test_a_run_folder_predicts_by_the_features_it_was_trained_on(photos: Path, tmp_path: Path) -> None:
    data, run = begun(photos, tmp_path / "run")
    kept = load(tmp_path / "run")
    assert data.test is not None
    wanted = run.probs(run.logits(data.test.samples)).numpy()
    np.testing.assert_array_equal(kept.predict_proba(photos / "test"), wanted)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kept)).predict_proba(photos / "test"), wanted)
    np.testing.assert_array_equal(run.predict_proba(photos / "test"), wanted)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["data"]["encoder"], config["data"]["tune"]) == ("toy-tunable", "pairs")
    assert config["tuned"]["name"] == "toy-tunable+pairs"
    notice = (tmp_path / "run" / "NOTICE.txt").read_text()
    assert notice.startswith("toy-tunable+pairs: not stated by its file")


def test_damaged_missing_and_foreign_weights_are_refused(photos: Path, tmp_path: Path) -> None:
    begun(photos, tmp_path / "run")
    begun(photos, tmp_path / "other", labels=6)
    shutil.copy(tmp_path / "run" / "model.safetensors", tmp_path / "alone.safetensors")
    with pytest.raises(RunError, match="a model file alone does not hold it: give the run folder"):
        load(tmp_path / "alone.safetensors").predict(photos / "test")
    file = tmp_path / "run" / "encoder.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(RunError, match="is damaged or no tuned encoder"):
        load(tmp_path / "run").predict(photos / "test")
    shutil.copy(tmp_path / "other" / "encoder.safetensors", file)
    with pytest.raises(RunError, match="is of another run"):
        load(tmp_path / "run").predict(photos / "test")
    file.unlink()
    with pytest.raises(RunError, match="is missing, and the run's encoder was tuned"):
        load(tmp_path / "run").predict(photos / "test")


def test_texts_beside_numbers(reviews: str, tmp_path: Path) -> None:
    about: dict[str, Any] = {"encoder": "toy-tunable-texts", "labels": 8, "label_column": "label"}
    about["test"] = str(Path(reviews).with_name("test.csv"))
    data, came = opened(reviews, **about, tune="pairs", val=4), opened(reviews, **about, val=4)
    for name in ("train", "val", "test"):
        now, before = getattr(data, name).samples, getattr(came, name).samples
        changed = np.flatnonzero((now != before).any(0))
        np.testing.assert_array_equal(changed, np.arange(2, 14))  # the number and the second text stay as they were
    assert "of the columns of texts the first is tuned" in data.notes[1]
    run = start(data, short(data), out=tmp_path / "run")
    assert data.test is not None
    wanted = run.probs(run.logits(data.test.samples)).numpy()
    np.testing.assert_array_equal(load(tmp_path / "run").predict_proba(about["test"]), wanted)


def test_folds_tune_without_what_they_hold_out(photos: Path, tmp_path: Path, watched: Watched) -> None:
    data, run = begun(photos, tmp_path / "run")
    config = Config.from_json(run.config["config"])
    held = deal(data, 2, 0)
    assess(tmp_path / "run", data, config, folds=2, workers=1)
    assert len(watched.calls) == 3
    for (looked, labels), some in zip(watched.calls[1:], held, strict=True):
        assert not looked & set(some.tolist())
        assert (labels[some] == -1).all()
    checked = load(tmp_path / "run")
    evidence = checked.evidence
    assert evidence is not None
    left = [without(data, some) for some in held]
    for fold, some, scores, one in zip(left, held, evidence.conformal.scores, evidence.runs, strict=True):
        logits = one.logits(fold.train.samples[some])
        classes = torch.from_numpy(data.train.labels[some])
        assert torch.equal(scores, class_scores(logits, one.map).gather(1, classes[:, None])[:, 0])
    seen = [fold.test.samples for fold in left if fold.test is not None]
    assert not np.array_equal(seen[0], seen[1])
    by_hand = [class_scores(one.logits(some), one.map) for one, some in zip(evidence.runs, seen, strict=True)]
    assert data.test is not None
    wanted = checked.read(checked.logits(data.test.samples), evidence.conformal.sets(by_hand, 0.6)).sets(run.classes)
    assert checked.predict_set(photos / "test", 0.6) == wanted
    with pytest.raises(RunError, match="give the pictures or texts themselves"):
        checked.answers(data.test.samples, coverage=0.6)
    count = len(watched.calls)
    assess(tmp_path / "run", data, config, folds=2, workers=1)
    assert len(watched.calls) == count  # the folds have kept theirs


def test_unlabeled_samples_take_part_and_those_held_out_do_not(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[int]] = []

    def watched(encoder: Any, samples: Any, labels: Any, *, unlabeled: Any, **how: Any) -> Any:
        seen.append(set(unlabeled.rows.tolist()))
        assert how["tuning"].most_unlabeled == 10
        return tune_pairs(encoder, samples, labels, unlabeled=unlabeled, **how)

    alone = opened(photos, **TUNABLE, labels=8, val=4)
    monkeypatch.setattr(module, "tune_pairs", watched)
    data = opened(photos, **TUNABLE | {"tune_unlabeled": 10}, labels=8, val=4)
    assert "by pairs of 8 labels and the surest of 10 unlabeled pictures, in " in data.notes[1]
    assert not np.array_equal(data.train.samples, alone.train.samples)
    assert seen[0] == set(np.setdiff1d(data.seen, data.labeled).tolist())
    held = deal(data, 2, 0)
    for some in held:
        left = without(data, some)
        assert seen[-1] == set(np.setdiff1d(left.seen, left.labeled).tolist())
        assert not seen[-1] & {*some.tolist(), *left.labeled.tolist()}


def test_too_few_labels_for_folds_are_refused(photos: Path) -> None:
    data = opened(photos, **TUNABLE, labels=4)
    assert len(deal(data, 4, 0)) == 4
    with pytest.raises(DataError, match="too few to tune the encoder again"):
        deal(data, 2, 0)


class Colours(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layer = nn.Linear(12, 6)

    def forward(self, pictures: Tensor) -> Any:
        return self.layer(nn.functional.adaptive_avg_pool2d(pictures, 2).flatten(1))


def test_the_classifier_with_a_module_of_ones_own(tmp_path: Path, watched: Watched) -> None:
    images = np.stack([pixels(colour, number) for number in range(12) for colour in COLOURS])
    y = np.where(np.arange(24) < 12, np.arange(24) % 2, -1)
    encoder = own(Colours(), "image", side=16)
    settings = {"tune": "pairs", "evaluations": 1}
    how: dict[str, Any] = {"folds": 2, "steps": 5, "prior": "estimate"}
    model = SSLClassifier(encoder=encoder, out=tmp_path / "run", settings=settings, **how).fit(images, y)
    assert [len(looked) for looked, _ in watched.calls] == [12, 6, 6]
    sets = model.predict_set(images, coverage=0.6)
    other = pickle.loads(pickle.dumps(model))
    assert other.predict_set(images, coverage=0.6) == sets
    probs = model.predict_proba(images)
    np.testing.assert_array_equal(other.predict_proba(images), probs)
    kept = load(tmp_path / "run", encoder=own(Colours(), "image", side=16))
    np.testing.assert_array_equal(kept.predict_proba(images), probs)
    with pytest.raises(EncoderError, match="give it again"):
        load(tmp_path / "run").predict(images)


def test_the_classifier_with_texts() -> None:
    texts = ["zoo zebra lazy" if row % 2 else "good bad mood" for row in range(30)]
    y = np.where(np.arange(30) < 10, np.arange(30) % 2, -1)
    how: dict[str, Any] = {"steps": 5, "folds": 2, "settings": {"tune": "pairs", "evaluations": 1}}
    model = SSLClassifier(encoder="toy-tunable-texts", **how).fit(texts, y)
    assert model.run_.is_tuned
    assert len(model.predict_set(texts, coverage=0.6)) == 30
    frame = pd.DataFrame({"stars": np.arange(30.0), "review": [f"{text} {text}" for text in texts]})
    by_table = SSLClassifier(encoder="toy-tunable-texts", **how).fit(frame, y)
    assert by_table.run_.is_tuned
    assert by_table.predict_proba(frame).shape == (30, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": "toy-pictures"}, "toy-pictures cannot be tuned: tuning needs an encoder whose network"),
        ({"encoder": "none"}, "neither pictures nor texts that are seen through a pretrained encoder"),
        ({"encoder": "toy-tunable", "labels": 2}, "each has one, so nothing belongs together"),
    ],
)
def test_what_cannot_be_tuned_is_refused(photos: Path, settings: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"labels": 8, **settings}
    with pytest.raises(DataError, match=message) as refused:
        opened(photos, tune="pairs", **asked)
    assert "\n" not in str(refused.value)
    data = opened(photos, tune="auto", **asked)  # it was not asked for by name
    assert tuned_in(data) is None
    assert any(note.startswith("not tuned: ") for note in data.notes)


def test_rows_words_and_functions_cannot_be_tuned(reviews: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(0).normal(2, 1, (20, 3)), y=np.arange(20) % 2)
    with pytest.raises(DataError, match="neither pictures nor texts"):
        opened(tmp_path / "rows.npz", tune="pairs")
    with pytest.raises(DataError, match="neither pictures nor texts"):
        opened(reviews, encoder="words", label_column="label", tune="pairs")
    mean = own(lambda pictures: pictures.mean((2, 3)), "image", side=16)
    images, y = np.stack([pixels("red", number) for number in range(8)]), [0, 1, 0, 1, -1, -1, -1, -1]
    with pytest.raises(DataError, match="cannot be tuned"):
        SSLClassifier(encoder=mean, folds=0, settings={"tune": "pairs"}).fit(images, y)
    with pytest.raises(ValueError, match="tune"):
        SSLClassifier(encoder=mean, folds=0, settings={"tune": "last"}).fit(images, y)


@pytest.mark.parametrize("it_pays", [True, False])
def test_auto_tunes_where_it_pays_and_says_why(photos: Path, monkeypatch: pytest.MonkeyPatch, it_pays: bool) -> None:
    asked: dict[str, Any] = {}

    def pays(*_: Any, **how: Any) -> TuningVerdict:
        asked.update(how)
        return TuningVerdict(it_pays, "so say held-out labels")

    monkeypatch.setattr(module, "pays", pays)
    data = opened(photos, **TUNABLE | {"tune": "auto"}, labels=8)
    assert (tuned_in(data) is not None) == it_pays
    assert "so say held-out labels" in data.notes[1]
    assert asked["most_seconds"] == module.MOST_SECONDS


@pytest.mark.slow
def test_the_commands(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = ["--parts", str(TOY)]
    common = ["--encoder", "toy-tunable", "--tune", "pairs", "--labels", "8", "--steps", "6", "--evaluations", "1"]
    common += ["--encoder-side", "24"]
    train = ["train", str(photos), "--out", "run", *common, *parts, "--folds", "2", "--jobs", "1"]
    assert main(train) == 0
    assert (
        "toy-tunable is tuned by pairs of 8 labels and the surest of 16 unlabeled pictures, in "
        in capsys.readouterr().out
    )
    assert "toy-tunable+pairs" in (tmp_path / "run" / "report.html").read_text()
    predict = ["predict", "run", str(photos / "test"), "-o", "new.csv", "--coverage", "0.6", *parts]
    assert main(predict) == 0
    assert main(["evaluate", "run", str(photos), *parts]) == 0
    monkeypatch.setattr(module, "tune_pairs", never)
    assert main(train) == 0
    assert "with the weights that the run has kept" in capsys.readouterr().out
