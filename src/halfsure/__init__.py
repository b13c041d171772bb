"""Semi-supervised classification that knows when it is unsure: ADaptive Sharpening and its rivals."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from halfsure.engine import Run, fit, load
    from halfsure.estimator import SSLClassifier
    from halfsure.methods import method

__version__ = "0.1.0"

__all__ = [
    "ADS",
    "Map",
    "MinEntropy",
    "NegativeSampling",
    "PseudoLabel",
    "Run",
    "SSLClassifier",
    "Sharpening",
    "Target",
    "TopM",
    "ads_loss",
    "entmax",
    "fit",
    "load",
    "method",
    "sharpen",
    "softmax",
    "sparsemax",
    "sparsemax_loss",
    "theory",
]

# The heavier parts, loaded when they are first used: name → module, and whether the name is something in it.
LOADED_WHEN_USED = {
    "theory": ("theory", False),
    "Run": ("engine", True),
    "SSLClassifier": ("estimator", True),
    "fit": ("engine", True),
    "load": ("engine", True),
    "method": ("methods", True),
}


def __getattr__(name: str) -> Any:
    if name not in LOADED_WHEN_USED:
        raise AttributeError(f"module 'halfsure' has no attribute {name!r}")
    place, inside = LOADED_WHEN_USED[name]
    module = import_module(f"halfsure.{place}")
    return getattr(module, name) if inside else module
