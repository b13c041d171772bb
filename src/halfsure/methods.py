"""The paper's notation: `"fixmatch-ads"` → an algorithm with a strategy in it.

    algorithm[@map][-strategy][+strategy]…

`-` replaces the distillation an algorithm has built in, `+` adds a distillation loss: `vat+ads`, `mixmatch-ads`,
`fixmatch@sparsemax+ns`. All parts of a method share one map: softmax, unless `@` names another or `ads` is among the
strategies, which lives in sparsemax.
"""

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from halfsure.algorithms import VAT, Algorithm, FixMatch, MixMatch, Supervised
from halfsure.simplex import SOFTMAX, SPARSEMAX, Map, get_map
from halfsure.targets import ADS, MinEntropy, NegativeSampling, PseudoLabel, Sharpening, Strategy, TopM

__all__ = ["ALGORITHMS", "STRATEGIES", "Method", "catalogue", "method", "parse"]


@dataclass(frozen=True)
class StrategyRow:
    """A strategy as the notation knows it."""

    build: Callable[..., Strategy]
    settings: tuple[str, ...]
    explicit: bool
    """Whether it makes a target that can stand in the place of another."""
    about: str


@dataclass(frozen=True)
class AlgorithmRow:
    """An algorithm as the notation knows it."""

    build: type[Algorithm]
    built_in: str | None
    """The strategy that is there if no other is put in its place."""
    about: str


STRATEGIES = {
    "me": StrategyRow(MinEntropy, (), False, "minimum entropy: lower the entropy of every prediction"),
    "sh": StrategyRow(Sharpening, ("temperature",), True, "sharpening: towards p^(1/temperature), every class"),
    "pl": StrategyRow(PseudoLabel, ("threshold",), True, "pseudo-label: towards the best class where p ≥ threshold"),
    "ns": StrategyRow(NegativeSampling, ("threshold",), False, "negative sampling: less of classes with p < threshold"),
    "ads": StrategyRow(ADS, ("r",), True, "adaptive sharpening: towards p^r over the sample's own candidates"),
    "topM": StrategyRow(TopM, ("r",), True, "fixed candidates: towards p^r over the M best classes, as in top3"),
}

ALGORITHMS = {
    "supervised": AlgorithmRow(Supervised, None, "the labels alone"),
    "vat": AlgorithmRow(VAT, None, "predictions that do not change under the worst small perturbation"),
    "mixmatch": AlgorithmRow(MixMatch, "sh", "guessed labels, trained on mixtures of all samples"),
    "fixmatch": AlgorithmRow(FixMatch, "pl", "targets from weak views, met by strong views"),
}

NO_TARGET = ("mixmatch", "pl")  # not at its own threshold: a mixture needs a target of every sample

GRAMMAR = re.compile(r"(?P<algorithm>[a-z]+)(?:@(?P<map>[a-z]+[0-9.]*))?(?P<strategies>(?:[+-][a-z]+[0-9]*)*)")


@dataclass(frozen=True)
class Method:
    """A method taken apart."""

    algorithm: str
    map: Map
    target: str | None
    """The strategy that makes the targets, for algorithms that have such."""
    added: tuple[str, ...]

    @property
    def name(self) -> str:
        """The shortest way to write it; methods that are the same have the same name."""
        built_in = ALGORITHMS[self.algorithm].built_in
        parts = ([f"-{self.target}"] if self.target != built_in else []) + [f"+{name}" for name in self.added]
        implied = SPARSEMAX if any(part[1:] == "ads" for part in parts) else SOFTMAX
        return self.algorithm + ("" if self.map == implied else f"@{self.map.name}") + "".join(parts)


def method(name: str, **settings: Any) -> Algorithm:
    """Build the method of a name; settings reach the part that has them.

    A strategy's settings are `r`, `temperature` and `threshold`; where two parts of a method have the same one, it
    takes the strategy's name in front: `pl_threshold`, `ns_threshold`. `weight` is α, `distill_weight` β, and the
    algorithms have their own: `epsilon`, `xi`, `power_steps` (vat), `mixup`, `copies` (mixmatch), `distance`, `prior`.

    Examples:
        >>> import halfsure
        >>> halfsure.method("fixmatch-ads", r=3.0).strategy
        ADS(r=3, map=sparsemax)
        >>> halfsure.method("fixmatch-me")
        Traceback (most recent call last):
        ValueError: fixmatch-me: minimum entropy makes no explicit target to put in the place of pl; add it as a loss,
        fixmatch+me, or replace by sh, pl, ads, topM
    """
    parsed = parse(name)
    row = ALGORITHMS[parsed.algorithm]
    given: dict[str, dict[str, Any]] = {part: {} for part in [*parsed.added, parsed.target or "", parsed.algorithm]}
    for setting, value in settings.items():
        part, plain = _owner(parsed, setting)
        if plain in given[part]:
            raise ValueError(f"{name}: {plain} of {part} is given twice")
        given[part][plain] = value
    added = [_strategy(part, parsed.map, given[part]) for part in parsed.added]
    first: Any = _strategy(parsed.target, parsed.map, given[parsed.target]) if parsed.target else parsed.map
    algorithm = row.build(first, added, **given[parsed.algorithm])
    algorithm.name = parsed.name
    return algorithm


