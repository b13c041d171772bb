"""Semi-supervised classification that knows when it is unsure: ADaptive Sharpening and its rivals."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from halfsure.distill import (
    ADS,
    MinEntropy,
    NegativeSampling,
    PseudoLabel,
    Sharpening,
    Target,
    TopM,
    ads_loss,
    sharpen,
)
from halfsure.simplex import Map, entmax, softmax, sparsemax, sparsemax_loss

if TYPE_CHECKING:
    from halfsure import theory

__version__ = "0.1.0"

__all__ = [
    "ADS",
    "Map",
    "MinEntropy",
    "NegativeSampling",
    "PseudoLabel",
    "Sharpening",
    "Target",
    "TopM",
    "ads_loss",
    "entmax",
    "sharpen",
    "softmax",
    "sparsemax",
    "sparsemax_loss",
    "theory",
]

LOADED_WHEN_USED = {"theory"}


def __getattr__(name: str) -> ModuleType:
    if name in LOADED_WHEN_USED:
        return import_module(f"halfsure.{name}")
    raise AttributeError(f"module 'halfsure' has no attribute {name!r}")
