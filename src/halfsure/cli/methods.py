"""`halfsure methods`."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from halfsure.cli.terminal import print_json
from halfsure.methods import catalogue
from halfsure.settings import parts

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
            roles = {"algorithms": "algorithm", "strategies": "strategy", "gates": "gate"}
            found = {title: {name: part.about for name, part in parts(role).items()} for title, role in roles.items()}
            print_json(console, found | {"methods": accepted, "refused": refused})
            return 0
        console.print(
            "A method is algorithm[@map][-strategy[~gate]][+strategy[~gate]]…, such as fixmatch-ads.", highlight=False
        )
        console.print(
            "- puts a strategy in the place of the one built in, + adds it as a loss on unlabeled predictions; ~ names "
            "the gate that says how much each sample counts."
        )
        console.print("All parts share a map: softmax, sparsemax or entmax1.5; ads brings sparsemax with it.\n")
        for role in ("algorithm", "strategy", "gate"):
            table = Table(role, "", box=None, header_style="bold", pad_edge=False)
            for name, part in parts(role).items():
                built_in = getattr(part, "built_in", None)
                number = "M" if getattr(part, "numbered", "") else ""
                table.add_row(f"{name}{number}", part.about + (f" (built in: {built_in})" if built_in else ""))
            console.print(table)
            console.print()
        console.print("methods", style="bold")
        for algorithm in parts("algorithm"):
            console.print("  ".join(name for name in accepted if name.startswith(algorithm)), highlight=False)
        console.print("\nrefused", style="bold")
        for name, why in refused.items():
            algorithm = name.split("-")[0]
            if parts("algorithm")[algorithm].built_in:
                console.print(f"{name}: {why}", highlight=False, markup=False, soft_wrap=True)
            elif name.endswith("-me"):  # the same for every strategy
                console.print(f"{algorithm}-…: {why}", highlight=False, markup=False, soft_wrap=True)
        return 0
