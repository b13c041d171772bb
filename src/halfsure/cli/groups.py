"""The settings of training in groups, so that their help can be read: `Config` has them in one long list."""

import inspect
from collections.abc import Iterator
from dataclasses import field, fields, make_dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, get_type_hints

from tyro.conf import arg
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructFieldSpec, StructTypeInfo

from halfsure.training.config import Config

__all__ = ["GROUPS", "add_groups"]

GROUPS = {
    "training": ("method", "What to train, and for how long."),
    "network": ("net", "The network; one of your own trains from Python."),
    "optimiser": ("batch", "Batches, learning rate, averaged weights."),
    "method": ("weight", "What the parts of a method can be told; the preset's if not given."),
    "views": ("flip", "How samples are changed at random."),
    "evaluation": ("evaluations", "How often to look, and at how much."),
    "machine": ("device", "Where and how to compute."),
}
"""Title → the setting that a group begins with, and what it is about; they are in the order of `Config`."""


def add_groups(registry: ConstructorRegistry) -> None:
    """Have options of type `Config` read and shown group by group."""

    @registry.struct_rule
    def grouped(info: StructTypeInfo) -> StructConstructorSpec | None:
        if not (isinstance(info.type, type) and issubclass(info.type, Config)):
            return None
        kind = info.type
        given = info.default if isinstance(info.default, Config) else kind()
        classes = _groups(kind)  # type: ignore[arg-type]  # a class is hashable, whatever its instances are

        def put_together(**groups: Any) -> Config:
            return kind(**{name: value for group in groups.values() for name, value in vars(group).items()})

        return StructConstructorSpec(
            put_together,
            tuple(
                StructFieldSpec(title, group, group(**{f.name: getattr(given, f.name) for f in fields(group)}), about)
                for (title, (_, about)), group in zip(GROUPS.items(), classes, strict=True)
            ),
        )


@cache
def _groups(kind: type[Config]) -> tuple[Any, ...]:
    """A class for each group, with the types, defaults and docstrings that the settings have."""
    names = [item.name for item in fields(kind)]
    starts = [names.index(first) for first, _ in GROUPS.values()]
    types = get_type_hints(kind, include_extras=True)
    defaults = {item.name: item.default for item in fields(kind)}
    about = dict(_described(Config))
    found = []
    for title, (start, end) in zip(GROUPS, pairwise([*starts, len(names)]), strict=True):
        members = [
            (name, Annotated[types[name], arg(help=about[name])], field(default=defaults[name]))
            for name in names[start:end]
        ]
        found.append(make_dataclass(title.capitalize(), members, frozen=True))
    return tuple(found)


def _described(kind: type) -> Iterator[tuple[str, str]]:
    """Each field of a class with the docstring below it."""
    import ast  # noqa: PLC0415 - for help alone

    [body] = ast.parse(inspect.cleandoc(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    for declared, text in pairwise(body.body):
        if isinstance(declared, ast.AnnAssign) and isinstance(declared.target, ast.Name):
            assert isinstance(text, ast.Expr)
            yield declared.target.id, " ".join(str(ast.literal_eval(text.value)).split())
