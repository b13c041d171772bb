"""The run folder: written whole or not at all, by one process, and never losing what was saved."""

import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

__all__ = ["FORMAT", "BrokenError", "Folder", "RunError", "write"]

FORMAT = 1
CHECKPOINTS = ("resume.pt", "resume.previous.pt")
TRAILER = b"\nhalfsure sha256 "


class RunError(Exception):
    """What is wrong with a run or its folder, in a sentence."""


class BrokenError(RunError):
    """A run that could not go on: its numbers were lost, or it could not be saved. What was saved before is whole."""


class Folder:
    """Reads and writes the files of a run.

    | file                | what                                                         |
    |---------------------|--------------------------------------------------------------|
    | `config.json`       | every setting, versions, git revision, what the data was      |
    | `split.json`        | which samples were labeled                                    |
    | `metrics.jsonl`     | one line an evaluation                                        |
    | `model.safetensors` | the averaged weights, with map, classes and preprocessing     |
    | `resume.pt`         | everything to go on from, and `resume.previous.pt` before it  |
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._damaged = False
        """Whether resume.pt was found damaged, and so must not take the place of the whole one before it."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out for the time of the block; a process that dies holds no lock."""
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; a run needs a folder: choose another --out")
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.path / ".lock", timeout=0):
                yield
        except Timeout:
            raise RunError(
                f"another process is training in {self.path}; wait for it, or choose another --out"
            ) from None

    @property
    def config(self) -> dict[str, Any] | None:
        """What config.json holds; None if there is no run here yet."""
        file = self.path / "config.json"
        if not file.is_file():
            return None
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            raise RunError(f"{file} is not valid JSON: the run cannot be read") from None
        if not isinstance(found, dict) or "format" not in found:
            raise RunError(f"{file} is not the config of a run")
        if found["format"] != FORMAT:
            raise RunError(
                f"{self.path} is a run of format {found['format']}, made by halfsure {_made_by(found)}; this halfsure "
                f"reads format {FORMAT}: open it with that version"
            )
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
        lines = []
        for text in file.read_bytes().split(b"\n") if file.is_file() else []:
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if (
                isinstance(line, dict)
                and isinstance(line.get("step"), int)
                and (up_to is None or line["step"] <= up_to)
            ):
                lines.append(line)
        return lines

    def keep_metrics(self, lines: list[dict[str, Any]]) -> None:
        """Write metrics.jsonl anew with these lines only."""
        write(self.path / "metrics.jsonl", "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode())

    def save(self, state: dict[str, Any]) -> None:
        """Write resume.pt, the one before it becoming resume.previous.pt."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getvalue()
        current = self.path / "resume.pt"
        part = write_part(current, content + TRAILER + hashlib.sha256(content).hexdigest().encode())
        if current.exists() and not self._damaged:
            os.replace(current, self.path / "resume.previous.pt")
        os.replace(part, current)
        self._damaged = False
        sync(self.path)

    @property
    def begun(self) -> bool:
        """Whether there is a checkpoint here, whole or not."""
        return any((self.path / name).exists() for name in CHECKPOINTS)

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
                self._damaged |= name == "resume.pt"
            else:
                note = f"{trouble[0]}; going on from {name}, step {state['step']}" if trouble else ""
                return state, note
        if trouble:
            raise RunError("; ".join(trouble) + "; there is nothing whole to go on from")
        return None, ""


def read_state(file: Path) -> dict[str, Any]:
    """Read a checkpoint and check that it is whole; nothing in it can run code."""
    content, found, digest = file.read_bytes().rpartition(TRAILER)
    if not found or hashlib.sha256(content).hexdigest().encode() != digest:
        raise RunError(f"{file} is damaged")
    try:
        state = torch.load(io.BytesIO(content), weights_only=True)
    except Exception as error:  # torch raises whatever its parts raise
        raise RunError(f"{file} cannot be read: {type(error).__name__}") from None
    if not isinstance(state, dict) or not isinstance(state.get("step"), int):
        raise RunError(f"{file} is not a checkpoint")
    return state


def write(file: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    os.replace(write_part(file, content), file)
    sync(file.parent)


def write_part(file: Path, content: bytes) -> Path:
    """Write a file's content beside it, down to the disk; if that fails nothing is left behind."""
    part = file.with_name(file.name + ".part")
    try:
        with open(part, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return part


def sync(folder: Path) -> None:
    """Make renames in a folder last, where the system can open folders."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _made_by(config: dict[str, Any]) -> str:
    versions = config.get("versions")
    return str(versions.get("halfsure", "?")) if isinstance(versions, dict) else "?"
