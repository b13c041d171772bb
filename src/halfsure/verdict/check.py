"""Check a run by cross-validation over its labels: each fold is a run of its own, in a folder below."""

import json
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from halfsure._disk import write
from halfsure.bank.encoded import ready
from halfsure.data import Data
from halfsure.runs.encoder_file import kept_encoder
from halfsure.runs.evidence import FILE, FORMAT, Evidence, fold_folder, load_evidence, read_content
from halfsure.runs.folder import refuse_links
from halfsure.runs.model_file import set_temperature
from halfsure.runs.parallel import Job, run_many
from halfsure.runs.run import load
from halfsure.training.config import Config
from halfsure.training.errors import BrokenError, RunError
from halfsure.trust import wilson
from halfsure.verdict.folds import deal, fold_of, without

__all__ = ["FILE", "assess", "load_evidence", "outcome"]

SHORT = ("folds", "labels", "accuracy", "interval")


def assess(
    path: Path, data: Data, config: Config, *, folds: int, workers: int, console: Console | None = None
) -> dict[str, Any]:
    """Train the folds of a run, write trust.json, and give what it says in short."""
    held = deal(data, folds, config.run.seed)
    settings = config.replace(evaluations=1, tensorboard=False, time=None)
    folders = [fold_folder(path, number, len(held)) for number in range(len(held))]
    refuse_links(folders)
    jobs = []
    for out, some in zip(folders, held, strict=True):
        left = without(data, some, console, kept=kept_encoder(out))
        ready(left, config.algorithm(data).views, console)  # once, and not in every process that trains
        jobs.append(Job(out, settings, left))
    for done in run_many(jobs, workers=workers, console=console):
        if done.error is not None:
            raise BrokenError(f"fold {done.job.name} could not be trained: {done.error}")
    found = [fold_of(job.data or data, some, load(job.out)) for job, some in zip(jobs, held, strict=True)]
    right = torch.cat([fold.right for fold in found])
    low, high = wilson(int(right.sum()), len(right))
    accuracy = float(right.double().mean())
    short = {"folds": len(found), "labels": len(right), "accuracy": accuracy, "interval": [low, high]}
    evidence = Evidence.of(found)
    content = {"format": FORMAT, **short, "evidence": evidence.to_json()}
    write(path / FILE, json.dumps(content).encode() + b"\n")
    set_temperature(path / "model.safetensors", evidence.temperature)
    return short


def outcome(path: Path) -> dict[str, Any] | None:
    """What trust.json says in short: folds, labels, accuracy and its interval; None if the run was not checked."""
    content = read_content(path)
    if content is None:
        return None
    if missing := [name for name in SHORT if name not in content]:
        raise RunError(f"{path / FILE} cannot be used: it does not say {missing[0]}")
    if odd := [name for name in SHORT if not _is_sound(name, content[name])]:
        raise RunError(f"{path / FILE} cannot be used: {odd[0]} cannot be {content[odd[0]]!r:.60}")
    return {name: content[name] for name in SHORT}


def _is_sound(name: str, value: Any) -> bool:
    """Whether a value can be what is meant: a count, a share, or an interval of shares."""
    if name == "interval":
        return isinstance(value, list) and len(value) == 2 and all(_is_sound("accuracy", end) for end in value)
    kinds = (int, float) if name == "accuracy" else (int,)
    return type(value) in kinds and value >= 0 and (name != "accuracy" or value <= 1)
