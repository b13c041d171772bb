"""The screen: whatever comes from files and data is shown, and cannot act on the terminal."""

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook
from rich.highlighter import JSONHighlighter
from rich.segment import Segment
from rich.text import Text

from halfsure._shown import ORDERS, harmless

__all__ = ["print_json", "screen"]


def screen(*, stderr: bool = False, quiet: bool = False) -> Console:
    """A console on which names are only names: no markup, no emoji codes, no control characters."""
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # for terminals that lack a letter
    console = Console(stderr=stderr, quiet=quiet, markup=False, emoji=False)
    console.push_render_hook(_Harmless())
    return console


def print_json(console: Console, value: Any) -> None:
    """Print a value as JSON; what could act on a terminal stands there as its number, and is read back as it was."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    plain = ORDERS.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text)
    console.print(JSONHighlighter()(Text(plain)), soft_wrap=True)


class _Harmless(RenderHook):
    """Every text on its way to the screen goes through `harmless`; the console's own orders do not."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Shown(one) for one in renderables]


class _Shown:
    """Something to print, its texts made harmless."""

    def __init__(self, inner: ConsoleRenderable) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self._inner, options):
            yield Segment(text if control else harmless(text), style, control)
