"""Jobs of a bank, shared among processes: each opens the encoder for itself, and calculates on one thread."""

import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from joblib.externals.loky import FIRST_COMPLETED, BrokenProcessPool, ProcessPoolExecutor, wait
from joblib.externals.loky.cloudpickle_wrapper import dumps, loads

from halfsure.bank.encoding import Encoded, Job, encoded
from halfsure.bank.view import Drawing
from halfsure.data import DataError
from halfsure.encoders.changed_weights import tuned_from, untuned_name
from halfsure.encoders.choosing import open_encoder
from halfsure.encoders.encoder import Encoder
from halfsure.settings.registry import loaded_parts, take_over

__all__ = ["all_encoded", "sigint_held"]

ALONE, WORTH = 3.0, 20.0
"""Seconds for which this process encodes alone, and those that must then be left for others to be started: that takes
several seconds by itself."""
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
Way = tuple[str, Any]


class _CannotOpenError(Exception):
    """Another process does not get at the encoder."""


def all_encoded(
    encoder: Encoder, drawing: Drawing, jobs: Iterator[tuple[Any, Job]], workers: int, count: int
) -> Generator[tuple[Any, Encoded], None, None]:
    """Encode jobs, `count` views in all, in any order. → each job's name with what became of it."""
    done, began = 0, time.monotonic()
    for name, job in jobs:
        yield name, encoded(encoder, drawing, job)
        done, spent = done + len(job.views) * len(job.originals), time.monotonic() - began
        if workers > 1 and spent >= ALONE and spent / done * (count - done) > WORTH:
            break
    left = jobs
    for way in _ways(encoder) if done < count else ():
        try:
            yield from _in_processes(way, encoder.as_json(), drawing, left, workers)
        except _CannotOpenError as failed:
            left = _chained(failed.args[0], left)
        else:
            return
    for name, job in left:
        yield name, encoded(encoder, drawing, job)


def _chained(first: list[tuple[Any, Job]], rest: Iterator[tuple[Any, Job]]) -> Iterator[tuple[Any, Job]]:
    yield from first
    yield from rest


def _ways(encoder: Encoder) -> list[Way]:
    """How another process can come by the encoder: by its name, or by what it consists of."""
    found = list[Way]()
    if encoder.opened_as is not None:
        found.append(("open", (*encoder.opened_as, loaded_parts(), dict(encoder.changed))))
    try:
        found.append(("unpack", dumps(encoder)))
    except Exception:  # sessions and other handles raise whatever they like
        return found
    return found


def _in_processes(
    way: Way, about: dict[str, Any], drawing: Drawing, jobs: Iterator[tuple[Any, Job]], workers: int
) -> Iterator[tuple[Any, Encoded]]:
    """Two jobs a process are under way, so that none waits and memory stays bounded."""
    with _written(way) as file:
        yield from _by_pool(file, about, drawing, jobs, workers)


@contextmanager
def _written(way: Way) -> Iterator[Path]:
    """A file with what a process needs to come by the encoder.

    As arguments of the process the weights would go through a pipe of which this process holds both ends while it
    writes. If the process died while it was importing, nobody would read them, and this process would wait for ever.
    """
    with TemporaryDirectory(prefix="halfsure-encoder-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "way"
        try:
            file.write_bytes(dumps(way))
        except OSError:  # the disk is full: this process has the encoder
            raise _CannotOpenError([]) from None
        yield file


def _by_pool(
    file: Path, about: dict[str, Any], drawing: Drawing, jobs: Iterator[tuple[Any, Job]], workers: int
) -> Iterator[tuple[Any, Encoded]]:
    pool = ProcessPoolExecutor(workers, initializer=_begin, initargs=(os.getpid(), file), env=THREADS)
    running = dict[Any, tuple[Any, Job]]()
    try:
        while True:
            while len(running) < 2 * workers and (item := next(jobs, None)) is not None:
                with sigint_held():
                    running[pool.submit(_work, about, drawing, item[1])] = item
            if not running:
                return
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                result = future.result()
                if result is None:
                    raise _CannotOpenError(list(running.values()))
                name, _ = running.pop(future)
                yield name, result
    except BrokenProcessPool:
        raise DataError(
            "a process that encodes died: it may have run out of memory; what was encoded is kept, and the same "
            "command goes on from there"
        ) from None
    finally:
        pool.shutdown(wait=True, kill_workers=True)  # they have nothing to put in order


_file: Path | None = None
_encoder: Encoder | None = None


def _begin(parent: int, file: Path) -> None:
    """Prepare a process, which ends when its parent does."""
    global _file  # noqa: PLW0603 - a process is of one bank
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    _file = file


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _work(about: dict[str, Any], drawing: Drawing, job: Job) -> Encoded | None:
    """Encode a job; None if the encoder cannot be had here, or is another one."""
    global _encoder  # noqa: PLW0603
    if _encoder is None:
        assert _file is not None
        try:
            kind, given = loads(_file.read_bytes())
            if kind == "open":
                name, settings, parts, changed = given
                take_over(parts)
                found = open_encoder(name, **settings)
                found = tuned_from(found, changed, untuned_name(about["name"])[1]) if changed else found
            else:
                found = loads(given)
        except Exception:  # whatever it is, the parent has the encoder
            return None
        if found.as_json() != about:
            return None
        _encoder = found
    return encoded(_encoder, drawing, job)


@contextmanager
def sigint_held() -> Iterator[None]:
    """Keep SIGINT back while processes are started: they inherit that, and so Ctrl-C reaches the parent alone."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
