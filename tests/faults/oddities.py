"""What else happens to runs on machines that nobody looks after."""

import errno
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from halfsure.runs import checkpoint, model_file
from tests.faults.lives import Watch, begin, live
from tests.faults.scene import STEPS, Scene, attempt, check_end, check_folder, each

__all__ = ["KINDS"]


def folder_removed(scene: Scene) -> list[str]:
    """Somebody removes the folder of a run: it ends, and says that nothing is left."""
    out, watch = scene.fresh(), Watch()
    life = begin(scene.train(out), watch)
    after = scene.dice.randrange(STEPS - 8)
    life.until(lambda: watch.done > after)
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)  # a file may have come meanwhile
    wrong = life.broken_off().wrong(1, "could not be saved: No such file or directory. What was saved is gone")
    shutil.rmtree(out, ignore_errors=True)
    return wrong + scene.goes_on(out)


def no_handles(scene: Scene) -> list[str]:
    """In the middle of a run no file can be opened any more."""
    out, watch = scene.fresh(), Watch()
    life = begin(scene.train(out), watch)
    after = scene.dice.randrange(STEPS - 8)
    life.until(lambda: watch.done > after)
    resource.prlimit(life.pid, resource.RLIMIT_NOFILE, (3, 3))
    wrong = life.broken_off().wrong(
        1, "could not be saved: Too many open files.", "The last good checkpoint is that of step"
    )
    return wrong + attempt(check_folder, out, scene.whole, watch) + scene.goes_on(out)


def failing(target: Any, name: str, error: BaseException, at: int) -> Callable[[], AbstractContextManager[Any]]:
    """Have a function fail at its n-th call, and at every later one."""

    @contextmanager
    def patched() -> Iterator[None]:
        original, calls = getattr(target, name), 0

        def counted(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls >= at:
                raise error
            return original(*arguments, **named)

        with mock.patch.object(target, name, counted):
            yield

    return patched


def disk_error(scene: Scene) -> list[str]:
    """The disk reports an error when it is to keep what was written."""
    out, watch = scene.fresh(), Watch()
    fault = failing(os, "fsync", OSError(errno.EIO, os.strerror(errno.EIO)), scene.dice.randint(1, 40))
    end = live(scene.train(out), watch, fault)
    wrong = end.wrong(1, "could not be saved: Input/output error.")
    return wrong + attempt(check_folder, out, scene.whole, watch) + scene.goes_on(out)


def no_memory(scene: Scene) -> list[str]:
    """There is too little memory to put a checkpoint or a model together."""
    out, watch = scene.fresh(), Watch()
    target = scene.dice.choice(((checkpoint, "pack"), (model_file, "pack")))
    end = live(scene.train(out), watch, failing(*target, MemoryError(), scene.dice.randint(1, 6)))
    wrong = end.wrong(1, "there is too little memory")
    return wrong + attempt(check_folder, out, scene.whole, watch) + scene.goes_on(out)


def parts_left(scene: Scene) -> list[str]:
    """Half-written files of an earlier life, even some that cannot be read, are of no concern."""
    out = scene.stopped()
    for name in ("resume.safetensors", "model.safetensors", "metrics.jsonl"):
        content = (out / name).read_bytes()
        (out / f"{name}.part").write_bytes(content[: scene.dice.randrange(len(content))])
    wrong = live(scene.resume(out)).wrong(0, "going on from step")
    return wrong + attempt(check_end, out, scene.whole)


def output_lost(scene: Scene) -> list[str]:
    """What a run prints can no longer be kept: it trains on without."""
    out, watch = scene.fresh(), Watch()
    after = scene.dice.randrange(1, STEPS - 8)
    write = sys.stdout.write

    def full(text: str) -> int:
        if watch.done > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(text)

    @contextmanager
    def printed_nowhere() -> Iterator[None]:
        nonlocal write
        write = sys.stdout.write  # the life's own
        with mock.patch.object(sys, "stdout", mock.Mock(wraps=sys.stdout, write=full, encoding="utf-8")):
            yield

    end = live(scene.train(out), watch, printed_nowhere)
    return end.wrong(2, "No space left on device") + attempt(check_end, out, scene.whole)


KINDS = [
    each("folder removed under a run", 5, folder_removed),
    each("out of file handles", 5, no_handles),
    each("disk error when written down", 6, disk_error),
    each("out of memory in a save", 6, no_memory),
    each("half-written files left", 5, parts_left),
    each("output that cannot be written", 3, output_lost),
]
