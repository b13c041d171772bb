"""The samples that are shown: the right ones, as they are, or a sentence in their place."""

import base64
import io
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import halfsure
from halfsure import report
from halfsure.data import Data, DataError, DataWarning
from halfsure.bank.opening import DataConfig, open_data
from halfsure.report.pictures import Picture, picture
from halfsure.report.samples import choose_ambiguous, choose_mistakes
from halfsure.runs.start import start
from tests.report.helpers import made_up_run, read_page
from tests.training.helpers import images, known, rows, tiny


def digits(seed: int = 0) -> Data:
    return open_data("digits", DataConfig(labels=40, val=100), seed)


def test_the_most_confident_mistakes_by_a_naive_search(trained: Path) -> None:
    run, data = halfsure.load(trained / "fixmatch-ads-s0"), digits()
    chosen = choose_mistakes(run, data)
    assert chosen is not None
    assert data.test is not None
    probs = run.predict_proba(data.test.samples)
    wrong = [(-row.max(), k) for k, row in enumerate(probs) if row.argmax() != data.test.labels[k]]
    surest = sorted(wrong)[:12]
    assert [-round(float(p), 4) for p, _ in surest] == [round(float(row.max()), 4) for row in chosen.probs]
    for place, k in enumerate(chosen.indices):
        assert (chosen.samples[place] == data.test.samples[k]).all()
        assert chosen.probs[place].argmax() != data.test.labels[k] == chosen.labels[place]


def test_the_most_ambiguous_samples_by_a_naive_search(trained: Path) -> None:
    run, data = halfsure.load(trained / "fixmatch-ads-s0"), digits()
    chosen = choose_ambiguous(run, data)
    assert chosen is not None
    assert data.unlabeled is not None
    hidden = [k for k in data.unlabeled.tolist() if k not in set(data.labeled.tolist())]
    sizes = sorted((len(names) for names in run.predict_set(data.train.samples[hidden])), reverse=True)
    assert [int((row > 0).sum()) for row in chosen.probs] == sizes[:12]
    assert set(chosen.indices.tolist()) <= set(hidden)
    margins = [np.sort(row)[-1] - np.sort(row)[-2] for row in chosen.probs]
    for k in range(11):
        same = (chosen.probs[k] > 0).sum() == (chosen.probs[k + 1] > 0).sum()
        assert not same or margins[k] <= margins[k + 1]


def test_without_test_samples_mistakes_are_of_validation_or_unlabeled_ones(trained: Path) -> None:
    run, data = halfsure.load(trained / "fixmatch-ads-s0"), digits()
    for less, part in ((replace(data, test=None), "validation"), (replace(data, test=None, val=None), "unlabeled")):
        chosen = choose_mistakes(run, less)
        assert chosen is not None
        assert chosen.part == part
    nobody = np.full(len(data.train), -1)
    nobody[data.labeled] = data.train.labels[data.labeled]
    unknown = replace(data, test=None, val=None, train=replace(data.train, labels=nobody))
    assert choose_mistakes(run, unknown) is None


def test_pictures_are_the_samples(single: Path) -> None:
    page = read_page(single)
    shown = page.all("img")
    assert len(shown) == 24
    data = digits(seed=1)
    assert data.test is not None
    for image in shown:
        name, source = str(image["alt"]), str(image["src"])
        part = data.test if name.startswith("test") else data.train
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,")))))
        assert (pixels == part.samples[int(name.rsplit(maxsplit=1)[-1]), ..., 0]).all()
    assert "Chosen from 360 test samples." in page.text


def test_the_comparison_shows_the_best_method_and_says_so(whole: Path) -> None:
    page = read_page(whole)
    assert len(page.all("img")) == 24
    assert re.search(r"The run is (supervised|fixmatch-ads) with seed 0: the first seed of the method", page.text)


def test_a_large_photograph_is_made_small() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 100, 3)).astype(np.uint8)
    shown = picture(noise)
    assert isinstance(shown, Picture)
    assert (shown.width, shown.height) == (32, 64)
    assert shown.kind == "photo"
    assert len(shown.png) < 5900  # with the element around it less than 6,000


def test_rows_show_their_first_values() -> None:
    assert picture(np.array([0.5, -2, 1e6, 3, 4, 5, 6], dtype=np.float32)) == "0.5, -2, 1e+06, 3, 4, 5 …"


