"""Toy encoders, known for a while; their file is not collected, or they would be known to every test."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tests.parts.loaded import toy_parts

collect_ignore = ["toy_encoders.py"]
TOY = Path(__file__).with_name("toy_encoders.py")
COLOURS = {"red": (200, 60, 60), "blue": (60, 60, 200)}


@pytest.fixture
def toy_encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Toy encoders, and a bank of the test's own."""
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path / "kept"))
    monkeypatch.delenv("HALFSURE_BANK")
    with toy_parts(TOY):
        yield


def pixels(colour: str, number: int) -> NDArray[np.uint8]:
    noise = np.random.default_rng([number, len(colour)]).normal(0, 70, (26, 30, 3))
    return (np.array(COLOURS[colour]) + noise).clip(0, 255).astype(np.uint8)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for part, count in (("train", 12), ("test", 4)):
        for colour in COLOURS:
            folder = tmp_path / "photos" / part / colour
            folder.mkdir(parents=True)
            for number in range(count):
                Image.fromarray(pixels(colour, number + 100 * (part == "test"))).save(folder / f"{number:02}.png")
    return tmp_path / "photos"
