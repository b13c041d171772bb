"""matplotlib's SVG → what a page needs of it: ids of its own, colours by variable, one decimal, nothing idle."""

import re
from collections.abc import Mapping

from markupsafe import Markup

__all__ = ["inline"]

IDLE = (
    r"<!--.*?-->",
    r"<metadata>.*?</metadata>",
    r"<style.*?</style>",  # it would style the whole page; page.css says the same for plots alone
    r'<path d="[^"]*" style="fill: none"/>',  # backgrounds that are not painted
    r' transform="rotate\(-0 [^"]*\)"',
    r"(?<=>)\s+(?=<)",
)
EMPTY = r"<defs>\s*</defs>|<g>\s*</g>|<g/>"


def inline(svg: str, name: str, variables: Mapping[str, str]) -> tuple[str, Markup]:
    """The box of a drawing, and what is in it; colours become the style sheet's variables, ids begin with `name`."""
    svg = svg[svg.index("<svg") :].strip()
    svg = _numbers(_ids(svg.replace("xlink:href", "href"), name))
    for pattern in IDLE:
        svg = re.sub(pattern, "", svg, flags=re.DOTALL)
    while (shorter := re.sub(EMPTY, "", svg)) != svg:
        svg = shorter
    svg = re.sub(r"font-family: [^;\"]*;? ?|font: ([\d.]+px) [^;\"]*", _font, svg)
    for colour, variable in variables.items():
        svg = svg.replace(colour, f"var(--{variable})")
    opening, _, shapes = svg.removesuffix("</svg>").partition(">")
    box = opening.partition('viewBox="')[2].partition('"')[0]
    return box, Markup(shapes)  # nowhere else is anything trusted to be HTML: matplotlib has escaped the text in it


def _ids(svg: str, name: str) -> str:
    """Ids that are referred to get the drawing's name, for a page has many drawings; the others go."""
    used = set(re.findall(r"#([\w-]+)[\")]", svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", svg)
    return re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", svg)


def _numbers(svg: str) -> str:
    """A tenth of a unit is less than a pixel; text is left as it is."""

    def shorten(found: re.Match[str]) -> str:
        short = re.sub(r"-?\d+\.\d+", lambda n: f"{float(n[0]):.1f}".removesuffix(".0"), found[0])
        return re.sub(r"\s*\n\s*|(?<=[MLCQ]) ", "", short)

    return re.sub(r'\b(d|x|y|transform|width|height)="[^"]*"', shorten, svg)


def _font(found: re.Match[str]) -> str:
    """The size alone: letters are the page's."""
    return f"font-size: {found[1]}" if found[1] else ""
