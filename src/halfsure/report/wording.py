"""Numbers and names as they are printed."""

from collections.abc import Sequence

__all__ = ["NOTHING", "listed", "percent", "signed"]

NOTHING = "–"


def percent(share: float | None, sd: float | None = None) -> str:
    """`0.1333` → `13.33 %`, with a deviation `13.33 ± 1.20 %`."""
    if share is None:
        return NOTHING
    spread = f" ± {100 * sd:.2f}" if sd is not None else ""
    return f"{100 * share:.2f}{spread} %"


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign, the minus as it is printed; zero has none."""
    shown = f"{abs(value):.{digits}f}"
    return shown if float(shown) == 0 else ("−" if value < 0 else "+") + shown


def listed(names: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return f" {last} ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
