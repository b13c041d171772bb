"""The numbers of a run as TensorBoard's events, where it is installed; no run ends for want of them."""

import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from halfsure._disk import reason
from halfsure.training.errors import RunError

__all__ = ["Events", "require_events"]


def require_events(given: Mapping[str, Any]) -> None:
    """Refuse settings that ask for events where they cannot be written; not asked for, they are just not there."""
    if given.get("tensorboard") is True and find_spec("tensorboard") is None:
        raise RunError(
            "TensorBoard events need a package that is not installed: pip install 'halfsure[tensorboard]', or do not "
            "ask for tensorboard"
        )


class Events:
    """Writes events beside a run until it is closed, or until they cannot be written any more, which is told once."""

    def __init__(self, path: Path, step: int) -> None:
        self._writer: Any = None
        self._hook = threading.excepthook
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional, and slow to import
        except ImportError:
            return
        threading.excepthook = self._thread_failed
        with _nameless():
            self._attempt(
                lambda: setattr(self, "_writer", SummaryWriter(str(path / "tensorboard"), purge_step=step + 1))
            )

    def add(self, line: dict[str, Any]) -> None:
        """Write every number of an evaluation."""
        if self._writer is not None:
            self._attempt(lambda: self._write(line))

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._attempt(self._writer.close)
            self._writer = None
        threading.excepthook = self._hook

    def _write(self, line: dict[str, Any]) -> None:
        for name, value in _numbers(line):
            self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()

    def _thread_failed(self, what: threading.ExceptHookArgs) -> None:
        """Pass over what happens to the thread that writes: `add` and `close` hear of it."""
        if type(what.thread).__module__.partition(".")[0] != "tensorboard":
            self._hook(what)

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # a thread writes, and whatever happened to it comes up here
            self._writer = None
            warnings.warn(f"TensorBoard events are no longer written: {reason(error)}; the run goes on", stacklevel=4)


@contextmanager
def _nameless() -> Iterator[None]:
    """TensorBoard names its files by the host; for the time of the block the host is nobody's."""
    usual = socket.gethostname
    socket.gethostname = lambda: "host"
    try:
        yield
    finally:
        socket.gethostname = usual


def _numbers(line: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, value in line.items():
        if isinstance(value, dict):
            found += _numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and key != "step":
            found.append((prefix + key, float(value)))
    return found
