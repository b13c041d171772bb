"""What a process holds: memory, tensors, files, threads."""

import gc
import os
import sys
import threading
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

__all__ = ["Footprint", "Footprints"]


@dataclass(frozen=True)
class Footprint:
    """Counts at one moment, after everything that nobody holds is gone."""

    resident: int
    """Bytes of the process in memory, whoever took them."""
    blocks: int
    """Pieces of memory that Python holds; counting them costs nothing."""
    tensors: int
    files: int
    threads: int

    @classmethod
    def now(cls) -> "Footprint":
        gc.collect()
        blocks = sys.getallocatedblocks()
        return cls(
            int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
            blocks,
            sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects()),
            len(os.listdir("/proc/self/fd")),
            max(threading.active_count(), len(os.listdir("/proc/self/task"))),
        )


class Footprints:
    """A watch for `start` that takes a footprint after some of the steps."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps
        self.taken: list[Footprint] = []

    def __call__(self, done: int) -> None:
        if done in self.steps:
            self.taken.append(Footprint.now())

    def growth(self, name: str) -> float:
        """By how much a count grew, a step."""
        counts = [getattr(footprint, name) for footprint in self.taken]
        return float(counts[-1] - counts[0]) / (self.steps[-1] - self.steps[0])

    def steady(self, name: str) -> float:
        """The same over the stretch in which it grew least: a leak goes on, what is kept for later use fills up."""
        counts = [getattr(footprint, name) for footprint in self.taken]
        stretches = zip(pairwise(counts), pairwise(self.steps), strict=True)
        return min(float(after - before) / (end - begin) for (before, after), (begin, end) in stretches)
