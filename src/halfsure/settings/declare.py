"""How a part declares its settings: a frozen dataclass whose types say what a value may be.

    @dataclass(frozen=True)
    class Settings(halfsure.settings.Settings):
        r: Annotated[float, Between(1, why="a power below 1 would flatten")] = 2.0
        \"\"\"Power of the sharpening.\"\"\"

Options, help, ranges, JSON and documentation are derived from such classes.
"""

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from halfsure._checks import check_count, check_number

__all__ = [
    "EVERYDAY",
    "PATH",
    "Between",
    "Count",
    "Form",
    "Fraction",
    "Positive",
    "Setting",
    "Settings",
    "Size",
    "declared",
]


@dataclass(frozen=True)
class Between:
    """The range of a number, and why it ends there."""

    low: float = 0
    high: float = math.inf
    why: str = ""


@dataclass(frozen=True)
class Form:
    """A text that this function can read; what it cannot is a `ValueError`."""

    read: Callable[[str], object]


PATH = "path"
"""Marks a setting that names a file or folder."""
EVERYDAY = "everyday"
"""Marks a setting that most people need: the short help shows it."""

Count = Annotated[int, Between(0)]
Positive = Annotated[int, Between(1)]
Size = Annotated[float, Between(0)]
Fraction = Annotated[float, Between(0, 1)]


@dataclass(frozen=True)
class Setting:
    """One setting, as it was declared."""

    name: str
    type: Any
    default: Any
    about: str

    @property
    def everyday(self) -> bool:
        """Whether most people need it."""
        return EVERYDAY in _notes(self.type)[1]

    @property
    def path(self) -> bool:
        """Whether it names a file or folder."""
        return PATH in _notes(self.type)[1]

    def checked(self, value: Any) -> Any:
        """The value, if the declared type allows it; else a `ValueError` that says what would do."""
        return _checked(self.name, value, self.type)


@dataclass(frozen=True)
class Settings:
    """Settings of a part. Values are checked when an instance is made."""

    def __post_init__(self) -> None:
        for setting in declared(type(self)):
            object.__setattr__(self, setting.name, setting.checked(getattr(self, setting.name)))

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        found = {setting.name: getattr(self, setting.name) for setting in declared(type(self))}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


_DECLARED: dict[Any, tuple[Setting, ...]] = {}


def declared(kind: type[Settings]) -> tuple[Setting, ...]:
    """The settings of a class, in their order.

    Examples:
        >>> from halfsure.settings import declared
        >>> from halfsure.targets import ADS
        >>> [(setting.name, setting.default) for setting in declared(ADS.Settings)]
        [('r', 2.0)]
    """
    if kind not in _DECLARED:
        _DECLARED[kind] = tuple(_read(kind))
    return _DECLARED[kind]


def _read(kind: type[Settings]) -> Iterator[Setting]:
    types = get_type_hints(kind, include_extras=True)
    about: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        about |= _described(one) if issubclass(one, Settings) else {}
    for item in fields(kind):
        default = None if item.default is MISSING else item.default
        yield Setting(item.name, types[item.name], default, about.get(item.name, ""))


def _described(kind: type) -> dict[str, str]:
    """Each field of a class with the docstring below it; nothing where the source is not at hand."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    assert isinstance(body, ast.ClassDef)
    return {
        line.target.id: " ".join(str(text.value.value).split())
        for line, text in pairwise(body.body)
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def _notes(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type and what is noted on it."""
    if get_origin(kind) is Annotated:
        plain, *notes = get_args(kind)
        return plain, tuple(notes)
    return kind, ()


def _checked(name: str, value: Any, kind: Any) -> Any:
    plain, notes = _notes(kind)
    origin = get_origin(plain)
    if origin in (Union, UnionType):
        return _either(name, value, get_args(plain), notes)
    if origin is Literal:
        if not isinstance(value, str) or value not in get_args(plain):
            raise ValueError(f"{name} is one of {', '.join(get_args(plain))}, got {value!r:.60}")
        return str(value)
    if origin is tuple:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name} is a list of numbers, got {value!r:.60}")
        return tuple(_checked(f"each {name}", item, get_args(plain)[0]) for item in value)
    bounds = next((note for note in notes if isinstance(note, Between)), Between(-math.inf))
    if plain is int:
        number = check_count(name, value, max(int(bounds.low), 0) if math.isfinite(bounds.low) else 0)
        return int(check_number(name, number, bounds.low, bounds.high, why=bounds.why))
    if plain is float:
        return check_number(name, value, bounds.low, bounds.high, why=bounds.why)
    if type(value) is not plain and not (plain is str and isinstance(value, str)):
        wanted = {bool: "true or false", str: "a text"}.get(plain, getattr(plain, "__name__", str(plain)))
        raise ValueError(f"{name} must be {wanted}, got {value!r:.60}")
    for note in notes:
        if isinstance(note, Form):
            note.read(value)
    return str(value) if plain is str else value


def _either(name: str, value: Any, kinds: tuple[Any, ...], notes: tuple[Any, ...]) -> Any:
    """A value of one of several types; what is noted on the whole holds for each."""
    if value is None and NoneType in kinds:
        return None
    left = [Annotated[(kind, *notes)] if notes else kind for kind in kinds if kind is not NoneType]
    refusals = []
    for kind in left:
        try:
            return _checked(name, value, kind)
        except ValueError as error:
            refusals.append(str(error))
    if len(left) == 1:
        raise ValueError(refusals[0])
    raise ValueError(f"{name} is {' or '.join(map(_wanted, left))}, got {value!r:.60}")


def _wanted(kind: Any) -> str:
    plain, _ = _notes(kind)
    if get_origin(plain) is Literal:
        return " or ".join(get_args(plain))
    return {tuple: "a number for each class"}.get(get_origin(plain), getattr(plain, "__name__", str(plain)))
