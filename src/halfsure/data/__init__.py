"""Data: official sets, people's own, which samples are labeled, and batches of both kinds."""

from halfsure.data.arrays import from_arrays, from_torch_dataset
from halfsure.data.dataset import Data, DataError, DataWarning, Part
from halfsure.data.load import choose_labels, hold_out, load
from halfsure.data.reader import Reader
from halfsure.data.splits import Split, draw_labels
from halfsure.data.streams import Indices, Stream, TwoStreams
from halfsure.settings.registry import discover

__all__ = [
    "Data",
    "DataError",
    "DataWarning",
    "Indices",
    "Part",
    "Reader",
    "Split",
    "Stream",
    "TwoStreams",
    "choose_labels",
    "draw_labels",
    "from_arrays",
    "from_torch_dataset",
    "hold_out",
    "load",
]

discover(__name__)
