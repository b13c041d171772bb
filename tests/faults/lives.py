"""Lives of runs: the real command line in forked processes, watched from outside.

Importing takes longer than training here. So one process imports everything once, and every life is a fork of it.
"""

import mmap
import os
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

import torch
import torch._dynamo  # optimizers import it, and the views numba: both before anything is forked

import halfsure.views._kernel
from halfsure.cli import main
from halfsure.runs import writer as record
from halfsure.runs.folder import Folder
from halfsure.training.evaluation import Evaluator
from halfsure.training.state import Training

__all__ = ["MOMENTS", "End", "Life", "MissedError", "Watch", "begin", "heed", "live", "other_threads", "prepare"]

PAUSE = 0.003
PATIENCE = 60.0
MOMENTS = ("before", "step", "evaluation", "metrics line", "model file", "checkpoint")
HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heed() -> None:
    """Heed signals as a command in a terminal does. In the background of a shell a job begins with some ignored."""
    for number in HEEDED:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


class Watch:
    """What a run is doing, in memory that outlives it."""

    _layout = struct.Struct("5q")

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self._layout.size)
        self.saved = -1

    def _get(self, place: int) -> int:
        found: tuple[int, ...] = self._layout.unpack_from(self._memory)
        return found[place]

    def _set(self, place: int, value: int) -> None:
        struct.pack_into("q", self._memory, 8 * place, value)

    moment = property(lambda self: self._get(0), lambda self, value: self._set(0, value))
    """Index into MOMENTS."""
    begun = property(lambda self: self._get(1), lambda self, value: self._set(1, value))
    """Steps that this life began."""
    done = property(lambda self: self._get(2), lambda self, value: self._set(2, value))
    """Steps that the run has done."""
    saved = property(lambda self: self._get(3), lambda self, value: self._set(3, value))
    """Step of the last checkpoint that was whole; −1 before the first."""
    saves = property(lambda self: self._get(4), lambda self, value: self._set(4, value))
    """How often this life saved."""

    @property
    def saving(self) -> bool:
        """Whether files are being written."""
        return bool(self.moment >= MOMENTS.index("metrics line"))

    def attached(self) -> ExitStack:
        """Tell of what the engine does, for the time of the block. It does nothing else, but pauses around renames."""
        stack = ExitStack()

        def during(target: Any, name: str, moment: str, after: Callable[..., None] = lambda *_: None) -> None:
            original = getattr(target, name)

            def told(*arguments: Any) -> Any:
                before, self.moment = self.moment, MOMENTS.index(moment)
                if moment == "step":
                    self.begun += 1
                result = original(*arguments)
                after(*arguments)
                self.moment = before
                return result

            stack.enter_context(mock.patch.object(target, name, told))

        def stepped(training: Training) -> None:
            self.done = training.done

        def kept(folder: Folder, state: dict[str, Any]) -> None:
            self.saved = state["step"]
            self.saves += 1

        def slowly(source: Any, target: Any, rename: Callable[..., None] = os.replace) -> None:
            time.sleep(PAUSE)  # between two renames nothing else would ever be hit
            rename(source, target)

        during(Training, "update", "step", stepped)
        during(Evaluator, "line", "evaluation")
        during(Folder, "append", "metrics line")
        during(record, "save_model", "model file")
        during(Folder, "save", "checkpoint", kept)
        stack.enter_context(mock.patch.object(os, "replace", slowly))
        return stack


@dataclass(frozen=True)
class End:
    """How a life ended."""

    code: int
    """Its exit code; −9 after SIGKILL."""
    said: str
    """All that it wrote to its outputs."""

    def wrong(self, code: int | Sequence[int], *words: str) -> list[str]:
        """What is wrong with an end that should have been this one and have said these words; none is a trace."""
        codes = [code] if isinstance(code, int) else code
        found = [] if self.code in codes else [f"it ended with {self.code}, not {code}; it said: {self._short}"]
        found += [f"it did not say {word!r}, but: {self._short}" for word in words if word not in self.said]
        return found + ([f"it showed a trace: {self._short}"] if "Traceback" in self.said else [])

    @property
    def _short(self) -> str:
        return " / ".join(self.said.splitlines()[-4:])[-600:]


class MissedError(Exception):
    """An accident that came too late."""


class Life:
    """A process, and what it says."""

    def __init__(self, pid: int, said: TextIO) -> None:
        self.pid, self._said = pid, said
        self._status: int | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        if self._status is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if found else None
        return self._status is not None

    def until(self, reached: Callable[[], bool]) -> bool:
        """Wait for a condition. → whether it came before the process ended."""
        while not reached():
            if self.over:
                return False
            time.sleep(0.0005)
        return not self.over

    def send(self, number: int) -> None:
        """Send a signal, if there is still somebody to get it."""
        if not self.over:
            os.kill(self.pid, number)

    def broken_off(self) -> End:
        """How it ended, by an accident; should it have been at its own end before, there was none."""
        if (end := self.end()).code == 0:
            raise MissedError("the run was at its end before the accident")
        return end

    def end(self, patience: float = PATIENCE) -> End:
        """Wait for its end; one that hangs is killed, and says so."""
        last = time.monotonic() + patience
        hung = self.until(lambda: time.monotonic() > last)
        if hung:
            self.send(signal.SIGKILL)
            self.until(lambda: False)
        assert self._status is not None
        self._said.seek(0)
        note = f"\nit hung and was killed after {patience:.0f} s" if hung else ""
        return End(os.waitstatus_to_exitcode(self._status), self._said.read() + note)


def begin(
    arguments: Sequence[str | Path],
    watch: Watch | None = None,
    patched: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Life:
    """Run a command in a process of its own, under what `patched` sets up there."""
    if watch is not None:
        watch.moment = watch.begun = watch.saves = 0
    said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - it lives as long as the life
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return Life(pid, said)
    code = 1
    try:
        os.setpgid(0, 0)
        for place, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(said.fileno(), place)
            setattr(sys, name, open(place, "w", encoding="utf-8", closefd=False, buffering=1))  # noqa: SIM115
        heed()
        warnings.resetwarnings()
        with watch.attached() if watch is not None else nullcontext(), patched():
            code = main([str(word) for word in arguments])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def live(
    arguments: Sequence[str | Path],
    watch: Watch | None = None,
    patched: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> End:
    """Run a command to its end."""
    return begin(arguments, watch, patched).end()


def other_threads() -> list[str]:
    """Threads beside the main one, by name; but for that of pyarrow's allocator, which takes care of forks itself."""
    tasks = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    return [name for task in tasks if not (name := (task / "comm").read_text().strip()).startswith("jemalloc")]


def prepare() -> None:
    """One thread, and nothing that has still to be imported: a process with threads cannot be forked."""
    torch.set_num_threads(1)
    assert halfsure.views._kernel
