"""A polite end: the first signal lets the step finish and save, the second stops at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Stop", "stop_signals"]


class Stop:
    """Whether a run has been asked to stop, and by which signal."""

    signal: int | None = None


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Note SIGINT and SIGTERM for the time of the block instead of dying; only in the main thread, as Python has it."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        if stop.signal is not None:
            raise KeyboardInterrupt
        stop.signal = number

    before: dict[int, Any] = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if stop.signal is not None:  # it came too late for the block to stop: nobody has heard of it yet
        signal.raise_signal(stop.signal)
