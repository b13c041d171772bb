"""Weights that may be missing here; the tests that need them skip and say how to get them."""

import importlib.util
import os
from pathlib import Path

import pytest

from halfsure.encoders import Encoder, open_encoder
from halfsure.encoders.efficientnet_lite import Lite0
from halfsure.encoders.minilm import MiniLM, minilm_folder

# The session's user may keep MiniLM in the data folder; tests that change the folder ask for this one before.
FOLDER = minilm_folder()


@pytest.fixture(scope="session")
def minilm() -> Encoder:
    if missing := MiniLM.missing():
        pytest.skip(f"minilm is not here; run: {missing}")
    return open_encoder("minilm", encoder_precision="float32")


@pytest.fixture(scope="session")
def minilm_files(minilm: Encoder) -> Path:
    return FOLDER


@pytest.fixture(scope="session")
def lite() -> Encoder:
    """A small one: 64 pixels."""
    if missing := Lite0.missing():
        pytest.skip(f"the weights of efficientnet-lite0 are not here; run: {missing}")
    return open_encoder("efficientnet-lite0", encoder_side=64, encoder_precision="float32")


@pytest.fixture
def empty_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with nothing in it."""
    monkeypatch.setitem(os.environ, "HALFSURE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if not importlib.util.find_spec(name)]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")
