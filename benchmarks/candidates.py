"""Whose candidates are safer, if all have as many? The runs of a table that are on this disk, on all test samples.

    halfsure reproduce table2 --column cifar10@250 --seeds 2     # the runs
    python benchmarks/candidates.py table2                       # a line of results/candidates.jsonl for each of them
    python benchmarks/candidates.py show                         # a table of what there is

Candidates are the classes that sparsemax of the logits leaves. A model can be given more or fewer of them in two ways,
and in both all samples share one number, chosen so that a set has at most 1.5, 2 … classes on average: by the
temperature of sparsemax, or by the gap below the largest logit within which classes count. Neither is changed by the
temperature a model was trained at, so models of any map can be compared.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import halfsure
from halfsure.paper.cells import Cell, Column, identity
from halfsure.paper.experiments import TABLES
from halfsure.paper.results import Line, Results

ROOT = Path(__file__).parent.parent
LINES = ROOT / "results" / "candidates.jsonl"
SIZES = (1.5, 2.0, 2.5, 3.0, 4.0)
HALVINGS = 60  # of the range of temperatures: down to the last digit


def by_gap(logits: Tensor, size: float) -> Tensor:
    """The classes less than some gap below the best, at most `size` on average. (n, classes) → booleans."""
    gaps = logits.amax(-1, keepdim=True).double() - logits
    best = torch.zeros_like(gaps, dtype=torch.bool).scatter(-1, logits.argmax(-1, keepdim=True), True)
    others = gaps[~best]
    more = int((size - 1) * len(logits) + 1e-6)  # classes that there may be beside the best ones
    return best | (gaps < others.kthvalue(more + 1).values) if more < len(others) else torch.ones_like(best)


def by_temperature(logits: Tensor, size: float) -> Tensor:
    """The classes that sparsemax leaves at some temperature, at most `size` on average. (n, classes) → booleans."""
    low, high = -50.0, 50.0  # binary logarithms; the warmer, the more classes
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        many = _at(logits, middle).double().sum(-1).mean() > size
        low, high = (low, middle) if many else (middle, high)
    return _at(logits, low)


def _at(logits: Tensor, exponent: float) -> Tensor:
    return halfsure.sparsemax(logits.double() / 2**exponent) > 0


RULES: dict[str, Callable[[Tensor, float], Tensor]] = {"temperature": by_temperature, "gap": by_gap}


def missed(sets: Tensor, labels: Tensor) -> float:
    """How often the true class is not in its sample's set. (n, classes), (n,) → a share."""
    return 1 - sets.gather(-1, labels.unsqueeze(-1)).double().mean().item()


def done() -> list[dict[str, Any]]:
    """Every run that has been looked at."""
    return [json.loads(line) for line in LINES.read_text().splitlines()] if LINES.exists() else []


def cell_of(line: Line) -> Cell:
    """The cell that a line of the results was run for."""
    fields = {name: line[name] for name in ("experiment", "method", "seed", "protocol", "settings", "variant")}
    return Cell(column=Column(**line["column"]), **fields)


def look(line: Line, runs: Path, root: str | None) -> dict[str, Any] | None:
    """The model of a finished run, if it is on this disk, on all test samples."""
    cell = cell_of(line)
    folder = cell.folder(runs)
    if not folder.exists():
        return None
    test = cell.open(root).test
    assert test is not None
    logits, labels = halfsure.load(folder).logits(test.samples), torch.from_numpy(test.labels)
    error = (logits.argmax(-1) != labels).double().mean().item()
    if abs(error - line["test"]["error"]) > 1e-6:
        raise SystemExit(f"{folder} is not the run that the results have: {error:.4f}, not {line['test']['error']:.4f}")
    sparse = halfsure.sparsemax(logits) > 0
    return {
        "cell": cell.as_json(),
        "error": error,
        "candidates": sparse.double().sum(-1).mean().item(),
        "missed": missed(sparse, labels),
        **{name: {f"{size:g}": missed(rule(logits, size), labels) for size in SIZES} for name, rule in RULES.items()},
    }


def run(name: str, runs: Path, root: str | None) -> None:
    """Look at the runs of a table that are finished, are on this disk, and have no line yet."""
    known = {identity(line["cell"]) for line in done()}
    for line in Results(ROOT / "results"):
        if line["experiment"] != name or line["protocol"] != "cpu" or identity(line) in known:
            continue
        if (found := look(line, runs, root)) is not None:
            with LINES.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(f"{cell_of(line).name}: {found['candidates']:.2f} candidates miss {100 * found['missed']:.2f} %")


def show() -> None:
    """Means over seeds, in %."""
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for line in done():
        cell = line["cell"]
        column = f"{cell['column']['data']}@{cell['column']['labels']}"
        rows.setdefault((cell["experiment"], column, f"{cell['method']} {cell['variant']}".strip()), []).append(line)
    head = [*("", "", "", "seeds", "candidates", "error", "missed"), *(f"{r} {s:g}" for r in RULES for s in SIZES)]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for names, lines in rows.items():
        shares = [[line[key] for line in lines] for key in ("error", "missed")]
        shares += [[line[rule][f"{size:g}"] for line in lines] for rule in RULES for size in SIZES]
        number = f"{statistics.fmean(line['candidates'] for line in lines):.2f}"
        means = [f"{100 * statistics.fmean(share):.1f}" for share in shares]
        print(f"| {' | '.join([*names, str(len(lines)), number, *means])} |")


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
