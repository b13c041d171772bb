"""A run folder as a report reads it: settings, evaluations, classes. Nothing in it is changed."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from halfsure.data import DataError, Split
from halfsure.methods import parse
from halfsure.runs.folder import Folder, flat_settings
from halfsure.simplex import SOFTMAX, Map, get_map
from halfsure.training.errors import RunError

__all__ = ["Line", "Record", "number", "part_name", "read_record", "within"]

Line = dict[str, Any]
"""An evaluation, as metrics.jsonl has it."""

LARGEST = 1e30
"""A number beyond this is no measure, and nothing to draw."""
PARTS = {"test": "test", "val": "validation", "unlabeled": "unlabeled"}


@dataclass(frozen=True)
class Record:
    """One run."""

    path: Path
    config: dict[str, Any]
    """What config.json holds."""
    metrics: list[Line]
    """One entry an evaluation, at least one."""
    classes: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting of the run."""
        return flat_settings(self.config)

    @property
    def method(self) -> str:
        """In the paper's notation."""
        return str(self.settings["method"])

    @property
    def seed(self) -> int:
        """What chose labels, weights and order."""
        return int(self.settings["seed"])

    @cached_property
    def map(self) -> Map:
        """The map the model was trained in, and so is read through."""
        try:
            return get_map(str(self.config["map"])) if "map" in self.config else parse(self.method).map
        except ValueError as error:
            raise RunError(f"{self.path / 'config.json'} cannot be used: {error}") from None

    @property
    def own(self) -> str:
        """Which candidates are the model's own: in softmax every class is one, so sparsemax reads them there."""
        return "sparse_" if self.map == SOFTMAX else ""

    @property
    def last(self) -> Line:
        """The last evaluation."""
        return self.metrics[-1]

    @property
    def finished(self) -> bool:
        """Whether the run got to its last step."""
        return bool(self.last["step"] >= self.settings["steps"])

    @property
    def dead(self) -> list[str]:
        """Classes that the last evaluation hardly predicts."""
        found = self.last.get("dead")
        return [str(name) for name in found] if isinstance(found, list) else []

    @property
    def constant(self) -> str | None:
        """The class that the last evaluation predicts for every sample, if it does so."""
        found = self.last.get("constant")
        return None if found is None else str(found)

    @property
    def about_data(self) -> dict[str, Any]:
        """The fingerprint of the data: name, shape, how many are labeled."""
        found = self.config.get("fingerprint")
        return found if isinstance(found, dict) else {}

    @property
    def data_name(self) -> str:
        """What the data are called: the name of the source, wherever it is, or the name from Python."""
        name = Path(str(self.config.get("source") or "")).name
        return name if name not in ("", "..") else str(self.about_data.get("name") or "data")


def read_record(path: Path) -> Record | None:
    """Read a run folder; None if there is no run in it."""
    folder = Folder(path)
    config = folder.config
    if config is None:
        return None
    settings = flat_settings(config)
    wanted = {"method": str, "seed": int, "steps": int}
    if not all(type(settings.get(k)) is kind for k, kind in wanted.items()):
        raise RunError(f"{path / 'config.json'} does not say method, seed and steps of the run: it cannot be read")
    by_step = {line["step"]: line for line in folder.metrics()}
    metrics = [by_step[step] for step in sorted(by_step)]
    return Record(path, config, metrics, _classes(path, metrics))


def within(line: Any, *keys: str) -> Any:
    """What lies at the end of some keys; None if there is nothing."""
    for key in keys:
        line = line.get(key) if isinstance(line, dict) else None
    return line


def number(line: Any, *keys: str) -> float | None:
    """The finite number at the end of some keys; None if there is none."""
    found = within(line, *keys)
    fits = isinstance(found, int | float) and not isinstance(found, bool) and -LARGEST <= found <= LARGEST
    return float(found) if fits else None


def part_name(part: str) -> str:
    """`val` → `validation`."""
    return PARTS[part]


def _classes(path: Path, metrics: list[Line]) -> tuple[str, ...]:
    """The names as split.json has them, in their order; numbers where it is lost."""
    try:
        return tuple(Split.load(path / "split.json").labeled)
    except DataError:
        counts = [within(metrics[-1], part, "predicted") for part in PARTS] if metrics else []
        return tuple(str(k) for k in range(max((len(c) for c in counts if isinstance(c, list)), default=0)))
