"""Networks of the Hugging Face hub by transformers: a folder on this machine first, else a name."""

import copy
import hashlib
import importlib.util
import inspect
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from halfsure._disk import file_digest, read_json, reason
from halfsure.encoders._hub import cached_or_fetched, is_hub_name
from halfsure.encoders._pieces import Pieces, padded, pooled
from halfsure.encoders.encoder import (
    IMAGENET,
    Encoder,
    EncoderError,
    Features,
    PictureEncoder,
    PictureSettings,
    checked,
    notices_in,
)
from halfsure.encoders.machine import fast_bfloat16
from halfsure.settings import register

__all__ = ["HuggingFace", "HuggingFacePictures", "HuggingFaceTexts"]

LONGEST = 256
"""Pieces of a text that a network reads at a time, if it can read as many."""
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


@register
class HuggingFace(Encoder):
    """DINOv2, ViT, CLIP and the like, and sentence encoders: which of both a folder says."""

    name = "hf"
    about = "pictures or texts: DINOv2, ViT, CLIP, BERT … by transformers, from a folder or the hub"
    argument = "NAME-OR-FOLDER"
    kinds = ("image", "text")
    Settings = PictureSettings

    @classmethod
    def missing(cls) -> str:
        """Its package."""
        return "" if importlib.util.find_spec("transformers") else "pip install 'halfsure[hub]'"

    @classmethod
    def open(cls, argument: str, settings: Any) -> Encoder:
        """Read a folder, or ask the hub; nothing of it is run as code."""
        if missing := cls.missing():
            raise EncoderError(f"hf:{argument} needs transformers; run: {missing}")
        if settings.encoder_precision == "int8":
            raise EncoderError(f"hf:{argument} has no int8; give auto, float32 or bfloat16")
        given = Path(os.path.expanduser(argument))
        if os.path.isdir(given):  # no error for a name that no file can have
            folder, name, origin = given, f"hf:{given.resolve().name}", "here"
        elif is_hub_name(argument):
            folder, name, origin = cached_or_fetched(argument), f"hf:{argument}", "hub"
        else:
            raise EncoderError(f"there is no folder {argument!r:.200}, and the hub has no such names")
        config = _json(folder, "config.json", name)
        kind = HuggingFacePictures if _sees(folder, config) else HuggingFaceTexts
        encoder: Encoder = kind(folder, config, name, settings)
        encoder.origin = origin  # type: ignore[assignment]  # one of both
        return encoder


class HuggingFacePictures(PictureEncoder):
    """A network of pictures: its pooled output where that is one of the trained parts, else its first token's."""

    name = "hf"

    def __init__(self, folder: Path, config: dict[str, Any], name: str, settings: Any) -> None:
        self._folder, self.full_name, self.notices = folder, name, notices_in(folder)
        vision = config["vision_config"] if isinstance(config.get("vision_config"), dict) else config
        own = _side(vision.get("image_size"))
        try:
            self._prepare(_json(folder, "preprocessor_config.json", name, {}), own)
        except (TypeError, ValueError, KeyError) as error:
            raise EncoderError(f"{name}: its preprocessor_config.json cannot be used: {error!s:.100}") from None
        self.side = settings.encoder_side or self.side
        self.licence = _licence(folder, config)
        net, lacks = _read(folder, name)
        self._net = net.vision_model if hasattr(net, "vision_model") else net
        if hasattr(self._net, "pooler") and hasattr(self._net.pooler, "dense"):
            lacks = [key for key in lacks if "pooler." not in key]  # trained for other ends, and not used
            self._pooled = False
        else:
            self._pooled = True
        _whole(lacks, name, "text_model" if hasattr(net, "vision_model") else "")
        resizes = "interpolate_pos_encoding" in inspect.signature(self._net.forward).parameters
        self._more = {"interpolate_pos_encoding": True} if resizes and self.side != own else {}
        self.checksum = _digest(folder)
        self._kind, self.precision = _precision(settings.encoder_precision)
        self._net = self._net.to(self._kind)
        with _sentences(name, f"pictures of {self.side} pixels"):
            self.dimension = int(self._run(torch.zeros(1, 3, self.side, self.side)).shape[-1])

    def _prepare(self, given: dict[str, Any], own: int | None) -> None:
        """Size, crop and normalisation, as the file of the image processor gives them."""
        whole, cut = _side(given.get("size")), _side(given.get("crop_size"))
        crops = given.get("do_center_crop", cut is not None) and cut is not None
        self.side = (cut if crops else whole) or own or 224
        self.crop = min(1.0, self.side / whole) if crops and whole else 1.0
        if not given:
            self.crop = PictureEncoder.crop
        mean, std = (given.get(key, usual) for key, usual in zip(("image_mean", "image_std"), IMAGENET, strict=True))
        if given.get("do_normalize") is False:
            mean, std = (0.0,) * 3, (1.0,) * 3
        self.mean, self.std = _three(mean), _three(std)
        if not 16 <= self.side <= 4096 or min(self.std) <= 0:
            raise ValueError(f"pictures of {self.side} pixels, deviation {self.std}")

    def network(self) -> nn.Module:
        """A copy in float32, to be trained: pictures, normalised → features."""
        return _Pictures(copy.deepcopy(self._net).float().requires_grad_(True), self._pooled, self._more)

    def with_network(self, net: nn.Module) -> Self:
        """The same encoder with the weights of another network of this shape."""
        other = copy.copy(self)
        other._net = copy.deepcopy(net.get_submodule("net")).to(self._kind).eval().requires_grad_(False)
        return other

    def _run(self, samples: Tensor) -> Tensor:
        with torch.inference_mode():
            return _features(self._net, samples.to(self._kind), self._pooled, self._more).float()

    def encode(self, samples: Tensor) -> Features:
        """(n, 3, side, side), normalised → (n, dimension)."""
        return checked(self, self._run(samples).numpy(), len(samples))


