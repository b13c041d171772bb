"""The paper's notation: `"fixmatch-ads"` → an algorithm with a strategy in it.

    algorithm[@map][-strategy[~gate]][+strategy[~gate]]…

`-` replaces the distillation an algorithm has built in, `+` adds a distillation loss, and `~` names the gate that says
how much each sample counts: `vat+ads`, `mixmatch-ads`, `fixmatch@sparsemax+ns`, `fixmatch-ads~informed`. All parts of a
method share one map: softmax, unless `@` names another or a strategy brings its own, as `ads` brings sparsemax.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from halfsure.algorithms import Algorithm
from halfsure.settings import Settings, Size, find, parts
from halfsure.settings.compose import Layout, Sections, fill
from halfsure.settings.registry import nearest
from halfsure.simplex import SOFTMAX, Map, get_map
from halfsure.targets import Strategy

__all__ = ["Chosen", "Method", "build", "catalogue", "layout", "method", "parse"]

GRAMMAR = re.compile(
    r"(?P<algorithm>[a-z][a-z0-9]*)(?:@(?P<map>[a-z]+[0-9.]*))?(?P<strategies>(?:[+-][a-z][a-z0-9]*(?:~[a-z0-9]+)?)*)"
)


@dataclass(frozen=True)
class AddedSettings(Settings):
    """What a method with added strategies can be told."""

    distill_weight: Size = 1.0
    """β, the weight of the distillation term."""


@dataclass(frozen=True)
class Chosen:
    """A strategy in a method, with its gate."""

    name: str
    """As it is written: `ads`, `top3`."""
    gate: str

    @property
    def kind(self) -> type[Strategy]:
        """The strategy's class."""
        return _strategy(self.name)[0]

    @property
    def written(self) -> str:
        """The shortest way to write it."""
        return self.name if self.gate == self.kind.gated else f"{self.name}~{self.gate}"

    def build(self, map: Map, sections: Sections) -> Strategy:
        """The strategy with its settings, and its gate with its own."""
        kind, number = _strategy(self.name)
        own = vars(sections[f"strategies/{self.name}"]) | number
        gate = find("gate", self.gate)(**vars(sections[f"strategies/{self.name}~{self.gate}"]))
        return kind(map=map, gate=gate, **own)


@dataclass(frozen=True)
class Method:
    """A method taken apart."""

    algorithm: str
    map: Map
    target: Chosen | None
    """The strategy that makes the targets, for algorithms that have such."""
    added: tuple[Chosen, ...]

    @property
    def kind(self) -> type[Algorithm]:
        """The algorithm's class."""
        found: type[Algorithm] = find("algorithm", self.algorithm)
        return found

    @property
    def strategies(self) -> tuple[Chosen, ...]:
        """Every strategy in it."""
        return (*([self.target] if self.target else []), *self.added)

    @property
    def name(self) -> str:
        """The shortest way to write it; methods that are the same have the same name."""
        own = [self.target] if self.target and self.target.written != self.kind.built_in else []
        told = [*(f"-{chosen.written}" for chosen in own), *(f"+{chosen.written}" for chosen in self.added)]
        map = "" if self.map == _home([*own, *self.added]) else f"@{self.map.name}"
        return self.algorithm + map + "".join(told)


def method(name: str, **settings: Any) -> Algorithm:
    """Build the method of a name; settings reach the part that has them.

    A strategy's settings are such as `r` and `temperature`, a gate's such as `threshold`; where two parts of a method
    have the same one, it takes the strategy's name in front: `pl_threshold`, `ns_threshold`. `weight` is α,
    `distill_weight` β, and the algorithms have their own: `epsilon`, `xi`, `power_steps` (vat), `mixup`, `copies`
    (mixmatch), `distance`, `prior`.

    Examples:
        >>> import halfsure
        >>> halfsure.method("fixmatch-ads", r=3.0).strategy
        ADS(r=3, map=sparsemax)
        >>> halfsure.method("fixmatch-ads~informed").strategy
        ADS(r=2, map=sparsemax, gate=informed)
        >>> halfsure.method("fixmatch-me")
        Traceback (most recent call last):
        ValueError: fixmatch-me: minimum entropy makes no explicit target to put in the place of pl; add it as a loss,
        fixmatch+me, or replace by ads, pl, sh, topM
    """
    parsed = parse(name)
    return build(parsed, fill(layout(parsed), settings, parsed.name))


def layout(parsed: Method) -> Layout:
    """Which settings a method has, part by part."""
    sections: dict[str, type[Settings]] = {"algorithm": parsed.kind.Settings}
    if parsed.added:
        sections["added"] = AddedSettings
    for chosen in parsed.strategies:
        sections[f"strategies/{chosen.name}"] = chosen.kind.Settings
        sections[f"strategies/{chosen.name}~{chosen.gate}"] = find("gate", chosen.gate).Settings
    return sections


def build(parsed: Method, sections: Sections, **resolved: Any) -> Algorithm:
    """The algorithm with its parts; `resolved` are settings of it that data gave a value, such as class weights."""
    own: dict[str, Any] = vars(sections["algorithm"]) | resolved
    own |= vars(sections["added"]) if parsed.added else {}
    added = [chosen.build(parsed.map, sections) for chosen in parsed.added]
    first: Any = parsed.map if parsed.target is None else parsed.target.build(parsed.map, sections)
    try:
        algorithm = parsed.kind(first, added, **own)
    except ValueError as error:
        raise ValueError(f"{parsed.name}: {error}") from None
    algorithm.name = parsed.name
    return algorithm


