"""What a run leaves behind: its folder, written by one process, or nothing but memory."""

import hashlib
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import nn

import halfsure
from halfsure.data import Data, Split
from halfsure.engine.config import Config
from halfsure.engine.folder import FORMAT, BrokenError, Folder, RunError
from halfsure.engine.inputs import Preprocessing
from halfsure.engine.ranks import Ranks
from halfsure.engine.run import save_model
from halfsure.simplex import Map

__all__ = ["Record", "fingerprint"]

# What may differ between a run and the one that goes on with it: it has no influence on any result.
FREE = {"tensorboard", "save_minutes", "threads"}


class Record:
    """The memory of a run. Without a folder it keeps metrics only; other ranks than the first write nothing."""

    def __init__(self, folder: Folder | None, ranks: Ranks) -> None:
        self.folder, self._ranks = folder, ranks
        self._mine = folder if ranks.first else None
        self.metrics: list[dict[str, Any]] = []
        self.config: dict[str, Any] = {}
        self.remarks: list[str] = []
        self._about_model: dict[str, Any] = {}
        self._board: Any = None
        self._tensorboard = False
        self._saved: int | None = None

    def __enter__(self) -> "Record":
        self._lock = self._mine.lock() if self._mine else None
        if self._lock:
            self._lock.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._board is not None:
            self._board.close()
        if self._lock:
            self._lock.__exit__(kind, error, trace)

    def steps(self) -> int | None:
        """How many steps the run in the folder has, if there is one."""
        found = self._ranks.same_object(self._mine.config if self._mine else None)
        if found is None:
            return None
        try:
            return int(found["config"]["steps"])
        except (KeyError, TypeError, ValueError):
            raise RunError("the config.json of the folder does not say how many steps the run has") from None

    def claim(self, data: Data, config: Config, about: dict[str, Any], map: Map, preprocessing: Preprocessing) -> None:
        """Make the folder this run's, or see that it is."""
        self._about_model = {
            "map": map.name,
            "classes": list(data.classes),
            "net": about.get("net"),
            "preprocessing": preprocessing.as_json(),
            "encoding": data.encoding,
        }
        self.config = {
            "format": FORMAT,
            "versions": _versions(),
            "git": _git_revision(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            **about,
            "fingerprint": fingerprint(data),
            "config": config.as_json(),
        }
        self._tensorboard = config.tensorboard
        if self._mine:
            self.config = self._own(self._mine, data, config)
        self.config = self._ranks.same_object(self.config)

    def _own(self, folder: Folder, data: Data, config: Config) -> dict[str, Any]:
        found = folder.config
        if found is not None:
            _same_run(folder, found, self.config)
            then, now = found["versions"].get("torch"), str(torch.__version__)
            self.remarks += [f"begun with torch {then}, now {now}: the bits may differ"] if then != now else []
            return found
        if folder.begun:
            raise RunError(
                f"{folder.path} has checkpoints but no config.json to say of what; choose another --out, or remove it"
            )
        split = Split.of(data.name, data.train.labels, data.labeled, data.classes, config.seed)
        split.save(folder.path / "split.json")
        folder.write_config(self.config)
        return self.config

    def resume(self) -> dict[str, Any] | None:
        """The state to go on from, the same on every rank; None if there is none yet."""
        state, trouble = self._ranks.same_object(self._mine.resume() if self._mine else (None, ""))
        step = state["step"] if state else 0
        self._saved = step if state else None
        if self._mine:
            self.metrics = self._mine.metrics(up_to=step) if state else []
            self._mine.keep_metrics(self.metrics)
            self._board = _tensorboard(self._mine.path, step) if self._tensorboard else None
        self.metrics = self._ranks.same_object(self.metrics)
        self.remarks += [trouble] if trouble else []
        if step == self.config["config"]["steps"]:
            self.remarks.append(f"this run is finished: all of its {step:,} steps are done")
        elif step:
            self.remarks.append(f"going on from step {step:,}")
        if state and len(state["window"]) != self._ranks.size:
            self.remarks.append(
                f"saved by {len(state['window'])} processes, now {self._ranks.size}: the bits will differ from there on"
            )
        return state

    def add(self, line: dict[str, Any]) -> None:
        """Take an evaluation in."""
        self.metrics.append(line)
        if self._mine:
            with self._saving(line["step"]):
                self._mine.append(line)
        if self._board is not None:
            for name, value in _numbers(line):
                self._board.add_scalar(name, value, line["step"])
            self._board.flush()

    def save(self, state: dict[str, Any], model: nn.Module) -> None:
        """Write a checkpoint and the model; what was saved before stays until this is whole."""
        if self._mine:
            with self._saving(state["step"]):
                save_model(self._mine, model, self._about_model)
                self._mine.save(state)
        self._saved = state["step"]

    @contextmanager
    def _saving(self, step: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            raise BrokenError(f"step {step:,} could not be saved: {why}. {self.last_good()}") from error

    def where(self) -> str:
        """What there is of a run that had to end."""
        if self.folder is None:
            return "Nothing was saved: the run has no folder."
        if self._saved is None:
            return "Nothing had been saved yet."
        return f"The last good checkpoint is that of step {self._saved:,}, in {self.folder.path}"

    def last_good(self) -> str:
        """The same, and how to go on."""
        if self.folder is None or self._saved is None:
            return self.where()
        own = self.config.get("source") is None or self.config.get("net") is None
        how = "the same call goes on from there" if own else f"go on with: halfsure resume {self.folder.path}"
        return f"The last good checkpoint is that of step {self._saved:,}; {how}"


def fingerprint(data: Data) -> dict[str, Any]:
    """Enough to notice that data are not the same: sizes, classes, labels, which are used, and some of the samples."""
    digest = hashlib.sha256("\0".join(data.classes).encode())
    for part in (data.train, data.val, data.test):
        if part is not None and len(part):
            digest.update(np.ascontiguousarray(part.labels, dtype="<i8").data)
            some = np.linspace(0, len(part) - 1, min(len(part), 256)).astype(np.int64)
            digest.update(np.ascontiguousarray(part.samples[some]).tobytes())
    for rows in (data.labeled, data.unlabeled):
        digest.update(b"" if rows is None else np.ascontiguousarray(rows, dtype="<i8").data)
    return {
        "name": data.name,
        "shape": list(data.train.samples.shape),
        "labeled": len(data.labeled),
        "test": 0 if data.test is None else len(data.test),
        "sha256": digest.hexdigest(),
    }


def _same_run(folder: Folder, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to go on with another run than the one in the folder, saying what differs."""
    was, now = Config().as_json() | found.get("config", {}), wanted["config"]  # what came later was at its default
    changes = [
        f"{key} was {was.get(key)!r}, now {now[key]!r}" for key in now if key not in FREE and was.get(key) != now[key]
    ]
    changes += [
        f"{key} was {found.get(key) or 'your own'}, now {wanted.get(key) or 'your own'}"
        for key in ("net", "views")
        if found.get(key) != wanted.get(key)
    ]
    if found.get("own_net") != wanted.get("own_net") and found.get("net") == wanted.get("net"):
        changes.append("your network has other layers")
    if found.get("fingerprint") != wanted["fingerprint"]:
        changes.append("the data or its labels are not the same")
    if changes:
        raise RunError(
            f"{folder.path} holds another run: {'; '.join(changes[:4])}{' …' if len(changes) > 4 else ''}. "
            "Choose another --out, or remove the folder if it is not needed"
        )
    made_by, mine = found.get("versions", {}).get("halfsure", "?"), wanted["versions"]["halfsure"]
    if made_by != mine:
        raise RunError(
            f"{folder.path} was begun by halfsure {made_by}, this is {mine}: another version may train otherwise. "
            f"Go on with halfsure {made_by}, or choose another --out; its model can be used as it is"
        )


def _versions() -> dict[str, str]:
    return {
        "halfsure": halfsure.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _git_revision() -> str | None:
    """The revision of the code, where it runs from a git repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _tensorboard(path: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        return None
    return SummaryWriter(str(path / "tensorboard"), purge_step=step + 1)


def _numbers(line: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, value in line.items():
        if isinstance(value, dict):
            found += _numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and key != "step":
            found.append((prefix + key, float(value)))
    return found