class HuggingFaceTexts(Encoder):
    """A network of texts: the mean over the pieces, or their first where its folder says so, of length one."""

    name = "hf"
    kind = "text"

    def __init__(self, folder: Path, config: dict[str, Any], name: str, settings: Any) -> None:
        self._folder, self.full_name, self.notices = folder, name, notices_in(folder)
        self.licence = _licence(folder, config)
        tokenizer = _tokenizer(folder, name)
        places = config.get("max_position_embeddings")
        # RoBERTa and its kin keep two places for themselves.
        self._pieces = Pieces(tokenizer, min(LONGEST, places - 2) if isinstance(places, int) else LONGEST)
        net, lacks = _read(folder, name)
        if getattr(net.config, "is_encoder_decoder", False):
            net = net.get_encoder()
        _whole([key for key in lacks if "pooler." not in key], name)
        self._first = _json(folder, "1_Pooling/config.json", name, {}).get("pooling_mode_cls_token") is True
        self.checksum = _digest(folder)
        self._kind, self.precision = _precision(settings.encoder_precision)
        self._net: nn.Module = _Texts(net.to(self._kind), self._first)
        with _sentences(name, "texts"):
            self.dimension = int(self._run(*self.inputs(["one text"])).shape[-1])

    def network(self) -> nn.Module:
        """A copy in float32, to be trained: pieces and which of them are there → vectors of length one."""
        return copy.deepcopy(self._net).float().requires_grad_(True).eval()

    def inputs(self, samples: Sequence[str]) -> tuple[Tensor, Tensor]:
        """What its network takes: the first part of each text."""
        return padded([self._pieces.parts(text)[0] for text in samples])

    def with_network(self, net: nn.Module) -> Self:
        """The same encoder with the weights of another network of this shape."""
        other = copy.copy(self)
        other._net = copy.deepcopy(net).to(self._kind).eval().requires_grad_(False)
        return other

    def _run(self, pieces: Tensor, there: Tensor) -> Any:
        with torch.inference_mode():
            return self._net(pieces, there).float().numpy()

    def encode(self, samples: Sequence[str]) -> Features:
        """Texts → (n, dimension), each of length one."""
        return checked(self, self._pieces.vectors(samples, self._run), len(samples))


class _Pictures(nn.Module):
    """A network that gives features only."""

    def __init__(self, net: nn.Module, pooled_output: bool, more: dict[str, Any]) -> None:
        super().__init__()
        self.net = net.eval()
        self._pooled, self._more = pooled_output, more

    def forward(self, samples: Tensor) -> Tensor:
        """(n, 3, side, side) → (n, dimension)."""
        return _features(self.net, samples, self._pooled, self._more)


class _Texts(nn.Module):
    def __init__(self, net: nn.Module, first: bool) -> None:
        super().__init__()
        self.net, self.first = net, first

    def forward(self, pieces: Tensor, there: Tensor) -> Tensor:
        """(n, length) numbers, and which of them are there → (n, width)."""
        states = self.net(input_ids=pieces, attention_mask=there.long()).last_hidden_state
        return nn.functional.normalize(states[:, 0], dim=-1) if self.first else pooled(states, there)


def _features(net: nn.Module, samples: Tensor, pooled_output: bool, more: dict[str, Any]) -> Tensor:
    found = net(pixel_values=samples, **more)
    whole: Tensor | None = getattr(found, "pooler_output", None) if pooled_output else None
    if whole is not None:
        return whole.flatten(1)
    states: Tensor = found.last_hidden_state
    return states.mean((2, 3)) if states.ndim == 4 else states[:, 0]


