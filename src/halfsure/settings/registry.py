"""Parts by kind and name: those of halfsure, of installed packages, and of files and notebooks."""

import difflib
import importlib
import importlib.util
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeVar

from halfsure.settings.declare import Settings

__all__ = [
    "Part",
    "discover",
    "every_part",
    "find",
    "load_parts",
    "loaded_parts",
    "nearest",
    "parts",
    "register",
    "take_over",
]

GROUP = "halfsure.parts"
"""The entry points by which an installed package offers its parts."""
NAME = re.compile(r"[a-z][a-z0-9]*")

_PARTS: dict[str, dict[str, Any]] = {}
_FILES: dict[Path, ModuleType] = {}


class Part:
    """What is registered: a class with a name, a line about itself, and settings of its own."""

    role: ClassVar[str]
    """Which kind of part: strategy, gate, algorithm, views, network, optimizer, reader, encoder."""
    name: str = ""
    spelling: ClassVar[re.Pattern[str]] = NAME
    """What a name may look like: those of the notation carry none of its signs."""
    about: ClassVar[str] = ""
    Settings: ClassVar[Any] = Settings


P = TypeVar("P", bound=type[Part])


def register(part: P) -> P:
    """Make a part known by its name, everywhere: in Python, on the command line and in reports. Also a decorator.

    Examples:
        >>> import halfsure
        >>> @halfsure.register
        ... class Nothing:
        ...     pass
        Traceback (most recent call last):
        TypeError: Nothing is no part: derive it from halfsure.targets.Strategy, halfsure.targets.Gate,
        halfsure.algorithms.Algorithm or another base class of parts
    """
    if not (isinstance(part, type) and issubclass(part, Part) and hasattr(part, "role")):
        raise TypeError(
            f"{getattr(part, '__name__', part)!s} is no part: derive it from halfsure.targets.Strategy, "
            "halfsure.targets.Gate, halfsure.algorithms.Algorithm or another base class of parts"
        )
    if not part.spelling.fullmatch(part.name):
        raise ValueError(f"{part.__name__}: a part's name has small letters and digits only, got {part.name!r}")
    if not (isinstance(part.Settings, type) and issubclass(part.Settings, Settings)):
        raise TypeError(f"{part.__name__}.Settings must be a dataclass derived from halfsure.settings.Settings")
    known = _PARTS.setdefault(part.role, {})
    before = known.get(part.name)
    if before is not None and (before.__module__, before.__qualname__) != (part.__module__, part.__qualname__):
        raise ValueError(
            f"there is a {part.role} called {part.name} already, {before.__module__}.{before.__qualname__}"
        )
    known[part.name] = part
    return part


def parts(role: str) -> Mapping[str, Any]:
    """Every part of a kind by its name, in the order of registration: halfsure's own first."""
    _load_installed()
    return _PARTS.get(role, {})


def every_part() -> list[tuple[str, Any]]:
    """Every part with its role."""
    _load_installed()
    return [(role, part) for role, known in _PARTS.items() for part in known.values()]


def find(role: str, name: str) -> Any:
    """The part of this name; where there is none, a `ValueError` names the nearest."""
    known = parts(role)
    if name not in known:
        raise ValueError(f"there is no {role} {name!r:.60}{nearest(name, known)}")
    return known[name]


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?`, or what there is."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"


def discover(package: str) -> None:
    """Import every module of a package, so that the parts in them are registered: a new file needs no list."""
    for module in pkgutil.iter_modules(sys.modules[package].__path__):
        if module.name.startswith("_"):
            continue
        importlib.import_module(f"{package}.{module.name}")


def load_parts(files: Iterable[str | os.PathLike[str]]) -> None:
    """Run Python files that register parts, after those of installed packages. Nothing else runs code from files."""
    _load_installed()
    for file in map(Path, files):
        path = file.resolve()
        if path in _FILES:
            continue
        if not path.is_file():
            raise ValueError(f"there is no file {file} to load parts from")
        name = f"halfsure_parts_{sha256(os.fsencode(path)).hexdigest()[:12]}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{file} is not a Python file; parts are registered by one")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise ValueError(f"{file} could not be loaded: {type(error).__name__}: {error}") from error
        _FILES[path] = module


def loaded_parts() -> tuple[tuple[Path, ...], tuple[Any, ...]]:
    """What another process has to be given to know the same parts: files, and classes of the main program."""
    own = [part for known in _PARTS.values() for part in known.values() if part.__module__ == "__main__"]
    return tuple(_FILES), tuple(own)


def take_over(given: tuple[tuple[Path, ...], tuple[Any, ...]]) -> None:
    """Know what `loaded_parts` gave in another process."""
    files, classes = given
    load_parts(files)
    for part in classes:
        register(part)


@cache
def _load_installed() -> None:
    for entry in entry_points(group=GROUP):
        try:
            found = entry.load()
        except Exception as error:
            raise ValueError(
                f"the parts {entry.value} of an installed package cannot be loaded ({type(error).__name__}: {error}); "
                "mend or uninstall that package"
            ) from error
        if isinstance(found, type):
            register(found)
