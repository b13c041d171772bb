"""What a person sees while many runs train: one bar and what is running in a terminal, plain lines elsewhere."""

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

__all__ = ["Board"]

SECONDS = 30.0  # between two lines about what is running, where nobody watches
COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(24),
    TextColumn("{task.fields[text]}"),
    TimeRemainingColumn(elapsed_when_finished=True),
)


class Board:
    """Shows how far each of many runs is; says nothing without a console."""

    def __init__(self, console: Console | None, names: Sequence[str], steps: Sequence[int]) -> None:
        self._console, self._names, self._steps = console, names, steps
        self._width = max(map(len, [*names, "all"]))
        self._ended: set[int] = set()
        self._lock = threading.Lock()  # one thread looks at the steps, another hears of ends
        self._told = time.monotonic()
        self._tasks: dict[int, TaskID] = {}
        live = console is not None and console.is_terminal
        self._progress = Progress(*COLUMNS, console=console, transient=True) if live else None

    def __enter__(self) -> "Board":
        if self._progress is not None:
            self._progress.start()
            self._all = self._progress.add_task(self._padded("all"), total=sum(self._steps), text="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, done: Sequence[int]) -> None:
        """Show how many steps each run has done, −1 where it has not begun."""
        with self._lock:
            self._update(done)

    def _update(self, done: Sequence[int]) -> None:
        running = [place for place, steps in enumerate(done) if steps >= 0 and place not in self._ended]
        if self._progress is not None:
            whole = sum(self._steps[place] if place in self._ended else max(n, 0) for place, n in enumerate(done))
            self._progress.update(self._all, completed=whole, text=f"{len(self._ended)} of {len(self._names)} runs")
            for place in running:
                if place not in self._tasks:
                    name = self._padded(self._names[place])
                    self._tasks[place] = self._progress.add_task(name, total=self._steps[place], text="")
                self._progress.update(
                    self._tasks[place], completed=done[place], text=f"{done[place]:,}/{self._steps[place]:,}"
                )
        elif running and time.monotonic() - self._told > SECONDS:
            self._say(", ".join(f"{self._names[p]} at {done[p]:,} of {self._steps[p]:,}" for p in running))

    def ended(self, place: int, text: str) -> None:
        """Tell that a run has come to its end."""
        with self._lock:
            self._ended.add(place)
            if self._progress is not None and place in self._tasks:
                self._progress.remove_task(self._tasks.pop(place))
            count = f"{len(self._ended):>{len(str(len(self._names)))}} of {len(self._names)}"
            self._say(f"{count}  {self._padded(self._names[place])}  {text}")

    def _padded(self, name: str) -> str:
        return f"{name:<{self._width}}"

    def _say(self, text: str) -> None:
        self._told = time.monotonic()
        if self._console is not None:
            self._console.print(text, highlight=False, soft_wrap=True, markup=False)
