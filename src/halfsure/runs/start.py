"""One call from data to a trained model: `fit` for one's own network, `start` and `go_on` for the command line."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from halfsure._checks import check_count
from halfsure.bank.encoded import ready
from halfsure.bank.end_to_end import how_trained
from halfsure.bank.opening import DataConfig, find_source, open_again
from halfsure.bank.opening import kept as kept_config
from halfsure.bank.seeing import NONE, encoder_of, own_encoder
from halfsure.bank.tuned import Tune, kept_of, tuned_in
from halfsure.data import Data
from halfsure.runs.encoder_file import kept_encoder
from halfsure.runs.folder import FLAT, Folder
from halfsure.runs.run import Run
from halfsure.runs.tensorboard import require_events
from halfsure.runs.with_encoder import EndToEndRun
from halfsure.runs.writer import RunWriter, refuse_old
from halfsure.training.config import Config
from halfsure.training.errors import RunError
from halfsure.training.loop import train
from halfsure.training.presets import preset as settings_of
from halfsure.views.batch import Views

__all__ = [
    "data_config_of",
    "default_folder",
    "fit",
    "go_on",
    "recorded",
    "start",
]


def fit(
    model: nn.Module | None,
    data: Data,
    method: str = "fixmatch-ads",
    *,
    preset: str = "quick",
    out: str | os.PathLike[str] | None = None,
    views: Views | str | None = None,
    console: Console | None = None,
    **settings: Any,
) -> Run:
    """Train a network of one's own, or with None the preset's, on data.

    Any setting of a part that the method uses can be given as a keyword (`halfsure train --help-all` lists them); the
    rest come from the preset. `views` are your own, {"weak": …, "strong": …}, or the name of a part. With `out` the run
    is kept in a folder, and the same call goes on where it stopped.

    Examples:
        >>> import halfsure
        >>> from halfsure.data import load
        >>> run = halfsure.fit(None, load("digits", labels=40), "fixmatch-ads", steps=3, evaluations=1)
        >>> run.map.name, run.metrics[-1]["step"]
        ('sparsemax', 3)
    """
    if not isinstance(model, nn.Module | None):
        raise TypeError(f"the network is an nn.Module, or None with net= for one by name, got {model!r:.60}")
    if not isinstance(data, Data):
        raise TypeError(
            f"data is what halfsure.data.load or halfsure.data.from_arrays gives, got a {type(data).__name__}; "
            "SSLClassifier takes arrays and frames as they are"
        )
    named = {"views": views} if isinstance(views, str) else {}
    if model is not None and (given := sorted({"net", "norm", "dropout"} & set(settings))):
        raise TypeError(f"{given[0]} is for the networks of halfsure; with one of your own omit it")
    require_events(settings)
    config = settings_of(data, method, preset, settings.get("seed", 0)).replace(**named, **settings)
    return start(data, config, model=model, out=out, views=None if isinstance(views, str) else views, console=console)


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
    # A method has one name, however it was written; a network of one's own has no settings here.
    config = config.suited(data).replace(method=config.parsed.name, **({} if model is None else {"net": None}))
    path = None if out is None else Path(out)
    if source is not None and path is not None:
        seen = replace(data_config or DataConfig(), encoder=encoder_of(data), tune=_way(data))
        source, data_config = kept_config(source, seen, path)
    about: dict[str, Any] = {
        "source": source,
        "data": None if data_config is None else data_config.as_json(),
        "folds": folds,
        "views": "the config's" if views is None else None,
        "net": None if model is not None else {"name": config.run.net, **vars(config.sections["net"])},
        "own_net": None if model is None else hashlib.sha256(repr(model).encode()).hexdigest()[:16],
    }
    if model is None:
        with torch.random.fork_rng():
            torch.manual_seed(config.run.seed)
            try:
                model = config.network(data)
            except (ValueError, RuntimeError) as error:  # torch's word for too little memory
                raise RunError(str(error)) from None
    whole = EndToEndRun.of(data)
    memory = None if path is None else RunWriter(Folder(path), about, whole)
    ready(data, config.algorithm(data).views, console)
    inputs, trained = (data, model) if whole is None else (whole.inputs, whole.network(model))
    found = train(trained, inputs, config, memory=memory, views=views, console=console, watch=watch)
    kept = None if whole is None else whole.kept(found.model)
    return Run(
        found.model if kept is None else kept.classifier,
        found.map,
        data.classes,
        found.preprocessing if whole is None else whole.preprocessing,
        found.metrics,
        found.config,
        path,
        data.encoding if kept is None else kept.encoding,
        1.0 if memory is None else memory.temperature,
        encoder=own_encoder(data),
        tuned=kept_of(data) if kept is None else kept.encoder,
    )


def _way(data: Data) -> Tune:
    """How the encoder of data is tuned, as config.json says it."""
    if (how := how_trained(data)) is not None:
        return how.way
    return "none" if tuned_in(data) is None else "pairs"


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


def data_config_of(found: dict[str, Any], source: str) -> DataConfig:
    """What a config.json says of its data, of either format, if they are at `source`."""
    values = found["data"]
    if found.get("format") != FLAT:
        return DataConfig.from_json(source, values)
    if not isinstance(values, dict):
        raise TypeError(f"what a run says of its data is an object, got {values!r:.60}")
    known = {name: value for name, value in values.items() if value not in (None, False)}
    return DataConfig.of(source, encoder=NONE, **known)


def go_on(path: str | os.PathLike[str], console: Console | None = None, *, source: str | None = None) -> Run:
    """Go on with the run in a folder, by what it recorded; `source` is where its data are now, if they were moved."""
    return recorded(path, source=source).go_on(console)


def recorded(
    path: str | os.PathLike[str], opening: Callable[[str], None] | None = None, source: str | None = None
) -> Recorded:
    """Read a run folder and open its data again, with the same samples labeled; `opening` hears of the source first.

    `source` is where the data are now, if they were moved.
    """
    folder = Folder(path)
    found = folder.config
    if found is None:
        raise RunError(f"there is no run in {folder.path}; begin one with: halfsure train SOURCE --out {folder.path}")
    if not isinstance(found.get("source"), str) or found.get("net") is None:
        raise RunError(
            f"{folder.path} was begun from Python with data or a network of one's own: go on with the same call of fit"
        )
    refuse_old(folder, found)
    source = find_source(found["source"], folder.path, source)
    if opening is not None:
        opening(source)
    try:
        config = Config.from_json(found["config"])
        config.algorithm()
        data_config = data_config_of(found, source)
        folds = check_count("folds", found.get("folds", 0), 0)
    except (TypeError, ValueError, KeyError) as error:
        raise RunError(f"{folder.path / 'config.json'} cannot be used: {error!s:.400}") from None
    data = open_again(folder.path, source, data_config, config.run.seed, kept_encoder(folder.path))
    return Recorded(folder.path, data, config, source, data_config, folds)


def default_folder(source: str, data: Data, config: Config) -> Path:
    """`runs/<source>-<method>-<labels>-s<seed>`."""
    name = Path(source).stem or "data"
    return Path("runs") / f"{name}-{config.parsed.name}-{len(data.labeled)}-s{config.run.seed}"
