"""What a run remembers of itself: its evaluations, and where it is kept somewhere, all that is needed to go on."""

from types import TracebackType
from typing import Any

from torch import nn

from halfsure.data import Data
from halfsure.simplex import Map
from halfsure.training.config import Config
from halfsure.training.ranks import Ranks
from halfsure.views.preprocessing import Preprocessing

__all__ = ["Memory"]


class Memory:
    """Keeps the evaluations of a run while it lasts, and nothing else; `halfsure.runs.writer` keeps it in a folder.

    The loop enters it when the ranks are known, `claim`s it for its run, asks what to `resume` from, and tells it of
    evaluations (`add`) and of states worth keeping (`save`).
    """

    def __init__(self) -> None:
        self.metrics: list[dict[str, Any]] = []
        self.config: dict[str, Any] = {}
        self.remarks: list[str] = []
        """What a person should know before training goes on."""

    def join(self, ranks: Ranks) -> "Memory":
        """Learn which process of how many this is."""
        return self

    def __enter__(self) -> "Memory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held open."""

    def steps(self) -> int | None:
        """How many steps the run that is kept here has, if there is one."""
        return None

    def claim(self, data: Data, config: Config, map: Map, preprocessing: Preprocessing) -> None:
        """Take the run in, or refuse it because another one is kept here."""
        self.config = {"config": config.as_json()}

    def resume(self) -> dict[str, Any] | None:
        """The state to go on from, the same on every rank; None if there is none yet."""
        return None

    def add(self, line: dict[str, Any]) -> None:
        """Take an evaluation in."""
        self.metrics.append(line)

    def save(self, state: dict[str, Any], model: nn.Module) -> None:
        """Keep a state and the averaged model."""

    def mend(self, model: nn.Module) -> None:
        """See that the averaged model is kept whole."""

    def where(self) -> str:
        """What there is of a run that had to end."""
        return "Nothing was saved: the run has no folder."

    def last_good(self) -> str:
        """The same, and how to go on."""
        return self.where()
