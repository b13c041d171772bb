"""Every comparison in one table: what ours costs beside its peers, how far that varies, and what it was meant to reach.

    python benchmarks/bench.py           # under 15 minutes
    python benchmarks/bench.py --quick   # losses and views, under a minute

Each group is a script of its own in this folder, which says how it measures.
"""

import argparse
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import encoding
import losses
import reach
import scale
import steps
from rows import Row, header, reached

import views

__all__ = ["bench"]

Group = Callable[[bool], Iterator[Row]]

GROUPS: dict[str, Group] = {
    "losses": losses.rows,
    "views": views.rows,
    "steps": steps.rows,
    "reach": reach.rows,
    "scale": scale.rows,
    "encoding": encoding.rows,
}
QUICK = ("losses", "views")


class Both(io.TextIOBase):
    """What is printed, and a copy of it."""

    def __init__(self, shown: io.TextIOBase) -> None:
        self.shown, self.copy = shown, io.StringIO()

    def write(self, text: str) -> int:
        """Show and keep."""
        self.copy.write(text)
        return self.shown.write(text)

    def flush(self) -> None:
        """Show it now."""
        self.shown.flush()


def bench(groups: dict[str, Group], *, quick: bool) -> list[Row]:
    """Print the rows of each group as they come, with a line above it, and what all of them took. → the rows."""
    began, spent = time.monotonic(), cpu_seconds()
    found: list[Row] = []
    print(header(), flush=True)
    for name, rows in groups.items():
        print(f"--- {name}", flush=True)
        for row in rows(quick):
            print(row, flush=True)
            found.append(row)
    minutes, busy = (time.monotonic() - began) / 60, (cpu_seconds() - spent) / 60
    print(f"\n{len(found)} rows in {minutes:.1f} minutes, {busy:.1f} of the processor's")
    print(reached(found), flush=True)
    return found


def cpu_seconds() -> float:
    """Of this process and of those it started and that have ended."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="losses and views only")
    parser.add_argument("--out", type=Path, help="write what is printed to this file too, at the end")
    asked = parser.parse_args()
    if asked.out is not None and (asked.out.is_dir() or not asked.out.resolve().parent.is_dir()):
        parser.error(f"{asked.out} cannot be written: name a file in a folder that exists")
    groups = {name: GROUPS[name] for name in (QUICK if asked.quick else GROUPS)}
    both = Both(sys.stdout)  # type: ignore[arg-type]  # the stubs have it as another kind of the same
    with redirect_stdout(both):
        bench(groups, quick=asked.quick)
    if asked.out is not None:
        asked.out.write_text(both.copy.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    main()
