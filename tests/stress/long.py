"""Long runs and many processes: `python -m tests.stress.long`, some three minutes on one core.

Says by how much memory, files and threads grow over 20,000 steps and 50 fits, in which circumstances the same seed
gave the same bits, and what `deterministic` costs. Ends with 1 if something grew or differed that should not.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from halfsure.runs.run import load
from halfsure.runs.start import start
from tests.stress.footprint import Footprint, Footprints
from tests.training.helpers import images, rows, tiny

ROOT = Path(__file__).parents[2]
STEPS = 20_000
BLOCKS_A_STEP, BYTES_A_STEP = 0.5, 100
"""What may be left of a step: not one object; 8 evaluations of some kilobytes each are kept on purpose."""


def steps(folder: Path) -> list[str]:
    """One long run with evaluations and saves. → what grew."""
    watch = Footprints(*range(STEPS // 4, STEPS + 1, STEPS // 4))
    start(rows(), tiny(steps=STEPS, evaluations=8, save_minutes=0.05, ema=0.99), out=folder, watch=watch)
    for step, taken in zip(watch.steps, watch.taken, strict=True):
        print(
            f"  step {step:>6,}: {taken.resident / 2**20:.1f} MiB resident, {taken.blocks:,} blocks of Python, "
            f"{taken.tensors} tensors, {taken.files} files, {taken.threads} threads"
        )
    # A leak goes on from stretch to stretch. A process that finds the memory it then uses again grows now and then.
    rates = {name: watch.steady(name) for name in ("blocks", "resident", "tensors", "files", "threads")}
    print(f"  a step, where it grew least: {rates['blocks']:.2f} blocks, {rates['resident']:.1f} B resident")
    most = {"blocks": BLOCKS_A_STEP, "resident": BYTES_A_STEP, "tensors": 0, "files": 0, "threads": 0}
    return [f"{name} grows by {rates[name]:.3g} a step" for name, limit in most.items() if rates[name] > limit]


def fits(folder: Path, count: int = 50) -> list[str]:
    """Many short runs in one process, each opened and asked for predictions. → what grew."""
    data, taken = rows(), []
    for number in range(count):
        start(data, tiny(steps=5), out=folder / str(number))
        load(folder / str(number)).predict(data.train.samples)
        if number in (4, count - 1):
            taken.append(Footprint.now())
    early, late = taken
    growth = (late.resident - early.resident) / 2**20
    print(f"  from 5 to {count} fits: {growth:+.1f} MiB resident, {late.tensors - early.tensors:+d} tensors, ", end="")
    print(f"{late.files - early.files:+d} files, {late.threads - early.threads:+d} threads")
    counts = {name: getattr(late, name) - getattr(early, name) for name in ("tensors", "files", "threads")}
    return [f"{name} grow by {grown} over {count} fits" for name, grown in counts.items() if grown > 0]


def child(folder: Path, environment: dict[str, str], asked: dict[str, Any]) -> dict[str, Any]:
    """Every family of methods in a process of its own. → fingerprints of what came out."""
    folder.mkdir()
    found: dict[str, Any] = json.loads(
        subprocess.run(
            [sys.executable, "-m", "tests.stress.child", str(folder / "runs"), json.dumps(asked)],
            cwd=folder,
            env=os.environ
            | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "HALFSURE_BANK": str(folder / "bank"), **environment},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    return found


def circumstances(root: Path) -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """What differs from one process to the next: its environment, and how its runs are asked for."""
    dice = random.Random(0)
    stops = sorted(dice.sample(range(1, 12), 4))
    return {
        "another process, hash seed and folder": ({"PYTHONHASHSEED": "123"}, {}),
        "saved after every step": ({"PYTHONHASHSEED": "5"}, {"settings": {"save_minutes": 0}}),
        f"stopped after the steps {', '.join(map(str, stops))}, and gone on with": ({}, {"stops": stops}),
        "kernels compiled anew": ({"NUMBA_CACHE_DIR": str(root / "empty cache")}, {}),
        "on a machine with other work": ({}, {"settings": {"save_minutes": 1}}),
        "deterministic": ({}, {"settings": {"deterministic": True}}),
    }


def bits(root: Path) -> list[str]:
    """The same seed in different circumstances. → what differed."""
    first = child(root / "first", {"PYTHONHASHSEED": "0"}, {})
    wrong = []
    for number, (name, (environment, asked)) in enumerate(circumstances(root).items()):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * ("other work" in name))]
        try:
            other = child(root / str(number), environment, asked)
        finally:
            for process in busy:
                process.kill()
                process.wait()
        differ = _different(first, other, but=("checkpoint",) if name == "deterministic" else ())
        print(f"  {name}: {'the same bits' if not differ else 'differs in ' + ', '.join(differ)}")
        wrong += [f"{name}: other bits in {', '.join(differ)}"] if differ else []
    two = _different(first, child(root / "two", {"OMP_NUM_THREADS": "2"}, {"settings": {"threads": 2}}))
    print(f"  two threads instead of one (nothing is promised): {', '.join(two) or 'the same bits'}")
    return wrong


def _different(one: dict[str, Any], other: dict[str, Any], but: tuple[str, ...] = ()) -> list[str]:
    return [
        f"{run}/{part}"
        for run, parts in one.items()
        for part, found in parts.items()
        if part not in but and other[run][part] != found
    ]


def cost(pairs: int = 7) -> list[str]:
    """What `deterministic` costs on the CPU: the median ratio of interleaved runs. → nothing: it is only told."""
    for name, data, changes in (
        ("rows, mlp", rows(), {"net": "mlp", "steps": 150}),
        ("images, conv7-16", images(16, count=200), {"net": "conv7-16", "steps": 15, "batch": 16}),
    ):
        config = tiny(evaluations=1, **changes)
        ratios = []
        for pair in range(pairs + 1):
            seconds = {}
            for strict in (pair % 2 == 0, pair % 2 == 1):
                began = time.process_time()
                start(data, config.replace(deterministic=strict))
                seconds[strict] = time.process_time() - began
            ratios.append(seconds[True] / seconds[False])
        found = sorted(ratios[1:])
        print(f"  {name}: {statistics.median(found):.2f} times the time without [{found[0]:.2f}, {found[-1]:.2f}]")
    return []


def main() -> int:
    """All of it."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        parts: dict[str, Callable[[], list[str]]] = {
            f"{STEPS:,} steps of a small network": lambda: steps(root / "long"),
            "many fits in one process": lambda: fits(root / "fits"),
            "the same seed": lambda: bits(root),
            "the cost of deterministic on the CPU": cost,
        }
        for title, part in parts.items():
            began = time.monotonic()
            print(title, flush=True)
            wrong += part()
            print(f"  ({time.monotonic() - began:.0f} s)", flush=True)
    print("\n".join(f"WRONG: {sentence}" for sentence in wrong) or "nothing grew, nothing differed")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
