"""Pictures and texts seen through an encoder are trained on, resumed and predicted as any others are."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import halfsure
from halfsure import SSLClassifier
from halfsure.bank import banked, new_samples, views_wanted
from halfsure.bank.encoded import Banked
from halfsure.bank.opening import DataConfig, open_data
from halfsure.cli import demo, main
from halfsure.data import Data, DataError, official
from halfsure.data.embeddings import embedding_in
from halfsure.data.originals import PictureFiles
from halfsure.encoders import EncoderError, open_encoder, own
from halfsure.runs.run import load
from halfsure.runs.start import go_on, start
from halfsure.training import preset
from halfsure.training.errors import RunError
from halfsure.views.maker import maker_of
from halfsure.views.preprocessing import Preprocessing
from tests.bank.conftest import TOY

pytestmark = pytest.mark.usefixtures("toy_encoders")
COLOURS = {"red": (200, 40, 40), "blue": (40, 40, 200)}
SHORT: dict[str, Any] = {"steps": 12, "evaluations": 2, "batch": 8, "unlabeled_batch": 16}


def picture(colour: str, number: int) -> Image.Image:
    rng = np.random.default_rng([number, len(colour)])
    height, width = rng.integers(20, 50, 2)
    pixels = np.array(COLOURS[colour]) + rng.normal(0, 60, (height, width, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Pictures of many sizes: 40 to learn from, 12 to test on."""
    for part, count in (("train", 20), ("test", 6)):
        for colour in COLOURS:
            folder = tmp_path / "photos" / part / colour
            folder.mkdir(parents=True)
            for number in range(count):
                picture(colour, number + 100 * (part == "test")).save(folder / f"{number:02}.png")
    return tmp_path / "photos"


@pytest.fixture
def reviews(tmp_path: Path) -> str:
    """A table with a number and a text."""
    rng = np.random.default_rng(0)
    lines = ["stars,review,label"]
    for row in range(40):
        words = rng.choice(["zoo", "zebra", "lazy"] if row % 2 else ["good", "bad", "mood"], 6)
        lines.append(f"{rng.normal():.3f},{' '.join(words)},{'z' if row % 2 else 'o'}")
    (tmp_path / "reviews.csv").write_text("\n".join(lines))
    return str(tmp_path / "reviews.csv")


def opened(source: Path | str, **settings: Any) -> Data:
    return open_data(str(source), DataConfig.of(str(source), **settings), 0)


def test_samples_are_the_features_of_the_pictures(photos: Path) -> None:
    data = opened(photos, encoder="toy-pictures", encoder_side=24, labels=6)
    assert (data.kind, data.train.samples.shape, len(data.labeled)) == ("array", (40, 27), 6)
    assert data.test is not None and data.test.samples.shape == (12, 27)  # noqa: PT018
    files = sorted((photos / "train" / "blue").iterdir())
    rows = banked(PictureFiles(files), open_encoder("toy-pictures"), views_wanted(0, 0))
    np.testing.assert_array_equal(data.train.samples[:20], np.asarray(rows))
    assert "shown to it at" in data.notes[0] and "toy-pictures" in data.notes[0]  # noqa: PT018
    assert data.encoding is not None and data.encoding["encoder"]["sha256"] == "colours"  # noqa: PT018


def test_one_scale_and_views_of_the_bank(photos: Path) -> None:
    data = opened(photos, encoder="toy-pictures", labels=6, weak_views=2, strong_views=3)
    scale = Preprocessing.of(data)
    assert len(set(scale.std)) == 1
    maker = maker_of(data)
    assert maker.name == "encoded"
    views = maker.make(data, scale, maker.Settings(), 0)
    indices, (one,) = np.arange(40), data.encoded
    assert isinstance(one, Banked)
    for name, many in (("weak", 2), ("strong", 3)):
        seen = views[name](data.train.samples[indices], indices, step=4, stream=1)  # type: ignore[index]
        rows = one.rows(name)  # type: ignore[arg-type]
        every = np.stack([rows.take(indices, np.full(40, k)) for k in range(many)]).astype(np.float32)
        wanted = (every - np.array(scale.mean, np.float32)) / np.array(scale.std, np.float32)
        near = np.abs(wanted - seen.numpy()).max(-1) < 1e-5
        assert near.any(0).all()
        assert near.any(1).all()  # each view is somebody's


