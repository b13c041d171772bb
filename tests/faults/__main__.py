"""Accidents of every kind, and a table of what became of the runs.

    python -m tests.faults [--only KIND …] [--seed 0] [--quick]

After each accident the run folder has to open, with one checkpoint interval lost at most; the command has to have said
what happened in a sentence; and gone on with, the run has to end in the bits of one that nothing happened to.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults.kinds import KINDS
from tests.faults.lives import heed
from tests.faults.scene import Kind, Scene


def row(kind: str, injected: object, lost: object, survived: object, seconds: object = "") -> str:
    return f"{kind:<46} {injected:>8} {survived:>8} {lost:>5} {seconds:>8}".rstrip()


def inject(kind: Kind, scene: Scene, count: int) -> tuple[Counter[str], Counter[str]]:
    """Have accidents of a kind happen, and print each loss. → how many there were and how many lost something."""
    injected, lost = Counter[str](), Counter[str]()
    for fault in kind.inject(scene, count):
        injected[fault.kind] += 1
        lost[fault.kind] += bool(fault.wrong)
        for sentence in fault.wrong[:5]:
            print(f"LOST  {fault.kind}: {sentence}", flush=True)
    return injected, lost


def main() -> int:
    """Have accidents happen, and print a table. → 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Have accidents happen to runs.")
    parser.add_argument("--only", nargs="+", metavar="KIND", help="kinds whose names begin so")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="as few of each kind as show it, and none that is slow")
    given = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # a process with threads cannot be forked
        os.execve(sys.executable, sys.orig_argv, os.environ | {"OMP_NUM_THREADS": "1"})
    chosen = [kind for kind in KINDS if given.only is None or kind.name.startswith(tuple(given.only))]
    if not chosen:
        parser.error(f"there is no such kind; there are {', '.join(kind.name for kind in KINDS)}")
    heed()  # what is ignored here would be ignored by every command it starts
    began = time.monotonic()
    total, gone = 0, 0
    with tempfile.TemporaryDirectory(prefix="halfsure-faults-") as root:
        os.environ["HALFSURE_BANK"] = f"{root}/bank"  # not the user's
        scene = Scene(Path(root), random.Random(given.seed))
        print(f"\n{row('kind', 'injected', 'lost', 'survived', 'seconds')}", flush=True)
        for kind in chosen:
            if given.quick and kind.slow:
                continue
            since, scene.dice = time.monotonic(), random.Random(f"{given.seed} {kind.name}")
            injected, lost = inject(kind, scene, kind.few if given.quick else kind.number)
            for place, (name, number) in enumerate(sorted(injected.items())):
                took = f"{time.monotonic() - since:.0f}" if place == len(injected) - 1 else ""
                print(row(name, number, lost[name], number - lost[name], took), flush=True)
            total, gone = total + injected.total(), gone + lost.total()
    print(row("all", total, gone, total - gone, f"{time.monotonic() - began:.0f}"))
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())
