"""Fuzz every reader, each in a process of its own, and print a table. The exit code is 1 if anything went wrong."""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.campaign import Tally, fuzz
from tests.fuzz.target import all_targets

ROW = "{:<28} {:>8} {:>9} {:>8} {:>6} {:>11}".format
SHOWN = 400  # letters of an input that went wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz all targets, or the named ones."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Give every reader random input.")
    parser.add_argument("--inputs", type=int, default=100_000, help="in all")
    parser.add_argument("--target", nargs="+", help="only these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # a child's folder for what it finds
    given = parser.parse_args(arguments)
    known = all_targets()
    if unknown := [name for name in given.target or [] if name not in known]:
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(known)}")
    names = given.target or list(known)
    if given.into is not None:
        tally = fuzz(known[names[0]], given.inputs, given.seed, given.into / "input")
        (given.into / "tally").write_text(json.dumps(asdict(tally)))
        return 0
    began, weights = time.monotonic(), sum(known[name].weight for name in names)
    print(ROW("target", "inputs", "accepted", "refused", "wrong", "slowest/ms"), flush=True)
    with ThreadPoolExecutor(given.processes) as pool:
        counts = [math.ceil(given.inputs * known[name].weight / weights) for name in names]
        tallies = list(pool.map(in_child, names, counts, [given.seed] * len(names)))
    total = [sum(getattr(tally, column) for tally in tallies) for column in ("inputs", "accepted", "refused")]
    wrong = sum(len(tally.wrong) for tally in tallies)
    print(ROW("all", *total, wrong, f"{1000 * max(tally.slowest for tally in tallies):.0f}"))
    print(f"{time.monotonic() - began:.0f} seconds, seed {given.seed}")
    return 1 if wrong or total[0] < given.inputs else 0


def in_child(name: str, count: int, seed: int) -> Tally:
    """Fuzz one target in a process of its own: one that dies of an input has found something too."""
    with tempfile.TemporaryDirectory() as place:
        into = Path(place)
        words = ["--target", name, "--inputs", str(count), "--seed", str(seed), "--into", place]
        child = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", *words], env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False
        )
        tally = found(name, child.returncode, into)
    columns = (tally.inputs, tally.accepted, tally.refused, len(tally.wrong), f"{1000 * tally.slowest:.0f}")
    print(ROW(name, *columns), flush=True)
    for what, value in tally.wrong.items():
        print(f"  WRONG  {what}\n         {value[:SHOWN]}", flush=True)
    return tally


def found(name: str, code: int, into: Path) -> Tally:
    """What a child has noted, or the input that it ended with."""
    if code == 0:
        return Tally(**json.loads((into / "tally").read_text()))
    last = (into / "input").read_text() if (into / "input").exists() else "before the first input"
    how = signal.Signals(-code).name if code < 0 else f"the exit code {code}"
    return Tally(name, wrong={f"the process ended with {how}": last})


if __name__ == "__main__":
    sys.exit(main())
