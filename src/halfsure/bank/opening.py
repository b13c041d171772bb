"""Which samples and which labels a run is to have, and the data opened so."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from halfsure._shown import path_from
from halfsure.bank.end_to_end import train_encoder
from halfsure.bank.seeing import NONE, EncoderWanted, see_source
from halfsure.bank.tuned import Kept, tune
from halfsure.data.dataset import Data, DataError
from halfsure.data.load import draw_seeds, hold_out
from halfsure.data.reader import reader_of
from halfsure.settings import EVERYDAY, PATH, Between, Count, declared, parts
from halfsure.settings.compose import fill

__all__ = [
    "DataConfig",
    "DataSettings",
    "find_source",
    "kept",
    "lasting",
    "open_again",
    "open_data",
    "open_seeds",
    "path_settings",
]

HERE = ("./", "../")
"""How a path begins that is meant from the run folder."""


@dataclass(frozen=True)
class DataSettings(EncoderWanted):
    """Which samples are labeled and what they are seen through, whatever the source."""

    labels: Annotated[int | None, Between(1), EVERYDAY] = None
    """How many labels to draw, the same number of each class; without it all that are known, of an official set 4 per
    class."""
    split: Annotated[str | None, PATH] = None
    """Take the labels this split file records (a run's split.json) instead of drawing them."""
    val: Count = 0
    """Hold this many samples with known labels out for validation, drawn by the seed; with groups, whole groups."""


@dataclass(frozen=True)
class DataConfig(DataSettings):
    """Which samples, and which of them are labeled."""

    reader: Mapping[str, Any] = field(default_factory=dict)
    """What the reader of the source is told, by the names of its settings."""

    def __post_init__(self) -> None:
        DataSettings(**self._common)

    @property
    def _common(self) -> dict[str, Any]:
        return {setting.name: getattr(self, setting.name) for setting in declared(DataSettings)}

    @classmethod
    def of(cls, source: str, **given: Any) -> "DataConfig":
        """From flat names; those that the source's reader does not have are refused."""
        names = [setting.name for setting in declared(DataSettings)]
        own = {name: value for name, value in given.items() if name not in names}
        kind = reader_of(source)
        fill({"reader": kind.Settings}, own, f"{source}, read as {kind.about},")
        return cls(**{name: value for name, value in given.items() if name in names}, reader=own)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return self._common | {"reader": dict(self.reader)}

    @classmethod
    def from_json(cls, source: str, values: Any) -> "DataConfig":
        """Read what config.json holds; settings that the reader does not know, or of another type, are refused."""
        if not isinstance(values, dict) or not isinstance(values.get("reader", {}), dict):
            raise ValueError(f"what a run says of its data is an object, got {values!r:.60}")  # noqa: TRY004
        common = {name: value for name, value in values.items() if name != "reader"}
        if unknown := sorted(common.keys() - {setting.name for setting in declared(DataSettings)}):
            raise ValueError(f"this version of halfsure has no setting {unknown[0]!r:.60}")
        return cls.of(source, **{"encoder": NONE} | common, **values.get("reader", {}))  # once there were no encoders


def kept(source: str, config: DataConfig, folder: Path) -> tuple[str, DataConfig]:
    """The same as a run in `folder` keeps it: paths from there, or names alone where a path would tell whose it is."""

    def told(path: Any) -> Any:
        there = isinstance(path, str) and (Path(path).expanduser().exists() or Path(path).is_absolute())
        return path_from(folder, path) if there else path

    own = {name: told(value) if name in path_settings() else value for name, value in config.reader.items()}
    encoder = _with_path(config.encoder, told)
    kept = replace(config, split=told(config.split), encoder=encoder, reader=own)
    return source if _is_name(source) else told(source), kept


def _with_path(encoder: str, told: Callable[[str], Any]) -> str:
    """The name of an encoder with what follows the colon told in another way."""
    family, colon, argument = encoder.partition(":")
    return f"{family}{colon}{told(argument)}" if argument else encoder


def find_source(source: str, folder: Path, given: str | None = None) -> str:
    """Where the data are that a run in `folder` keeps as `source`, unless that is `given`."""
    if given is not None or not source.startswith(HERE):
        return source if given is None else given
    if not (folder / source).exists():
        raise DataError(
            f"{Path(source).name}, the data of {folder}, is not where it was when the run began: say where it is with "
            "--source PATH"
        )
    return os.path.normpath(folder / source)


def open_again(path: Path, source: str, config: DataConfig, seed: int, tuned: Kept | None = None) -> Data:
    """Open the data of the run in a folder, with the labels its split.json names; `source` is where they are now.

    `tuned` is what the folder keeps of an encoder that was tuned; without it the encoder is tuned again.
    """
    own = {
        name: _find(value, path, source) if name in path_settings() else value for name, value in config.reader.items()
    }
    own = {name: value for name, value in own.items() if value is not None}
    encoder = _with_path(config.encoder, lambda kept: str(_find(kept, path, source)))
    config = replace(config, split=str(path / "split.json"), labels=None, encoder=encoder, reader=own)
    return open_data(source, config, seed, tuned=tuned)


def _find(kept: Any, folder: Path, source: str) -> Any:
    """A file that goes with the source: where it was, or beside it; None for the folder of a set known by its name."""
    if not isinstance(kept, str) or not kept.startswith(HERE):
        return kept
    places = [folder / kept, Path(source).parent / Path(kept).name, Path(source) / Path(kept).name]
    found = [os.path.normpath(place) for place in places if place.exists()]
    if not found and not _is_name(source):
        raise DataError(f"{Path(kept).name}, which the run was begun with, is gone: put it beside {Path(source).name}")
    return found[0] if found else None


def _is_name(source: str) -> bool:
    """Whether a source is known by its name, wherever its files are."""
    return any(source in reader.names for reader in parts("reader").values())


def path_settings() -> set[str]:
    """Settings of the data that are paths, whatever their reader."""
    kinds = [DataSettings, *(reader.Settings for reader in parts("reader").values())]
    return {setting.name for kind in kinds for setting in declared(kind) if setting.path}


def open_data(
    source: str, config: DataConfig, seed: int, console: Console | None = None, tuned: Kept | None = None
) -> Data:
    """Load a source, see it through its encoder, choose its labels and hold the validation samples out.

    Then the labels tune the encoder, if that is wanted and was not done before.
    """
    return open_seeds(source, config, [seed], console, tuned)[0]


def open_seeds(
    source: str,
    config: DataConfig,
    seeds: Sequence[int],
    console: Console | None = None,
    tuned: Kept | None = None,
) -> list[Data]:
    """The same for several seeds, with the source read once and its samples shared."""
    usual = reader_of(source).usual_labels
    whole = see_source(source, config, config.reader, console)
    found = draw_seeds(whole, seeds, labels=config.labels, split=config.split, usual=usual, val=config.val)
    if config.val:
        found = [hold_out(data, config.val, seed) for data, seed in zip(found, seeds, strict=True)]
    found = [train_encoder(data, config.tune, config.tune_rate) for data in found]
    more = {"unlabeled": config.tune_unlabeled}
    return [tune(data, config.tune, seed, console, tuned, **more) for data, seed in zip(found, seeds, strict=True)]


def lasting(source: str, config: DataConfig) -> tuple[str, DataConfig]:
    """The same with whole paths, for a run may be gone on with from another folder."""

    def whole(path: str | None) -> str | None:
        return str(Path(path).resolve()) if path is not None and Path(path).exists() else path

    kind = reader_of(source)
    paths = {setting.name for setting in declared(kind.Settings) if setting.path}
    own = {name: whole(value) if name in paths else value for name, value in config.reader.items()}
    named = kind.usual_labels is not None  # a name, not a path
    config = replace(config, split=whole(config.split), encoder=_with_path(config.encoder, whole), reader=own)
    return source if named else str(whole(source)), config
