"""Settings out of JSON."""

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["typed"]


def typed(kind: type, values: Any) -> dict[str, Any]:
    """Settings out of JSON, where lists stand for tuples, once each has a type that its field declares."""
    if not isinstance(values, dict):
        raise ValueError(f"settings are an object, got {values!r:.60}")  # noqa: TRY004 - all that is wrong is one kind
    declared = get_type_hints(kind)
    if unknown := sorted(set(values) - set(declared)):
        raise ValueError(f"this version of halfsure has no setting {unknown[0]!r:.60}")
    found = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    for name, value in found.items():
        if not _fits(value, declared[name]):
            raise ValueError(f"{name} cannot be {values[name]!r:.60}")
    return found


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a declared type; a whole number is a number, true and false are none."""
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(kind)[0]) for item in value)
    return type(value) in ((int, float) if kind is float else (kind,))
