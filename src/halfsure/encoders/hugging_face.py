"""Networks of the Hugging Face hub by transformers: a folder on this machine first, else a name."""

import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halfsure._disk import file_digest
from halfsure.encoders.encoder import EncoderError, Features, PictureEncoder, checked
from halfsure.settings import register

__all__ = ["HuggingFace"]


@register
class HuggingFace(PictureEncoder):
    """DINOv2, ViT, CLIP and the like: the first token's features, or the pooled ones where a network has such."""

    name = "hf"
    about = "pictures: DINOv2, ViT, CLIP … by transformers, from a folder or the hub"
    argument = "NAME-OR-FOLDER"

    @classmethod
    def missing(cls) -> str:
        """Its package."""
        return "" if importlib.util.find_spec("transformers") else "pip install transformers"

    @classmethod
    def open(cls, argument: str, settings: Any) -> "HuggingFace":
        """Read a folder, or ask the hub; nothing of it is run as code."""
        if missing := cls.missing():
            raise EncoderError(f"hf:{argument} needs transformers; run: {missing}")
        return cls(argument, settings.encoder_side)

    def __init__(self, source: str, side: int | None) -> None:
        from transformers import AutoConfig, AutoImageProcessor, AutoModel  # noqa: PLC0415 - an extra

        try:
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
            processor = AutoImageProcessor.from_pretrained(source, trust_remote_code=False, use_fast=False)
            net = AutoModel.from_pretrained(source, trust_remote_code=False, use_safetensors=True)
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            where = (
                "the folder holds no network that transformers knows"
                if Path(source).is_dir()
                else ("there is no such folder, and the hub cannot be reached or has no such network")
            )
            raise EncoderError(f"hf:{source}: {where} ({str(error).splitlines()[0]:.160})") from None
        self._net = (net.vision_model if hasattr(net, "vision_model") else net).eval().requires_grad_(False)
        vision = getattr(config, "vision_config", config)
        self.side = side or int(getattr(vision, "image_size", 224))
        self.mean, self.std = tuple(processor.image_mean), tuple(processor.image_std)
        self.full_name = f"hf:{Path(source).name if Path(source).is_dir() else source}"
        self.checksum = _digest(source, self._net)
        self.licence = str(getattr(config, "license", "")) or PictureEncoder.licence
        self.dimension = int(self._run(torch.zeros(1, 3, self.side, self.side)).shape[-1])

    def _run(self, samples: Tensor) -> Any:
        with torch.inference_mode():
            found = self._net(pixel_values=samples)
        pooled = getattr(found, "pooler_output", None)
        return pooled.flatten(1) if pooled is not None else found.last_hidden_state[:, 0]

    def encode(self, samples: Tensor) -> Features:
        """(n, 3, side, side), normalised → (n, dimension)."""
        return checked(self, self._run(samples).float().numpy(), len(samples))


def _digest(source: str, net: torch.nn.Module) -> str:
    """Of the weights' file where it is at hand, else of the weights."""
    file = Path(source) / "model.safetensors"
    if file.is_file():
        return file_digest(file)
    import hashlib  # noqa: PLC0415 - rare

    found = hashlib.sha256()
    for name, value in net.state_dict().items():
        found.update(name.encode())
        found.update(value.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
