"""What a person sees while a bank is filled: a bar in a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from halfsure._shown import duration

__all__ = ["Bar", "say"]

SECONDS = 30.0
"""Between two lines where there is no terminal."""


def say(console: Console | None, text: str, style: str | None = None) -> None:
    """Print a sentence, if there is somebody to read it."""
    if console is not None:
        console.print(text, style=style, highlight=False, soft_wrap=True, markup=False)


class Bar:
    """Samples that are done, how many per second, and the time that is left."""

    def __init__(self, console: Console | None, total: int, what: str) -> None:
        self._console, self._total, self._what = console, total, what
        self._done, self._began = 0, time.monotonic()
        self._said = self._began
        self._progress: Progress | None = None
        if console is not None and console.is_terminal:
            columns = (BarColumn(24), MofNCompleteColumn(), TextColumn("{task.fields[text]}"))
            self._progress = Progress(*columns, console=console, transient=True)
            self._task = self._progress.add_task("", total=total, text=what)

    @contextmanager
    def shown(self) -> Iterator["Bar"]:
        """Show it as long as it lasts."""
        if self._progress is None:
            yield self
        else:
            with self._progress:
                yield self

    def add(self, count: int) -> None:
        """So many more samples are done."""
        self._done += count
        now = time.monotonic()
        rate = self._done / max(now - self._began, 1e-9)
        text = f"{rate:,.{0 if rate >= 10 else 1}f} {self._what}/s  {duration((self._total - self._done) / rate)} left"
        if self._progress is not None:
            self._progress.update(self._task, completed=self._done, text=text)
        elif now - self._said >= SECONDS:
            self._said = now
            say(self._console, f"{self._done:,} of {self._total:,}  {text}")
