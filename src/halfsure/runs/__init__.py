"""The run folder: what training leaves behind, how it goes on, and a trained model to predict with."""

from halfsure.runs.folder import Folder
from halfsure.runs.run import Run, load
from halfsure.runs.start import fit, go_on, start

__all__ = ["Folder", "Run", "fit", "go_on", "load", "start"]
