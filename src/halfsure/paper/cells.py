"""One run of an experiment, with everything that it follows from."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from halfsure.bank.opening import DataConfig, open_data
from halfsure.bank.seeing import NONE
from halfsure.data import Data
from halfsure.training.config import Config
from halfsure.training.presets import preset

__all__ = ["IDENTITY", "Cell", "Column", "Protocol", "identity"]

Protocol = Literal["cpu", "paper"]
IDENTITY = ("protocol", "column", "method", "settings", "held_out", "seed")


@dataclass(frozen=True)
class Column:
    """A data set with so many labels."""

    data: str
    labels: int

    def __str__(self) -> str:
        return f"{self.data}@{self.labels}"


@dataclass(frozen=True)
class Cell:
    """A method on a column, from one seed."""

    experiment: str
    """Where it belongs; other experiments may show it too."""
    column: Column
    method: str
    seed: int
    protocol: Protocol = "cpu"
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    """What differs from the protocol's preset."""
    held_out: int = 0
    """Samples kept out of training to choose settings by."""
    variant: str = ""
    """What tells it from other cells of the same method and seed, in words."""

    @property
    def name(self) -> str:
        """Its name within the experiment, and on the command line."""
        return ":".join(filter(None, [str(self.column), self.method, self.variant, f"s{self.seed}"]))

    @property
    def command(self) -> str:
        """What runs it by itself."""
        protocol = "" if self.protocol == "cpu" else f" --protocol {self.protocol}"
        return f"halfsure reproduce {self.experiment}{protocol} --cell '{self.name}'"

    def folder(self, runs: Path) -> Path:
        """Its run folder, below the one of all runs."""
        return runs / self.protocol / self.experiment / self.name.replace(":", "_")

    def data_config(self, root: str | None = None) -> DataConfig:
        """Which samples and labels, of a set below `root`."""
        reader = {} if root is None else {"root": root}
        return DataConfig(encoder=NONE, labels=self.column.labels, val=self.held_out, reader=reader)

    def open(self, root: str | None = None) -> Data:
        """Its data, with the labels that the seed chooses."""
        return open_data(self.column.data, self.data_config(root), self.seed)

    def config(self, data: Data) -> Config:
        """Every setting: the preset of the protocol, and over it those of the cell."""
        return preset(data, self.method, self.protocol, self.seed).replace(**self.settings)

    def as_json(self) -> dict[str, Any]:
        """What goes into the line of its run."""
        return asdict(self)


def identity(run: Mapping[str, Any]) -> str:
    """What tells a run from all others, given a cell as JSON or the line of its run."""
    return json.dumps([run.get(name) for name in IDENTITY], sort_keys=True)
