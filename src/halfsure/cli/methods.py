"""`halfsure methods`."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from halfsure.cli.terminal import print_json
from halfsure.methods import ALGORITHMS, STRATEGIES, catalogue

__all__ = ["Methods"]


@dataclass(frozen=True)
class Methods:
    """List what a method can be put together from, what each part means, and what is refused and why."""

    json: bool = False
    """Print JSON."""

    def run(self, console: Console) -> int:
        """Print the parts, the combinations and the refusals."""
        accepted = [name for name, why in catalogue() if not why]
        refused = {name: why for name, why in catalogue() if why}
        if self.json:
            parts = {
                "algorithms": {name: row.about for name, row in ALGORITHMS.items()},
                "strategies": {name: row.about for name, row in STRATEGIES.items()},
            }
            print_json(console, parts | {"methods": accepted, "refused": refused})
            return 0
        console.print("A method is algorithm[@map][-strategy][+strategy]…, such as fixmatch-ads.", highlight=False)
        console.print(
            "- puts a strategy in the place of the one built in, + adds it as a loss on unlabeled predictions."
        )
        console.print("All parts share a map: softmax, sparsemax or entmax1.5; ads brings sparsemax with it.\n")
        for title, rows in (("algorithm", ALGORITHMS), ("strategy", STRATEGIES)):
            table = Table(title, "", box=None, header_style="bold", pad_edge=False)
            for name, row in rows.items():
                built_in = getattr(row, "built_in", None)
                table.add_row(name, row.about + (f" (built in: {built_in})" if built_in else ""))
            console.print(table)
            console.print()
        console.print("methods", style="bold")
        for algorithm in ALGORITHMS:
            console.print("  ".join(name for name in accepted if name.startswith(algorithm)), highlight=False)
        console.print("\nrefused", style="bold")
        for name, why in refused.items():
            algorithm = name.split("-")[0]
            if ALGORITHMS[algorithm].built_in:
                console.print(f"{name}: {why}", highlight=False, markup=False, soft_wrap=True)
            elif name.endswith("-me"):  # the same for every strategy
                console.print(f"{algorithm}-…: {why}", highlight=False, markup=False, soft_wrap=True)
        return 0
