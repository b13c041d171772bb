"""Whether this tree computes the same bits as an older one, and is no slower.

    python benchmarks/against.py                  # version 0.1; under 6 minutes
    python benchmarks/against.py HEAD~3           # any revision; HEAD is this tree without what is not committed
    python benchmarks/against.py --only "ADS loss"
    python benchmarks/against.py --strict         # slower is a failure too

Each tree runs in processes of its own (`against_worker.py`), on one thread, with the same packages. The bits are those
of the averaged weights and of all metrics of short runs. For the speed both take turns, in CPU seconds: a ratio is the
old time ÷ the new one, in the median over the rounds. Rows below the target are measured again, and all their rounds
count. Exit code 1: the bits differ; 2: nothing could be compared.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rows import Row, header, reached, show

from halfsure.cli.process import MEMORY, WAITING

__all__ = ["Bits", "Tree", "difference", "extracted", "same_bits", "speeds", "trees", "verdict"]

ROOT = Path(__file__).parents[1]
BASE = "ca463ee"  # version 0.1, before the package was laid out anew
TARGET = 0.95
PAIRS, ROUNDS = 3, 5  # processes of each tree, and rounds in each; where a process lies in memory is a matter of luck
CLOCKS = {"seconds"}  # metrics that no two runs share
SETTINGS = {
    **WAITING,
    **{name: str(size) for name, (_, size) in MEMORY.items()},
    "THP_MEM_ALLOC_ENABLE": "1",  # large pages: small ones make a tree up to a fifth slower than itself, by chance
    "OMP_NUM_THREADS": "1",
}


class TreeError(Exception):
    """A tree cannot be compared."""


class Tree:
    """A source tree at work in a process of its own."""

    def __init__(self, root: Path) -> None:
        environment = os.environ | SETTINGS | {"PYTHONPATH": str(root / "src")}
        command = [sys.executable, str(Path(__file__).with_name("against_worker.py"))]
        self.root, pipe = root, subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True, encoding="utf-8")

    def ask(self, name: str, **more: int) -> None:
        """Send a question; the tree works on it until the answer is read."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"name": name, **more}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.answer()  # says why

    def answer(self) -> Any:
        """Wait for the next answer."""
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise TreeError(f"the worker in {self.root} ended with {self.process.wait()}; its error is above")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


@dataclass(frozen=True)
class Bits:
    """How the results of one run compare."""

    run: str
    differences: tuple[str, ...]
    alone: frozenset[str] = frozenset()
    """Metrics that only one of the trees has, so that there is nothing to compare."""

    def __str__(self) -> str:
        return f"{self.run}: {'; '.join(self.differences[:3])}"


@contextmanager
def extracted(revision: str) -> Iterator[Path]:
    """A revision of this repository in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="halfsure-against-") as folder:
        command = ["git", "-C", str(ROOT), "archive", "--output", f"{folder}/tree.tar", "--end-of-options", revision]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise TreeError(f"git has no tree for {revision}: {made.stderr.strip()}")
        subprocess.run(["tar", "-xf", "tree.tar"], cwd=folder, check=True)
        yield Path(folder)


@contextmanager
def trees(old: Path, new: Path) -> Iterator[tuple[dict[str, list[str]], Tree, Tree]]:
    """Both at work, and the names of what can be asked of them."""
    pair = Tree(old), Tree(new)
    try:
        for tree in pair:
            names = tree.answer()
            if not Path(names["halfsure"]).is_relative_to(tree.root):
                raise TreeError(f"{tree.root} has no halfsure: its worker found {names['halfsure']}")
        yield names, *pair
    finally:
        for tree in pair:
            tree.close()


def same_bits(old: Tree, new: Tree, runs: Sequence[str], steps: int) -> list[Bits]:
    """The same runs in both trees, side by side."""
    found = []
    for run in runs:
        for tree in (old, new):
            tree.ask(run, steps=steps)
        found.append(difference(run, old.answer(), new.answer()))
    return found


def difference(run: str, old: dict[str, Any], new: dict[str, Any]) -> Bits:
    """Compare the weights and every metric that both have."""
    found = [] if old["weights"] == new["weights"] else ["other weights"]
    before, after = (dict(flat(answer["metrics"])) for answer in (old, new))
    # By their text: NaN equals NaN.
    changed = [name for name in before if name in after and repr(before[name]) != repr(after[name])]
    found += [f"{name} {before[name]!r} → {after[name]!r}" for name in changed]
    return Bits(run, tuple(found), frozenset(before) ^ frozenset(after))


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number in nested lists and dicts, by its path; clocks are left out."""
    if not isinstance(value, dict | list):
        yield path, value
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if key not in CLOCKS:
            yield from flat(inner, f"{path}/{key}" if path else str(key))


