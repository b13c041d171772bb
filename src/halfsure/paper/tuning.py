"""How settings were chosen: every method gets six trials, on validation samples and on seeds that are not reported.

    halfsure reproduce tuning --budget 90m

Once for each family of data, at one of its columns; the winner, the lowest mean validation error, is carried over to
the other columns of the family. Trials have a fifth of the tables' steps. Those of VAT with 20 labels have all of them,
on one seed: 600 steps chose perturbations under which 3,000 steps go astray (docs/paper.md). VAT with 100 labels has
trials of its own, as what 20 labels can bear is almost nothing, and so has SVHN with 1,000: at the rate that 250 labels
like, some methods do not begin to learn there; CIFAR-10 with 4,000 has them for the network of Tables I and III. First
VAT itself is searched, then strategies are added to what it chose; likewise negative sampling to what MixMatch chose.
`results/tuning.jsonl` holds every trial, `winners.json` beside this file the winners, with which the tables are run.
What is not searched stays at the preset's value.
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
from halfsure.methods import parse
from halfsure.paper.cells import Cell, Column
from halfsure.paper.results import Results
from halfsure.simplex import SOFTMAX

__all__ = [
    "FAMILIES",
    "WINNERS",
    "Family",
    "NotTunedError",
    "choose",
    "in_words",
    "over",
    "searched",
    "trials",
    "tried",
    "winner",
    "winners",
]

WINNERS = Path(__file__).with_name("winners.json")
HELD_OUT = 5000
Settings = dict[str, Any]


class NotTunedError(DataError):
    """A cell whose settings have not been chosen yet."""


def over(**values: Sequence[Any]) -> list[Settings]:
    """Every combination of a few values."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def in_words(settings: Mapping[str, Any]) -> str:
    """Settings as part of a cell's name.

    Examples:
        >>> from halfsure.paper.tuning import in_words
        >>> in_words({"weight": 1.0, "net": "cnn13-16"})
        'weight=1,net=cnn13-16'
    """
    return ",".join(f"{k}={v}" if isinstance(v, str) else f"{k}={v:g}" for k, v in settings.items())


