"""What every kind of views shares: samples of a kind of data, normalised, in weak and strong views."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data, DataError
from halfsure.settings import parts
from halfsure.settings.registry import Part
from halfsure.views.batch import Views
from halfsure.views.moments import moments, not_constant, seen_samples

if TYPE_CHECKING:
    from halfsure.views.preprocessing import Preprocessing

__all__ = ["ViewMaker", "maker_of", "maker_of_kind", "quick_steps"]


class ViewMaker(Part):
    """The views of one kind of data. Registering one with a `kind` of its own adds that kind of data."""

    role = "views"
    kind: ClassVar[str]
    """The kind of data it is for, `Data.kind`."""
    dimensions: ClassVar[int] = 1
    """Axes of one stored sample."""
    strength: ClassVar[tuple[str, ...]] = ()
    """Settings that are all 0 where there is no strong view."""

    @classmethod
    def takes(cls, data: Data) -> bool:
        """Whether it is for these data."""
        return data.kind == cls.kind

    @classmethod
    def preset(cls, name: str, data: Data) -> dict[str, Any]:
        """Settings for a preset: its own, network and length."""
        steps = {"quick": quick_steps(data, 1000), "cpu": 10_000, "paper": 10_000}
        return {"net": "mlp", "norm": "none", "steps": steps[name]}

    @classmethod
    def measure(cls, data: Data, settings: Any) -> tuple[Sequence[float], Sequence[float]]:
        """What is taken away and divided by, for each entry of a sample's last axis."""
        return not_constant(*moments(data.train.samples, seen_samples(data)))

    @classmethod
    def tensor(cls, samples: NDArray[Any], mean: Sequence[float], std: Sequence[float]) -> Tensor:
        """Stored samples as the network takes them, without randomness, float32."""
        with np.errstate(over="ignore"):
            scaled = ((samples - np.array(mean)) / np.array(std)).astype(np.float32)
        if not np.isfinite(scaled).all():
            raise DataError("rows must be finite numbers, also in float32: fill in what is missing first")
        return torch.from_numpy(scaled)

    @classmethod
    def make(cls, data: Data, preprocessing: "Preprocessing", settings: Any, seed: int) -> Views:
        """The weak view, and the strong one unless it is without any strength."""
        raise NotImplementedError(f"{cls.__name__} does not say what its views are")


def quick_steps(data: Data, at_most: int) -> int:
    """The length of the quick preset, which grows with the data: 60 steps for a hundred samples."""
    return min(max(6 * len(data.train) // 10, 60), at_most)


def maker_of(data: Data) -> type[ViewMaker]:
    """The views that these data have if no others are asked for: the first registered for them."""
    found: list[type[ViewMaker]] = [maker for maker in parts("views").values() if maker.takes(data)]
    if not found:
        raise DataError(f"{data.name} holds samples of the kind {data.kind!r}, and no part is registered for such")
    return found[0]


def maker_of_kind(kind: str) -> type[ViewMaker]:
    """The views for a kind of data."""
    found: list[type[ViewMaker]] = [maker for maker in parts("views").values() if maker.kind == kind]
    if not found:
        raise ValueError(f"there is no kind of data {kind!r:.40} here; load the file that registers it with --parts")
    return found[0]
