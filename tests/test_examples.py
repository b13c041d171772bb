"""The examples run and learn, on data they write themselves."""

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def names(example: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / example))


def test_plug_into_your_loop_stays_small() -> None:
    assert len((EXAMPLES / "plug_into_your_loop.py").read_text().splitlines()) < 60
    error, candidates = names("plug_into_your_loop.py")["train"](seed=7, ads_weight=0.3)
    assert error < 50  # guessing is 90
    assert 1 <= candidates < 3


def test_embeddings(tmp_path: Path) -> None:
    example = names("embeddings.py")
    example["write"](tmp_path / "embeddings.npz")
    assert example["train"](tmp_path / "embeddings.npz", 1.0) < 33  # guessing is 67


def test_table(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")
    example = names("table.py")
    truth = example["write"](tmp_path / "orders.csv")
    assert example["train"](tmp_path / "orders.csv", truth, 0.3) < 40  # guessing is 50


def test_image_folder(tmp_path: Path) -> None:
    example = names("image_folder.py")
    truth = example["write"](tmp_path)
    assert example["train"](tmp_path, truth, 1.0) < 30  # guessing is 90
