"""A reader, what to give it, and how it may say no."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis.strategies import SearchStrategy

__all__ = ["Target", "all_targets"]


@dataclass(frozen=True)
class Target:
    """One reader under test."""

    name: str
    inputs: SearchStrategy[Any]
    read: Callable[[Any, Path], object]
    """Opens an input; the folder is empty and its own, to write files in."""
    refusals: tuple[type[BaseException], ...]
    """What it may refuse an input with; everything else that it raises is a defect."""
    weight: int = 1
    """Its share of all inputs, in proportion to the others."""


def all_targets() -> dict[str, Target]:
    """Every target of the modules `readers_*`, by name."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("readers_*.py"))
    found = [target for module in modules for target in import_module(f"tests.fuzz.{module}").TARGETS]
    named = {target.name: target for target in found}
    if len(named) < len(found):
        raise ValueError("two targets have the same name")
    return named