def test_a_run_begun_from_python_shows_its_samples_if_they_are_given(tmp_path: Path) -> None:
    for name, data in (("images", known(images())), ("rows", rows())):
        start(data, tiny(), out=tmp_path / name)
        page = read_page(report.write([tmp_path / name], tmp_path / "report.html"))
        assert "The samples cannot be shown: the run was begun from Python" in page.text
        assert not page.all("img")
        assert "Begun from Python" in page.text
        page = read_page(report.write([tmp_path / name], tmp_path / "report.html", data=data))
        assert "Most ambiguous unlabeled samples" in page.text
        assert "training sample" in page.text
        assert bool(page.all("img")) == (name == "images")


def test_other_data_than_those_of_the_run_are_refused(tmp_path: Path) -> None:
    start(rows(), tiny(), out=tmp_path / "run")
    moved = replace(rows(), train=replace(rows().train, samples=rows().train.samples + 1))
    for other in (rows(count=90), images(), moved):
        with pytest.raises(DataError):
            report.write([tmp_path / "run"], tmp_path / "report.html", data=other)
    assert not (tmp_path / "report.html").exists()


def test_data_that_moved_or_changed_are_told_in_place_of_pictures(tmp_path: Path) -> None:
    data = images()
    file = tmp_path / "data.npz"
    np.savez(file, X=data.train.samples, y=data.train.labels)
    opened = open_data(str(file), DataConfig(), 0)
    start(opened, tiny(), out=tmp_path / "run", source=str(file), data_config=DataConfig())
    assert read_page(report.write([tmp_path / "run"], tmp_path / "report.html")).all("img")
    np.savez(file, X=255 - data.train.samples, y=data.train.labels)
    text = read_page(report.write([tmp_path / "run"], tmp_path / "report.html")).text
    assert "The samples cannot be shown: the data of" in text
    shutil.move(file, tmp_path / "elsewhere.npz")
    text = read_page(report.write([tmp_path / "run"], tmp_path / "report.html")).text
    assert "The samples cannot be shown:" in text
    assert "data.npz" in text


def test_a_run_without_its_model_still_has_a_page(tmp_path: Path) -> None:
    page = read_page(report.write([made_up_run(tmp_path / "run")], tmp_path / "report.html"))
    assert "The samples cannot be shown:" in page.text


def test_samples_with_an_id_are_shown_by_it(tmp_path: Path) -> None:
    data = rows()
    ids = np.array(
        [f"patient <{k}>/{'very-long-' * 20}" if k % 2 else "" for k in range(len(data.train))], dtype=object
    )
    named = replace(data, train=replace(data.train, ids=ids), test=None)
    run = start(named, tiny(), out=tmp_path / "run")
    chosen = choose_ambiguous(run, named)
    assert chosen is not None
    expected = [ids[k] or f"training sample {k}" for k in chosen.indices.tolist()]
    assert chosen.names.tolist() == expected
    page = read_page(report.write([tmp_path / "run"], tmp_path / "report.html", data=named))
    for name in expected:
        assert name in page.text


def test_pictures_are_called_by_their_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for k in range(12):
        file = tmp_path / "photos" / "ab"[k % 2] / f"{k}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(file)
    data = open_data(str(tmp_path / "photos"), DataConfig(labels=4), 0)
    run = start(data, tiny(steps=2))
    chosen = choose_ambiguous(run, data)
    assert chosen is not None
    files = [f"{'ab'[k % 2]}/{k}.png" for k in range(0, 12, 2)] + [f"b/{k}.png" for k in range(1, 12, 2)]
    assert set(chosen.names) <= set(files)
    assert len(set(chosen.names)) == 8


def test_data_that_are_opened_again_are_not_warned_of_again(tmp_path: Path) -> None:
    same = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    np.savez(tmp_path / "data.npz", X=np.concatenate([same, same]), y=np.arange(40) % 3)
    source = str(tmp_path / "data.npz")
    with pytest.warns(DataWarning, match="20 of 40 training rows are copies of others"):
        data = open_data(source, DataConfig(labels=6), 0)
    start(data, tiny(steps=2), out=tmp_path / "run", source=source, data_config=DataConfig(labels=6))
    page = read_page(report.write([tmp_path / "run"], tmp_path / "report.html"))  # any warning would be an error
    assert "Most ambiguous unlabeled samples" in page.text
