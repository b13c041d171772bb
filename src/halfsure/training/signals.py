"""A polite end: the first signal lets the step finish and save, the second stops at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Stop", "stop_signals"]


NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
"""Ctrl-C, a machine that is taken away, a terminal that is closed."""


class Stop:
    """Whether a run has been asked to stop, and by which signal."""

    signal: int | None = None


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Note SIGINT, SIGTERM and SIGHUP for the time of the block instead of dying; in the main thread, as Python has it.

    One that is ignored stays so: under nohup a terminal that closes is of no concern.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        if stop.signal is not None:
            raise KeyboardInterrupt(number)
        stop.signal = number

    known = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    heeded = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]
    before: dict[int, Any] = {number: signal.signal(number, note) for number in heeded}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if stop.signal is not None:  # it came too late for the block to stop: nobody has heard of it yet
        signal.raise_signal(stop.signal)
