"""Which samples and which labels a run is to have, and the data opened so."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from halfsure.data.dataset import Data, DataError
from halfsure.data.load import hold_out, load_seeds
from halfsure.data.official import SOURCES
from halfsure.settings.typed import typed

__all__ = ["DataConfig", "lasting", "open_again", "open_data", "open_seeds"]


@dataclass(frozen=True)
class DataConfig:
    """Which samples, and which of them are labeled."""

    labels: int | None = None
    """How many labels to draw, the same number of each class; without it all that are known, of an official set 4 a
    class."""
    split: str | None = None
    """Take the labels this split file records (a run's split.json) instead of drawing them."""
    val: int = 0
    """Hold this many samples with known labels out for validation, drawn by the seed."""
    root: str | None = None
    """Folder of the official sets; $HALFSURE_DATA or the user's cache folder if not given."""
    label_column: str | None = None
    """Which column of a table holds the labels."""
    table: str | None = None
    """CSV with the labels of an image folder."""
    test: str | None = None
    """Table with the test rows."""
    size: int | None = None
    """Scale the images of a folder to this side."""
    skip_bad: bool = False
    """Leave images that cannot be read out, and say which."""

    @classmethod
    def from_json(cls, values: Any) -> "DataConfig":
        """Read what config.json holds; settings this version does not know, or of another type, are refused."""
        return cls(**typed(cls, values))


LABELS_A_CLASS = 4  # of an official set, if nothing else is asked for


def open_again(path: Path, source: str, config: DataConfig, seed: int) -> Data:
    """Open the data of the run in a folder, with the labels its split.json names."""
    return open_data(source, replace(config, split=str(path / "split.json"), labels=None), seed)


def open_data(source: str, config: DataConfig, seed: int) -> Data:
    """Load a source, choose its labels and hold the validation samples out."""
    return open_seeds(source, config, [seed])[0]


def open_seeds(source: str, config: DataConfig, seeds: Sequence[int]) -> list[Data]:
    """The same for several seeds, with the source read once and its samples shared."""
    settings = {field.name: getattr(config, field.name) for field in fields(config) if field.name != "val"}
    if source in SOURCES:
        if foreign := [name for name in ("label_column", "table", "test", "size", "skip_bad") if settings[name]]:
            raise DataError(f"{source} is an official set: {foreign[0]} is for data of your own")
        if config.labels is None and config.split is None:
            settings["labels"] = LABELS_A_CLASS * len(SOURCES[source].classes)
    found = load_seeds(source, seeds, **settings)
    if not config.val:
        return found
    return [hold_out(data, config.val, seed) for data, seed in zip(found, seeds, strict=True)]


def lasting(source: str, config: DataConfig) -> tuple[str, DataConfig]:
    """The same with whole paths, for a run may be gone on with from another folder."""

    def whole(path: str | None) -> str | None:
        return str(Path(path).resolve()) if path is not None and Path(path).exists() else path

    paths: dict[str, Any] = {name: whole(getattr(config, name)) for name in ("root", "table", "test", "split")}
    return source if source in SOURCES else str(whole(source)), replace(config, **paths)
