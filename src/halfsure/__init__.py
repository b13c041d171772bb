"""Semi-supervised classification that knows when it is unsure: ADaptive Sharpening and its rivals."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfsure import theory
    from halfsure.estimator import SSLClassifier
    from halfsure.methods import method
    from halfsure.runs import Run, fit, load
    from halfsure.settings import register
    from halfsure.simplex import Map, entmax, softmax, sparsemax, sparsemax_loss
    from halfsure.targets import (
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

__version__ = "0.2.0.dev0"

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
    "register",
    "sharpen",
    "softmax",
    "sparsemax",
    "sparsemax_loss",
    "theory",
]

# Everything is loaded when it is first used, for all of it needs torch: module → the names that are in it.
PLACES = {
    "targets": (
        *("ADS", "MinEntropy", "NegativeSampling", "PseudoLabel", "Sharpening", "Target", "TopM"),
        *("ads_loss", "sharpen"),
    ),
    "simplex": ("Map", "entmax", "softmax", "sparsemax", "sparsemax_loss"),
    "runs": ("Run", "fit", "load"),
    "estimator": ("SSLClassifier",),
    "methods": ("method",),
    "settings": ("register",),
    **dict.fromkeys(("algorithms", "data", "kernels", "metrics", "nets", "theory", "training", "trust", "views"), ()),
}


def __getattr__(name: str) -> Any:
    if name in PLACES:
        return import_module(f"halfsure.{name}")
    for place, names in PLACES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f"halfsure.{place}"), name)
            return found
    raise AttributeError(f"module 'halfsure' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *PLACES, *__all__})
