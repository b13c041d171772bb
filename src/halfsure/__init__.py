"""Semi-supervised classification that knows when it is unsure: ADaptive Sharpening and its rivals."""

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
]
