"""How a command's options are read: frozen dataclasses and the settings of parts → help and values."""

import inspect
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import reduce
from operator import or_
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, OmitSubcommandPrefixes, Suppress, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from halfsure._shown import harmless
from halfsure.bank.opening import DataConfig, DataSettings
from halfsure.bank.seeing import AUTO, NONE
from halfsure.data import DataError
from halfsure.methods import AddedSettings
from halfsure.settings import Setting, Settings, declared, parts
from halfsure.training.config import EvaluationSettings, MachineSettings, RunSettings, TrainingSettings
from halfsure.views.of_images import ImageViews

__all__ = ["RARE", "Given", "read_options", "read_settings", "unless_trained"]

Command = TypeVar("Command")
REGISTRY = ConstructorRegistry()
NOTHING = "none"
RARE = "rare"
"""Marks an option of a command that the short help leaves out."""
OTHERWISE = {
    "--epochs": "the length of a run is --steps",
    "--batch-size": "the batches are --batch (labeled) and --unlabeled-batch",
    "--learning-rate": "the learning rate is --lr",
}
"""What people may look for under another name, too far from ours to be guessed."""
CONTROL = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Group:
    """Options that belong together, under a title of the help."""

    title: str
    about: str
    options: dict[str, Setting]
    by_preset: bool = True
    """Whether a preset chooses what is not given."""


@dataclass(frozen=True)
class Given:
    """Settings that were given on the command line, and no others."""

    data: Mapping[str, Any] = field(default_factory=dict)
    """Those of the data and its reader."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Those of everything else."""


def read_options(command: type[Command], arguments: Sequence[str], name: str) -> Command:
    """Read a command's options. Wrong words end in usage and exit code 2."""
    _refuse_words(arguments)
    found: Command = tyro.cli(
        command,
        args=list(arguments),
        prog=f"halfsure {name}",
        config=(OmitSubcommandPrefixes, OmitArgPrefixes, FlagCreatePairsOff),
        registry=REGISTRY,
    )
    return found


def read_settings(
    command: type[Command], arguments: Sequence[str], name: str, without: Iterable[str] = ()
) -> tuple[Command, Given]:
    """Read a command's options, and settings of any part; `without` are settings that the command has no use for.

    `--help` shows what most people need, `--help-all` everything.
    """
    _refuse_words(arguments)
    for word in arguments:
        if (option := word.partition("=")[0]) in OTHERWISE:
            raise DataError(f"there is no {option}; {OTHERWISE[option]}. See halfsure {name} --help")
    whole = "--help-all" in arguments
    words = ["--help" if word == "--help-all" else word for word in arguments]
    short = not whole and any(word in ("-h", "--help") for word in words)
    groups = list(_groups(set(without)))
    kinds = [(group.title, _dataclass(group, short)) for group in groups]
    members: list[Any] = [(title, kind, field(default_factory=kind)) for title, kind in kinds]
    told = f"\n\nhalfsure {name} --help-all lists every setting." if short else ""
    found: Any = tyro.cli(
        make_dataclass(command.__name__, members, bases=(_shortened(command) if short else command,), frozen=True),
        args=words,
        prog=f"halfsure {name}",
        description=f"{inspect.cleandoc(command.__doc__ or '')}{told}",
        config=(OmitSubcommandPrefixes, OmitArgPrefixes),
        registry=REGISTRY,
    )
    named = {word[2:].partition("=")[0].replace("-", "_") for word in words if word.startswith("--")}
    given: dict[str, dict[str, Any]] = {"data": {}, "config": {}}
    for group in groups:
        values = vars(getattr(found, group.title))
        chosen = {key: values[key] for key in group.options if named & {key, f"no_{key}"}}
        given["data" if group.title == "data" else "config"] |= chosen
    own = {item.name: getattr(found, item.name) for item in fields(command)}  # type: ignore[arg-type]
    return command(**own), Given(**given)


def _groups(without: set[str]) -> Iterator[Group]:
    """The settings of all parts, those that belong together in a group."""

    def group(title: str, about: str, *kinds: type[Settings], by_preset: bool = True) -> Group:
        options = {name: one for name, one in _union(kinds).items() if name not in without}
        return Group(title, about, options, by_preset)

    def of(role: str) -> list[type[Settings]]:
        return [part.Settings for part in parts(role).values()]

    yield group("data", "Which samples, and which of them are labeled.", DataSettings, *of("reader"), by_preset=False)
    yield group("run", "What to train.", RunSettings, by_preset=False)
    yield group("training", "For how long, and on how much at a time.", TrainingSettings)
    yield group("network", "The network; one of your own trains from Python.", *of("network"))
    yield group("optimiser", "Learning rate and its course.", *of("optimizer"))
    own = [*of("algorithm"), AddedSettings, *of("strategy"), *of("gate")]
    method = group("method", "What the parts of a method can be told.", *own)
    yield Group(method.title, method.about, method.options | _prefixed(without))
    yield group("views", "How samples are changed at random.", *of("views"))
    yield group("evaluation", "How often to look, and at how much.", EvaluationSettings)
    yield group("machine", "Where and how to compute.", MachineSettings, by_preset=False)


