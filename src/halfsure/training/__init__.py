"""Losses → updates: the loop, everything it changes, and what it measures on the way."""

from halfsure.training.config import Config
from halfsure.training.errors import BrokenError, CollapseWarning, RunError, StoppedError
from halfsure.training.loop import Trained, train
from halfsure.training.presets import EXPECTED, PRESETS, preset

__all__ = [
    "EXPECTED",
    "PRESETS",
    "BrokenError",
    "CollapseWarning",
    "Config",
    "RunError",
    "StoppedError",
    "Trained",
    "preset",
    "train",
]
