"""How settings were chosen: every method gets six trials, on validation samples and on seeds that are not reported.

    halfsure reproduce tuning --budget 90m

Once for each family of data, at its hardest column, with a fifth of the steps of the tables; the winner, the lowest
mean validation error, is carried over to the other columns of the family. `winners.json` beside this file holds the
winners, `results/tuning.jsonl` every trial. What is not searched stays at the preset's value.
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from halfsure.data import DataError
from halfsure.engine.folder import write
from halfsure.methods import ALGORITHMS, parse
from halfsure.paper.cells import Cell, Column

__all__ = ["FAMILIES", "Family", "choose", "trials", "winner"]

WINNERS = Path(__file__).with_name("winners.json")
HELD_OUT = 5000
Settings = dict[str, Any]


def over(**values: Sequence[Any]) -> list[Settings]:
    """Every combination of a few values."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


RATES = over(lr=(5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 16e-3))
ADDED = ("vat+me", "vat+sh", "vat+pl", "vat+ns", "vat+ads")


@dataclass(frozen=True)
class Family:
    """Data that share their settings."""

    column: Column
    """Where trials are made."""
    data: tuple[str, ...]
    """Which sets take the winners over."""
    seeds: tuple[int, ...]
    steps: Mapping[str, int]
    """By algorithm: a fifth of what the tables have."""
    spaces: Mapping[str, list[Settings]]
    """Six trials for each method."""


GREY = Family(
    Column("mnist", 20),
    ("mnist",),
    (100, 101),
    {"supervised": 600, "vat": 600, "fixmatch": 400, "mixmatch": 400},
    {
        "supervised": RATES,
        **dict.fromkeys(("vat", "vat@sparsemax"), over(epsilon=(1.4, 2.0, 2.8), weight=(0.3, 1.0))),
        **dict.fromkeys(ADDED, over(epsilon=(1.4, 2.8), distill_weight=(0.1, 0.3, 1.0))),
        **dict.fromkeys(("fixmatch", "fixmatch-sh", "fixmatch-ads"), over(lr=(5e-4, 1e-3, 2e-3), weight=(1.0, 3.0))),
        "mixmatch": over(lr=(1e-3, 2e-3), weight=(10.0, 30.0, 100.0)),
        "mixmatch-ads": over(lr=(1e-3, 2e-3), weight=(1.0, 3.0, 10.0)),
    },
)
COLOUR = Family(
    Column("cifar10", 250),
    ("cifar10", "svhn"),
    (100,),
    {"supervised": 600, "fixmatch": 600, "mixmatch": 600, "vat": 600},
    {
        "supervised": RATES,
        **dict.fromkeys(("fixmatch", "fixmatch-sh", "fixmatch-ads"), over(lr=(1e-3, 2e-3, 4e-3), weight=(1.0, 3.0))),
        "mixmatch": over(lr=(1e-3, 2e-3), weight=(10.0, 30.0, 100.0)),
        "mixmatch+ns": over(weight=(30.0, 100.0), distill_weight=(0.1, 0.3, 1.0)),
        "mixmatch-ads": over(lr=(1e-3, 2e-3), weight=(1.0, 3.0, 10.0)),
    },
)
FAMILIES = {"grey": GREY, "colour": COLOUR}


def trials(family: Family) -> Iterator[Cell]:
    """All methods of a trial before the next trial, all trials of a seed before the next seed."""
    for seed in family.seeds:
        for place in range(6):
            for method, space in family.spaces.items():
                steps = family.steps[parse(method).algorithm]
                settings = space[place] | {"steps": steps, "evaluations": 1, "test_sample": 100}
                words = ",".join(f"{name}={value:g}" for name, value in space[place].items())
                yield Cell("tuning", family.column, method, seed, settings=settings, held_out=HELD_OUT, trial=words)


def choose(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The winner of each method that has been tried in full, with the errors it won by; writes winners.json."""
    found: dict[str, Any] = {}
    for name, family in FAMILIES.items():
        for method, space in family.spaces.items():
            errors = [_errors(rows, family, method, settings) for settings in space]
            if all(len(each) == len(family.seeds) for each in errors):
                best = min(range(len(space)), key=lambda k: statistics.fmean(errors[k]))
                found.setdefault(name, {})[method] = {
                    "settings": space[best],
                    "tried": [settings | {"validation": each} for settings, each in zip(space, errors, strict=True)],
                }
    write(WINNERS, json.dumps(found, indent=1).encode() + b"\n")
    _winners.cache_clear()
    return found


def winner(data: str, method: str) -> Settings:
    """What a method was found to like on data of this kind, or its nearest relative that was tried.

    A method without one, VAT on colour images, has the preset's settings.
    """
    name, family = next((name, family) for name, family in FAMILIES.items() if data in family.data)
    known = next((each for each in (method, relative(method)) if each in family.spaces), None)
    if known is None:
        return {}
    tried = _winners().get(name, {})
    if known not in tried:
        raise DataError(f"{known} has not been tuned on {family.column} yet: halfsure reproduce tuning")
    settings: Settings = tried[known]["settings"]
    return settings


def relative(method: str) -> str:
    """The tried method that is closest to one of an ablation.

    Examples:
        >>> from halfsure.paper.tuning import relative
        >>> [relative(name) for name in ("vat@sparsemax+me", "fixmatch@sparsemax+ns", "mixmatch-top3")]
        ['vat+me', 'fixmatch', 'mixmatch-ads']
    """
    parsed = parse(method)
    if parsed.algorithm == "vat":
        return "+".join(["vat", *parsed.added])
    if (parsed.target or "").startswith("top"):
        return f"{parsed.algorithm}-ads"
    return (
        parsed.algorithm
        if parsed.target in (None, ALGORITHMS[parsed.algorithm].built_in)
        else (f"{parsed.algorithm}-{parsed.target}")
    )


@cache
def _winners() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(WINNERS.read_text()) if WINNERS.exists() else {}
    return found


def _errors(rows: Sequence[Mapping[str, Any]], family: Family, method: str, settings: Settings) -> list[float]:
    return [
        row["val"]["error"]
        for row in rows
        if row["method"] == method
        and row["column"] == vars(family.column)
        and settings.items() <= row["settings"].items()
    ]