def parse(name: str) -> Method:
    """Take a method's name apart, or say what is wrong with it and what to use."""
    match = GRAMMAR.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not a method; write algorithm[@map][-strategy][+strategy], such as fixmatch-ads")
    algorithm = match["algorithm"]
    if algorithm not in ALGORITHMS:
        raise ValueError(f"{name}: there is no algorithm {algorithm!r}{_nearest(algorithm, ALGORITHMS)}")
    replaced: list[str] = []
    added: list[str] = []
    for part in re.findall(r"[+-][a-z]+[0-9]*", match["strategies"]):
        _find(name, part[1:])
        (replaced if part[0] == "-" else added).append(part[1:])
    built_in = ALGORITHMS[algorithm].built_in
    target = _target(name, algorithm, replaced)
    if len(set(added)) < len(added):
        raise ValueError(f"{name}: a strategy is added twice; give it a larger distill_weight instead")
    # FixMatch has PL built in and MixMatch sharpening: adding those again names the same method.
    added = sorted((part for part in added if part != built_in or target != built_in), key=_order)
    ads = "ads" in (*replaced, *added)
    map = get_map(match["map"]) if match["map"] else SPARSEMAX if ads else SOFTMAX
    if ads and map == SOFTMAX:
        sign = "-" if "ads" in replaced else "+"
        raise ValueError(
            f"{name}: adaptive sharpening needs a map that leaves classes out; in softmax it is plain sharpening: "
            f"use {algorithm}{sign}sh, or leave @softmax away"
        )
    return Method(algorithm, map, target, tuple(added))


def catalogue() -> Iterator[tuple[str, str]]:
    """Every combination of an algorithm with one strategy, with "" or the reason why it is refused."""
    for algorithm in ALGORITHMS:
        for part in ["", "@sparsemax", *(sign + key.replace("M", "3") for key in STRATEGIES for sign in "+-")]:
            name = algorithm + part
            try:
                method(name)
                yield name, ""
            except ValueError as error:
                yield name, str(error).removeprefix(f"{name}: ")


def _target(name: str, algorithm: str, replaced: list[str]) -> str | None:
    built_in = ALGORITHMS[algorithm].built_in
    if not replaced:
        return built_in
    if len(replaced) > 1:
        raise ValueError(f"{name}: only one strategy can stand in the place of {built_in}; add the others with +")
    row = _find(name, replaced[0])
    if built_in is None:
        raise ValueError(
            f"{name}: {algorithm} has no distillation built in that could be replaced; "
            f"add it as a loss, {algorithm}+{replaced[0]}"
        )
    if not row.explicit:
        targets = ", ".join(
            key for key, other in STRATEGIES.items() if other.explicit and (algorithm, key) != NO_TARGET
        )
        raise ValueError(
            f"{name}: {row.about.split(':')[0]} makes no explicit target to put in the place of {built_in}; "
            f"add it as a loss, {algorithm}+{replaced[0]}, or replace by {targets}"
        )
    return replaced[0]


def _find(name: str, strategy: str) -> StrategyRow:
    if re.fullmatch(r"top[1-9][0-9]*", strategy):
        return STRATEGIES["topM"]
    if strategy not in STRATEGIES:
        raise ValueError(f"{name}: there is no strategy {strategy!r}{_nearest(strategy, STRATEGIES)}")
    return STRATEGIES[strategy]


def _order(strategy: str) -> tuple[int, str]:
    """Losses are summed: their order does not matter, and so a name has but one."""
    return [*STRATEGIES].index(strategy if strategy in STRATEGIES else "topM"), strategy


def _strategy(key: str, map: Map, settings: dict[str, Any]) -> Strategy:
    if key.startswith("top"):
        settings = {"m": int(key[3:]), **settings}
    return _find(key, key).build(map=map, **settings)


def settings_of(parsed: Method) -> dict[str, list[str]]:
    """The settings of a method, each with the parts that have one of that name."""
    own = [*ALGORITHMS[parsed.algorithm].build.settings, "class_weight"]
    own += ["distill_weight"] if parsed.added else []
    own += ["weight"] if parsed.algorithm != "supervised" else []
    own += ["prior"] if parsed.target else []
    owners = {setting: [parsed.algorithm] for setting in own}
    for part in dict.fromkeys([*([parsed.target] if parsed.target else []), *parsed.added]):
        for setting in _find(part, part).settings:
            owners.setdefault(setting, []).append(part)
    return owners


def _owner(parsed: Method, setting: str) -> tuple[str, str]:
    """Which part of a method a setting belongs to, and its name there."""
    owners = settings_of(parsed)
    part, _, plain = setting.partition("_")
    if part in owners.get(plain, []):
        return part, plain
    if len(owners.get(setting, [])) > 1:
        choices = " or ".join(f"{owner}_{setting}" for owner in owners[setting])
        raise ValueError(f"{parsed.name}: more than one part has a {setting}; say {choices}")
    if setting not in owners:
        known = [f"{part}_{key}" if len(parts) > 1 else key for key, parts in owners.items() for part in parts]
        raise ValueError(f"{parsed.name} has no setting {setting!r}; it has {', '.join(sorted(known))}")
    return owners[setting][0], setting


def _nearest(word: str, known: dict[str, Any]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