def _sees(folder: Path, config: dict[str, Any]) -> bool:
    """Whether a folder's network takes pictures."""
    return bool({"image_size", "vision_config"} & config.keys()) or (folder / "preprocessor_config.json").is_file()


def _read(folder: Path, name: str) -> tuple[Any, list[str]]:
    """The network in a folder, and which of its weights the file lacks."""
    import transformers  # noqa: PLC0415 - an extra

    if not any(folder.glob("*.safetensors")):
        pickles = [file.name for file in folder.iterdir() if file.suffix in PICKLES]
        why = (
            f"keeps its weights in {pickles[0]}, a pickle, which can run code; save it again with safetensors"
            if pickles
            else "holds no weights in safetensors"
        )
        raise EncoderError(f"the folder of {name} {why}")
    logger: Any = transformers.utils.logging
    before = logger.get_verbosity()
    logger.set_verbosity_error()
    logger.disable_progress_bar()
    try:
        with _sentences(name, "a network that transformers knows"), _offline():
            net, told = transformers.AutoModel.from_pretrained(
                os.fspath(folder),
                trust_remote_code=False,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                dtype=torch.float32,
            )
    finally:
        logger.set_verbosity(before)
        logger.enable_progress_bar()
    if told.get("mismatched_keys"):
        raise EncoderError(f"{name}: its weights do not fit its config.json")
    return net.eval().requires_grad_(False), sorted(map(str, told["missing_keys"]))


def _tokenizer(folder: Path, name: str) -> Any:
    """What cuts texts into pieces, as the package tokenizers has it."""
    from transformers import AutoTokenizer  # noqa: PLC0415 - an extra

    with _sentences(name, "a tokenizer"), _offline():
        found = AutoTokenizer.from_pretrained(os.fspath(folder), trust_remote_code=False, local_files_only=True)
    if getattr(found, "backend_tokenizer", None) is None:
        raise EncoderError(f"{name} has no tokenizer.json; save it with a fast tokenizer")
    return found.backend_tokenizer


@contextmanager
def _sentences(name: str, what: str) -> Iterator[None]:
    """Whatever transformers raises becomes one sentence."""
    try:
        yield
    except EncoderError:
        raise
    except Exception as error:  # a damaged folder can make it raise anything
        raise EncoderError(f"{name} cannot be used for {what}: {type(error).__name__}: {reason(error):.160}") from None


@contextmanager
def _offline() -> Iterator[None]:
    """A folder is read without a word to anybody."""
    from huggingface_hub import constants  # noqa: PLC0415 - an extra

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _whole(lacks: list[str], name: str, unused: str = "") -> None:
    left = [key for key in lacks if not unused or not key.startswith(unused)]
    if left:
        raise EncoderError(f"{name} lacks {len(left)} of its weights, such as {left[0]:.60}: they would be random")


def _precision(asked: str) -> tuple[torch.dtype, str]:
    half = asked == "bfloat16" or (asked == "auto" and fast_bfloat16())
    return (torch.bfloat16, "bfloat16") if half else (torch.float32, "float32")


def _json(folder: Path, file: str, name: str, otherwise: dict[str, Any] | None = None) -> dict[str, Any]:
    path = folder / file
    if otherwise is not None and not path.is_file():
        return otherwise
    try:
        found = read_json(path)
    except OSError:
        raise EncoderError(f"the folder of {name} holds no {file}") from None
    except ValueError as error:
        raise EncoderError(f"{file} of {name} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise EncoderError(f"{file} of {name} holds no settings")
    return found


def _side(size: Any) -> int | None:
    """The side of pictures, as one of the many forms in which it is written."""
    if isinstance(size, dict):
        size = size.get("shortest_edge") or size.get("height")
    if isinstance(size, list | tuple) and size:
        size = size[0]
    return size if isinstance(size, int) and not isinstance(size, bool) else None


def _three(values: Any) -> tuple[float, float, float]:
    one, two, three = (float(value) for value in values)
    return one, two, three


def _licence(folder: Path, config: dict[str, Any]) -> str:
    """As the config or the head of the folder's README states it."""
    stated = config.get("license")
    readme = folder / "README.md"
    if not isinstance(stated, str) and readme.is_file():
        with readme.open("rb") as opened:
            lines = opened.read(4096).decode("utf-8", "replace").splitlines()
        found = [line.partition(":")[2].strip() for line in lines if line.startswith("license:")]
        stated = found[0] if found else None
    return stated[:100] if isinstance(stated, str) and stated else Encoder.licence


def _digest(folder: Path) -> str:
    """Of the one file of weights, else of all of them."""
    files = sorted(folder.glob("*.safetensors"))
    if len(files) == 1:
        return file_digest(files[0])
    digests = json.dumps({file.name: file_digest(file) for file in files}, sort_keys=True)
    return hashlib.sha256(digests.encode()).hexdigest()
