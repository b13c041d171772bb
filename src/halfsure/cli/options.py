"""How a command's options are read: frozen dataclasses → help, and the words of a command line → one of them."""

import re
import types
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, TypeVar, Union, get_args, get_origin

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, OmitSubcommandPrefixes
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from halfsure._shown import harmless
from halfsure.cli.groups import add_groups
from halfsure.data import DataError

__all__ = ["read_options"]

Command = TypeVar("Command")
REGISTRY = ConstructorRegistry()
add_groups(REGISTRY)
NOTHING = "none"
OTHERWISE = {
    "--epochs": "the length of a run is --steps, or a time such as --time 5m",
    "--batch-size": "the batches are --batch (labeled) and --unlabeled-batch",
    "--learning-rate": "the learning rate is --lr",
}
"""What people may look for under another name, too far from ours to be guessed."""
CONTROL = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f]")


def read_options(
    command: type[Command], arguments: Sequence[str], name: str, default: Command | None = None
) -> Command:
    """Read a command's options; what is not given is as in `default`. Wrong words end in usage and exit code 2."""
    _refuse(arguments, name)
    # A preset may turn a flag on or off: the commands that have one need both forms of every flag.
    pairs = () if name in ("train", "compare") else (FlagCreatePairsOff,)
    given: dict[str, Any] = {} if default is None else {"default": default}
    found: Command = tyro.cli(
        command,
        args=list(arguments),
        prog=f"halfsure {name}",
        config=(OmitSubcommandPrefixes, OmitArgPrefixes, *pairs),
        registry=REGISTRY,
        **given,
    )
    return found


def _refuse(arguments: Sequence[str], name: str) -> None:
    """Refuse words that a terminal would take for orders, and options that have another name here."""
    for word in arguments:
        if CONTROL.search(word):
            raise DataError(f"{harmless(word)} holds a control character; rename the file, or leave it away")
        option = word.partition("=")[0]
        if name in ("train", "compare") and option in OTHERWISE:
            raise DataError(f"there is no {option}; {OTHERWISE[option]}. See halfsure {name} --help")


@REGISTRY.primitive_rule
def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """An option that may be left away is shown as what it takes, `INT` and not `{None}|INT`."""
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
