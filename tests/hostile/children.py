"""Do something in a child that may die, hang or take memory, and tell what became of it."""

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

__all__ = ["GIB", "in_child"]

GIB = 2**30
SECONDS = 60


def in_child(task: Callable[[], object], memory: int = GIB, seconds: int = SECONDS) -> str:
    """What a task says: the text of its exception, `done`, or how its process ended. It gets so much more memory."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        signal.alarm(seconds)  # ends a child that hangs
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory,) * 2)
        try:
            task()
            said = "done"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said[:4000].encode(errors="replace"))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as told:
        said = told.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said if code == 0 else f"the process ended with {code}"
