"""What FixMatch loses, if anything, when its weak views pass without a gradient: `weak_grad` on and off, on test.

    python benchmarks/weak_grad.py digits      # digits@40: the quick preset, without norm layers and with batch norm
    python benchmarks/weak_grad.py mnist       # MNIST@40: the quick preset, 1,000 steps
    python benchmarks/weak_grad.py show        # tables of what there is

Each finished run is a line of `results/weak_grad.jsonl` with its settings, so that a stopped call goes on where it was.
MNIST is looked for where `halfsure data` looks, or in `--data`. One thread.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch

from halfsure.data import load
from halfsure.metrics import paired_difference
from halfsure.runs.start import fit

RESULTS = Path(__file__).parent.parent / "results" / "weak_grad.jsonl"
METHODS = ("fixmatch", "fixmatch-ads")


def jobs(source: str, seeds: int, norms: Sequence[str], **more: Any) -> Iterator[dict[str, Any]]:
    """Every method with and without: without norm layers the same mathematics, with batch norm another."""
    for seed, norm, method, weak_grad in product(range(seeds), norms, METHODS, (True, False)):
        found = {"source": source, "method": method, "labels": 40, "seed": seed, "norm": norm, "weak_grad": weak_grad}
        yield found | more


TASKS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "digits": lambda: jobs("digits", 5, ("none", "batch")),
    "mnist": lambda: jobs("mnist", 3, ("none",), steps=1000),
}


def done() -> list[dict[str, Any]]:
    """Every finished run."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def run(job: dict[str, Any], root: str | None) -> dict[str, Any]:
    """Train, and read the error of the last checkpoint."""
    settings = {key: value for key, value in job.items() if key not in ("source", "method", "labels")}
    data = load(job["source"], labels=job["labels"], seed=job["seed"], root=root)
    began = time.monotonic()
    found = fit(None, data, job["method"], evaluations=4, tensorboard=False, **settings)
    last = found.metrics[-1]
    return {
        "job": job,
        "config": found.settings,
        "test_error": last["test"]["error"],
        "ece": last["test"]["ece"],
        "dead": last["dead"],
        "training_seconds": last["seconds"],
        "seconds": round(time.monotonic() - began, 1),
    }


def show() -> None:
    """One line a setting and method: the errors with and without, and the difference over the seeds."""
    table: dict[tuple[str, str, str], dict[bool, dict[int, dict[str, Any]]]] = {}
    for line in done():
        job = line["job"]
        place = table.setdefault((job["source"], job["norm"], job["method"]), {True: {}, False: {}})
        place[job["weak_grad"]][job["seed"]] = line
    for (source, norm, method), runs in sorted(table.items()):
        seeds = sorted(runs[True].keys() & runs[False].keys())
        if len(seeds) < 2:
            continue
        on, off = ([100 * runs[kind][seed]["test_error"] for seed in seeds] for kind in (True, False))
        gap = paired_difference(on, off)
        print(
            f"{source:7} norm {norm:6} {method:13} {len(seeds)} seeds  "
            f"with {statistics.mean(on):5.2f} ± {statistics.stdev(on):.2f}  "
            f"without {statistics.mean(off):5.2f} ± {statistics.stdev(off):.2f}  "
            f"without − with {gap['mean']:+.2f} [{gap['low']:+.2f}, {gap['high']:+.2f}]"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=[*TASKS, "show"])
    parser.add_argument("--data", help="folder of the official sets")
    arguments = parser.parse_args()
    if arguments.task == "show":
        show()
        return
    torch.set_num_threads(1)
    RESULTS.parent.mkdir(exist_ok=True)
    for job in TASKS[arguments.task]():
        if any(line["job"] == job for line in done()):
            continue
        line = json.dumps(run(job, arguments.data))
        with RESULTS.open("a") as file:
            file.write(line + "\n")
        print(line, flush=True)


if __name__ == "__main__":
    main()
