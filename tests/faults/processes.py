"""Two processes and one run folder."""

import errno
import fcntl
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from tests.faults.lives import Watch, begin, live
from tests.faults.scene import INTERVAL, STEPS, Scene, attempt, check_end, each

__all__ = ["KINDS"]

AT_ONCE = 10.0
"""Seconds, on a machine that may be busy."""


def second_process(scene: Scene) -> list[str]:
    """The second is refused at once; the first does not notice."""
    out, watch = scene.fresh(), Watch()
    first = begin(scene.train(out), watch)
    after = scene.dice.randrange(STEPS // 2)
    first.until(lambda: watch.done > after)
    first.send(signal.SIGSTOP)  # it must not be at its end before the second has looked
    began = time.monotonic()
    command = scene.dice.choice((scene.train(out), scene.resume(out)))
    wrong = live(command).wrong(2, f"another process is training in {out}")
    wrong += ["it was not refused at once"] if time.monotonic() - began > AT_ONCE else []
    first.send(signal.SIGCONT)
    return wrong + first.end().wrong(0, "the run is in") + attempt(check_end, out, scene.whole)


def used_while_trained(scene: Scene) -> list[str]:
    """A model can be used, and a report be written, while it trains."""
    out, watch = scene.fresh(), Watch()
    first = begin(scene.train(out), watch)
    after, wrong = scene.dice.randrange(INTERVAL, STEPS // 2), list[str]()  # a report needs an evaluation
    first.until(lambda: watch.done > after)
    if scene.dice.random() < 0.5:
        first.send(signal.SIGSTOP)  # perhaps just as it writes
    for words, suffix in ((["predict", str(out), str(scene.data)], ".csv"), (["report", str(out)], ".html")):
        file = out.with_suffix(suffix)
        wrong += live([*words, "-o", str(file)]).wrong(0, str(file))
    first.send(signal.SIGCONT)
    return wrong + first.end().wrong(0, "the run is in") + attempt(check_end, out, scene.whole)


def stale_lock(scene: Scene) -> list[str]:
    """The lock of a process that was killed keeps nobody out."""
    out, watch = scene.fresh(), Watch()
    first = begin(scene.train(out), watch)
    first.until(lambda: watch.done > 3)
    first.send(signal.SIGKILL)
    first.end()
    wrong = [] if (out / ".lock").exists() else ["there was no lock to be left behind"]
    (out / ".lock").write_text("4194304\nanother machine\n")
    return wrong + scene.goes_on(out)


def no_locks(scene: Scene) -> list[str]:
    """A file system that cannot lock: a sentence, or a warning and the run; never a run that two could share."""
    out = scene.fresh()
    code = scene.dice.choice((errno.ENOLCK, errno.EIO, errno.EOPNOTSUPP, errno.ENOSYS))

    def fail(*_: object) -> None:
        raise OSError(code, "it cannot be locked")

    @contextmanager
    def failing() -> Iterator[None]:
        with mock.patch.object(fcntl, "flock", fail):
            yield

    end = live(scene.train(out), None, failing)
    if code == errno.ENOSYS and end.code == 0:
        return end.wrong(0, "warning") + attempt(check_end, out, scene.whole)
    wrong = end.wrong(2, f"a run cannot be kept in {out}: it cannot be locked; mend that, or choose another --out")
    return wrong + ([] if not (out / "config.json").exists() else ["it was begun all the same"]) + scene.goes_on(out)


KINDS = [
    each("second process on a run", 10, second_process),
    each("predict and report while it trains", 4, used_while_trained),
    each("lock of a killed process", 4, stale_lock),
    each("file system without locks", 4, no_locks),
]
