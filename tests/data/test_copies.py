"""Copies and near copies: found as a loop over all pairs finds them, told with names, and not where there are none."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from halfsure.data import DataWarning, copies
from halfsure.data.arrays import read_npz
from halfsure.data.copies import near_copies, of_pictures, of_rows
from halfsure.data.image_folder import read_folder

RNG = np.random.default_rng(0)


def naive(values: NDArray[np.float32]) -> list[int]:
    """The first sample of each chain of near copies, by comparing all pairs."""
    first = list(range(len(values)))
    for j in range(len(values)):
        for i in range(j):
            if np.abs(values[i] - values[j]).max() <= 1:
                low, high = sorted((first[i], first[j]))
                first = [low if f == high else f for f in first]
    return first


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 30))
def test_exact_copies_are_all_found(seed: int, width: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    originals = (1000 * rng.normal(size=(count, width))).astype(np.float32)
    values = originals[rng.integers(0, count, 3 * count)]
    assert near_copies(values).tolist() == naive(values)


def test_near_copies_are_nearly_all_found_and_nothing_else() -> None:
    originals = (200 * RNG.normal(size=(150, 20))).astype(np.float32)
    values = np.concatenate([originals, originals[:100] + RNG.uniform(-1, 1, (100, 20)).astype(np.float32) / 2])
    found, wanted = near_copies(values), np.array(naive(values))
    assert (found[found != np.arange(250)] == wanted[found != np.arange(250)]).all()
    assert (found == wanted).mean() > 0.98
    assert (wanted != np.arange(250)).sum() == 100


def test_pictures_are_compared_by_means_of_their_parts() -> None:
    images = RNG.integers(0, 256, (4, 17, 30, 3), dtype=np.uint8)
    rows, columns = (np.linspace(0, side, 9).astype(int) for side in (17, 30))
    expected = [
        image[rows[i] : rows[i + 1], columns[j] : columns[j + 1], c].mean() / copies.GREY
        for image in images
        for i in range(8)
        for j in range(8)
        for c in range(3)
    ]
    np.testing.assert_allclose(of_pictures(images).ravel(), expected, rtol=1e-5)
    assert of_pictures(images[:, :5, :3]).shape == (4, 5 * 3 * 3)


def test_only_so_many_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MOST", 10)
    assert len(of_pictures(np.zeros((30, 4, 4, 1), np.uint8))) == 10
    assert len(of_rows(np.zeros((30, 4), np.float32))) == 10
    monkeypatch.setattr(copies, "MOST_BYTES", 64)
    assert len(of_pictures(np.zeros((30, 4, 4, 1), np.uint8))) == 4
    assert len(of_rows(np.zeros((30, 4), np.float32))) == 4


def heard(work: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    assert all(one.category is DataWarning for one in found)
    return [str(one.message) for one in found]


def pictures(folder: Path, count: int, seed: int) -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    smooth = rng.integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)
    found = [np.asarray(Image.fromarray(one).resize((40, 40), Image.Resampling.BICUBIC)) for one in smooth]
    for k, one in enumerate(found):
        (folder / "ab"[k % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(one).save(folder / "ab"[k % 2] / f"{k}.png")
    return found


def test_pictures_saved_again_are_told_with_their_files(tmp_path: Path) -> None:
    first = pictures(tmp_path / "labeled", 30, 0)
    pictures(tmp_path / "test", 20, 1)
    assert heard(lambda: read_folder(tmp_path)) == []
    for k in (2, 4):
        Image.fromarray(first[k]).save(tmp_path / "test" / "b" / f"again{k}.jpg", quality=90)
        Image.fromarray(first[k + 1]).resize((80, 80)).save(tmp_path / "labeled" / "b" / f"large{k}.png")
    training, test = heard(lambda: read_folder(tmp_path, size=40))
    assert training.startswith("2 of 32 training pictures are copies of others, or nearly: labeled/b/large")
    assert "--group-column" in training
    assert test.startswith("2 of 22 test pictures are training pictures too, or nearly: ")
    assert "test/b/again2.jpg and labeled/a/2.png; they make the test error look better: remove them" in test


@pytest.mark.parametrize("seed", range(3))
def test_rounded_rows_are_told_and_rows_alike_by_chance_are_not(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)

    def said(**arrays: Any) -> list[str]:
        np.savez(tmp_path / "x.npz", **arrays)
        return heard(lambda: read_npz(tmp_path / "x.npz"))

    rows, labels = rng.normal(size=(100, 6)), np.arange(100) % 2
    new = rng.normal(size=(40, 6))
    assert said(X=rows, y=labels, X_test=new, y_test=labels[:40]) == []
    [one] = said(X=np.concatenate([rows, rows[:5].round(4)]), y=np.arange(105) % 2)
    assert one.startswith(
        "5 of 105 training rows are copies of others, or nearly: training row 100 and training row 0;"
    )
    [two] = said(X=rows, y=labels, X_test=np.concatenate([new, rows[7:9]]), y_test=labels[:42])
    assert two.startswith("2 of 42 test rows are training rows too, or nearly: test row 40 and training row 7;")
    coins = rng.integers(0, 2, (100, 3))
    assert said(X=coins, y=labels, X_test=coins[:50], y_test=labels[:50]) == []
    assert said(X=np.zeros((100, 3)), y=labels) == []
    assert said(X=rows[:, :1], y=labels, X_test=new[:, :1], y_test=labels[:40]) == []


def test_digits_have_no_copies(tmp_path: Path) -> None:
    images, labels = (load_digits().images * 15).astype(np.uint8), load_digits().target
    np.savez(tmp_path / "d.npz", X=images[:1437], y=labels[:1437], X_test=images[1437:], y_test=labels[1437:])
    assert heard(lambda: read_npz(tmp_path / "d.npz")) == []


def test_texts_that_differ_in_case_and_space_alone_are_copies() -> None:
    pd = pytest.importorskip("pandas")
    from halfsure.data.tables import read_frame  # noqa: PLC0415 - after the check for pandas

    texts = [f"it was number {k} of all, and {k * k} the next" for k in range(60)]
    frame = pd.DataFrame({"text": texts, "y": ["a", "b"] * 30})
    assert heard(lambda: read_frame(frame, "y")) == []
    again = pd.DataFrame({"text": [texts[4].upper(), f"  {texts[9]}"], "y": ["a", "b"]})
    [said] = heard(lambda: read_frame(pd.concat([frame, again]), "y"))
    assert said.startswith("2 of 62 training rows are copies of others, or nearly: training row 60 and training row 4;")
