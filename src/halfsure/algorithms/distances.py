"""How far a prediction is from a target that another view of the sample gave: (map, logits, targets) → losses."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from halfsure.simplex import Map, map_loss
from halfsure.targets import kl

__all__ = ["DISTANCES", "Distance", "distance_of"]


def _squared(map: Map, logits: Tensor, targets: Tensor) -> Tensor:
    return (map(logits) - targets).square().mean(-1)


def _clamped_kl(map: Map, logits: Tensor, targets: Tensor) -> Tensor:
    return kl(targets, map(logits).clamp(min=1e-8))


DISTANCES: dict[str, Callable[[Map, Tensor, Tensor], Tensor]] = {
    "fy": map_loss,
    "l2": _squared,
    "kl": _clamped_kl,
}
"""`fy`, the map's own Fenchel–Young loss; `l2`, squared differences, averaged over classes; `kl`, clamped at 1e-8."""


Distance = Literal["fy", "l2", "kl"]


def distance_of(name: str) -> Callable[[Map, Tensor, Tensor], Tensor]:
    """Find a distance by its name."""
    if name not in DISTANCES:
        raise ValueError(f"a distance is one of {', '.join(DISTANCES)}, got {name!r}")
    return DISTANCES[name]
