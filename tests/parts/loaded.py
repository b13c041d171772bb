"""The toy parts, known for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from halfsure.settings import load_parts, parts, registry

TOY = Path(__file__).with_name("toy.py")


@contextmanager
def toy_parts(file: Path = TOY) -> Iterator[None]:
    """Inside, every part of a file is known; other tests count the parts that there are."""
    parts("strategy")  # those of installed packages first
    before = {role: dict(known) for role, known in registry._PARTS.items()}
    load_parts([file])
    try:
        yield
    finally:
        for role in registry._PARTS:
            registry._PARTS[role] = before.get(role, {})
        registry._FILES.clear()
