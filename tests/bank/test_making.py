"""Samples through an encoder and the bank: as without the bank, and only what is new."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from halfsure.bank import View, banked, making, views_wanted
from halfsure.bank.making import UnreadableError
from halfsure.bank.view import STRONG_DROP, WEAK_DROP, Drawing
from halfsure.data import DataError
from halfsure.data.official import data_root
from halfsure.data.originals import PictureArray, PictureFiles, Texts, key_of
from halfsure.encoders import EncoderError, own
from halfsure.encoders.squares import square
from halfsure.views import Plain, StrongImage, WeakImage
from tests.bank.scenes import SIDE, counting, pictures, some_features

VIEWS = views_wanted(weak=2, strong=3)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def direct(picture: Any, view: View, seed: int = 0, flip: bool = True) -> Any:
    """The features of one picture in one view, without any bank."""
    number = int.from_bytes(key_of(repr(picture.shape).encode() + picture.tobytes())[:8], "little") >> 1
    squared, levels = square(picture, SIDE, 0.875)[None], {"mean": MEAN, "std": STD}
    if view.kind == "plain":
        drawn = Plain(**levels)(squared)
    elif view.kind == "weak":
        drawn = WeakImage(flip=flip, shift=2, seed=seed, **levels)(squared, [number], view.number)  # type: ignore[arg-type]
    else:
        made = StrongImage(ops=2, flip=flip, shift=2, cutout=8, seed=seed, **levels)  # type: ignore[arg-type]
        drawn = made(squared, [number], view.number)
    return some_features(drawn)[0].numpy().astype(np.float16)


@pytest.mark.parametrize(("seed", "flip"), [(0, True), (7, False)])
def test_features_are_those_of_the_views_without_a_bank(tmp_path: Path, seed: int, flip: bool) -> None:
    images, (encoder, _) = pictures(50), counting()
    rows = banked(PictureArray(images), encoder, VIEWS, seed=seed, flip=flip, folder=tmp_path)
    assert rows.shape == (50, 6)
    assert rows.places.shape == (50, 6)
    for sample in (0, 17, 49):
        for number, view in enumerate(VIEWS):
            expected = direct(images[sample], view, seed, flip)
            np.testing.assert_array_equal(rows.take([sample], [number])[0], expected)


@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=50), min_size=1, max_size=3))
def test_a_sample_is_encoded_once_wherever_it_stands(
    tmp_path_factory: pytest.TempPathFactory, sets: list[list[int]]
) -> None:
    folder, images, (encoder, count), known = tmp_path_factory.mktemp("bank"), pictures(41), counting(), set[int]()
    count.since()
    for chosen in sets:
        rows = banked(PictureArray(images).take(chosen), encoder, VIEWS[:2], folder=folder)
        assert count.since() == 2 * len(set(chosen) - known)
        known |= set(chosen)
        place = len(chosen) // 2
        for number, view in enumerate(VIEWS[:2]):
            np.testing.assert_array_equal(rows.take([place], number)[0], direct(images[chosen[place]], view))


def test_only_what_is_new_is_encoded(tmp_path: Path) -> None:
    images, (encoder, count) = pictures(40), counting()

    def made(*arguments: Any, **settings: Any) -> int:
        banked(PictureArray(images), encoder, *arguments, folder=tmp_path, **settings)
        return count.since()

    count.since()
    assert made(views_wanted(1, 4)) == 40 * 6
    assert made(views_wanted(1, 4)) == 0
    assert made(views_wanted(1, 8)) == 40 * 4
    assert made([View("strong", 2), View("plain")]) == 0
    images[3] += 1
    assert made(views_wanted(1, 8)) == 10
    assert made(views_wanted(1, 8), seed=1) == 40 * 9  # all but the plain view
    assert made(views_wanted(1, 8), flip=False) == 40 * 9


def test_no_samples_and_no_views(tmp_path: Path) -> None:
    encoder, _ = counting()
    assert banked(PictureArray(pictures(0)), encoder, VIEWS, folder=tmp_path).shape == (0, 6)
    assert banked(PictureArray(pictures(3)), encoder, [], folder=tmp_path).views == 0


def test_functions_of_one_name_have_banks_of_their_own(tmp_path: Path) -> None:
    first = own(lambda x: x.mean((2, 3)), "image", side=SIDE)
    second = own(lambda x: x.mean((2, 3)) + 1, "image", side=SIDE)
    images = PictureArray(pictures(2))
    one, two = (banked(images, encoder, VIEWS[:1], folder=tmp_path)[:] for encoder in (first, second))
    np.testing.assert_allclose(one + 1, two, atol=2e-3)


WORDS = st.lists(st.text("abc", min_size=1, max_size=3), max_size=12).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=5), st.integers(0, 3))
def test_views_of_texts_lose_words_but_never_all(texts: list[str], seed: int) -> None:
    drawing, samples = Drawing("text", seed=seed), np.arange(100, 100 + len(texts))
    for view in VIEWS:
        drawn = drawing.texts(texts, view, samples)
        for place, (text, seen) in enumerate(zip(texts, drawn, strict=True)):
            left = iter(text.split())
            assert all(word in left for word in seen.split())  # in the same order
            assert bool(seen.split()) == bool(text.split())
            assert drawing.texts([text], view, samples[[place]]) == [seen]
        assert view.kind != "plain" or drawn == texts


def test_strong_views_of_texts_lose_more_words_and_each_view_others() -> None:
    text, samples = " ".join(map(str, range(2000))), np.array([5])
    seen = {view: Drawing("text").texts([text], view, samples)[0].split() for view in VIEWS}
    assert len(set(map(tuple, seen.values()))) == len(VIEWS)
    for view, words in seen.items():
        drop = {"plain": 0.0, "weak": WEAK_DROP, "strong": STRONG_DROP}[view.kind]
        assert abs(1 - len(words) / 2000 - drop) < 0.04


def test_texts_are_banked_as_pictures_are(tmp_path: Path) -> None:
    encoder, count = counting("text")
    texts = ["a cat sat on a mat", "", "übermäßig", "half a \ud800 pair", "a cat sat on a mat"]
    rows = banked(Texts(texts), encoder, VIEWS, folder=tmp_path)
    assert count.since() == 4 * 6
    np.testing.assert_array_equal(rows[:], [[len(text), text.count("a"), 1] for text in texts])
    np.testing.assert_array_equal(rows.take([0] * 6, range(6)), rows.take([4] * 6, range(6)))


def refused(tmp_path: Path, function: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    encoder = own(some_features, "image", side=SIDE)
    encoder._function = function  # type: ignore[attr-defined]
    encoder.name = "other"  # it is not tried out
    with pytest.raises(error, match=words) as told:
        banked(PictureArray(pictures(40)), encoder, VIEWS, folder=tmp_path)
    assert "\n" not in str(told.value)
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.rows")) == 0


def test_encoders_that_break_their_promise_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    def fails(_: Any) -> Any:
        raise ZeroDivisionError("division by zero")

    refused(tmp_path, lambda x: some_features(x) / 0, EncoderError, "not finite")
    refused(tmp_path, lambda x: some_features(x)[:, :2], EncoderError, r"gave features \(16, 2\)")
    refused(tmp_path, lambda x: some_features(x)[:2], EncoderError, r"not \(16, 6\)")
    refused(tmp_path, fails, EncoderError, "own:some_features failed: ZeroDivisionError: division by zero")
    refused(tmp_path, lambda x: torch.full((len(x), 6), 7e4), DataError, "at most 65,504")


def test_what_has_no_meaning_is_refused(tmp_path: Path) -> None:
    encoder, _ = counting()
    with pytest.raises(DataError, match="takes pictures, and these are texts"):
        banked(Texts(["a"]), encoder, VIEWS, folder=tmp_path)
    with pytest.raises(ValueError, match="workers"):
        banked(PictureArray(pictures(1)), encoder, VIEWS, folder=tmp_path, workers=0)
    with pytest.raises(DataError, match="plain, weak or strong"):
        View("odd")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="one plain view"):
        View("plain", 1)
    with pytest.raises(ValueError, match="number"):
        View("weak", -1)
    with pytest.raises(ValueError, match="weak"):
        views_wanted(-1, 0)


def test_ctrl_c_keeps_what_is_done_and_the_same_call_goes_on(tmp_path: Path) -> None:
    images, (encoder, count) = pictures(100), counting()
    true, left = encoder.encode, [5]

    def stopped(samples: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return true(samples)

    encoder.encode = stopped  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        banked(PictureArray(images), encoder, VIEWS[:1], folder=tmp_path)
    encoder.encode = true  # type: ignore[method-assign]
    count.since()
    rows = banked(PictureArray(images), encoder, VIEWS[:1], folder=tmp_path)
    assert count.since() == 100 - 2 * making.GROUP["image"]  # two whole groups, and half of one
    np.testing.assert_array_equal(rows[:], banked(PictureArray(images), encoder, VIEWS[:1], folder=tmp_path / "b")[:])


def test_what_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfsure.bank.bar.SECONDS", 0.0)
    encoder, _ = counting()
    console = Console(width=200)
    images = PictureArray(pictures(70))
    banked(images, encoder, VIEWS, folder=tmp_path, console=console)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "70 pictures through own:counting at 16 pixels, 6 views each"
    assert len(lines) == 3
    assert all(re.fullmatch(r"\d+ of 70  [\d,.]+ pictures/s  \d+ s left", line) for line in lines)
    banked(images, encoder, VIEWS, folder=tmp_path, console=console)
    assert capsys.readouterr().out == ""
    [bank] = tmp_path.glob("own-*/bank.json")
    bank.write_text("{")
    banked(images.take([0]), encoder, VIEWS[:1], folder=tmp_path, console=console)
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("damaged or of another version, and is made again")
    assert said[1] == "1 picture through own:counting at 16 pixels, 1 view each"
    banked(images.take([0, 1]), encoder, VIEWS[:2], folder=tmp_path, console=console)
    assert "2 pictures through own:counting at 16 pixels, 3 views in all" in capsys.readouterr().out


def test_a_bar_in_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder, _ = counting()
    console = Console(width=200, force_terminal=True)
    banked(PictureArray(pictures(70)), encoder, VIEWS, folder=tmp_path, console=console)
    assert "pictures/s" in capsys.readouterr().out


def test_files_that_cannot_be_read_are_named_together_and_the_others_are_kept(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.png" for i in range(40)]
    for path, image in zip(paths, pictures(40), strict=True):
        Image.fromarray(image).save(path)
    for bad in (3, 35):
        paths[bad].write_bytes(b"no picture" + bytes([bad]))
    encoder, count = counting()
    with pytest.raises(UnreadableError, match="2 of 40 pictures cannot be read") as told:
        banked(PictureFiles(paths), encoder, VIEWS, folder=tmp_path / "bank")
    assert told.value.places.tolist() == [3, 35]
    assert all(f"{paths[bad]}: it is not an image" in str(told.value) for bad in (3, 35))
    good = np.setdiff1d(np.arange(40), told.value.places)
    count.since()
    rows = banked(PictureFiles(paths).take(good), encoder, VIEWS, folder=tmp_path / "bank")
    assert (len(rows), count.since()) == (38, 0)
    with pytest.raises(DataError, match="there is no file"):
        banked(PictureFiles([tmp_path / "none.png"]), encoder, VIEWS, folder=tmp_path / "bank")


def test_much_larger_jpegs_are_decoded_at_a_part_of_their_size(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 640).astype(np.uint8)
    Image.fromarray(np.broadcast_to(ramp[None, :, None], (480, 640, 3))).save(tmp_path / "a.jpg", quality=95)
    files = PictureFiles([tmp_path / "a.jpg"])
    small = replace(files, least=100)[0]
    assert (files[0].shape, small.shape) == ((480, 640, 3), (120, 160, 3))
    assert np.abs(square(files[0], 64, 0.875).astype(int) - square(small, 64, 0.875)).max() <= 3
    assert replace(files, least=481)[0].shape == (480, 640, 3)
    assert files.key(0) == replace(files, least=100).key(0)


WHERE = "from halfsure.bank.making import bank_folder; print(bank_folder())"


def test_tests_and_their_processes_have_a_bank_of_their_own() -> None:
    found = making.bank_folder()
    assert not found.is_relative_to(data_root())
    started = subprocess.run([sys.executable, "-c", WHERE], capture_output=True, text=True, check=True)
    assert started.stdout.strip() == str(found)
    assert Path(os.environ["HALFSURE_BANK"]) == found


def test_the_bank_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HALFSURE_BANK", str(tmp_path / "features"))
    banked(PictureArray(pictures(3)), counting()[0], VIEWS)
    assert [path.name for path in tmp_path.iterdir()] == ["features"]
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HALFSURE_BANK", "~/features")
    assert making.bank_folder() == tmp_path / "features"
    monkeypatch.setenv("HALFSURE_BANK", "")
    assert making.bank_folder() == tmp_path / "data" / "bank"
    monkeypatch.delenv("HALFSURE_BANK")
    assert making.bank_folder() == tmp_path / "data" / "bank"
