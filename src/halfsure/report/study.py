"""Run folders → what a page is about: methods, each with its seeds, and the classifiers they are held against."""

import json
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from halfsure._shown import without_places
from halfsure.data import Data
from halfsure.methods import parse
from halfsure.report.reading import PARTS, Record, number, read_record
from halfsure.runs.writer import FREE
from halfsure.studies.comparison import read_comparison, read_errors, reference
from halfsure.training.errors import RunError

__all__ = ["Group", "Study", "mean_sd", "read"]

NAMED = 20
"""Missing runs that are named; of more the number."""
Errors = dict[int, float]
"""Seed → error."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed."""

    name: str
    """The method, with the settings in which it differs from another group of the same method."""
    records: tuple[Record, ...]
    """By seed, ascending."""

    @property
    def first(self) -> Record:
        """The run of the first seed."""
        return self.records[0]

    def ends(self, *keys: str) -> dict[int, float]:
        """A number at the last evaluation, by seed; runs without it are left out."""
        found = {record.seed: number(record.last, *keys) for record in self.records}
        return {seed: value for seed, value in found.items() if value is not None}


@dataclass(frozen=True)
class Study:
    """All that a page is made from."""

    title: str
    groups: tuple[Group, ...]
    baselines: dict[str, Errors] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    """What a reader has to know beside the numbers: runs that are missing or have not ended."""
    command: str | None = None
    """The command that made a comparison."""
    data: Data | None = None
    source: str | None = None
    """Where the data are now, if they were moved."""
    shows_samples: bool = True

    @property
    def records(self) -> list[Record]:
        """Every run."""
        return [record for group in self.groups for record in group.records]

    @property
    def single(self) -> bool:
        """Whether the page is about one run alone."""
        return len(self.records) == 1

    @cached_property
    def part(self) -> str | None:
        """What errors are measured on: test samples, else validation, else unlabeled ones whose labels are known."""
        return next(
            (part for part in PARTS if all(number(r.last, part, "error") is not None for r in self.records)), None
        )

    @cached_property
    def unlabeled(self) -> str | None:
        """Where confidence and candidates are measured: as in the paper on unlabeled samples, where there are any."""
        return "unlabeled" if all("unlabeled" in record.last for record in self.records) else self.part

    @property
    def reference(self) -> Group:
        """What the others are held against: labels alone, or else the first method."""
        return self.groups[reference([group.first.method for group in self.groups])]

    @cached_property
    def best(self) -> Group:
        """The method with the lowest mean error, of equal ones the first."""
        if self.part is None:
            return self.groups[0]
        return min(self.groups, key=lambda group: statistics.fmean(group.ends(str(self.part), "error").values()))


