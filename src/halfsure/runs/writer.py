"""What a run leaves behind: its folder, written by one process."""

import hashlib
import json
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
from numpy.typing import NDArray
from torch import nn

import halfsure
from halfsure._disk import reason, write
from halfsure.bank.end_to_end import how_trained
from halfsure.bank.seeing import notice_of, weights_of
from halfsure.bank.tuned import tuned_encoder, tuned_fields
from halfsure.data import Data, Part, Split
from halfsure.runs.encoder_file import keep_encoder, read_encoder
from halfsure.runs.folder import FLAT, FORMAT, Folder, flat_settings
from halfsure.runs.model_file import read_model, save_model
from halfsure.runs.tensorboard import Events
from halfsure.runs.with_encoder import EndToEndRun
from halfsure.simplex import Map
from halfsure.training.config import Config, RunSettings
from halfsure.training.errors import BrokenError, RunError
from halfsure.training.memory import Memory
from halfsure.training.ranks import Ranks
from halfsure.views.preprocessing import Preprocessing

__all__ = ["RunWriter", "fingerprint", "refuse_old"]

NOTICE = "NOTICE.txt"

# What may differ between a run and the one that goes on with it: it has no influence on any result, but for the last
# digits of sums over another number of threads, of which there is a remark.
FREE = {"tensorboard", "save_minutes", "threads"}
PARTS = [name for name in RunSettings.__dataclass_fields__ if name not in ("preset", "seed")]
"""Settings that name a part, the method first."""