def parse(name: str) -> Method:
    """Take a method's name apart, or say what is wrong with it and what to use."""
    if not isinstance(name, str):
        raise ValueError(  # noqa: TRY004 - all that is wrong with a method is one kind
            f"a method is a name such as 'fixmatch-ads', got a {type(name).__name__}; register an algorithm or a "
            "strategy of your own with halfsure.register and give its name"
        )
    match = GRAMMAR.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not a method; write algorithm[@map][-strategy][+strategy], such as fixmatch-ads")
    algorithm = match["algorithm"]
    if algorithm not in parts("algorithm"):
        raise ValueError(f"{name}: there is no algorithm {algorithm!r}{nearest(algorithm, parts('algorithm'))}")
    kind: type[Algorithm] = find("algorithm", algorithm)
    replaced: list[Chosen] = []
    added: list[Chosen] = []
    for part in re.findall(r"[+-][^+-]+", match["strategies"]):
        (replaced if part[0] == "-" else added).append(_chosen(name, part[1:]))
    target = _target(name, kind, replaced)
    if len({chosen.name for chosen in added}) < len(added):
        raise ValueError(f"{name}: a strategy is added twice; give it a larger distill_weight instead")
    if any(chosen.name == other.name and chosen.gate != other.gate for chosen in added for other in replaced):
        raise ValueError(f"{name}: a strategy has two gates; a method gives it one")
    # FixMatch has PL built in and MixMatch sharpening: adding those again names the same method.
    added = [chosen for chosen in added if target is None or chosen != target or chosen.name != kind.built_in]
    map = get_map(match["map"]) if match["map"] else _home([*replaced, *added])
    parsed = Method(algorithm, map, target, tuple(sorted(added, key=lambda chosen: chosen.name)))
    for chosen in parsed.strategies:
        try:
            chosen.kind.suits(map)
            find("gate", chosen.gate)().suits(map)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return parsed


def catalogue() -> Iterator[tuple[str, str]]:
    """Every combination of an algorithm with one strategy, with "" or the reason why it is refused."""
    strategies = [f"{key}3" if kind.numbered else key for key, kind in parts("strategy").items()]
    for algorithm in parts("algorithm"):
        for part in ["", "@sparsemax", *(sign + key for key in strategies for sign in "+-")]:
            name = algorithm + part
            try:
                method(name)
                yield name, ""
            except ValueError as error:
                yield name, str(error).removeprefix(f"{name}: ")


def _home(strategies: list[Chosen]) -> Map:
    """The map that strategies bring with them: that of the first which wants another one than softmax."""
    homes = [chosen.kind.home for chosen in strategies if chosen.kind.home != SOFTMAX]
    return homes[0] if homes else SOFTMAX


def _target(name: str, kind: type[Algorithm], replaced: list[Chosen]) -> Chosen | None:
    if len(replaced) > 1:
        raise ValueError(f"{name}: only one strategy can stand in the place of {kind.built_in}; add the others with +")
    if kind.built_in is None:
        if replaced:
            raise ValueError(
                f"{name}: {kind.name} has no distillation built in that could be replaced; "
                f"add it as a loss, {kind.name}+{replaced[0].written}"
            )
        return None
    if not replaced:
        return _chosen(name, kind.built_in)
    if not replaced[0].kind.explicit():
        targets = ", ".join(sorted(_replacements(kind)))
        raise ValueError(
            f"{name}: {replaced[0].kind.about.split(':')[0]} makes no explicit target to put in the place of "
            f"{kind.built_in}; add it as a loss, {kind.name}+{replaced[0].name}, or replace by {targets}"
        )
    return replaced[0]


def _replacements(kind: type[Algorithm]) -> Iterator[str]:
    """The strategies that can stand in the place of the one an algorithm has built in."""
    for key, strategy in parts("strategy").items():
        if not strategy.explicit():
            continue
        try:
            method(f"{kind.name}-{key}{3 if strategy.numbered else ''}")
        except ValueError:
            continue
        yield f"{key}M" if strategy.numbered else key


def _chosen(name: str, written: str) -> Chosen:
    """`pl~flex` → strategy and gate, if there are such."""
    strategy, _, gate = written.partition("~")
    try:
        kind, _ = _strategy(strategy)
        return Chosen(strategy, find("gate", gate).name if gate else kind.gated)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _strategy(name: str) -> tuple[type[Strategy], dict[str, int]]:
    """A strategy's class, and what the number after its name says: `top3` → TopM, {"m": 3}."""
    known = parts("strategy")
    match = re.fullmatch(r"([a-z]+)([1-9][0-9]*)", name)
    if match and match[1] in known and known[match[1]].numbered:
        return known[match[1]], {known[match[1]].numbered: int(match[2])}
    if name not in known or known[name].numbered:
        told = {f"{key}M" if kind.numbered else key: key for key, kind in known.items()}
        raise ValueError(f"there is no strategy {name!r}{nearest(name, told)}")
    return known[name], {}
