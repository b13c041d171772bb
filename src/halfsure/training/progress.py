"""What a person sees while a run trains: a live line in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from halfsure._shown import duration
from halfsure.training.class_shares import listed

__all__ = ["Display"]

SECONDS = {True: 0.2, False: 30.0}  # between two updates, in a terminal and elsewhere


class Display:
    """Shows losses, errors and the time that is left; says nothing without a console."""

    def __init__(
        self, console: Console | None, start: int, steps: int, watch: Callable[[int], None] | None = None
    ) -> None:
        self._console, self._watch = console, watch
        self._steps, self._start = steps, start
        self._live = console is not None and console.is_terminal
        self._shown, self._began = time.monotonic(), time.monotonic()
        self._error = ""
        columns = (BarColumn(24), MofNCompleteColumn(), TextColumn("{task.fields[text]}"), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True) if self._live else None

    def __enter__(self) -> "Display":
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task("", total=self._steps, completed=self._start, text="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._attempt(self._progress.stop)

    def step(self, done: int) -> None:
        """Tell whoever watches of a step."""
        if self._watch is not None:
            self._watch(done)

    def losses(self, done: int, terms: dict[str, float]) -> None:
        """Show the loss terms that were last seen, from time to time."""
        now = time.monotonic()
        if self._console is None or not terms or now - self._shown < SECONDS[self._live]:
            return
        self._shown = now
        parts = [f"{name[0].upper()} {value:.3f}" for name, value in terms.items() if name != "total"]
        text = f"loss {terms['total']:.3f} = {' + '.join(parts)}"
        if self._progress is not None:
            progress = self._progress
            self._attempt(lambda: progress.update(self._task, completed=done, text=f"{text}{self._error}"))
        else:
            left = (now - self._began) / max(done - self._start, 1) * (self._steps - done)
            self._print(f"step {done:,} of {self._steps:,}  {text}  {duration(left)} left")

    def evaluated(self, line: dict[str, Any]) -> None:
        """Show what an evaluation found."""
        parts = [f"step {line['step']:>7,}"]
        scores = {part: line[part] for part in ("test", "val", "unlabeled") if line.get(part)}
        parts += [f"{part} error {100 * s['error']:5.2f} %" for part, s in scores.items() if s["error"] is not None]
        for scored in list(scores.values())[:1]:
            self._error = f"  {parts[1]}" if len(parts) > 1 else ""
            parts += [f"sure {scored['dominant']:.3f}", f"candidates {scored['sparse_support']:.2f}"]
        parts.append(f"loss {line['train']['total']:.3f}")
        if line["step"] > self._steps / 5:  # at first no network predicts every class
            if line.get("constant") is not None:
                parts.append(f"predicts only {line['constant']}")
            elif line.get("dead"):
                parts.append(f"not predicted: {listed(line['dead'])}")
        parts.append(duration(line["seconds"]))
        self._print("  ".join(parts))

    def notes(self, sentences: list[str]) -> None:
        """Show what a person should know."""
        for sentence in sentences:
            self._print(sentence, style="yellow")

    def _print(self, text: str, style: str | None = None) -> None:
        if (console := self._console) is not None:
            self._attempt(lambda: console.print(text, style=style, highlight=False, soft_wrap=True, markup=False))

    def _attempt(self, show: Callable[[], None]) -> None:
        """Show something. A terminal that was closed, or a log on a full disk, is no reason for a run to end."""
        try:
            show()
        except BrokenPipeError:
            raise
        except OSError:
            self._console = self._progress = None
