"""What the command line sets for its own process and those it starts; a person's own settings go first."""

import ctypes
import os
import platform

__all__ = ["prepare_process"]

# Threads that wait for the next loop over a tensor by spinning take the cores from all others on a shared machine.
WAITING = {"OMP_WAIT_POLICY": "passive"}
# glibc gives blocks of over 32 MB, a few feature maps, back to the system and takes zeroed pages at every step anew.
MEMORY = {"MALLOC_MMAP_THRESHOLD_": (-3, 2**30), "MALLOC_TRIM_THRESHOLD_": (-1, 2**31 - 1)}
"""Name in the environment → the number `mallopt` knows it by, and the bytes below which freed memory is kept."""


def prepare_process() -> None:
    """Have waiting threads sleep and freed memory kept for the next step; it has to come before torch is loaded."""
    for name, value in WAITING.items():
        os.environ.setdefault(name, value)
    own = any(name in os.environ for name in MEMORY) or "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if own or platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL(None)
    for name, (number, size) in MEMORY.items():
        if not library.mallopt(number, size):
            return  # an older glibc: without the first of them the second would do harm
        os.environ[name] = str(size)  # read at the start of a process: for those that this one starts