def read(
    paths: Sequence[str | os.PathLike[str]],
    *,
    baselines: Mapping[str, Mapping[Any, float]] | None = None,
    title: str | None = None,
    data: Data | None = None,
) -> Study:
    """Read run folders and comparison folders, in the order given."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if not paths:
        raise RunError("a report needs at least one run folder")
    found, compared = [], []
    for path in dict.fromkeys(Path(path) for path in paths):
        comparison = read_comparison(path)
        if comparison is not None:
            compared.append(comparison)
            found += _runs_within(path, comparison)
        elif (record := read_record(path)) is not None:
            found.append(record)
        else:
            raise RunError(f"there is no run in {path}; name a folder that halfsure train or halfsure compare wrote")
    records = list({record.path.resolve(): record for record in found}.values())
    begun = [record for record in records if record.metrics]
    if not begun:
        raise RunError(f"{paths[0]} has no evaluation yet: there is nothing to report; wait for the first one")
    groups = _groups(begun)
    errors: dict[str, Errors] = {}
    for given in [*(comparison["baselines"] for comparison in compared), baselines or {}]:
        errors |= read_errors(given)
    return Study(
        title=title or _title(groups),
        groups=groups,
        baselines=errors,
        remarks=(*_missing(compared, records), *_unfinished(records), *_mixed(groups)),
        command="\n".join(without_places(str(c["command"])) for c in compared if c.get("command")) or None,
        data=data,
    )


def mean_sd(values: Iterable[float]) -> tuple[float | None, float | None]:
    """Mean and standard deviation; of one value, or none, what there is of them."""
    known = list(values)
    return (
        statistics.fmean(known) if known else None,
        statistics.stdev(known) if len(known) > 1 else None,
    )


def _runs_within(path: Path, comparison: dict[str, Any]) -> list[Record]:
    """The runs in the folder's direct subfolders, in the order of the comparison's methods, others after them."""
    found = [read_record(folder) for folder in sorted(path.iterdir()) if folder.is_dir()]
    records = [record for record in found if record is not None]
    if not records:
        raise RunError(f"{path} holds no run: start the comparison again, it has not got to its first run")
    order = {_canonical(name): place for place, name in enumerate(comparison["methods"])}
    return sorted(records, key=lambda record: (order.get(record.method, len(order)), record.seed))


def _canonical(name: str) -> str:
    try:
        return parse(name).name
    except ValueError:
        return name


def _groups(records: list[Record]) -> tuple[Group, ...]:
    by_key: dict[str, list[Record]] = {}
    for record in records:
        by_key.setdefault(json.dumps(_identity(record), sort_keys=True, default=str), []).append(record)
    groups = []
    for same in by_key.values():
        seeds = [record.seed for record in same]
        if len(set(seeds)) < len(seeds):
            twice = [record.path for record in same if seeds.count(record.seed) > 1]
            raise RunError(f"{twice[0]} and {twice[1]} are the same run with the same seed; name only one of them")
        groups.append(sorted(same, key=lambda record: record.seed))
    return tuple(Group(_name(same, groups), tuple(same)) for same in groups)


def _identity(record: Record) -> dict[str, Any]:
    """What runs that differ in the seed alone have in common."""
    timed = {"steps"} if record.settings.get("time") else set()
    free = FREE | timed | {"seed"}
    about = record.about_data
    named = {"data": record.data_name, "shape": about.get("shape"), "labels": about.get("labeled")}
    return named | {key: value for key, value in record.settings.items() if key not in free}


def _name(same: list[Record], groups: list[list[Record]]) -> str:
    """The method, and what tells the group from others of that method."""
    method, mine = same[0].method, _identity(same[0])
    others = [_identity(group[0]) for group in groups if group is not same and group[0].method == method]
    differs = [key for key in mine if any(other.get(key) != mine[key] for other in others)]
    return method + (f" ({', '.join(f'{key} {mine[key]}' for key in differs)})" if differs else "")


def _title(groups: tuple[Group, ...]) -> str:
    sources = sorted({record.data_name for g in groups for record in g.records})
    what = groups[0].name if len(groups) == 1 else f"{len(groups)} methods"
    return f"{what} on {', '.join(sources)}"


def _missing(compared: list[dict[str, Any]], records: list[Record]) -> list[str]:
    here = {(record.method, record.seed) for record in records if record.metrics}
    wanted = [(_canonical(m), s) for c in compared for m in c["methods"] for s in c["seeds"]]
    lost = [f"{method} with seed {seed}" for method, seed in wanted if (method, seed) not in here]
    more = f" and {len(lost) - NAMED:,} more" if len(lost) > NAMED else ""
    return [f"Not here yet: {', '.join(lost[:NAMED])}{more}."] if lost else []


def _unfinished(records: list[Record]) -> list[str]:
    begun = [r for r in records if r.metrics and not r.finished]
    return [f"{r.method} with seed {r.seed} is at step {r.last['step']:,} of {r.settings['steps']:,}." for r in begun]


def _mixed(groups: tuple[Group, ...]) -> list[str]:
    """Seeds whose runs did not see the same samples and labels: to pair them says less."""
    prints: dict[int, set[str]] = {}
    for record in (record for group in groups for record in group.records):
        prints.setdefault(record.seed, set()).add(str(record.about_data.get("sha256")))
    mixed = [str(seed) for seed, found in sorted(prints.items()) if len(found) > 1]
    return [f"Not all runs of seed {', '.join(mixed)} had the same samples and labels."] if mixed else []