def speeds(old: Path, new: Path, works: Sequence[str], peer: str) -> list[Row]:
    """Old time ÷ new time of each work; those below the target get twice as many rounds."""
    found = rounds(old, new, works)
    rows = [row(work, peer, found[work]) for work in works]
    if late := [row.what for row in rows if not row.reached]:
        again = rounds(old, new, late)
        rows = [row(work, peer, found[work] + again.get(work, [])) for work in works]
    return rows


def row(work: str, peer: str, seconds: Sequence[tuple[float, float]]) -> Row:
    """The seconds of both in every round → a row."""
    best = min(new for _, new in seconds)
    return Row(work, peer, [old / new for old, new in seconds], TARGET, "≥", f"{1000 * best:.3g} ms")


def rounds(old: Path, new: Path, works: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """The seconds that each work takes in both, round by round, in several pairs of processes."""
    found: dict[str, list[tuple[float, float]]] = {work: [] for work in works}
    for _ in range(PAIRS):
        with trees(old, new) as (_, one, other):
            for work in works:
                found[work] += in_turn(one, other, work)
    return found


def in_turn(old: Tree, new: Tree, work: str) -> list[tuple[float, float]]:
    """The trees take turns, and take turns in being the first."""
    found = []
    for turn in range(ROUNDS + 1):
        seconds = {}
        for tree in (old, new) if turn % 2 else (new, old):
            tree.ask(work)
            seconds[tree] = tree.answer()
        found.append((seconds[old], seconds[new]))
    return found[1:]  # the first round warms up


def verdict(bits: Sequence[Bits], rows: Sequence[Row], peer: str) -> str:
    """What was found, in words, before any table."""
    other = [found for found in bits if found.differences]
    same = f"DIFFERENT BITS: {len(other)} of {len(bits)} runs differ from {peer}" if other else f"Same bits as {peer}"
    fast = "no slower" if all(row.reached for row in rows) else "SLOWER in places"
    lines = [f"{same if bits else 'No bits compared'}; {f'{fast}: {reached(rows)}' if rows else 'nothing timed'}"]
    lines += [f"  differs: {found}" for found in other]
    if alone := sorted(frozenset().union(*(found.alone for found in bits))):
        lines.append(f"  not compared, because only one tree has it: {', '.join(alone[:3])}{' …' * (len(alone) > 3)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?", default=BASE, help=f"any that git knows; {BASE} unless given")
    parser.add_argument("--steps", type=int, default=200, help="of each run whose bits are compared")
    parser.add_argument("--only", default="", metavar="TEXT", help="what has this text in its name: rows, vat, step, …")
    parser.add_argument("--strict", action="store_true", help="exit with 1 also where this tree is slower")
    asked = parser.parse_args()
    try:
        with extracted(asked.revision) as folder:
            with trees(folder, ROOT) as (names, old, new):
                runs, works = ([name for name in names[kind] if asked.only in name] for kind in ("runs", "works"))
                if not runs and not works:
                    parser.error(f"nothing has {asked.only!r} in its name: {', '.join(names['runs'] + names['works'])}")
                print(f"comparing {len(runs)} runs of {asked.steps} steps …", file=sys.stderr)
                bits = same_bits(old, new, runs, asked.steps)
            print(f"timing {len(works)} losses, views and steps …", file=sys.stderr)
            rows = speeds(folder, ROOT, works, asked.revision)
    except TreeError as error:
        parser.error(str(error))
    print(f"{verdict(bits, rows, asked.revision)}\n\n{header()}")
    show(rows)
    return int(any(found.differences for found in bits) or (asked.strict and not all(row.reached for row in rows)))


if __name__ == "__main__":
    sys.exit(main())
