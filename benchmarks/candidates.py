"""Whose candidates are safer, if all have as many? The runs of a table that are on this disk, on all test samples.

    halfsure reproduce table2 --column cifar10@250 --seeds 2     # the runs
    python benchmarks/candidates.py table2                       # a line of results/candidates.jsonl for each of them
    python benchmarks/candidates.py show                         # a table of what there is

A model's sets hold the classes whose logit is less than some gap below the largest, the same gap for all samples,
chosen so that a set has 1.5, 2 or 3 classes on average. No map and no temperature changes that order, so models of any
map can be compared. Beside them are the candidates that sparsemax of the logits leaves, with their own mean number.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import halfsure
from halfsure.paper.cells import Cell, identity
from halfsure.paper.experiments import TABLES
from halfsure.paper.results import Results

ROOT = Path(__file__).parent.parent
LINES = ROOT / "results" / "candidates.jsonl"
SIZES = (1.5, 2.0, 3.0)


def missed(logits: Tensor, labels: Tensor, size: float) -> float:
    """How often sets of at most `size` classes on average lack the true one. (n, classes), (n,) → a share."""
    gaps = logits.amax(-1, keepdim=True).double() - logits
    best = logits.argmax(-1, keepdim=True)
    others = gaps.scatter(-1, best, float("inf")).flatten()
    more = int((size - 1) * len(logits))  # classes there are beside the best ones
    gap = others.kthvalue(more + 1).values
    outside = gaps.gather(-1, labels.unsqueeze(-1)) >= gap
    return (outside & (best != labels.unsqueeze(-1))).double().mean().item()


def done() -> list[dict[str, Any]]:
    """Every run that has been looked at."""
    return [json.loads(line) for line in LINES.read_text().splitlines()] if LINES.exists() else []


def look(cell: Cell, folder: Path, root: str | None) -> dict[str, Any]:
    """One trained model, on all test samples."""
    test = cell.open(root).test
    assert test is not None
    logits, labels = halfsure.load(folder).logits(test.samples), torch.from_numpy(test.labels)
    sparse = halfsure.sparsemax(logits) > 0
    return {
        "cell": cell.as_json(),
        "error": (logits.argmax(-1) != labels).double().mean().item(),
        "candidates": sparse.sum(-1).double().mean().item(),
        "missed": 1 - sparse.gather(-1, labels.unsqueeze(-1)).double().mean().item(),
        "missed_by_size": {str(size): missed(logits, labels, size) for size in SIZES},
    }


def run(name: str, runs: Path, root: str | None) -> None:
    """Look at the runs of a table that are finished, are on this disk, and have no line yet."""
    results, known = Results(ROOT / "results"), {identity(line["cell"]) for line in done()}
    finished = [line for line in results if line["experiment"] == name and line["protocol"] == "cpu"]
    table = TABLES[name]
    for cell in table.cells("cpu", sorted({line["seed"] for line in finished})):
        folder = runs / cell.protocol / cell.experiment / cell.name.replace(":", "_")
        if results.find(cell) is None or identity(cell.as_json()) in known or not folder.exists():
            continue
        line = look(cell, folder, root)
        with LINES.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{cell.name}: {line['candidates']:.2f} candidates miss {100 * line['missed']:.2f} %", flush=True)


def show() -> None:
    """Means over seeds, in %."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in done():
        column = line["cell"]["column"]
        rows.setdefault((f"{column['data']}@{column['labels']}", line["cell"]["method"]), []).append(line)
    print("| | | seeds | error | candidates | missed | " + " | ".join(f"missed by {size:g}" for size in SIZES) + " |")
    print("|---" * (6 + len(SIZES)) + "|")
    for (column, method), lines in rows.items():
        shares = [[line["missed"] for line in lines]]
        shares += [[line["missed_by_size"][str(size)] for line in lines] for size in SIZES]
        error = f"{100 * statistics.fmean(line['error'] for line in lines):.2f}"
        number = f"{statistics.fmean(line['candidates'] for line in lines):.2f}"
        means = " | ".join(f"{100 * statistics.fmean(share):.2f}" for share in shares)
        print(f"| {column} | `{method}` | {len(lines)} | {error} | {number} | {means} |")


def main() -> None:
    """Look at a table's runs, or show what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*TABLES, "show"])
    parser.add_argument("--runs", type=Path, default=Path("runs/reproduce"), help="where the run folders are")
    parser.add_argument("--data", help="folder of the official sets")
    given = parser.parse_args()
    if given.what == "show":
        show()
    else:
        torch.set_num_threads(1)
        run(given.what, given.runs, given.data)


if __name__ == "__main__":
    main()
