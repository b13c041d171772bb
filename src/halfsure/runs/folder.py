"""The run folder: written whole or not at all, by one process, and never losing what was saved."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any

from filelock import FileLock, Timeout

from halfsure._disk import put, read_json, read_lines, reason, write, write_part
from halfsure.runs.checkpoint import pack_state, read_state
from halfsure.settings import declared
from halfsure.settings.compose import flat_json
from halfsure.training.config import FIXED_SECTIONS
from halfsure.training.errors import RunError

__all__ = ["FORMAT", "Folder", "flat_settings", "refuse_links"]

FORMAT = 2
FLAT = 1
"""The format of version 0.1, with one list of settings; such a run can be used, and not gone on with."""
FURTHEST = 2**53
"""A step that any number can still hold."""
CHECKPOINTS = ("resume.safetensors", "resume.previous.safetensors")
OLD = "resume.pt"
"""The checkpoint of halfsure 0.1, which was a pickle."""
TYPES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("created", "map", "fingerprint.name", "fingerprint.sha256"), (str,)),
    **dict.fromkeys(("git", "source", "views", "own_net", "data.split"), (str, NoneType)),
    **dict.fromkeys(("threads", "folds", "fingerprint.labeled", "fingerprint.test", "data.val"), (int,)),
    **dict.fromkeys(("versions", "fingerprint", "config", "data.reader"), (dict,)),
    **dict.fromkeys(("data", "net"), (dict, NoneType)),
    "data.labels": (int, NoneType),
    "fingerprint.shape": (list,),
}
"""What config.json says, where it says it."""
WORDS = {str: "a text", int: "a whole number", dict: "an object", list: "a list", NoneType: "null"}
INSIDE = (".lock", "folds", "tensorboard")
"""What a run writes to without replacing it, and so must not be a link to somewhere else."""


class Folder:
    """Reads and writes the files of a run.

    | file                 | what                                                                    |
    |----------------------|-------------------------------------------------------------------------|
    | `config.json`        | every setting, versions, git revision, what the data was                |
    | `split.json`         | which samples were labeled                                              |
    | `metrics.jsonl`      | one line per evaluation                                                 |
    | `model.safetensors`  | the averaged weights, with map, classes and preprocessing               |
    | `resume.safetensors` | everything to go on from; the one before is resume.previous.safetensors |
    | `encoder.safetensors`| what tuning changed in the encoder, where it was tuned                  |
    | `NOTICE.txt`         | licence and notice of the encoder's weights, where there is an encoder  |
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._damaged = False
        """Whether the newest checkpoint was found damaged: it must not take the place of the whole one before it."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out for the time of the block; a process that dies holds no lock."""
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; a run needs a folder: choose another --out")
        refuse_links(self.path / name for name in INSIDE)
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise RunError(
                f"another process is training in {self.path}; wait for it, or choose another --out"
            ) from None
        except OSError as error:  # a disk that is full or read-only, or a network's that knows no locks
            raise RunError(
                f"a run cannot be kept in {self.path}: {reason(error)}; mend that, or choose another --out"
            ) from None
        try:
            yield
        finally:
            lock.release()

    @property
    def config(self) -> dict[str, Any] | None:
        """What config.json holds; None if there is no run here yet."""
        file = self.path / "config.json"
        if not file.is_file():
            return None
        try:
            found = read_json(file)
        except ValueError as error:
            raise RunError(f"{file}: {error}, so the run cannot be read") from None
        if not isinstance(found, dict) or "format" not in found:
            raise RunError(f"{file} is not the config of a run")
        if found["format"] not in (FORMAT, FLAT):
            raise RunError(
                f"{self.path} is a run of format {found['format']!r:.40}, made by halfsure {_made_by(found):.40}; this "
                f"halfsure reads format {FORMAT}: open it with that version"
            )
        if not all(isinstance(found.get(key, {}), dict) for key in ("versions", "config")):
            raise RunError(f"{file} is not the config of a run")
        try:
            _check(found)
        except ValueError as error:
            raise RunError(f"{file} cannot be used: {error}; put back what was there") from None
        return found

    def write_config(self, config: dict[str, Any]) -> None:
        """Write config.json."""
        write(self.path / "config.json", json.dumps(config, indent=1, ensure_ascii=False).encode() + b"\n")

    def append(self, line: dict[str, Any]) -> None:
        """Add a line to metrics.jsonl, on the disk before this returns."""
        text = json.dumps(line, allow_nan=False) + "\n"
        with open(self.path / "metrics.jsonl", "ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def metrics(self, up_to: int | None = None) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; one that was cut off in the middle is left out."""
        file = self.path / "metrics.jsonl"
        try:
            lines = list(read_lines(file)) if file.is_file() else []
        except ValueError as error:
            raise RunError(f"{file}: {error}, so it is none that halfsure wrote") from None
        highest = FURTHEST if up_to is None else up_to
        return [line for line in lines if type(line.get("step")) is int and 0 <= line["step"] <= highest]

    def keep_metrics(self, lines: list[dict[str, Any]]) -> None:
        """Write metrics.jsonl anew with these lines only."""
        write(self.path / "metrics.jsonl", "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode())

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint; the one before it stays as the previous one."""
        current, previous = (self.path / name for name in CHECKPOINTS)
        part = write_part(current, pack_state(state))
        if current.exists() and not self._damaged:
            put(current, previous)
        put(part, current)
        self._damaged = False

    @property
    def begun(self) -> bool:
        """Whether there is a checkpoint here, whole or not."""
        return any((self.path / name).exists() for name in (*CHECKPOINTS, OLD))

    def resume(self) -> tuple[dict[str, Any] | None, str]:
        """The newest state that is whole, and a sentence about any that was not; None if nothing was saved yet."""
        trouble = []
        for name in CHECKPOINTS:
            file = self.path / name
            if not file.is_file():
                continue
            try:
                state = read_state(file)
            except RunError as error:
                trouble.append(str(error))
                self._damaged |= name == CHECKPOINTS[0]
            else:
                note = f"{trouble[0]}; going on from {name}, step {state['step']}" if trouble else ""
                return state, note
        if trouble:
            raise RunError("; ".join(trouble) + "; there is nothing whole to go on from")
        if (self.path / OLD).exists():
            raise RunError(f"{self.path} needs halfsure 0.1, which saved it, to go on; its model can be used as it is")
        return None, ""


def flat_settings(config: dict[str, Any]) -> dict[str, Any]:
    """The settings in a config.json by their flat names, of either format; in the old one null was the default."""
    found = config.get("config", {})
    if config.get("format") != FLAT:
        return flat_json(found)
    return {name: value for name, value in found.items() if value is not None}


def refuse_links(paths: Iterable[Path]) -> None:
    """Refuse to write to what is a link: it may lead out of the folder."""
    for path in paths:
        if path.is_symlink():
            raise RunError(
                f"{path} is a link, and a run writes into its own folder alone; remove it, or choose another --out"
            )


def _check(config: dict[str, Any]) -> None:
    """Refuse values of other types than a run writes; settings of parts are checked where they are used."""
    if config["format"] == FLAT:  # that version wrote what it liked, and whoever reads it looks for himself
        return
    for name, kinds in TYPES.items():
        outer, _, inner = name.rpartition(".")
        place = config.get(outer) if outer else config
        if isinstance(place, dict) and inner in place and type(place[inner]) not in kinds:
            wanted = " or ".join(WORDS[kind] for kind in kinds)
            raise ValueError(f"{name} is to be {wanted}, got {place[inner]!r:.60}")
    if any(type(side) is not int for side in config.get("fingerprint", {}).get("shape", ())):
        raise ValueError("fingerprint.shape is to be a list of whole numbers")
    for key, kind in FIXED_SECTIONS.items():
        section = config.get("config", {}).get(key, {})
        if not isinstance(section, dict):
            raise ValueError(f"config.{key} is to be an object, got {section!r:.60}")  # noqa: TRY004 - one kind of error
        for setting in declared(kind):
            if setting.name in section:
                setting.checked(section[setting.name])


def _made_by(config: dict[str, Any]) -> str:
    versions = config.get("versions")
    return str(versions.get("halfsure", "?")) if isinstance(versions, dict) else "?"
