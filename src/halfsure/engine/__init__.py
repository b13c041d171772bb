"""Losses → updates → a run folder: the training loop and everything that keeps its work safe."""

from halfsure.engine.config import Config, DataConfig
from halfsure.engine.entry import fit, go_on, open_data, start
from halfsure.engine.folder import BrokenError, Folder, RunError
from halfsure.engine.presets import EXPECTED, PRESETS, preset
from halfsure.engine.run import Run, load
from halfsure.engine.train import CollapseWarning, StoppedError, train

__all__ = [
    "EXPECTED",
    "PRESETS",
    "BrokenError",
    "CollapseWarning",
    "Config",
    "DataConfig",
    "Folder",
    "Run",
    "RunError",
    "StoppedError",
    "fit",
    "go_on",
    "load",
    "open_data",
    "preset",
    "start",
    "train",
]
