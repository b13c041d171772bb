"""What every encoder shares: pictures or texts → features, by a network that somebody else has trained."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from halfsure._disk import file_digest
from halfsure.data.files import DataError
from halfsure.settings import Between, Settings, parts
from halfsure.settings.registry import Part

__all__ = [
    "IMAGENET",
    "Encoder",
    "EncoderError",
    "EncoderSettings",
    "Features",
    "PictureEncoder",
    "PictureSettings",
    "check_weights",
    "checked",
    "notices_in",
]

Features = NDArray[np.float32]
Kind = Literal["image", "text"]
Precision = Literal["auto", "float32", "bfloat16", "int8"]
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and deviation of ImageNet's pixels, which most networks were trained with."""
LONGEST_NOTICE = 2**20


class EncoderError(DataError):
    """An encoder that is not there, or is not what it should be; says what to do."""


@dataclass(frozen=True)
class EncoderSettings(Settings):
    """What every encoder can be told."""

    encoder_precision: Precision = "auto"
    """How the encoder calculates: auto takes what is fast here and as good as float32; int8 is faster still, and loses
    a little."""


class Encoder(Part):
    """A pretrained network, opened and ready to use. Registering one makes it known to `--encoder`.

    One that has an `argument` is a family, and what follows its name and a colon says which: `onnx:FILE`.
    """

    role = "encoder"
    spelling = re.compile(r"[a-z][a-z0-9-]*")
    Settings = EncoderSettings
    kind: ClassVar[Kind]
    """What it takes; a family of both kinds has none until it is opened."""
    kinds: ClassVar[tuple[Kind, ...]] = ()
    """What a family of both kinds takes."""
    any_side: ClassVar[bool] = False
    """Whether pictures may be shown to it at any size: then their own decides."""
    argument: ClassVar[str] = ""
    """What follows the colon, as help shows it; empty if the name is all there is."""
    licence: str = "not stated by its file; see where it came from"
    dimension: int
    """How many features a sample has."""
    checksum: str
    """SHA-256 of the weights: other weights give other features."""
    opened_as: tuple[str, dict[str, Any]] | None = None
    """The name and the settings by which another process opens the same; None where there is no such way."""
    precision: str = "float32"
    """What it calculates in here, and by what."""
    asked: Precision = "auto"
    """The precision that was asked for: a run's encoder is opened with it again."""
    full_name: str
    """With the last name of the argument, no path of this machine; and how it was tuned."""
    changed: Mapping[str, Tensor] = MappingProxyType({})
    """The weights that tuning changed, as they are kept in a run; none in an encoder as it came."""
    untuned_checksum: str = ""
    """Of the encoder that was tuned; empty in an encoder as it came."""
    size: ClassVar[str] = ""
    """Of the weights, as a list of encoders shows it."""
    origin: Literal["", "here", "hub"] = ""
    """Where a family's argument was found: a file or folder of this machine, or the hub."""
    notices: tuple[Path, ...] = ()
    """Files with the licence and the notice of the weights."""

    @property
    def notice(self) -> str:
        """What must travel with the weights: the texts of their licence and notice; the licence's name if none came."""
        texts = [_text(file) for file in self.notices]
        return "\n\n".join(text for text in texts if text) or self.licence

    @classmethod
    def missing(cls) -> str:
        """What to run so that it can be used here; empty if it can be."""
        return ""

    @classmethod
    def open(cls, argument: str, settings: Any) -> "Encoder":
        """Read the weights; `EncoderError` where that cannot be."""
        raise NotImplementedError(f"{cls.__name__} does not say how it is opened")

    def encode(self, samples: Any) -> Features:
        """A batch → (n, dimension): texts as a list, pictures as a normalised tensor (n, 3, side, side)."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it encodes")

    def network(self) -> nn.Module:
        """A copy of its network in float32, to be trained: what `inputs` makes of samples → (n, dimension)."""
        tunable = sorted(name for name, part in parts("encoder").items() if part.network is not Encoder.network)
        raise EncoderError(
            f"{self.full_name} cannot be tuned: tuning needs an encoder whose network can be trained here: "
            f"{', '.join(tunable)}, or a torch module of your own"
        )

    def inputs(self, samples: Any) -> tuple[Any, ...]:
        """What its network takes, of a batch as `encode` gets it."""
        return (samples,)

    def last_blocks(self, net: nn.Module) -> Sequence[nn.Module]:
        """The parts of its network that are trained where only its last blocks are to be."""
        raise EncoderError(f"{self.full_name} does not say which of its blocks are the last: take tune all or pairs")

    def continuous(self, samples: Any) -> Tensor:
        """A batch as one tensor that can be perturbed and mixed, as `through` takes it. → (n, …)."""
        raise EncoderError(
            f"{self.full_name} cannot be trained together with a classifier: its samples are no tensor that could be "
            "perturbed and mixed; take tune pairs or none"
        )

    @staticmethod
    def through(net: nn.Module, x: Tensor) -> Tensor:
        """What its network makes of what `continuous` gave. (n, …) → (n, dimension)."""
        found: Tensor = net(x)
        return found

    def with_network(self, net: nn.Module) -> Self:
        """The same encoder with the weights of another network of this shape."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its network is replaced")

    def as_json(self) -> dict[str, Any]:
        """What a bank, a run and an export say of it."""
        asked = {"asked": self.asked} if self.asked != "auto" else {}
        tuned = {"tuned_from": self.untuned_checksum} if self.untuned_checksum else {}
        return {
            "name": self.full_name,
            "origin": self.origin,
            "kind": self.kind,
            "dimension": self.dimension,
            "sha256": self.checksum,
            "precision": self.precision,
            **asked,
            "licence": self.licence,
            **tuned,
        }


