"""Clocks that jump: what a run saves, and when, follows a clock that only goes forward, or none."""

import datetime
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from halfsure.runs import writer as record
from halfsure.training.config import Config
from tests.faults.lives import Watch, live
from tests.faults.scene import EVALUATIONS, STEPS, Scene, attempt, check_end, each

__all__ = ["KINDS"]

YEAR = 365.25 * 86400
JUMPS = {
    "a year ahead": YEAR,
    "a year back": -YEAR,
    "an hour back": -3600.0,
    "before 1970": -80 * YEAR,
    "2150": 125 * YEAR,
}


@contextmanager
def jumping(offset: float, jumped: Callable[[], bool]) -> Iterator[None]:
    """The time of day is off once it jumped; the clock that only goes forward is not."""
    now, now_ns = time.time, time.time_ns

    def shift() -> float:
        return offset if jumped() else 0.0

    def shifted() -> float:
        return now() + shift()

    def shifted_ns() -> int:
        return now_ns() + int(1e9 * shift())

    class Jumping(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Jumping":
            return cls.fromtimestamp(0, tz) + datetime.timedelta(seconds=now() + shift())

    with ExitStack() as stack:
        for target, name, twin in (
            (time, "time", shifted),
            (time, "time_ns", shifted_ns),
            (record, "datetime", Jumping),
        ):
            stack.enter_context(mock.patch.object(target, name, twin))
        yield


def during(scene: Scene) -> list[str]:
    """In the middle of a run: it saves not once too often, and not too rarely."""
    out, watch = scene.fresh(), Watch()
    offset, after = scene.dice.choice(list(JUMPS.values())), scene.dice.randrange(STEPS - 8)
    # By a clock that is ahead it would save once more, by one that is behind not after every step.
    minutes, saves = (Config().save_minutes, EVALUATIONS + 1) if offset > 0 else (0.0, STEPS + 1)
    watch.done = 0
    command = scene.train(out, "--save-minutes", str(minutes))
    end = live(command, watch, lambda: jumping(offset, lambda: watch.done > after))
    wrong = [] if watch.saves == saves else [f"it saved {watch.saves} times, not {saves}"]
    return wrong + end.wrong(0, "the run is in") + attempt(check_end, out, scene.whole)


def between(scene: Scene) -> list[str]:
    """Between two lives, with files that are of the future or of 1970."""
    out = scene.stopped()
    offset = scene.dice.choice(list(JUMPS.values()))
    stamp = max(0.0, time.time() + offset)
    for file in (out, *out.iterdir()):
        os.utime(file, (stamp, stamp))
    end = live(scene.resume(out), None, lambda: jumping(offset, lambda: True))
    return end.wrong(0, "going on from step") + attempt(check_end, out, scene.whole)


KINDS = [
    each("clock that jumps in a run", 8, during),
    each("clock that jumps between lives", 6, between),
]
