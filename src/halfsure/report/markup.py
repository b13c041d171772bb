"""Text and numbers → HTML. Everything that comes from data goes through `text` on its way."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from halfsure._shown import harmless

__all__ = [
    "Cell",
    "as_json",
    "cell",
    "details",
    "listed",
    "number_cell",
    "percent",
    "section",
    "signed",
    "table",
    "text",
]

NOTHING = "–"


def text(value: object) -> str:
    """Any value as text that HTML cannot mistake for its own, in content and in quoted attributes."""
    return escape(harmless(str(value)), quote=True)


def as_json(value: Any) -> str:
    """JSON that may stand in a script element: no name in it can end the element."""
    return (
        json.dumps(value, allow_nan=False, separators=(",", ":"))
        .replace("&", "\\u0026")
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
    )


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


@dataclass(frozen=True)
class Cell:
    """A cell of a table: HTML, and what it is sorted by."""

    html: str
    value: float | None = None
    numeric: bool = False

    def render(self, head: bool) -> str:
        """The element; the first of a row is its head."""
        kind = ' class="n"' if self.numeric else ""
        value = f' data-v="{self.value:.6g}"' if self.value is not None else ""
        return f'<th scope="row"{value}>{self.html}</th>' if head else f"<td{kind}{value}>{self.html}</td>"


def cell(value: object) -> Cell:
    """A cell of plain text."""
    return Cell(text(value))


def number_cell(shown: str, value: float | None) -> Cell:
    """A cell that is sorted by a number."""
    return Cell(text(shown), value, numeric=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, caption: str, sortable: bool = True) -> str:
    """A table in a box of its own that scrolls sideways; plain column names and a caption for those who listen."""
    body = [list(row) for row in rows]
    numeric = [any(row[k].numeric for row in body) for k in range(len(columns))]
    heads = "".join(_head(name, right, sortable) for name, right in zip(columns, numeric, strict=True))
    lines = "\n".join("<tr>" + "".join(c.render(head=not k) for k, c in enumerate(row)) + "</tr>" for row in body)
    kind = ' class="sortable"' if sortable else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">\n<table{kind}>'
        f'<caption class="unseen">{text(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody></table>\n</div>"
    )


def details(summary: str, content: str, *, open: bool = False) -> str:
    """Content that is folded away until it is asked for."""
    return f"<details{' open' if open else ''}><summary>{text(summary)}</summary>\n{content}\n</details>"


def section(name: str, title: str, content: str) -> str:
    """A section with its heading."""
    heading = f'<h2 id="{name}-title">{text(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">\n{heading}\n{content}\n</section>'


def _head(name: str, numeric: bool, sortable: bool) -> str:
    kind = ' class="n"' if numeric else ""
    if not sortable:
        return f'<th scope="col"{kind}>{text(name)}</th>'
    return f'<th scope="col" aria-sort="none"{kind}><button type="button">{text(name)}</button></th>'
