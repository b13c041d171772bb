"""The examples run and learn, on data they write themselves."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
STEPS = 60


def names(example: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / example))


def test_plug_into_your_loop_stays_small() -> None:
    assert len((EXAMPLES / "plug_into_your_loop.py").read_text().splitlines()) < 60
    error, candidates = names("plug_into_your_loop.py")["train"](seed=7, ads_weight=0.3)
    assert error < 50  # guessing is 90
    assert 1 <= candidates < 3


@pytest.mark.slow
def test_embeddings(tmp_path: Path) -> None:
    example = names("embeddings.py")
    example["write"](tmp_path / "embeddings.npz")
    model, data = example["train"](tmp_path / "embeddings.npz", steps=STEPS)
    assert model.report_.labels == 60
    assert model.score(data.test.samples, data.test.labels) > 0.6  # guessing is 0.2
    sets = model.predict_set(data.test.samples, coverage=0.9)
    assert np.mean([label in some for label, some in zip(data.test.labels, sets, strict=True)]) > 0.8


@pytest.mark.slow
def test_table(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")
    example = names("table.py")
    truth = example["write"](tmp_path / "orders.csv")
    model = example["train"](tmp_path / "orders.csv", steps=STEPS)
    assert (model.report_.labels, model.report_.unlabeled) == (30, 1970)
    assert np.mean(model.transduction_[30:] == np.array(truth[30:])) > 0.65  # guessing is 0.5
    assert model.transduction_[:30].tolist() == truth[:30]


@pytest.mark.slow
def test_text() -> None:
    example = names("text.py")
    model = example["train"](steps=100)
    assert (model.report_.labels, model.report_.unlabeled) == (30, 1470)
    assert model.score(*example["make"](300, seed=2)) > 0.6  # guessing is 0.33


@pytest.mark.slow
def test_image_folder(tmp_path: Path) -> None:
    example = names("image_folder.py")
    truth = example["write"](tmp_path)
    found, candidates = example["train"](tmp_path, "fixmatch-ads", steps=STEPS)
    assert np.mean(np.array(found) == np.array(truth)) > 0.5  # guessing is 0.1
    assert all(name == some[0] for name, some in zip(found, candidates, strict=True))