def _union(kinds: Iterable[type[Settings]]) -> dict[str, Setting]:
    """Settings by name; of several with one name the first, with what each is about."""
    found: dict[str, list[Setting]] = {}
    for kind in kinds:
        for setting in declared(kind):
            found.setdefault(setting.name, []).append(setting)
    return {
        name: Setting(name, same[0].type, same[0].default, " ".join(dict.fromkeys(one.about for one in same)))
        for name, same in found.items()
    }


def _prefixed(without: set[str]) -> dict[str, Setting]:
    """`pl_threshold`, `ns_threshold`: settings that two strategies of a method may both have."""
    found: dict[str, list[tuple[str, Setting]]] = {}
    for name, strategy in parts("strategy").items():
        gate = parts("gate")[strategy.gated]
        for setting in (*declared(strategy.Settings), *declared(gate.Settings)):
            found.setdefault(setting.name, []).append((name, setting))
    return {
        f"{name}_{one.name}": Setting(f"{name}_{one.name}", one.type, one.default, f"{one.name} of {name} alone.")
        for owners in found.values()
        for name, one in owners
        if len(owners) > 1 and one.name not in without
    }


def unless_trained(config: DataConfig, given: Given) -> DataConfig:
    """The same without an encoder of its own choice where a network or views for pictures themselves are asked for."""
    pixels = {setting.name for setting in declared(ImageViews.Settings)}
    trained = not str(given.config.get("net") or "mlp").startswith("mlp") or pixels & given.config.keys()
    return replace(config, encoder=NONE) if trained and config.encoder == AUTO else config


def _dataclass(group: Group, short: bool) -> Any:
    members = []
    for name, setting in group.options.items():
        told = setting.default is None or "if not given" in setting.about
        hint = "(default: the preset's)" if group.by_preset else "" if told else None
        notes = [arg(help=_with_parts(setting.about), help_behavior_hint=hint)]
        notes += [Suppress] if short and not setting.everyday else []
        members.append((name, Annotated[(setting.type, *notes)], field(default=setting.default)))
    return make_dataclass(group.title.capitalize(), members, frozen=True, namespace={"__doc__": group.about})


def _with_parts(about: str) -> str:
    """`{network}` → the networks there are, those of one's own among them."""

    def listed(found: re.Match[str]) -> str:
        *names, last = [getattr(part, "usage", name) for name, part in parts(found[1]).items()]
        return f"{', '.join(names)} or {last}" if names else last

    return re.sub(r"\{(\w+)\}", listed, about)


def _shortened(command: Any) -> Any:
    """The same options, the rare ones hidden."""
    hidden = {
        name: Annotated[(kind, Suppress)]
        for name, kind in command.__annotations__.items()
        if get_origin(kind) is Annotated and RARE in get_args(kind)
    }
    defaults = {name: getattr(command, name) for name in hidden}
    body = {"__annotations__": hidden, "__doc__": command.__doc__, **defaults}
    return dataclass(frozen=True)(type(command.__name__, (command,), body))


def _refuse_words(arguments: Sequence[str]) -> None:
    """Refuse words that a terminal would take for orders."""
    for word in arguments:
        if CONTROL.search(word):
            raise DataError(f"{harmless(word)} holds a control character; rename the file, or omit it")


@REGISTRY.primitive_rule
def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """An option that may be omitted is shown as what it takes, `INT` and not `{None}|INT`."""
    if get_origin(info.type) not in (Union, types.UnionType) or types.NoneType not in get_args(info.type):
        return None
    inner = reduce(or_, [part for part in get_args(info.type) if part is not types.NoneType])
    spec = REGISTRY.get_primitive_spec(PrimitiveTypeInfo.make(inner, set(info.markers)))
    if not isinstance(spec, PrimitiveConstructorSpec):
        return None
    return PrimitiveConstructorSpec(
        nargs=spec.nargs,
        metavar=spec.metavar,
        instance_from_str=lambda words: None if words in ([NOTHING], ["None"]) else spec.instance_from_str(words),
        is_instance=lambda value: value is None or spec.is_instance(value),
        str_from_instance=lambda value: [NOTHING] if value is None else spec.str_from_instance(value),
        choices=None,
    )
