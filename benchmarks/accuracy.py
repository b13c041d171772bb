"""Test error of a few methods on digits and MNIST, and how their settings were chosen.

    python benchmarks/accuracy.py tune        # VAT at MNIST@100: trials on validation samples and seeds 100, 101
    python benchmarks/accuracy.py vat         # VAT at MNIST@100: the winners, seeds 0 to 4, on test
    python benchmarks/accuracy.py fixmatch    # FixMatch at MNIST@40: the quick preset, seeds 0 to 4, on test
    python benchmarks/accuracy.py digits      # every algorithm at digits@40: the quick preset, seeds 0 to 4, on test
    python benchmarks/accuracy.py show        # tables of what there is
    python benchmarks/accuracy.py digits --again         # the runs once more, into results/accuracy_again.jsonl
    python benchmarks/accuracy.py digits --again NAME    # the same after a change, into results/accuracy_NAME.jsonl
    python benchmarks/accuracy.py show --again [NAME]    # how far they are from the first ones, run by run

Each finished run is a line of `results/accuracy.jsonl` with its settings, so that a stopped call goes on where it was.
`--methods` chooses some of a task's. `--half 0` and `--half 1` do every other run, for two processes side by side.
MNIST is looked for where `halfsure data` looks. One thread a process.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from halfsure.data import hold_out, load
from halfsure.metrics import paired_difference
from halfsure.runs.start import fit

RESULTS = Path(__file__).parent.parent / "results" / "accuracy.jsonl"
TUNING_SEEDS, SEEDS = (100, 101), (0, 1, 2, 3, 4)

SUPERVISED = [{"lr": lr, "ema": 0.999} for lr in (5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 16e-3)]
VAT = [
    {"lr": lr, "epsilon": epsilon, "weight": weight, "unlabeled_batch": 64, "xi": 0.2}
    for lr, epsilon, weight in [
        *[(5e-4, 1.4, 0.3), (5e-4, 1.4, 1.0), (5e-4, 2.8, 0.3), (5e-4, 2.8, 1.0), (1e-3, 1.4, 1.0), (1e-3, 2.8, 1.0)],
    ]
]
TRIALS: dict[str, list[dict[str, Any]]] = {
    "supervised": SUPERVISED,
    "vat": VAT,
    "vat+ads": [trial | {"distill_weight": 0.1} for trial in VAT],
}


def tuning() -> Iterator[dict[str, Any]]:
    """Six trials a method, at a fifth of the steps of the real runs, on seeds that are not reported."""
    for seed in TUNING_SEEDS:
        for trial in range(6):
            for method, settings in TRIALS.items():
                yield {"task": "tune", "method": method, "labels": 100, "seed": seed, "steps": 400, **settings[trial]}


def vat() -> Iterator[dict[str, Any]]:
    """Each method with the trial that was best on validation, over the tuning seeds."""
    winners = {method: winner(method) for method in TRIALS}
    for seed in SEEDS:
        for method, settings in winners.items():
            yield {"task": "vat", "method": method, "labels": 100, "seed": seed, "steps": 2000, **settings}


def fixmatch() -> Iterator[dict[str, Any]]:
    """The quick preset, its number of steps apart."""
    for seed in SEEDS:
        for method in ("supervised", "fixmatch", "fixmatch-sh", "fixmatch-ads"):
            yield {"task": "fixmatch", "method": method, "labels": 40, "seed": seed, "steps": 1000}


def digits() -> Iterator[dict[str, Any]]:
    """The quick preset as it is."""
    for seed in SEEDS:
        for method in (
            "supervised",
            "vat",
            "vat+ads",
            "mixmatch",
            "mixmatch-ads",
            "fixmatch",
            "fixmatch-sh",
            "fixmatch-ads",
        ):
            yield {"task": "digits", "method": method, "labels": 40, "seed": seed}


TASKS = {"tune": tuning, "vat": vat, "fixmatch": fixmatch, "digits": digits}


def done(file: Path = RESULTS) -> list[dict[str, Any]]:
    """Every finished run."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def winner(method: str) -> dict[str, Any]:
    """The trial with the lowest mean validation error."""
    runs = [line for line in done() if line["job"]["task"] == "tune" and line["job"]["method"] == method]

    def error(trial: dict[str, Any]) -> float:
        errors = [run["val_error"] for run in runs if trial.items() <= run["job"].items()]
        if len(errors) < len(TUNING_SEEDS):
            raise SystemExit(f"{method} has not been tuned yet: run `tune` first")
        return float(statistics.mean(errors))

    return min(TRIALS[method], key=error)


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Train, and read the error of the last checkpoint; when tuning, on held-out training samples alone."""
    settings = {key: value for key, value in job.items() if key not in ("task", "method", "labels")}
    data = load("digits" if job["task"] == "digits" else "mnist", labels=job["labels"], seed=job["seed"])
    if job["task"] == "tune":
        data = hold_out(data, 5000, seed=job["seed"])
    began = time.monotonic()
    found = fit(None, data, job["method"], evaluations=4, tensorboard=False, **settings)
    last = found.metrics[-1]
    scored = last["val"] if job["task"] == "tune" else last["test"]
    key = "val_error" if job["task"] == "tune" else "test_error"
    return {
        "job": job,
        key: scored["error"],
        "ece": scored["ece"],
        "candidates": scored["sparse_support"],
        "in_candidates": scored["sparse_top_m_accuracy"],
        "dead": last["dead"],
        "seconds": round(time.monotonic() - began, 1),
    }


def show() -> None:
    runs = done()
    for method, trials in TRIALS.items():
        for trial in trials:
            found = [r for r in runs if r["job"]["task"] == "tune" and r["job"]["method"] == method]
            shown = [f"{100 * r['val_error']:.2f}" for r in found if trial.items() <= r["job"].items()]
            print(f"tune      {method:12} validation error {' '.join(shown):14} {trial}")
    for task in ("vat", "fixmatch", "digits"):
        table: dict[str, dict[int, dict[str, Any]]] = {}
        for r in runs:
            chosen = winner(r["job"]["method"]) if task == "vat" and r["job"]["task"] == "vat" else {}
            if r["job"]["task"] == task and chosen.items() <= r["job"].items():
                table.setdefault(r["job"]["method"], {})[r["job"]["seed"]] = r
        for method, by_seed in table.items():
            rows = [by_seed[seed] for seed in sorted(by_seed)]
            errors = [100 * r["test_error"] for r in rows]
            mean, sd = statistics.mean(errors), statistics.stdev(errors) if len(errors) > 1 else 0.0
            each = " ".join(f"{e:.2f}" for e in errors)
            base = [
                100 * table["supervised"][seed]["test_error"] for seed in sorted(by_seed) if seed in table["supervised"]
            ]
            gap = paired_difference(base, errors) if len(base) == len(errors) > 1 else None
            against = f"against supervised {gap['mean']:+.2f} [{gap['low']:+.2f}, {gap['high']:+.2f}]" if gap else ""
            more = f"ece {100 * statistics.mean(r['ece'] for r in rows):.1f}  {max(r['seconds'] for r in rows):.0f} s"
            print(f"{task:9} {method:12} test error {mean:6.2f} ± {sd:.2f}  ({each})  {against}  {more}")


def show_again(file: Path) -> None:
    """Each method's second runs against its first ones, of the same seeds."""
    first = {json.dumps(line["job"], sort_keys=True): line for line in done()}
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in done(file):
        old = first[json.dumps(line["job"], sort_keys=True)]
        pair = (100 * old["test_error"], 100 * line["test_error"])
        pairs.setdefault((line["job"]["task"], line["job"]["method"]), []).append(pair)
    for (task, method), errors in pairs.items():
        before, after = [a for a, _ in errors], [b for _, b in errors]
        gap = paired_difference(before, after) if len(errors) > 1 else None
        between = f"{gap['mean']:+.2f} [{gap['low']:+.2f}, {gap['high']:+.2f}]" if gap else ""
        same = f"{sum(a == b for a, b in errors)} of {len(errors)} the same"
        print(f"{task:9} {method:12} {statistics.mean(before):6.2f} → {statistics.mean(after):6.2f}  {between}  {same}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=[*TASKS, "show"])
    parser.add_argument("--half", type=int, choices=(0, 1))
    parser.add_argument("--again", nargs="?", const="again", metavar="NAME", help="once more, beside the first runs")
    parser.add_argument("--methods", nargs="+")
    arguments = parser.parse_args()
    file = RESULTS.with_name(f"accuracy_{arguments.again}.jsonl") if arguments.again else RESULTS
    if arguments.task == "show":
        show_again(file) if arguments.again else show()
        return
    torch.set_num_threads(1)
    file.parent.mkdir(exist_ok=True)
    for number, job in enumerate(TASKS[arguments.task]()):
        if arguments.half is not None and number % 2 != arguments.half:
            continue
        if arguments.methods and job["method"] not in arguments.methods:
            continue
        if any(line["job"] == job for line in done(file)):
            continue
        line = json.dumps(run(job))
        with file.open("a") as lines:
            lines.write(line + "\n")
        print(line, flush=True)


if __name__ == "__main__":
    main()
