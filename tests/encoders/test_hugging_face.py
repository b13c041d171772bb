"""Folders of the Hugging Face kind: pictures and texts, no code, no pickles, no network unless a name asks for it."""

import importlib
import json
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from halfsure.encoders import EncoderError, PictureEncoder, open_encoder, restore
from halfsure.encoders._hub import is_hub_name

transformers: Any = pytest.importorskip("transformers", reason="needs the extra halfsure[hub]")
constants: Any = importlib.import_module("huggingface_hub.constants")
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
SEEN = SMALL | {"image_size": 32, "patch_size": 8}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers.utils.logging.disable_progress_bar()


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever connects anywhere fails the test."""

    def connect(*_: Any) -> None:
        pytest.fail("something asked the network")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)


def saved(net: Any, folder: Path, **processor: Any) -> Path:
    torch.manual_seed(0)
    net.save_pretrained(folder)
    if processor:
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def vit(folder: Path) -> Path:
    halves = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 32, "width": 32}}
    return saved(transformers.ViTModel(transformers.ViTConfig(**SEEN)), folder, **halves)


@pytest.mark.usefixtures("offline")
def test_vit_gives_its_first_token(tmp_path: Path) -> None:
    encoder = open_encoder(f"hf:{vit(tmp_path / 'vit')}", encoder_precision="float32")
    assert isinstance(encoder, PictureEncoder)
    assert (encoder.side, encoder.crop, encoder.mean) == (32, 1.0, (0.5,) * 3)
    x = torch.randn(2, 3, 32, 32)
    net = transformers.ViTModel.from_pretrained(tmp_path / "vit").eval()
    with torch.no_grad():
        wanted = net(pixel_values=x).last_hidden_state[:, 0]
    np.testing.assert_allclose(encoder.encode(x), wanted, atol=1e-5)
    larger = open_encoder(f"hf:{tmp_path / 'vit'}", encoder_side=64)
    assert larger.encode(torch.randn(1, 3, 64, 64)).shape == (1, 32)


@pytest.mark.usefixtures("offline")
def test_dinov2_crops_as_its_file_says(tmp_path: Path) -> None:
    config = transformers.Dinov2Config(**SMALL | {"image_size": 28, "patch_size": 14})
    processor = {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}, "do_center_crop": True}
    folder = saved(transformers.Dinov2Model(config), tmp_path / "dino", **processor)
    encoder = open_encoder(f"hf:{folder}")
    assert isinstance(encoder, PictureEncoder)
    assert (encoder.side, encoder.crop) == (224, 0.875)


@pytest.mark.usefixtures("offline")
def test_of_clip_the_half_that_sees_is_taken(tmp_path: Path) -> None:
    words = SMALL | {"vocab_size": 64, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config = transformers.CLIPConfig(vision_config=SEEN, text_config=words)
    encoder = open_encoder(f"hf:{saved(transformers.CLIPModel(config), tmp_path / 'clip')}")
    assert (encoder.kind, encoder.dimension) == ("image", 32)


@pytest.mark.usefixtures("offline")
def test_sentence_encoders_are_texts(minilm: Any, minilm_files: Path) -> None:
    encoder = open_encoder(f"hf:{minilm_files}", encoder_precision="float32")
    texts = ["a few words", "many words " * 300, ""]
    assert encoder.kind == "text"
    np.testing.assert_allclose(encoder.encode(texts), minilm.encode(texts), atol=2e-5)
    assert encoder.checksum == minilm.checksum
    assert "Apache License" in encoder.notice


@pytest.mark.usefixtures("offline")
def test_weights_that_would_be_random_are_refused(tmp_path: Path) -> None:
    file = vit(tmp_path / "vit") / "model.safetensors"
    weights = load_file(file)
    save_file({name: value for name, value in weights.items() if "layernorm.weight" not in name}, file)
    with pytest.raises(EncoderError, match="would be random"):
        open_encoder(f"hf:{tmp_path / 'vit'}")


@pytest.mark.usefixtures("offline")
def test_pickles_and_code_are_refused(tmp_path: Path) -> None:
    folder = vit(tmp_path / "vit")
    config = json.loads((folder / "config.json").read_text())
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    own = config | {"model_type": "evil", "auto_map": {"AutoConfig": "evil.C", "AutoModel": "evil.M"}}
    (folder / "config.json").write_text(json.dumps(own))
    with pytest.raises(EncoderError, match="hf:vit"):
        open_encoder(f"hf:{folder}")
    assert not (tmp_path / "ran").exists()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(EncoderError, match="a pickle, which can run code; save it again with safetensors"):
        open_encoder(f"hf:{folder}")


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", '{"model_type": "nothing", "image_size": 3}'),
        ("config.json", '{"model_type": "vit", "image_size": 32, "hidden_size": -1}'),
        ("preprocessor_config.json", '{"image_mean": [1], "image_std": [0, 0, 0]}'),
        ("preprocessor_config.json", '{"size": 999999999}'),
        ("preprocessor_config.json", '{"image_std": [0, 0, 0]}'),
        ("model.safetensors", "nothing"),
    ],
)
def test_damaged_folders_end_in_a_sentence(tmp_path: Path, file: str, content: str) -> None:
    folder = vit(tmp_path / "vit")
    (folder / file).write_text(content)
    with pytest.raises(EncoderError, match="hf:vit"):
        open_encoder(f"hf:{folder}")


def test_an_unreachable_hub_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    start = time.monotonic()
    with pytest.raises(EncoderError, match="no such folder here, and the hub cannot be reached"):
        open_encoder("hf:nobody/nothing")
    assert time.monotonic() - start < 5


@pytest.mark.slow
def test_a_hub_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        start = time.monotonic()
        with pytest.raises(EncoderError, match="the hub cannot be reached"):
            open_encoder("hf:nobody/nothing")
        assert time.monotonic() - start < 5


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", ["/no/where", "./here", "../x", "a/b/c", "~/net", "a b", "x" * 500])
def test_a_path_never_asks_the_hub(name: str) -> None:
    assert not is_hub_name(name)
    with pytest.raises(EncoderError, match="there is no folder"):
        open_encoder(f"hf:{name}")


@pytest.mark.usefixtures("offline")
def test_a_run_gets_its_folder_again_and_no_other(tmp_path: Path) -> None:
    fields = json.loads(json.dumps(open_encoder(f"hf:{vit(tmp_path / 'vit')}", encoder_side=64).as_json()))
    assert str(tmp_path) not in json.dumps(fields)
    again = restore(fields, tmp_path / "vit")
    assert isinstance(again, PictureEncoder)
    assert again.side == 64
    with pytest.raises(EncoderError, match="vit is not in this folder; say where it is, as --encoder hf:"):
        restore(fields)
    torch.manual_seed(5)
    other = saved(transformers.ViTModel(transformers.ViTConfig(**SEEN)), tmp_path / "other")
    with pytest.raises(EncoderError, match="was made with hf:vit of other weights"):
        restore(fields, other)
