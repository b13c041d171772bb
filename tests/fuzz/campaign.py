"""Give a target many inputs and note what it does with them."""

import contextlib
import io
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.target import Target

__all__ = ["MEMORY", "SECONDS", "Tally", "fuzz"]

SECONDS = 10
MEMORY = 2 * 2**30
ROUND = 2_000  # hypothesis remembers what it has drawn: many short rounds take less than a long one
FOUND_ENOUGH = 5  # kinds of failure after which a target is left alone


class HangError(BaseException):
    """An input took too long; not an `Exception`, which a reader might catch."""


@dataclass
class Tally:
    """What became of a target's inputs."""

    target: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    """Seconds."""
    wrong: dict[str, str] = field(default_factory=dict)
    """What went wrong, and the smallest input found that it happens with."""


def fuzz(target: Target, count: int, seed: int, note: Path | None = None) -> Tally:
    """Read `count` inputs; the one that is being read stands in `note`, for whoever finds this process dead."""
    tally = Tally(target.name)
    with tempfile.TemporaryDirectory() as place, limits():
        box = Path(place) / "outer" / "box"

        def one(value: Any) -> None:
            if note is not None:
                note.write_text(ascii(value))
            tally.inputs += 1
            began = time.monotonic()
            what, accepted = tried(target, value, box)
            tally.slowest = max(tally.slowest, time.monotonic() - began)
            if what:
                tally.wrong.setdefault(what, ascii(value))
            else:
                tally.accepted += accepted
                tally.refused += not accepted

        rounds = 0
        while tally.inputs < count and len(tally.wrong) < FOUND_ENOUGH:
            before = tally.inputs
            rule = settings(
                max_examples=min(ROUND, count - tally.inputs),
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            hypothesis.seed(hash((seed, rounds)))(rule(given(target.inputs)(one)))()
            rounds += 1
            if tally.inputs == before:
                raise RuntimeError(f"{target.name} has no inputs")
        for what in tally.wrong:
            tally.wrong[what] = smallest(target, what, box) or tally.wrong[what]
    return tally


def tried(target: Target, value: Any, box: Path) -> tuple[str, bool]:
    """Read an input once. → what went wrong, or nothing, and whether the reader took it."""
    shutil.rmtree(box.parent, ignore_errors=True)
    box.mkdir(parents=True)
    try:
        with timed(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            target.read(value, box)
    except target.refusals:
        accepted = False
    except HangError:
        return f"it took more than {SECONDS} seconds", False
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"{type(error).__name__}: {origin(error)}", False
    else:
        accepted = True
    outside = sorted(set(os.listdir(box.parent)) - {"box"})
    return (f"it wrote {outside[0]} outside its folder", False) if outside else ("", accepted)


def origin(error: BaseException) -> str:
    """Where in halfsure an error came from, and where it was raised: one kind of failure has one such name."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "halfsure" in Path(frame.filename).parts]
    shown = dict.fromkeys(f"{Path(f.filename).name}:{f.lineno} in {f.name}" for f in [*ours[-1:], *frames[-1:]])
    return " < ".join(shown)


def smallest(target: Target, what: str, box: Path) -> str:
    """The smallest input found in a short time that fails in the same way, as text; empty if there is none again."""
    rule = settings(max_examples=ROUND, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    end = time.monotonic() + SECONDS

    def fails(value: Any) -> bool:
        return time.monotonic() < end and tried(target, value, box)[0] == what

    try:
        return ascii(hypothesis.find(target.inputs, fails, settings=rule))
    except (hypothesis.errors.NoSuchExample, hypothesis.errors.Flaky):
        return ""


@contextmanager
def timed() -> Iterator[None]:
    """End what takes too long: an exception where Python can raise one, and the process where it cannot."""

    def end(number: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    signal.setitimer(signal.ITIMER_PROF, 2 * SECONDS)  # seconds of work; its signal ends the process
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def limits() -> Iterator[None]:
    """Let this process take no more than `MEMORY` beyond what it has, where the system can say what it has."""
    if sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
