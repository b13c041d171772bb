"""Several methods on the same labels, seeds and steps: the plan, its folder, and what came out."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from halfsure._disk import read_json, write
from halfsure._shown import path_from, without_places
from halfsure.bank.opening import DataConfig, kept
from halfsure.data import Data, DataError, Part
from halfsure.data.dataset import UNLABELED
from halfsure.learners.classic import BASELINES, baseline_errors
from halfsure.metrics import paired_difference
from halfsure.runs.folder import refuse_links
from halfsure.runs.parallel import Job, Outcome
from halfsure.runs.writer import FREE
from halfsure.training.config import Config
from halfsure.training.errors import RunError

__all__ = ["FILE", "PARTS", "Plan", "read_comparison", "read_errors", "reference", "scored_part", "summary"]

FORMAT = 1
FILE = "compare.json"
MOST = 100_000
"""Runs of a comparison: a few letters in its file can claim any number."""
PARTS = {
    "test": "on the test samples",
    "val": "on the validation samples",
    "unlabeled": "on the unlabeled samples that were trained with, whose labels are known",
}


@dataclass(frozen=True)
class Plan:
    """What to compare. One run for each method and seed, in folders side by side."""

    out: Path
    source: str
    data_config: DataConfig
    configs: dict[str, Config]
    """By method, whatever the seed; the steps are the same."""
    data: dict[int, Data]
    """By seed: the samples are the same, their labels are drawn by it."""
    command: str

    def jobs(self) -> list[Job]:
        """All methods of a seed before the next seed, so that a comparison broken off is one of fewer seeds."""
        return [
            Job(self.out / f"{method}-s{seed}", config.replace(seed=seed), data, self.source, self.data_config)
            for seed, data in self.data.items()
            for method, config in self.configs.items()
        ]

    def claim(self, baselines: bool) -> dict[str, dict[str, float]]:
        """Make the folder this comparison's, or see that it is. → the errors of the baselines, by name and seed."""
        file = self.out / FILE
        source, data_config = kept(self.source, self.data_config, self.out)
        wanted: dict[str, Any] = {
            "format": FORMAT,
            "source": source,
            "methods": list(self.configs),
            "seeds": list(self.data),
            "settings": {
                "data": data_config.as_json(),
                "config": {method: _settings(config) for method, config in self.configs.items()},
            },
            "command": without_places(self.command, self.out, Path(self.source)),
        }
        found = read_comparison(self.out)
        if found is not None:
            _same(self.out, found, wanted)
        elif self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise RunError(f"{self.out} holds something else than a comparison; choose another --out")
        refuse_links(job.out for job in self.jobs())
        errors: dict[str, dict[str, float]] = {} if found is None else found["baselines"]
        if baselines and not errors:
            errors = self._baselines()
        if found is None or errors != found["baselines"]:
            self.out.mkdir(parents=True, exist_ok=True)
            content = json.dumps(wanted | ({"baselines": errors} if errors else {}), indent=1, ensure_ascii=False)
            write(file, content.encode() + b"\n")
        return errors

    def _baselines(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {name: {} for name in BASELINES}
        for seed, data in self.data.items():
            for name, error in baseline_errors(data, _known(data)).items():
                found[name][str(seed)] = error
        return found


def scored_part(data: Data) -> str:
    """Where errors are read: on test samples, else on validation ones, else on unlabeled ones with known labels."""
    for name, part in (("test", data.test), ("val", data.val)):
        if part is not None and (part.labels != UNLABELED).any():
            return name
    known = np.flatnonzero(data.train.labels != UNLABELED)
    if np.setdiff1d(known, data.labeled).size:
        return "unlabeled"
    raise DataError(
        f"{data.name} has nothing to compare methods by: no test samples, and no known label beyond those trained on. "
        "Train on fewer with --labels: the others then score. Of a table, test rows can also be given with --test"
    )


def reference(methods: Sequence[str]) -> int:
    """The place of the method that the others are held against: labels alone, or else the first."""
    return methods.index("supervised") if "supervised" in methods else 0


def read_comparison(folder: Path) -> dict[str, Any] | None:
    """What compare.json holds, its methods and seeds as lists; None if the folder has none."""
    file = folder / FILE
    if not file.is_file():
        return None
    try:
        found = read_json(file)
    except ValueError as error:
        raise RunError(f"{file}: {error}, so the comparison cannot be read") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise RunError(f"{file} is not a comparison of format {FORMAT}; this halfsure cannot read it")
    kinds = {"methods": str, "seeds": int}
    lists = {key: found.setdefault(key, []) for key in kinds}
    if not all(isinstance(v, list) and all(type(i) is kinds[k] for i in v) for k, v in lists.items()):
        raise RunError(f"{file} does not list its methods and seeds: the comparison cannot be read")
    if len(lists["methods"]) * len(lists["seeds"]) > MOST:
        raise RunError(f"{file} names more than {MOST:,} runs: the comparison cannot be read")
    read_errors(found.setdefault("baselines", {}))
    return found


def read_errors(given: Any) -> dict[str, dict[int, float]]:
    """The errors of baselines, by name and seed."""
    try:
        errors = {str(name): {int(seed): float(e) for seed, e in by.items()} for name, by in given.items()}
    except (AttributeError, TypeError, ValueError):
        raise RunError("baselines are errors by seed, such as {'1-NN': {0: 0.21, 1: 0.19}}") from None
    if not all(0 <= error <= 1 for by_seed in errors.values() for error in by_seed.values()):
        raise RunError("the error of a baseline must be a finite number from 0 to 1; leave out a seed that has none")
    return errors


def summary(plan: Plan, outcomes: Sequence[Outcome], baselines: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What came out, as JSON: errors by method and seed, and each one's paired difference to the reference."""
    part = scored_part(next(iter(plan.data.values())))
    lines = {
        (o.job.config.run.method, o.job.config.run.seed): o.metrics[-1] for o in outcomes if o.finished and o.metrics
    }
    methods = {
        method: _row(part, {s: lines[method, s] for s in plan.data if (method, s) in lines}) for method in plan.configs
    }
    against = list(methods)[reference(list(methods))]
    base = methods[against]["by_seed"]
    for method, row in methods.items():
        row["difference"] = None if method == against else _difference(base, row["by_seed"])
    simple = {
        name: {"by_seed": by_seed, **_spread(list(by_seed.values())), "difference": _difference(base, by_seed)}
        for name, by_seed in baselines.items()
    }
    return {
        "folder": str(plan.out),
        "source": plan.source,
        "seeds": list(plan.data),
        "steps": next(iter(plan.configs.values())).training.steps,
        "labels": len(next(iter(plan.data.values())).labeled),
        "part": part,
        "against": against,
        "methods": methods,
        "baselines": simple,
        "failed": {outcome.job.name: outcome.error for outcome in outcomes if outcome.error is not None},
    }


def _row(part: str, lines: dict[int, dict[str, Any]]) -> dict[str, Any]:
    scores = {str(seed): line[part] for seed, line in lines.items()}
    by_seed = {seed: score["error"] for seed, score in scores.items()}
    return {
        "by_seed": by_seed,
        **_spread(list(by_seed.values())),
        "ece": _mean([score["ece"] for score in scores.values()]),
        "candidates": _mean([score["sparse_support"] for score in scores.values()]),
        "truth_among_candidates": _mean([score["sparse_top_m_accuracy"] for score in scores.values()]),
        "dead": {str(seed): line["dead"] for seed, line in lines.items() if line.get("dead")},
        "constant": {
            s: line["constant"] for s, line in zip(scores, lines.values(), strict=True) if line.get("constant")
        },
    }


def _spread(errors: list[float]) -> dict[str, float | None]:
    return {"mean": _mean(errors), "sd": statistics.stdev(errors) if len(errors) > 1 else None}


def _difference(base: dict[str, float], other: dict[str, float]) -> dict[str, Any]:
    """Over the seeds that both have."""
    both = [seed for seed in base if seed in other]
    return paired_difference([base[seed] for seed in both], [other[seed] for seed in both])


def _mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _known(data: Data) -> Part:
    """The samples that errors are read on, those with a known label."""
    name = scored_part(data)
    if name == "unlabeled":
        rows = np.setdiff1d(data.seen, data.labeled)
        return data.train.take(rows[data.train.labels[rows] != UNLABELED])
    part = data.test if name == "test" else data.val
    assert part is not None
    known = part.labels != UNLABELED
    return part if known.all() else part.take(known)


def _settings(config: Config) -> dict[str, Any]:
    return {name: value for name, value in config.plain.items() if name not in FREE | {"seed", "method"}}


def _within(values: Any, *keys: str) -> dict[str, Any]:
    """The object at the end of some keys; an empty one if there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _same(out: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to go on with another comparison than the one in the folder, saying what differs."""
    if isinstance(was := found.get("source"), str) and Path(was).is_absolute():  # from before they were kept otherwise
        found = found | {"source": path_from(out, was)}
    names = ("source", "methods", "seeds")
    changes = [
        f"{name} was {found.get(name)!s:.200}, now {wanted[name]}" for name in names if found.get(name) != wanted[name]
    ]
    if not changes:
        now = wanted["settings"]
        pairs = [(_within(found, "settings", "data"), now["data"])]
        pairs += [(_within(found, "settings", "config", method), config) for method, config in now["config"].items()]
        for before, after in pairs:
            changes += [f"{k} was {before.get(k)!r:.80}, now {v!r}" for k, v in after.items() if before.get(k) != v]
    if changes := list(dict.fromkeys(changes)):
        raise RunError(
            f"{out} holds another comparison: {'; '.join(changes[:4])}{' …' if len(changes) > 4 else ''}. "
            "Choose another --out, or remove the folder if it is not needed"
        )
