"""One call from data to a trained model: `fit` for one's own network, `start` and `go_on` for the command line."""

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from halfsure._checks import check_count
from halfsure.data import Data, DataError
from halfsure.data.opening import DataConfig, open_again
from halfsure.methods import parse
from halfsure.nets import build
from halfsure.runs.folder import Folder
from halfsure.runs.run import Run
from halfsure.runs.writer import RunWriter
from halfsure.training.config import Config
from halfsure.training.errors import RunError
from halfsure.training.loop import train
from halfsure.training.presets import preset as settings_of
from halfsure.views.batch import Views

__all__ = [
    "default_folder",
    "fit",
    "go_on",
    "make_network",
    "recorded",
    "refuse_foreign",
    "start",
]

FOREIGN = {
    "image": ("weak_noise", "strong_noise", "strong_swap"),
    "array": ("flip", "shift", "ops", "cutout", "normalise"),
}
OF_TEXTS = ("weak_drop", "strong_drop")


def fit(
    model: nn.Module | None,
    data: Data,
    method: str = "fixmatch-ads",
    *,
    preset: str = "quick",
    out: str | os.PathLike[str] | None = None,
    views: Views | None = None,
    console: Console | None = None,
    **settings: Any,
) -> Run:
    """Train a network of one's own, or with None the preset's, on data.

    Any field of `Config` can be given as a keyword; the rest come from the preset. With `out` the run is kept in a
    folder, and the same call goes on where it stopped.

    Examples:
        >>> import halfsure
        >>> from halfsure.data import load
        >>> run = halfsure.fit(None, load("digits", labels=40), "fixmatch-ads", steps=3, evaluations=1)
        >>> run.map.name, run.metrics[-1]["step"]
        ('sparsemax', 3)
    """
    if unknown := sorted(set(settings) - {field.name for field in fields(Config)}):
        raise TypeError(f"fit has no setting {unknown[0]!r}; halfsure.training.config.Config lists them")
    if model is not None and (given := sorted({"net", "norm", "dropout"} & set(settings))):
        raise TypeError(f"{given[0]} is for the networks of halfsure; with one of your own leave it away")
    refuse_foreign(settings, data)
    config = settings_of(data, method, preset, settings.get("seed", 0))
    return start(data, replace(config, **settings), model=model, out=out, views=views, console=console)


def start(
    data: Data,
    config: Config,
    *,
    model: nn.Module | None = None,
    out: str | os.PathLike[str] | None = None,
    views: Views | None = None,
    source: str | None = None,
    data_config: DataConfig | None = None,
    folds: int = 0,
    console: Console | None = None,
    watch: Callable[[int], None] | None = None,
) -> Run:
    """Begin a run, or go on with it if `out` holds the same one; `watch` hears of each step.

    `folds` is recorded only: how many models are to check it afterwards (`halfsure.verdict.check`).
    """
    config = replace(config, method=parse(config.method).name)  # a method has one name, however it was written
    about: dict[str, Any] = {
        "source": source,
        "data": None if data_config is None else asdict(data_config),
        "folds": folds,
        "views": "the config's" if views is None else None,
        "net": None if model is not None else {"name": config.net, "norm": config.norm, "dropout": config.dropout},
        "own_net": None if model is None else hashlib.sha256(repr(model).encode()).hexdigest()[:16],
    }
    if model is None:
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            try:
                model = make_network(data, config)
            except (ValueError, RuntimeError) as error:  # torch's word for too little memory
                raise RunError(str(error)) from None
    path = None if out is None else Path(out)
    memory = None if path is None else RunWriter(Folder(path), about)
    found = train(model, data, config, memory=memory, views=views, console=console, watch=watch)
    return Run(
        found.model, found.map, data.classes, found.preprocessing, found.metrics, found.config, path, data.encoding
    )


def refuse_foreign(names: Iterable[str], data: Data) -> None:
    """Refuse settings that have no meaning for this kind of data, rather than pass over them."""
    foreign = sorted(set(names) & set(FOREIGN[data.kind]))
    if foreign:
        kinds = {"image": "rows of numbers", "array": "images"}
        raise DataError(f"{foreign[0]} is for {kinds[data.kind]}, and {data.name} has {data.kind}s: leave it away")
    if not data.texts and (foreign := sorted(set(names) & set(OF_TEXTS))):
        raise DataError(f"{foreign[0]} is for texts, and {data.name} has none: leave it away")


def make_network(data: Data, config: Config) -> nn.Module:
    """The network of a config, for the samples and classes of data."""
    shape = tuple(data.train.samples.shape[1:])
    return build(config.net, shape, len(data.classes), norm=config.norm, dropout=config.dropout)


@dataclass(frozen=True)
class Recorded:
    """What a run folder says of its run, and its data, opened again."""

    path: Path
    data: Data
    config: Config
    source: str
    data_config: DataConfig
    folds: int

    def go_on(self, console: Console | None = None) -> Run:
        """Go on with the run."""
        about: dict[str, Any] = {"source": self.source, "data_config": self.data_config, "folds": self.folds}
        return start(self.data, self.config, out=self.path, console=console, **about)


def go_on(path: str | os.PathLike[str], console: Console | None = None) -> Run:
    """Go on with the run in a folder, by what it recorded."""
    return recorded(path).go_on(console)


def recorded(path: str | os.PathLike[str], opening: Callable[[str], None] | None = None) -> Recorded:
    """Read a run folder and open its data again, with the same samples labeled; `opening` hears of the source first."""
    folder = Folder(path)
    found = folder.config
    if found is None:
        raise RunError(f"there is no run in {folder.path}; begin one with: halfsure train SOURCE --out {folder.path}")
    if not isinstance(found.get("source"), str) or found.get("net") is None:
        raise RunError(
            f"{folder.path} was begun from Python with data or a network of one's own: go on with the same call of fit"
        )
    try:
        config = Config.from_json(found["config"])
        config.check()
        config.algorithm()
        data_config = DataConfig.from_json(found["data"])
        folds = check_count("folds", found.get("folds", 0), 0)
    except (TypeError, ValueError, KeyError) as error:
        raise RunError(f"{folder.path / 'config.json'} cannot be used: {error!s:.400}") from None
    if opening is not None:
        opening(found["source"])
    data = open_again(folder.path, found["source"], data_config, config.seed)
    return Recorded(folder.path, data, config, found["source"], data_config, folds)


def default_folder(source: str, data: Data, config: Config) -> Path:
    """`runs/<source>-<method>-<labels>-s<seed>`."""
    name = Path(source).stem or "data"
    return Path("runs") / f"{name}-{parse(config.method).name}-{len(data.labeled)}-s{config.seed}"