def searched(space: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which trials differ.

    Examples:
        >>> from halfsure.paper.tuning import over, searched
        >>> searched(over(ramp=(0.4,), weight=(0.1, 0.3)))
        ['weight']
    """
    return [name for name in space[0] if any(trial[name] != space[0][name] for trial in space)]


RATES = (1e-3, 2e-3, 4e-3, 8e-3, 16e-3, 32e-3)
STRATEGIES = ("vat+me", "vat+sh", "vat+pl", "vat+ns", "vat+ads")
IN_SPARSEMAX = ("vat@sparsemax+me", "vat@sparsemax+pl", "vat@sparsemax+ns")
WEIGHTS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Of a strategy: 20 labels of MNIST bear the six smallest, 100 want the six largest."""
RAMP = {"ramp": (0.4,), "ramp_shape": ("exp",)}
"""Of α and β, as the paper's protocol has it for VAT."""
HALF = {"precision": ("bf16",)}
"""On colour images, where a step then takes about three fifths of the time; evaluations are in full precision."""
SMALL = {"net": ("conv7-16",), "norm": ("none",), **HALF}
"""The network of MNIST's tables, for colour images."""
NORMED = {**SMALL, "norm": ("batch",)}
"""The same with batch norm, which CIFAR-10 with 4,000 labels likes better."""
FIXMATCHES = ("fixmatch", "fixmatch-sh", "fixmatch-ads")


@dataclass(frozen=True)
class Family:
    """Data that share their settings."""

    column: Column
    """Where trials are made."""
    takers: tuple[str, ...]
    """Which sets, or columns of one, take the winners over."""
    seeds: tuple[int, ...]
    steps: Mapping[str, int]
    """By algorithm."""
    spaces: Mapping[str, list[Settings]]
    """Six trials for each method."""


VAT = Family(
    Column("mnist", 20),
    ("mnist",),
    (100,),
    {"supervised": 3000, "vat": 3000},
    {
        "supervised": over(lr=RATES),
        **dict.fromkeys(("vat", "vat@sparsemax"), over(**RAMP, epsilon=(1.4, 2.8, 5.6), weight=(0.1, 0.3))),
        **dict.fromkeys(STRATEGIES[:-1], over(**RAMP, epsilon=(2.8,), weight=(0.1,), distill_weight=WEIGHTS[:6])),
        "vat+ads": over(**RAMP, epsilon=(2.8,), weight=(0.3,), distill_weight=WEIGHTS[:6]),
    },
)
VAT100 = Family(
    Column("mnist", 100),
    ("mnist@100",),
    (100,),
    {"supervised": 600, "vat": 600},
    {
        "supervised": over(lr=RATES),
        **dict.fromkeys(("vat", "vat@sparsemax"), over(**RAMP, epsilon=(1.4, 2.8, 5.6), weight=(0.3, 1.0))),
        **dict.fromkeys(
            (*STRATEGIES, *IN_SPARSEMAX),
            over(**RAMP, epsilon=(2.8,), weight=(1.0,), distill_weight=WEIGHTS[2:]),
        ),
    },
)
GREY = Family(
    Column("mnist", 20),
    ("mnist",),
    (100, 101),
    {"fixmatch": 400, "mixmatch": 400},
    {
        **dict.fromkeys(FIXMATCHES, over(lr=(1e-3, 2e-3, 4e-3), weight=(0.3, 1.0))),
        "mixmatch": over(lr=(2e-3, 4e-3), weight=(3.0, 10.0, 30.0)),
        "mixmatch-ads": over(lr=(2e-3, 4e-3), weight=(0.3, 1.0, 3.0)),
    },
)
COLOUR = Family(
    Column("cifar10", 250),
    ("cifar10", "svhn"),
    (100,),
    {"supervised": 600, "fixmatch": 600, "mixmatch": 600},
    {
        "supervised": over(**HALF, lr=RATES),
        **dict.fromkeys(FIXMATCHES, over(**HALF, lr=(2e-3, 4e-3, 8e-3), weight=(1.0, 3.0))),
        "mixmatch": over(**HALF, lr=(4e-3, 8e-3), weight=(10.0, 30.0, 100.0)),
        "mixmatch+ns": over(**HALF, lr=(4e-3,), weight=(30.0,), distill_weight=WEIGHTS[2:]),
        "mixmatch-ads": over(**HALF, lr=(4e-3, 8e-3), weight=(0.3, 1.0, 3.0)),
    },
)
CIFAR4000 = Family(
    Column("cifar10", 4000),
    (),
    (100,),
    {"supervised": 600, "vat": 600, "fixmatch": 600},
    {
        "supervised": over(**NORMED, lr=RATES),
        **dict.fromkeys(
            ("vat", "vat@sparsemax"),
            over(**NORMED, **RAMP, lr=(4e-3,), epsilon=(0.35, 1.4, 5.6), weight=(0.3, 1.0)),
        ),
        **dict.fromkeys(
            (*STRATEGIES, *IN_SPARSEMAX),
            over(**NORMED, **RAMP, lr=(4e-3,), epsilon=(0.35,), weight=(0.3,), distill_weight=WEIGHTS[1:7]),
        ),
        **dict.fromkeys(("fixmatch", "fixmatch-ads"), over(**NORMED, lr=(4e-3, 8e-3), weight=(0.3, 1.0, 3.0))),
    },
)


def _svhn(labels: int, rates: tuple[float, float]) -> Family:
    """SVHN with the smaller network; the experiment `svhn` asks for it by its name, so no column takes it."""
    return Family(
        Column("svhn", labels),
        (),
        (100,),
        {"supervised": 1200, "fixmatch": 1200, "mixmatch": 1200},
        {
            "supervised": over(**SMALL, lr=RATES),
            **dict.fromkeys(FIXMATCHES, over(**SMALL, lr=rates, weight=(0.3, 1.0, 3.0))),
            "mixmatch": over(**SMALL, lr=rates, weight=(3.0, 10.0, 30.0)),
            "mixmatch-ads": over(**SMALL, lr=rates, weight=(0.3, 1.0, 3.0)),
        },
    )


SVHN, SVHN1000 = _svhn(250, (4e-3, 8e-3)), _svhn(1000, (2e-3, 4e-3))
FAMILIES = {
    "vat100": VAT100,
    "vat": VAT,
    "grey": GREY,
    "colour": COLOUR,
    "svhn": SVHN,
    "svhn1000": SVHN1000,
    "cifar4000": CIFAR4000,
}
"""A column takes the first that has it and the method."""


def trials(family: Family) -> Iterator[Cell]:
    """All methods of a trial before the next trial, all trials of a seed before the next seed."""
    for seed in family.seeds:
        for trial in zip(*family.spaces.values(), strict=True):
            for method, settings in zip(family.spaces, trial, strict=True):
                yield _trial(family, method, settings, seed)


def tried(family: Family, method: str, results: Results) -> list[tuple[Settings, list[float]]]:
    """The trials of a method with the validation errors there are, in the order of the seeds."""
    found = []
    for settings in family.spaces[method]:
        lines = [results.find(_trial(family, method, settings, seed)) for seed in family.seeds]
        found.append((settings, [line["val"]["error"] for line in lines if line is not None]))
    return found


def choose(results: Results) -> dict[str, dict[str, Settings]]:
    """The winner of each method that has been tried in full: by family and method, its settings."""
    found: dict[str, dict[str, Settings]] = {}
    for name, family in FAMILIES.items():
        for method in family.spaces:
            trials = tried(family, method, results)
            if all(len(errors) == len(family.seeds) for _, errors in trials):
                best, _ = min(trials, key=lambda trial: statistics.fmean(trial[1]))
                found.setdefault(name, {})[method] = best
    return found


@cache
def winners() -> dict[str, dict[str, Settings]]:
    """The winners that the tables are run with."""
    found: dict[str, dict[str, Settings]] = json.loads(WINNERS.read_text(encoding="utf-8"))
    return found


def winner(column: Column, method: str, named: str | None = None) -> Settings:
    """What a method was found to like on data of this kind, or its nearest relative that was tried.

    `named` is the family to ask in place of those that take the column. What no family has tried has the preset's
    settings.
    """
    for name, family in FAMILIES.items():
        takes = column.data in family.takers or str(column) in family.takers
        mine = takes if named is None else name == named
        known = [each for each in (method, relative(method)) if mine and each in family.spaces]
        if known and known[0] not in winners().get(name, {}):
            raise NotTunedError(f"{known[0]} has not been tuned on {family.column} yet (halfsure reproduce tuning)")
        if known:
            return winners()[name][known[0]]
    return {}


def relative(method: str) -> str:
    """The tried method that is closest to one of an ablation.

    Examples:
        >>> from halfsure.paper.tuning import relative
        >>> [relative(name) for name in ("fixmatch@sparsemax+ns", "mixmatch@sparsemax-top3")]
        ['fixmatch', 'mixmatch-ads']
    """
    parsed = parse(method)
    target = None if parsed.target is None else parsed.target.written
    if (target or "").startswith("top") and parsed.map != SOFTMAX:
        return f"{parsed.algorithm}-ads"
    return parsed.algorithm if target in (None, parsed.kind.built_in) else f"{parsed.algorithm}-{target}"


def _trial(family: Family, method: str, settings: Settings, seed: int) -> Cell:
    # The sample of the test set is of no use, and part of the runs' identity.
    own = settings | {"steps": family.steps[parse(method).algorithm], "evaluations": 1, "test_sample": 100}
    words = in_words({name: settings[name] for name in searched(family.spaces[method])})
    return Cell("tuning", family.column, method, seed, settings=own, held_out=HELD_OUT, variant=words)
