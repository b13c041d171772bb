"""Finished runs as lines of JSON: what was run, how to run it again, and what came out."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from halfsure._disk import read_lines
from halfsure.data import DataError
from halfsure.paper.cells import IDENTITY, Cell, identity
from halfsure.runs.folder import Folder, flat_settings
from halfsure.runs.parallel import Outcome

__all__ = ["Line", "Results", "line_of"]

Line = dict[str, Any]
"""A finished run."""

SUPPORT = ("support", "sparse_support", "top_m_accuracy", "sparse_top_m_accuracy")
CURVES = ("error", "dominant", "softmax_dominant", *SUPPORT)
SCORES = ("error", "ece", "softmax_ece", "brier", "dominant", "softmax_dominant", *SUPPORT)


class Results:
    """The lines in the files of a folder, one file for each experiment; a run is found wherever it stands.

    Lines of other folders are read too, and never added to.
    """

    def __init__(self, folder: Path, others: Sequence[Path] = ()) -> None:
        self.folder = folder
        self._lines = {identity(line): line for each in (*others, folder) for line in _read(each)}

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines.values())

    def find(self, cell: Cell) -> Line | None:
        """The run of a cell, if it is finished."""
        return self._lines.get(identity(cell.as_json()))

    def add(self, line: Line) -> None:
        """Append a run to its experiment's file, on the disk before this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{line['experiment']}.jsonl"
        with FileLock(self.folder / ".lock"), file.open("a+b") as opened:
            opened.seek(max(0, opened.tell() - 1))
            cut_off = opened.read() not in (b"", b"\n")  # such a line stays apart, and is passed over
            opened.write(b"\n" * cut_off + json.dumps(line, allow_nan=False).encode() + b"\n")
            opened.flush()
            os.fsync(opened.fileno())
        self._lines[identity(line)] = line


def _read(folder: Path) -> Iterator[Line]:
    for file in sorted(folder.glob("*.jsonl")):
        try:
            lines = [line for line in read_lines(file) if line.get("experiment") == file.stem]
        except (OSError, ValueError) as error:
            raise DataError(f"{file} cannot be read: {error}") from None
        for number, line in enumerate(lines, 1):
            if not _is_run(line):
                raise DataError(f"{file}: run {number} has no settings or no error; take the line out, or mend it")
            yield line


def line_of(cell: Cell, outcome: Outcome) -> Line:
    """The line of a finished run. Of a trial only the validation error counts, and nobody sees another."""
    about = Folder(outcome.job.out).config or {}
    last = outcome.metrics[-1]
    shown = not cell.held_out
    parts = ("test", "unlabeled") if shown else ("val",)
    return {
        **cell.as_json(),
        "command": cell.command,
        "steps": last["step"],
        **{part: _rounded(last[part], SCORES) for part in parts if last.get(part)},
        "readings": outcome.readings() if shown else None,
        "dead": last.get("dead"),
        "predicted": last["unlabeled"]["predicted"] if last.get("unlabeled") else None,
        "lines": [_curves(line) for line in outcome.metrics] if shown else None,
        "seconds": round(last["seconds"], 1),
        "config": flat_settings(about),
        **{name: about.get(name) for name in ("versions", "git", "created")},
        "data": about.get("fingerprint"),
    }


def _curves(line: dict[str, Any]) -> dict[str, Any]:
    """What figures need of an evaluation."""
    found = {part: _rounded(line[part], CURVES) for part in ("test", "unlabeled") if line.get(part)}
    unlabeled = line.get("unlabeled") or {}
    more = {"histogram": unlabeled.get("histogram"), "dead": line.get("dead"), "train": line.get("train")}
    return {"step": line["step"], **found, **more}


def _rounded(scores: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    found = {name: scores[name] for name in names if name in scores}
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in found.items()}


def _is_run(line: Line) -> bool:
    """Whether it has what a run is known by, and what came of it."""
    scores = line.get("val" if line.get("held_out") else "test")
    known = all(name in line for name in IDENTITY) and isinstance(line["seed"], int)
    return known and isinstance(scores, dict) and isinstance(scores.get("error"), float)