@pytest.mark.parametrize("method", ["supervised", "fixmatch-ads", "mixmatch-ads", "vat+ads"])
def test_a_run_is_resumed_to_the_bit_and_predicts(photos: Path, tmp_path: Path, method: str) -> None:
    config = DataConfig.of(str(photos), encoder="toy-pictures", labels=6)
    data = open_data(str(photos), config, 0)
    settings = preset(data, method, "quick", 0).replace(**SHORT)
    whole = start(data, settings, out=tmp_path / "whole", source=str(photos), data_config=config)

    class StopError(Exception):
        pass

    def stop(step: int) -> None:
        if step == 7:
            raise StopError

    with pytest.raises(StopError):
        start(data, settings, out=tmp_path / "cut", source=str(photos), data_config=config, watch=stop)
    again = go_on(tmp_path / "cut")
    for mine, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(mine, other)
    run = load(tmp_path / "cut")
    assert data.test is not None
    answers = run.predict(photos / "test")
    assert answers == [run.classes[k] for k in run.best(data.test.samples).tolist()]
    assert json.loads((tmp_path / "cut" / "config.json").read_text())["data"]["encoder"] == "toy-pictures"


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "auto"])
def test_a_run_predicts_and_goes_on_in_the_precision_it_was_trained_in(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: Any
) -> None:
    config = DataConfig.of(str(photos), encoder="toy-pictures", labels=6, encoder_precision=precision)
    data = open_data(str(photos), config, 0)
    settings = preset(data, "supervised", "quick", 0).replace(**SHORT)
    run = tmp_path / "run"
    start(data, settings, out=run, source=str(photos), data_config=config)
    kind, asked = type(open_encoder("toy-pictures")), list[str]()
    original = kind.open

    def watched(argument: str, settings: Any) -> Any:
        asked.append(settings.encoder_precision)
        return original(argument, settings)

    monkeypatch.setattr(kind, "open", watched)
    new_samples._restore.cache_clear()
    load(run).predict(photos / "test")
    assert asked == [precision]
    go_on(run)
    assert set(asked) == {precision}
    assert main(["predict", str(run), str(photos / "test"), "--out", str(tmp_path / "answers.csv")]) == 0
    assert main(["evaluate", str(run), str(photos / "test")]) == 0
    assert set(asked) == {precision}


def test_explicit_and_chosen_precision_share_their_features(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(photos, encoder="toy-pictures", labels=6)
    kind = type(open_encoder("toy-pictures"))
    monkeypatch.setattr(kind, "encode", lambda *_: pytest.fail("it is in the bank"))
    opened(photos, encoder="toy-pictures", labels=6, encoder_precision="float32")


def test_a_second_run_encodes_nothing(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = opened(photos, encoder="toy-pictures", labels=6)
    halfsure.fit(None, data, **SHORT)
    kind = type(open_encoder("toy-pictures"))

    def never(*_: Any) -> Any:
        raise AssertionError("this is in the bank")

    monkeypatch.setattr(kind, "encode", never)
    halfsure.fit(None, opened(photos, encoder="toy-pictures", labels=6), **SHORT)


def test_another_encoders_weights_are_refused(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = opened(photos, encoder="toy-pictures", labels=6)
    halfsure.fit(None, data, out=tmp_path / "run", **SHORT)
    monkeypatch.setattr(type(open_encoder("toy-pictures")), "checksum", "others")
    run = load(tmp_path / "run")
    from halfsure.bank.new_samples import _restore  # noqa: PLC0415 - what it remembers is let go

    _restore.cache_clear()
    with pytest.raises(EncoderError, match="made with toy-pictures of other weights"):
        run.predict(photos / "test")
    with pytest.raises(RunError, match="not the same"):
        halfsure.fit(None, opened(photos, encoder="toy-pictures", labels=6), out=tmp_path / "run", **SHORT)


def test_texts_beside_numbers(reviews: str, tmp_path: Path) -> None:
    data = opened(reviews, encoder="toy-texts", labels=4, label_column="label")
    (text,) = data.encoded
    assert text.features == slice(2, 28)
    assert data.train.samples.shape == (40, 28)
    scale = Preprocessing.of(data)
    assert len(set(scale.std[2:])) == 1
    run = halfsure.fit(None, data, out=tmp_path / "run", **SHORT)
    again = load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(reviews), run.probs(run.logits(data.train.samples)).numpy())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": "toy-texts"}, "holds pictures, and toy-texts is an encoder of texts"),
        ({"encoder": "toy-picture"}, "did you mean toy-pictures"),
        ({"encoder": "hf:nowhere/at-all"}, "nowhere/at-all"),
        ({"encoder": "toy-texts", "encoder_side": 32}, "does not take pictures: omit encoder_side"),
    ],
)
def test_wrong_encoders_for_pictures(photos: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        opened(photos, labels=6, **settings)


def test_wrong_encoders_for_tables(reviews: str) -> None:
    with pytest.raises(DataError, match="toy-pictures is an encoder of pictures"):
        opened(reviews, encoder="toy-pictures", label_column="label")
    rows = Path(reviews).with_name("rows.npz")
    np.savez(rows, X=np.random.default_rng(0).normal(2, 1, (20, 3)), y=np.arange(20) % 2)
    with pytest.raises(DataError, match="neither pictures nor texts"):
        opened(rows, encoder="toy-pictures")


def test_without_strong_views_methods_that_need_them_are_refused(photos: Path) -> None:
    data = opened(photos, encoder="toy-pictures", labels=6, strong_views=0, weak_views=0)
    with pytest.raises(DataError, match="raise strong_views"):
        halfsure.fit(None, data, "fixmatch-ads", **SHORT)
    assert halfsure.fit(None, data, "vat+ads", **SHORT).finished


def test_a_network_for_pictures_keeps_the_pictures(photos: Path) -> None:
    assert opened(photos, encoder="none", labels=6).kind == "image"
    old = DataConfig.from_json(str(photos), {"labels": 6})
    assert old.encoder == "none"


def colours(pictures: torch.Tensor) -> torch.Tensor:
    return pictures.mean((2, 3))


def lengths(texts: list[str]) -> Any:
    return np.array([[len(text), text.count(" ")] for text in texts], np.float32)


def test_the_classifier_with_an_encoder_of_ones_own() -> None:
    images = np.stack([np.asarray(picture(c, k).resize((24, 24))) for k in range(20) for c in COLOURS])
    y = np.where(np.arange(40) < 8, np.arange(40) % 2, -1)
    model = SSLClassifier(encoder=own(colours, "image", side=16), folds=0, settings={"evaluations": 1}).fit(images, y)
    assert model.run_.preprocessing.shape == (3,)
    assert (model.predict(images) == np.arange(40) % 2).mean() > 0.9
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict_proba(images[:4]), model.predict_proba(images[:4]))
    texts = ["a b c d e f g" if k % 2 else "abcdefgabcdefgh" for k in range(40)]
    by_text = SSLClassifier(encoder=own(lengths, "text"), folds=0, settings={"evaluations": 1}).fit(texts, y)
    assert by_text.run_.preprocessing.shape == (2,)
    with pytest.raises(ValueError, match="neither pictures nor texts"):
        SSLClassifier(encoder=own(lengths, "text")).fit(np.random.default_rng(0).normal(size=(40, 3)), y)
    with pytest.raises(ValueError, match="encoder is the name of one"):
        SSLClassifier(encoder=3).fit(images, y)  # type: ignore[arg-type]


