"""Encoders of one's own from Python, torch.export files, and networks of timm."""

import json
import pickle
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from halfsure._disk import file_digest
from halfsure.encoders import EncoderError, PictureEncoder, open_encoder, own, restore, timm_network


def colours(pictures: Tensor) -> Tensor:
    return pictures.mean((2, 3))


class Net(nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layer = nn.Conv2d(3, 6, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, pictures: Tensor) -> Tensor:
        found: Tensor = self.drop(self.layer(pictures)).mean((2, 3))
        return found


def test_a_function_of_pictures_and_one_of_texts() -> None:
    seen = own(colours, "image", side=8)
    assert (seen.kind, seen.dimension, seen.full_name) == ("image", 3, "own:colours")
    assert seen.encode(torch.ones(2, 3, 8, 8)).tolist() == [[1.0] * 3] * 2
    read = own(lambda texts: [[len(text), 1] for text in texts], "text", name="lengths")
    assert read.encode(["a", "abc"]).tolist() == [[1, 1], [3, 1]]
    assert read.notice


def test_a_module_is_known_by_its_weights_and_a_function_by_its_name() -> None:
    one, same, other = (own(Net(seed), "image", side=8) for seed in (0, 0, 1))
    assert one.checksum == same.checksum != other.checksum
    assert (
        own(colours, "image", side=8).checksum
        == own(lambda x: colours(x) + 1, "image", side=8, name="colours").checksum
    )
    x = torch.randn(2, 3, 8, 8)
    np.testing.assert_array_equal(one.encode(x), one.encode(x))  # no dropout


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: torch.full((len(x), 3), torch.nan), "not finite"),
        (lambda x: torch.zeros(len(x), 3 + len(x)), "gave features"),
        (lambda x: torch.zeros(1, 3), "gave features"),
    ],
)
def test_wrong_features_are_refused_when_they_come(function: Any, words: str) -> None:
    with pytest.raises(EncoderError, match=words):
        own(function, "image", side=8).encode(torch.zeros(2, 3, 8, 8))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (3, "a module or a function, got int"),
        (lambda x: x, "not features"),
        (lambda x: x.nothing, "cannot take these samples"),
        (nn.Linear(7, 2), "cannot take these samples"),
    ],
)
def test_what_is_no_encoder_is_refused_at_once(function: Any, words: str) -> None:
    with pytest.raises(EncoderError, match=words):
        own(function, "image", side=8)


def test_nonsense_settings_are_refused() -> None:
    for wrong in ({"side": 0}, {"crop": 0.0}, {"std": (0.0, 1.0, 1.0)}, {"side": 10**6}):
        with pytest.raises(EncoderError, match="give a side"):
            own(colours, "image", **wrong)
    with pytest.raises(EncoderError, match="takes image or text"):
        own(colours, "sound")  # type: ignore[arg-type]


def test_a_run_asks_for_it_again() -> None:
    fields = json.loads(json.dumps(own(Net(), "image", side=8, crop=1.0).as_json()))
    with pytest.raises(EncoderError, match="an encoder of your own, own:Net; give it again"):
        restore(fields)
    again = restore(fields, Net())
    assert isinstance(again, PictureEncoder)
    assert (again.side, again.crop) == (8, 1.0)
    with pytest.raises(EncoderError, match="own:Net of other weights"):
        restore(fields, Net(1))
    with pytest.raises(EncoderError, match="of dimension 6, not 3"):
        restore(fields, own(colours, "image", side=8, name="Net"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    net = Net().eval()
    file = tmp_path_factory.mktemp("exported") / "net.pt2"
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    torch.export.save(torch.export.export(net, (torch.zeros(2, 3, 16, 16),), dynamic_shapes=sizes), file)
    return file, net


@pytest.mark.slow
def test_a_torch_export_file_is_read_when_it_is_trusted(exported: tuple[Path, nn.Module]) -> None:
    file, net = exported
    encoder = open_encoder(f"export:{file}@{file_digest(file)}", encoder_side=16)
    x = torch.randn(3, 3, 16, 16)
    with torch.no_grad():
        np.testing.assert_allclose(encoder.encode(x), net(x), atol=1e-5)
    assert encoder.full_name == "export:net.pt2"


class Touch:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


@pytest.mark.slow
def test_a_hostile_torch_export_file_runs_nothing_until_it_is_trusted(
    exported: tuple[Path, nn.Module], tmp_path: Path
) -> None:
    """That the file is hostile is shown at the end: torch itself runs what is hidden in it."""
    hostile, mark = tmp_path / "net.pt2", tmp_path / "ran"
    with zipfile.ZipFile(exported[0]) as source, zipfile.ZipFile(hostile, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("model_constants_config.json"):
                entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
                content = json.dumps({"config": {"evil": entry}}).encode()
                target.writestr(name.rsplit("/", 1)[0] + "/opaque_obj_0", pickle.dumps(Touch(mark)))
            target.writestr(name, content)
    for name in (f"export:{hostile}", f"export:{hostile}@{'0' * 64}"):
        with pytest.raises(EncoderError, match=r"reading one can run code .* if you know who made it") as refused:
            open_encoder(name)
        assert file_digest(hostile) in str(refused.value)
    assert not mark.exists()
    with suppress(Exception):
        torch.export.load(hostile)
    assert mark.exists()


def test_a_torch_export_file_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "net.pt2"
    file.write_bytes(b"nothing")
    with pytest.raises(EncoderError, match=r"net\.pt2 is a torch.export file"):
        open_encoder(f"export:{file}")
    with pytest.raises(EncoderError, match=r"net\.pt2 cannot take pictures"):
        open_encoder(f"export:{file}@{file_digest(file)}")
    with pytest.raises(EncoderError, match="there is no file"):
        open_encoder(f"export:{tmp_path / 'other.pt2'}")


def test_timm_networks_take_safetensors_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = ModuleType("timm")
    asked = list[Any]()

    def create_model(name: str, **how: Any) -> nn.Module:
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})")
        asked.append(how)
        net = Net()
        about = {"hf_hub_id": "timm/tiny", "input_size": (3, 16, 16), "mean": (0.5,) * 3, "std": (0.5,) * 3}
        net.pretrained_cfg = about | {"crop_pct": 0.9, "license": "mit"}  # type: ignore[assignment]
        return net

    stub.create_model = create_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", stub)
    monkeypatch.setattr(timm_network, "cached_or_fetched", lambda name: tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(EncoderError, match="weights as a pickle can run code, and are refused"):
        open_encoder("timm:tiny")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    encoder = open_encoder("timm:tiny")
    assert isinstance(encoder, PictureEncoder)
    assert (encoder.side, encoder.crop, encoder.dimension, encoder.licence) == (16, 0.9, 6, "mit")
    assert asked[-1]["pretrained_cfg_overlay"] == {"file": str(tmp_path / "model.safetensors")}
    assert encoder.encode(torch.zeros(2, 3, 16, 16)).shape == (2, 6)
    with pytest.raises(EncoderError, match="timm knows no network 'huge'"):
        open_encoder("timm:huge")


def test_without_timm_the_install_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(EncoderError, match="needs timm; run: pip install timm"):
        open_encoder("timm:resnet18")
