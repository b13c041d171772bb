"""Finished runs as lines of JSON: what was run, how to run it again, and what came out."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from halfsure.engine.folder import Folder
from halfsure.engine.many import Outcome
from halfsure.paper.cells import Cell

__all__ = ["Results", "command", "row"]

SCORES = (
    *("error", "ece", "softmax_ece", "brier", "dominant", "softmax_dominant", "support", "sparse_support"),
    *("top_m_accuracy", "sparse_top_m_accuracy"),
)
CURVES = (
    "error",
    "dominant",
    "softmax_dominant",
    "support",
    "sparse_support",
    "top_m_accuracy",
    "sparse_top_m_accuracy",
)


class Results:
    """The lines of one experiment's file."""

    def __init__(self, folder: Path, experiment: str) -> None:
        self.file = folder / f"{experiment}.jsonl"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []:
            yield json.loads(line)

    def find(self, cell: Cell) -> dict[str, Any] | None:
        """The run of a cell, if it is finished."""
        key = cell.key()
        return next((line for line in self if all(line.get(name) == value for name, value in key.items())), None)

    def add(self, line: dict[str, Any]) -> None:
        """Append a run, on the disk before this returns."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab") as file:
            file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def command(cell: Cell) -> str:
    """What runs a cell by itself."""
    protocol = "" if cell.protocol == "cpu" else f" --protocol {cell.protocol}"
    return f"halfsure reproduce {cell.experiment}{protocol} --cell '{cell.name}'"


def row(cell: Cell, outcome: Outcome) -> dict[str, Any]:
    """A line about a finished run."""
    about = Folder(outcome.job.out).config or {}
    last = outcome.metrics[-1]
    whole = not cell.held_out  # of trials only the validation error counts, and nobody sees another
    parts = ["test", "unlabeled"] if whole else ["val"]
    scores = {part: _some(last[part], SCORES) for part in parts if part in last}
    return {
        **cell.key(),
        "command": command(cell),
        "steps": last["step"],
        **scores,
        "readings": outcome.readings() if whole else None,
        "dead": last.get("dead"),
        "predicted": last["unlabeled"]["predicted"] if "unlabeled" in last else None,
        "lines": [_line(line) for line in outcome.metrics] if whole else None,
        "seconds": round(last["seconds"], 1),
        "config": about.get("config"),
        "versions": about.get("versions"),
        "git": about.get("git"),
        "created": about.get("created"),
        "data": about.get("fingerprint"),
    }


def _line(line: dict[str, Any]) -> dict[str, Any]:
    """What figures need of an evaluation."""
    found: dict[str, Any] = {"step": line["step"], "train": line.get("train")}
    for part in ("test", "unlabeled"):
        if line.get(part):
            found[part] = _some(line[part], CURVES)
    if "unlabeled" in line:
        found["histogram"] = line["unlabeled"]["histogram"]
        found["dead"] = line.get("dead")
    return found


def _some(scores: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _short(scores[name]) for name in names if name in scores}


def _short(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
