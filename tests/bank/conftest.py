"""Toy encoders, known for a while; their file is not collected, or they would be known to every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.loaded import toy_parts

collect_ignore = ["toy_encoders.py"]
TOY = Path(__file__).with_name("toy_encoders.py")


@pytest.fixture
def toy_encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Toy encoders, and a bank of the test's own."""
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path / "kept"))
    monkeypatch.delenv("HALFSURE_BANK")
    with toy_parts(TOY):
        yield
