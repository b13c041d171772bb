"""Check a run by cross-validation over its labels: each fold is a run of its own, in a folder below."""

import json
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from halfsure._disk import read_json, write
from halfsure.data import Data
from halfsure.runs.folder import refuse_links
from halfsure.runs.parallel import Job, run_many
from halfsure.runs.run import Run, load
from halfsure.training.config import Config
from halfsure.training.errors import BrokenError, RunError
from halfsure.trust import wilson
from halfsure.verdict.folds import Evidence, deal, fold_of, without

__all__ = ["assess", "load_evidence", "outcome"]

FILE = "trust.json"
FORMAT = 1
SHORT = ("folds", "labels", "accuracy", "interval")


def assess(
    path: Path, data: Data, config: Config, *, folds: int, workers: int, console: Console | None = None
) -> dict[str, Any]:
    """Train the folds of a run, write trust.json, and give what it says in short."""
    held = deal(data, folds, config.run.seed)
    settings = config.replace(evaluations=1, tensorboard=False, time=None)
    jobs = [Job(fold_folder(path, k, len(held)), settings, without(data, some)) for k, some in enumerate(held)]
    refuse_links(job.out for job in jobs)
    for done in run_many(jobs, workers=workers, console=console):
        if done.error is not None:
            raise BrokenError(f"fold {done.job.name} could not be trained: {done.error}")
    found = [fold_of(data, some, load(job.out)) for job, some in zip(jobs, held, strict=True)]
    right = torch.cat([fold.right for fold in found])
    low, high = wilson(int(right.sum()), len(right))
    accuracy = float(right.double().mean())
    short = {"folds": len(found), "labels": len(right), "accuracy": accuracy, "interval": [low, high]}
    content = {"format": FORMAT, **short, "evidence": Evidence.of(found).to_json()}
    write(path / FILE, json.dumps(content).encode() + b"\n")
    return short


def fold_folder(path: Path, number: int, count: int) -> Path:
    """Where the run of a fold is; another number of folds has other folders."""
    return path / "folds" / f"{number + 1}-of-{count}"


def load_evidence(run: Run) -> Evidence | None:
    """What held-out labels say of a run, None if it was not checked."""
    content = None if run.path is None else _content(run.path / FILE)
    if run.path is None or content is None:
        return None
    file = run.path / FILE
    try:
        count = content["folds"]
        if not isinstance(count, int) or not 1 <= count <= 1000:
            raise ValueError(f"{count!r:.40} is no number of folds")  # noqa: TRY301
        runs = [load(fold_folder(file.parent, number, count)) for number in range(count)]
        evidence = Evidence.from_json(content["evidence"], runs)
    except (ValueError, KeyError) as error:
        raise RunError(f"{file} cannot be used: {error}") from None
    if any(fold.classes != run.classes for fold in runs):
        raise RunError(f"{file}: the folds have other classes than the run")
    return evidence


def outcome(path: Path) -> dict[str, Any] | None:
    """What trust.json says in short: folds, labels, accuracy and its interval; None if the run was not checked."""
    content = _content(path / FILE)
    if content is None:
        return None
    if missing := [name for name in SHORT if name not in content]:
        raise RunError(f"{path / FILE} cannot be used: it does not say {missing[0]}")
    return {name: content[name] for name in SHORT}


def _content(file: Path) -> dict[str, Any] | None:
    if not file.is_file():
        return None
    try:
        content = read_json(file)
    except ValueError as error:
        raise RunError(f"{file} cannot be used: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RunError(f"{file} is not of this version of halfsure")
    return content
