"""One run of an experiment, with everything that it follows from."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from halfsure.data import Data
from halfsure.engine.config import Config, DataConfig
from halfsure.engine.entry import open_data
from halfsure.engine.presets import preset

__all__ = ["Cell", "Column", "Protocol"]

Protocol = Literal["cpu", "paper"]


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
    column: Column
    method: str
    seed: int
    protocol: Protocol = "cpu"
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    """What differs from the protocol's preset."""
    held_out: int = 0
    """Samples held out of training to choose settings by."""
    trial: str = ""
    """What tells it from other cells of the same method and seed, in words."""

    @property
    def name(self) -> str:
        """Its name within the experiment, and on the command line."""
        return ":".join([str(self.column), self.method, *([self.trial] if self.trial else []), f"s{self.seed}"])

    @property
    def data_config(self) -> DataConfig:
        """Which samples and labels."""
        return DataConfig(labels=self.column.labels, val=self.held_out)

    def open(self, root: str | None = None) -> Data:
        """Its data, with the labels that the seed chooses."""
        return open_data(self.column.data, replace(self.data_config, root=root), self.seed)

    def config(self, data: Data) -> Config:
        """Every setting: the preset of the protocol, and over it those of the cell."""
        config = replace(preset(data, self.method, self.protocol, self.seed), **self.settings)
        config.check()
        return config

    def key(self) -> dict[str, Any]:
        """What tells a run from all others, as JSON."""
        return asdict(self)
