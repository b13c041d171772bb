"""Networks of timm, for pictures: the code from that package, the weights from the hub, as safetensors."""

import copy
import importlib
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from halfsure._disk import file_digest, reason
from halfsure.encoders._hub import cached_or_fetched, is_hub_name
from halfsure.encoders.encoder import EncoderError, Features, PictureEncoder, checked, notices_in
from halfsure.settings import register

__all__ = ["Timm"]

INSTALL = "pip install timm huggingface_hub, and the torchvision built for your torch: another breaks transformers"


@register
class Timm(PictureEncoder):
    """A network by its name in timm, such as vit_small_patch14_dinov2.lvd142m, without its classifier."""

    name = "timm"
    about = "pictures: a network of timm by its name, with the weights it has on the hub"
    argument = "NAME"
    origin = "hub"

    @classmethod
    def missing(cls) -> str:
        """Its package, if that can be imported: it needs a torchvision that fits torch."""
        try:
            importlib.import_module("timm")
        except Exception as error:  # a torchvision that does not fit raises a RuntimeError
            return INSTALL if isinstance(error, ModuleNotFoundError) else f"{INSTALL} (here: {reason(error):.80})"
        return ""

    @classmethod
    def open(cls, argument: str, settings: Any) -> "Timm":
        """Build the network and fill it with weights that no code can hide in."""
        if missing := cls.missing():
            raise EncoderError(f"timm:{argument} needs timm; run: {missing}")
        if settings.encoder_precision in ("int8", "bfloat16"):
            raise EncoderError(f"timm:{argument} is calculated in float32; leave encoder_precision at auto")
        return cls(argument, settings.encoder_side)

    def __init__(self, network: str, side: int | None) -> None:
        timm: Any = importlib.import_module("timm")
        self.full_name = f"timm:{network}"
        try:
            about = timm.create_model(network, pretrained=False, num_classes=0).pretrained_cfg
        except Exception as error:  # timm raises a RuntimeError for an unknown name
            raise EncoderError(f"timm knows no network {network!r:.60}: {reason(error):.120}") from None
        hub = str(about.get("hf_hub_id") or "")
        if not is_hub_name(hub):
            raise EncoderError(f"timm names no place on the hub for the weights of {network!r:.60}")
        folder = cached_or_fetched(hub)
        file = folder / "model.safetensors"
        if not file.is_file():
            raise EncoderError(f"{hub} has no model.safetensors; weights as a pickle can run code, and are refused")
        self._load(timm, network, file)
        self.side = side or int(about["input_size"][-1])
        self.crop = float(about.get("crop_pct", PictureEncoder.crop))
        self.mean, self.std = tuple(about["mean"]), tuple(about["std"])
        self.checksum, self.notices = file_digest(file), notices_in(folder)
        self.licence = str(about.get("license") or PictureEncoder.licence)
        try:
            self.dimension = int(self._run(torch.zeros(1, 3, self.side, self.side)).shape[-1])
        except RuntimeError as error:
            raise EncoderError(f"{self.full_name} cannot take {self.side} pixels: {reason(error):.120}") from None

    def _load(self, timm: Any, network: str, file: Path) -> None:
        given = {"file": str(file)}
        try:
            net: nn.Module = timm.create_model(network, pretrained=True, num_classes=0, pretrained_cfg_overlay=given)
        except Exception as error:  # timm's and torch's own
            raise EncoderError(f"the weights of {self.full_name} do not fit: {reason(error):.120}") from None
        self._net = net.float().eval().requires_grad_(False)

    def network(self) -> nn.Module:
        """A copy to be trained: pictures, normalised → features."""
        return copy.deepcopy(self._net).requires_grad_(True)

    def with_network(self, net: nn.Module) -> Self:
        """The same encoder with the weights of another network of this shape."""
        other = copy.copy(self)
        other._net = copy.deepcopy(net).eval().requires_grad_(False)
        return other

    def _run(self, samples: Tensor) -> Any:
        with torch.inference_mode():
            return self._net(samples).float().numpy()

    def encode(self, samples: Tensor) -> Features:
        """(n, 3, side, side), normalised → (n, dimension)."""
        return checked(self, self._run(samples), len(samples))
