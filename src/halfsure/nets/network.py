"""What every network of halfsure shares: a name with sizes in it, settings, and features beside logits."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from torch import Tensor, nn

from halfsure.nets.layers import Head, Norm
from halfsure.settings import Between, Settings
from halfsure.settings.registry import Part

__all__ = ["DropoutSettings", "Network", "NetworkSettings"]


@dataclass(frozen=True)
class NetworkSettings(Settings):
    """What every network can be told."""

    norm: Norm = "none"
    """Norm layers. With very few labels batch norm is what breaks VAT."""


@dataclass(frozen=True)
class DropoutSettings(NetworkSettings):
    """What a network with dropout can be told."""

    dropout: Annotated[float, Between(0, 0.99, why="more would leave nothing")] | None = None
    """Dropout rate; the network's own if not given."""


class Network(Part, nn.Module):
    """Samples → logits, by way of features. (n, …) → (n, classes).

    A subclass has a submodule `head` and gives `features`; `sized` says how it is built from the numbers in its name.
    """

    role = "network"
    usage: ClassVar[str]
    """The name with its sizes: WRN's is wrn-DEPTH-WIDTH. Brackets hold what may be left out."""
    examples: ClassVar[tuple[str, ...]]
    Settings = NetworkSettings
    dimensions: ClassVar[tuple[int, ...]] = (3,)
    """How many axes a stored sample may have: 3 for images, 1 for rows."""
    smallest: ClassVar[int] = 0
    """Pixels a side that an image must have."""
    head: Head

    @classmethod
    def sized(cls, sizes: tuple[int, ...], shape: tuple[int, ...], classes: int, **settings: Any) -> "Network":
        """The network of these sizes; here for images, with a width that may be left out."""
        return cls(shape[-1], classes, *sizes, **settings)

    @classmethod
    def takes(cls, sizes: tuple[int, ...]) -> bool:
        """Whether a name may have these sizes."""
        return len(sizes) <= 1

    def features(self, x: Tensor) -> Tensor:
        """What the last layer sees. (n, …) → (n, features)."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its features are")

    def forward(self, x: Tensor) -> Tensor:
        """Samples → logits. (n, …) → (n, classes)."""
        logits: Tensor = self.head(self.features(x))
        return logits
