"""Settings that are not given, by preset, data and method. Each part has its own values, beside it."""

from halfsure.data import Data
from halfsure.methods import parse
from halfsure.training.config import Config
from halfsure.views.maker import maker_of

__all__ = ["EXPECTED", "PRESETS", "preset"]

PRESETS = {
    "quick": "under a minute on one core: a small network, enough to see whether unlabeled data help",
    "cpu": "some ten minutes on one core: longer, and with a larger network where images are coloured",
    "paper": "the paper's network, batches and length: days on a GPU, months on a laptop",
}

EXPECTED = {
    ("quick", "digits"): "with 40 labels some 8 % error, where labels alone give 23 %; half a minute",
    ("quick", "mnist"): "with 40 labels and 1,000 steps some 5 % error, where labels alone give 31 %; under a minute",
}
"""What `fixmatch-ads` was seen to reach, over five seeds (docs/results.md)."""


def preset(data: Data, method: str, name: str = "quick", seed: int = 0) -> Config:
    """The config of a preset for these data and this method: what views and network like, and over it the algorithm."""
    parsed, maker = parse(method), maker_of(data)
    start = Config(method=method, preset=name, seed=seed)  # refuses what is no preset
    chosen = maker.preset(name, data) | parsed.kind.preset(name, data, parsed.map, bool(parsed.added))
    return start.replace(views=maker.name, **chosen)