def test_rows_that_are_an_embedding_keep_one_scale() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(0, np.geomspace(3, 0.05, 64), (60, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    y = np.where(np.arange(60) < 10, np.arange(60) % 2, -1)
    model = SSLClassifier(folds=0, steps=5).fit(rows, y)
    assert len(set(model.run_.preprocessing.std)) == 1
    data = halfsure.data.from_arrays(rows, y)
    assert "all are of length 1" in data.notes[0]
    table = rng.normal(size=(60, 64)) * np.geomspace(1, 1e4, 64) + 10 * np.arange(64)
    assert embedding_in(table) is None
    assert embedding_in(np.rint(rows * 100)) is None
    assert embedding_in(rows[:, :8]) is None


def test_the_commands(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    common = ["--encoder", "toy-pictures", "--labels", "6", "--steps", "12", "--evaluations", "2", "--parts", str(TOY)]
    assert main(["train", str(photos), "--out", "run", *common]) == 0
    assert "seen through toy-pictures" in capsys.readouterr().out
    assert "data:image" in (tmp_path / "run" / "report.html").read_text()
    assert main(["predict", "run", str(photos / "test"), "-o", "new.csv", "--parts", str(TOY)]) == 0
    assert len((tmp_path / "new.csv").read_text().splitlines()) == 13


@pytest.fixture
def short_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = {
        "STEPS": 4,
        "EVALUATIONS": 1,
        "METHODS": ("supervised",),
        "PICTURE_METHODS": ("fixmatch-ads",),
        "SEEDS": (0,),
    }
    for name, value in few.items():
        monkeypatch.setattr(demo, name, value)
    monkeypatch.setattr(demo, "choose", lambda kind, **about: ("toy-pictures", ""))


REAL = official.read


def some_pictures(name: str, *root: Any) -> Any:
    """Digits as they are, and in place of any other official set one that is far too small."""
    if name == "digits":
        return REAL(name, *root)
    rng = np.random.default_rng(0)
    train, test = (official.Part(rng.integers(0, 256, (n, 32, 32, 3), np.uint8), np.arange(n) % 10) for n in (80, 20))
    return official.Official(tuple("abcdefghij"), train, test)


@pytest.mark.usefixtures("short_demo")
def test_the_demo_goes_on_with_pictures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(official, "read", some_pictures)
    assert main(["demo", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "Now colour pictures" in told
    assert "halfsure-demo/pictures/report.html" in told


@pytest.mark.usefixtures("short_demo")
def test_the_demo_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def gone(name: str, *root: Any) -> Any:
        if name == "digits":
            return REAL(name, *root)
        raise DataError("nothing can be fetched here")

    monkeypatch.setattr(official, "read", gone)
    monkeypatch.setattr(demo, "get", gone)
    assert main(["demo", "--jobs", "1"]) == 0
    assert "They are left out: nothing can be fetched here" in capsys.readouterr().out
    monkeypatch.setattr(demo, "choose", lambda kind, **about: (None, "no encoder is installed"))
    assert main(["demo", "--jobs", "1"]) == 0
    assert "left out: no encoder is installed" in capsys.readouterr().out