class RunWriter(Memory):
    """Keeps a run in a folder; other ranks than the first write nothing."""

    def __init__(self, folder: Folder, about: dict[str, Any], whole: EndToEndRun | None = None) -> None:
        """`whole` says what to keep where an encoder is trained too."""
        super().__init__()
        self.folder, self._about, self._whole = folder, about, whole
        self._about_model: dict[str, Any] = {}
        self._events: Events | None = None
        self._tensorboard = False
        self._saved: int | None = None
        self.temperature = 1.0
        """That of the model in the folder, if it was finished and checked before."""

    def join(self, ranks: Ranks) -> "RunWriter":
        """Learn which process of how many this is: the first one writes."""
        self._ranks = ranks
        self._mine = self.folder if ranks.first else None
        return self

    def __enter__(self) -> "RunWriter":
        self._lock = self._mine.lock() if self._mine else None
        self._ranks.by_first(lambda: self._lock.__enter__() if self._lock else None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._events is not None:
            self._events.close()
        if self._lock:
            self._lock.__exit__(kind, error, trace)

    def steps(self) -> int | None:
        """How many steps the run in the folder has, if there is one."""
        found = self._ranks.by_first(lambda: self._mine.config if self._mine else None)
        if found is None:
            return None
        try:
            return int(flat_settings(found)["steps"])
        except (KeyError, TypeError, ValueError):
            raise RunError("the config.json of the folder does not say how many steps the run has") from None

    def claim(self, data: Data, config: Config, map: Map, preprocessing: Preprocessing) -> None:
        """Make the folder this run's, or see that it is."""
        if self._whole is not None:
            data, preprocessing = self._whole.data, self._whole.preprocessing
        tuned = tuned_encoder(data)
        self._about_model = {
            "map": map.name,
            "classes": list(data.classes),
            "net": self._about.get("net"),
            "preprocessing": preprocessing.as_json(),
            "encoding": data.encoding,
        }
        self.config = {
            "format": FORMAT,
            "versions": _versions(),
            "git": _git_revision(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "threads": torch.get_num_threads(),
            **self._about,
            "map": map.name,
            "fingerprint": fingerprint(data),
            "config": config.as_json(),
            **({} if tuned is None else {"tuned": tuned.as_json()}),
        }
        self._tensorboard = config.machine.tensorboard
        self._settings = {name: value for name, value in config.plain.items() if name not in FREE}
        self.config = self._ranks.by_first(lambda: self._own(self._mine, data, config) if self._mine else self.config)

    def _own(self, folder: Folder, data: Data, config: Config) -> dict[str, Any]:
        found = folder.config
        if found is not None:
            _same_run(folder, found, self.config)
            then, now = found.get("versions", {}).get("torch"), str(torch.__version__)
            self.remarks += [f"begun with torch {then}, now {now}: the bits may differ"] if then != now else []
            before, count = found.get("threads"), torch.get_num_threads()
            if before not in (None, count):
                self.remarks.append(f"begun on {before} threads of torch, now {count}: the bits may differ")
            self._keep_encoder(folder, data)
            return found
        if folder.begun:
            raise RunError(
                f"{folder.path} has checkpoints but no config.json to say of what; choose another --out, or remove it"
            )
        split = Split.of(data.name, data.train.labels, data.labeled, data.classes, config.run.seed)
        with self._saving(0):
            split.save(folder.path / "split.json")
            if notice := notice_of(data):
                write(folder.path / NOTICE, f"{notice.strip()}\n".encode())
            self._keep_encoder(folder, data)
            folder.write_config(self.config)
        return self.config

    def _keep_encoder(self, folder: Folder, data: Data) -> None:
        """Keep the weights of an encoder that was tuned; those that are there and whole stay."""
        if (encoder := tuned_encoder(data)) is not None:
            with self._saving(0):
                keep_encoder(folder.path, encoder.as_json(), encoder.changed)

    def resume(self) -> dict[str, Any] | None:
        """The state to go on from, the same on every rank; None if there is none yet."""
        state, self.metrics, notes = self._ranks.by_first(lambda: self._found(self._mine))
        step = state["step"] if state else 0
        self._saved = step if state else None
        if self._mine and self._tensorboard:
            self._events = Events(self._mine.path, step)
        self.remarks += notes
        if step == flat_settings(self.config).get("steps"):
            self.remarks.append(f"this run is finished: all of its {step:,} steps are done")
        elif step:
            self.remarks.append(f"going on from step {step:,}")
        if state and isinstance(state.get("window"), list) and len(state["window"]) != self._ranks.size:
            self.remarks.append(
                f"saved by {len(state['window'])} processes, now {self._ranks.size}: the bits will differ from there on"
            )
        return state

    def _found(self, folder: Folder | None) -> tuple[dict[str, Any] | None, list[dict[str, Any]], list[str]]:
        """What the folder has to go on from: a state, the evaluations up to it, and remarks; the rest is let go."""
        if folder is None:
            return None, [], []
        state, trouble = folder.resume()
        notes = [trouble] if trouble else []
        if state and isinstance(state.get("settings"), dict):
            _same_settings(folder, state["settings"], flat_settings(self.config))
        lines = folder.metrics(up_to=state["step"]) if state else []
        kept = _lines(state) if state else None
        if kept is not None and lines != kept:
            notes.append(f"{folder.path / 'metrics.jsonl'} was damaged; it is written anew from the checkpoint")
            lines = kept
        with self._saving(state["step"] if state else 0):
            folder.keep_metrics(lines)
        return state, lines, notes

    def add(self, line: dict[str, Any]) -> None:
        """Take an evaluation in."""
        self.metrics.append(line)

        def append() -> None:
            if self._mine:
                with self._saving(line["step"]):
                    self._mine.append(line)

        self._ranks.by_first(append)
        if self._events is not None:
            self._events.add(line)

    def save(self, state: dict[str, Any], model: nn.Module) -> None:
        """Write a checkpoint and the model; what was saved before stays until this is whole."""
        # What other files hold is in the checkpoint too, under its checksum: damage to them is noticed.
        more = {"settings": self._settings, "metrics": json.loads(json.dumps(self.metrics))}

        def keep() -> None:
            if self._mine:
                with self._saving(state["step"]):
                    self._save_model(self._mine, model)
                    self._mine.save(state | more)

        self._ranks.by_first(keep)
        self._saved, self.temperature = state["step"], 1.0

    def _save_model(self, folder: Folder, model: nn.Module) -> None:
        about = self._about_model
        if self._whole is not None:
            kept = self._whole.kept(model)
            keep_encoder(folder.path, kept.fields, kept.changed)
            model, about = kept.classifier, about | {"encoding": kept.encoding}
        save_model(folder, model, about)

    def mend(self, model: nn.Module) -> None:
        """Write the model anew where its file is damaged or gone: the checkpoint has the weights too."""

        def look() -> float | None:
            if self._mine is None:
                return None
            file = self._mine.path / "model.safetensors"
            try:
                stored = read_model(file)
                if self._whole is not None:  # killed between the two files, one may be newer
                    read_encoder(self._mine.path, self._whole.kept(model).fields)
                    read_encoder(self._mine.path, tuned_fields(stored.encoding))
            except RunError:
                self.remarks.append(f"{file} was damaged or missing; it is written anew from the checkpoint")
                with self._saving(self._saved or 0):
                    self._save_model(self._mine, model)
                return None
            return stored.temperature

        self.temperature = self._ranks.by_first(look) or 1.0

    @contextmanager
    def _saving(self, step: int) -> Iterator[None]:
        try:
            yield
        except (OSError, MemoryError) as error:
            why = "there is too little memory" if isinstance(error, MemoryError) else reason(error)
            raise BrokenError(f"step {step:,} could not be saved: {why}. {self.last_good()}") from error

    def where(self) -> str:
        """What there is of a run that had to end."""
        if self._saved is None:
            return "Nothing had been saved yet."
        if not self.folder.begun:
            return f"What was saved is gone: somebody removed or emptied {self.folder.path}."
        return f"The last good checkpoint is that of step {self._saved:,}, in {self.folder.path}"

    def last_good(self) -> str:
        """The same, and how to go on."""
        if self._saved is None or not self.folder.begun:
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
            digest.update(_contents(part, some))
            digest.update(b"" if part.groups is None else "\0".join(part.groups).encode())
    for rows in (data.labeled, data.unlabeled):
        digest.update(b"" if rows is None else np.ascontiguousarray(rows, dtype="<i8").data)
    return {
        "name": data.name,
        "shape": list(data.train.samples.shape),
        "labeled": len(data.labeled),
        "test": 0 if data.test is None else len(data.test),
        "sha256": digest.hexdigest(),
        **({"encoder": weights} if (weights := weights_of(data)) else {}),
        **({"trained": f"{how.way} at a rate of {how.rate:g}"} if (how := how_trained(data)) else {}),
    }


def _contents(part: Part, rows: NDArray[np.int64]) -> bytes:
    """What is in some samples: pictures or texts where an encoder made them, for its last bits differ by machine."""
    if part.originals is not None:
        return b"".join(map(part.originals.key, rows.tolist()))
    return np.ascontiguousarray(part.samples[rows]).tobytes()


def _same_run(folder: Folder, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to go on with another run than the one in the folder, saying what differs."""
    refuse_old(folder, found)
    was, now = flat_settings(found), flat_settings(wanted)
    # Another part has other settings: of method, network, optimiser or views that differ, only what both have is told.
    parts = [key for key in PARTS if was.get(key) != now.get(key)]
    both = [key for key in now if key not in FREE and key not in PARTS and (key in was or not parts)]
    changes = [f"{key} was {was.get(key)!r}, now {now.get(key)!r}" for key in parts]
    changes += [f"{key} was {was.get(key)!r}, now {now[key]!r}" for key in both if was.get(key) != now[key]]
    changes += [
        f"{key} was {found.get(key) or 'your own'}, now {wanted.get(key) or 'your own'}"
        for key in ("net", "views")
        if found.get(key) != wanted.get(key) and key not in parts
    ]
    if found.get("own_net") != wanted.get("own_net") and found.get("net") == wanted.get("net"):
        changes.append("your network has other layers")
    before, after = dict(found.get("fingerprint") or {}), dict(wanted["fingerprint"])
    if (tuned := before.pop("trained", "none")) != (tunes := after.pop("trained", "none")):
        changes.append(f"tune was {tuned}, now {tunes}")
    if before != after:
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


def refuse_old(folder: Folder, found: dict[str, Any]) -> None:
    """Refuse to go on with a run of version 0.1: this version trains otherwise."""
    if found["format"] == FLAT:
        made_by = found.get("versions", {}).get("halfsure", "0.1")
        raise RunError(
            f"{folder.path} was begun by halfsure {made_by!s:.20} and needs that version to go on. Its model can be "
            "used as it is: predict, evaluate, report. To train anew, choose another --out"
        )


def _same_settings(folder: Folder, was: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse a config.json that is not the one the run was begun with: it was changed, or a bit of it flipped."""
    changes = [
        f"{key} is {now.get(key)!r}, was {was[key]!r}" for key in was if key not in FREE and now.get(key) != was[key]
    ]
    if changes:
        raise RunError(
            f"{folder.path / 'config.json'} is not what the run was begun with: {'; '.join(changes[:4])}"
            f"{' …' if len(changes) > 4 else ''}. Put that back, or begin another run in another --out"
        )


def _lines(state: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The evaluations that a checkpoint holds; None if it is from before they did."""
    lines = state.get("metrics")
    sound = isinstance(lines, list) and all(isinstance(x, dict) and type(x.get("step")) is int for x in lines)
    try:
        json.dumps(lines, allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # tensors, NaN: not written by a run
        sound = False
    return lines if sound else None


def _versions() -> dict[str, str]:
    return {
        "halfsure": halfsure.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _git_revision() -> str | None:
    """The revision of the code, where it runs from its own repository, and not out of somebody else's."""
    file = Path(__file__)
    command = ["git", "-C", str(file.parent), "rev-parse", "HEAD", f"HEAD:./{file.name}"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return None