@dataclass(frozen=True)
class PictureSettings(EncoderSettings):
    """What encoders of pictures can be told."""

    encoder_side: Annotated[int | None, Between(16, 1024)] = None
    """Side of the pictures that the encoder sees, in pixels; by their own size if not given."""


class PictureEncoder(Encoder):
    """An encoder of pictures: each is scaled, cropped in the middle and normalised."""

    kind = "image"
    Settings = PictureSettings
    side: int = 224
    crop: float = 0.875
    """The part of the shorter side that the square in the middle has."""
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def encode(self, samples: Tensor) -> Features:
        """(n, 3, side, side), normalised → (n, dimension)."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it encodes")

    def continuous(self, samples: Tensor) -> Tensor:
        """Normalised pictures are such a tensor."""
        return samples

    def as_json(self) -> dict[str, Any]:
        """What a bank, a run and an export say of it."""
        return super().as_json() | {"side": self.side, "crop": self.crop, "mean": self.mean, "std": self.std}


def checked(encoder: Encoder, features: Any, count: int) -> Features:
    """What an encoder gave, if that is what it promised."""
    found = np.asarray(features, np.float32)
    if found.shape != (count, encoder.dimension):
        raise EncoderError(
            f"{encoder.full_name} gave features {found.shape} for {count} samples, not {(count, encoder.dimension)}"
        )
    if not np.isfinite(found).all():
        raise EncoderError(f"{encoder.full_name} gave features that are not finite: look at the samples")
    return found


def check_weights(file: Path, wanted: str, name: str, install: str) -> None:
    """Refuse weights that are not the published ones."""
    if not file.is_file():
        raise EncoderError(f"the weights of {name} are not there; {install}")
    if file_digest(file) != wanted:
        raise EncoderError(f"the weights of {name} in {file.name} are damaged or not the published ones; {install}")


def notices_in(folder: Path) -> tuple[Path, ...]:
    """The files of a folder that say how its weights may be used."""
    names = re.compile(r"(LICEN[CS]E|NOTICE|COPYING)([.-].*)?", re.IGNORECASE)
    return tuple(sorted(file for file in folder.iterdir() if names.fullmatch(file.name) and file.is_file()))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(LONGEST_NOTICE).decode("utf-8", "replace").strip()
    except OSError:
        return ""
