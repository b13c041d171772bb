"""An encoder of one's own from Python: a module, or anything that can be called."""

import hashlib
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from halfsure._disk import reason
from halfsure.encoders.encoder import Encoder, EncoderError, Features, PictureEncoder, checked

__all__ = ["OwnPictures", "OwnTexts", "own"]

Function = Callable[[Any], Any]


def own(
    function: Function,
    kind: Literal["image", "text"],
    *,
    name: str | None = None,
    side: int = 224,
    crop: float = 0.875,
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406),
    std: tuple[float, float, float] = (0.229, 0.224, 0.225),
) -> Encoder:
    """Wrap a module or a function: pictures as a normalised tensor (n, 3, side, side), or a list of texts → features.

    A run remembers its name alone: whoever uses the run gives the encoder again.

    Examples:
        >>> from halfsure.encoders import own
        >>> mean_colour = own(lambda pictures: pictures.mean((2, 3)), "image", side=32)
        >>> mean_colour.dimension
        3
    """
    if not callable(function):
        raise EncoderError(f"an encoder is a module or a function, got {type(function).__name__}")
    if kind not in ("image", "text"):
        raise EncoderError(f"an encoder of your own takes image or text, got {kind!r:.30}")
    if not (
        isinstance(side, int) and 1 <= side <= 4096 and 0 < crop <= 1 and len(mean) == len(std) == 3 and min(std) > 0
    ):
        raise EncoderError("give a side from 1 to 4096, a crop over 0 and up to 1, and three means and deviations")
    called = name or str(getattr(function, "__name__", type(function).__name__))
    if kind == "text":
        return OwnTexts(function, called)
    return OwnPictures(function, called, side=side, crop=crop, mean=mean, std=std)


def _features(function: Function, samples: Any) -> Any:
    try:
        with torch.inference_mode():
            found = function(samples)
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise EncoderError(
            f"your encoder cannot take these samples: {type(error).__name__}: {reason(error)}"
        ) from error
    return found.float().numpy(force=True) if isinstance(found, Tensor) else np.asarray(found)


def _ready(function: Function, name: str) -> tuple[str, str]:
    """Its full name and its checksum: of a module's weights; a function has none but its name."""
    digest = hashlib.sha256(name.encode())
    if isinstance(function, nn.Module):
        function.eval()
        for key, value in function.state_dict().items():
            digest.update(key.encode())
            digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return f"own:{name}", digest.hexdigest()


def _width(encoder: Encoder, found: Any) -> int:
    if found.ndim != 2:
        raise EncoderError(f"{encoder.full_name} gave {found.shape}, not features (n, dimension)")
    return int(found.shape[1])


class _Own(Encoder):
    """A module can be tuned, another function cannot."""

    _function: Function

    def network(self) -> nn.Module:
        """A copy of the module, to be trained."""
        if not isinstance(self._function, nn.Module):
            return super().network()
        return deepcopy(self._function).float().requires_grad_(True)

    def last_blocks(self, net: nn.Module) -> Sequence[nn.Module]:
        """The last part with weights of a module that is a sequence of parts."""
        parts = [part for part in net.children() if any(True for _ in part.parameters())]
        return parts[-1:] if isinstance(net, nn.Sequential) and len(parts) > 1 else super().last_blocks(net)

    def with_network(self, net: nn.Module) -> Self:
        """The same encoder with another module."""
        other = copy(self)
        other._function = deepcopy(net).eval().requires_grad_(False)
        return other


class OwnPictures(_Own, PictureEncoder):
    """A function of pictures."""

    name = "own"

    def __init__(self, function: Function, name: str, *, side: int, crop: float, mean: Any, std: Any) -> None:
        self._function, (self.full_name, self.checksum) = function, _ready(function, name)
        self.side, self.crop, self.mean, self.std = side, crop, tuple(mean), tuple(std)
        self.dimension = _width(self, _features(function, torch.zeros(1, 3, side, side)))

    def encode(self, samples: Tensor) -> Features:
        """(n, 3, side, side), normalised → (n, dimension)."""
        return checked(self, _features(self._function, samples), len(samples))


class OwnTexts(_Own):
    """A function of texts."""

    name = "own"
    kind = "text"

    def __init__(self, function: Function, name: str) -> None:
        self._function, (self.full_name, self.checksum) = function, _ready(function, name)
        self.dimension = _width(self, _features(function, ["one text"]))

    def encode(self, samples: Any) -> Features:
        """A list of texts → (n, dimension)."""
        return checked(self, _features(self._function, list(samples)), len(samples))
