"""`halfsure version`."""

from dataclasses import dataclass

from rich.console import Console

import halfsure

__all__ = ["Version"]


@dataclass(frozen=True)
class Version:
    """Print the version."""

    def run(self, console: Console) -> int:
        """Print it."""
        console.print(halfsure.__version__, highlight=False)
        return 0
