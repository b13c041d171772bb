"""Many runs at once, each in a process and a folder of its own, so that any of them can be gone on with."""

import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray
from rich.console import Console

from halfsure.bank.opening import DataConfig, lasting, open_data
from halfsure.bank.workers import sigint_held
from halfsure.data import Data, DataError
from halfsure.runs.board import Board
from halfsure.runs.folder import Folder, flat_settings
from halfsure.runs.run import error_on, readings
from halfsure.runs.start import start
from halfsure.runs.writer import FREE, fingerprint
from halfsure.training.config import Config
from halfsure.training.errors import RunError, StoppedError
from halfsure.training.signals import Stop, stop_signals

__all__ = ["Job", "Outcome", "run_many"]

LOOK = 0.2  # seconds between two looks at how far the runs are
NOT_BEGUN = -1
Steps = NDArray[np.int64]


@dataclass(frozen=True)
class Job:
    """One run: its folder, its settings and its data."""

    out: Path
    config: Config
    data: Data | None = None
    """Shared with the workers through memory-mapped files; without it they open the source."""
    source: str | None = None
    data_config: DataConfig | None = None

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.out.name


@dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    job: Job
    metrics: list[dict[str, Any]]
    """One entry an evaluation, as in the run's metrics.jsonl."""
    seconds: float = 0.0
    error: str | None = None
    """Why there is no result, in a sentence."""
    stopped: int | None = None
    """The signal that stopped it before its end."""

    @property
    def finished(self) -> bool:
        """Whether the run got to its last step."""
        return self.error is None and self.stopped is None

    def readings(self) -> dict[str, float | None]:
        """The test error in three honest ways: see `halfsure.runs.run.readings`."""
        return readings(self.metrics, self.job.config.evaluation.last)


def run_many(
    jobs: Sequence[Job],
    *,
    workers: int,
    console: Console | None = None,
    heard: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Train every job in its folder, up to `workers` at once, one thread each; the outcomes are in the jobs' order.

    `heard` is told of each outcome as it comes.

    Finished runs are recognised and not repeated, begun ones go on. A job that fails does not keep the others from
    finishing. SIGINT or SIGTERM lets every running step finish and save, then raises `StoppedError`: the same call goes
    on from there.
    """
    if workers < 1:
        raise ValueError(f"workers must be a whole number of at least 1, got {workers}")
    if len({job.out.resolve() for job in jobs}) < len(jobs):
        raise ValueError("two jobs have the same folder; give each one of its own")
    # A method has one name, and on one thread the bits do not depend on how many runs there are beside it.
    jobs = [replace(job, config=job.config.replace(method=job.config.parsed.name, threads=1)) for job in jobs]
    outcomes: dict[int, Outcome] = {}
    board = Board(console, [job.name for job in jobs], [job.config.training.steps for job in jobs])
    with stop_signals() as stop, _shared(len(jobs)) as (steps, file), board:

        def ended(place: int, outcome: Outcome) -> None:
            outcomes[place] = outcome
            if heard is not None:
                heard(outcome)
            if outcome.stopped is None:
                board.ended(place, _told(outcome))
            else:
                stop.signal = stop.signal or outcome.stopped

        for place, job in enumerate(jobs):
            if (metrics := _finished(job)) is not None:
                ended(place, Outcome(job, metrics))
        todo = {place: job for place, job in enumerate(jobs) if place not in outcomes}
        work = _one_by_one if workers == 1 else _side_by_side
        with _watched(board, steps, stop):
            for place, outcome in work(todo, min(workers, len(todo) or 1), file, stop):
                ended(place, outcome)
        if stop.signal is not None:
            count = sum(outcome.finished for outcome in outcomes.values())
            raise StoppedError(
                f"stopped with {count} of {len(jobs)} runs finished, the others saved; the same command goes on",
                stop.signal,
            )
    return [outcomes[place] for place in range(len(jobs))]


def _one_by_one(jobs: dict[int, Job], workers: int, file: Path, stop: Stop) -> Iterator[tuple[int, Outcome]]:
    """In this process."""
    for place, job in jobs.items():
        if stop.signal is None:
            yield place, _work(job, place, file, parent=None)


def _side_by_side(jobs: dict[int, Job], workers: int, file: Path, stop: Stop) -> Iterator[tuple[int, Outcome]]:
    """In processes; should one of them die, its job is tried once more on its own, and the rest goes on."""
    steps = np.memmap(file, np.int64, "r+")
    left = dict(jobs)
    suspects: dict[int, Job] = {}
    while (left or suspects) and stop.signal is None:
        batch = left or dict([suspects.popitem()])
        alone = not left
        try:
            for place, outcome in _in_processes(batch, workers, file):
                batch.pop(place)
                yield place, outcome
        except BrokenProcessPool:
            if alone:
                [(place, job)] = batch.items()
                batch.clear()
                yield place, Outcome(job, [], error="its process died: it may have run out of memory")
            begun = [place for place in batch if steps[place + 1] != NOT_BEGUN]
            suspects |= {place: left.pop(place) for place in begun or list(batch)[:1]}


def _in_processes(jobs: dict[int, Job], workers: int, file: Path) -> Iterator[tuple[int, Outcome]]:
    calls = [delayed(_call)(place, _anywhere(job), file, os.getpid()) for place, job in jobs.items()]
    # Two at least: with one joblib would do the work in this process.
    with parallel_config("loky", n_jobs=max(2, workers), inner_max_num_threads=1), sigint_held():
        found: Iterable[Any] = Parallel(return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)(calls)
    for place, outcome in found:
        yield place, replace(outcome, job=jobs[place])


def _anywhere(job: Job) -> Job:
    """The same with whole paths: a process that is used again may stand in another folder."""
    source, data_config = lasting(job.source or "", job.data_config or DataConfig())
    return replace(
        job,
        out=job.out.resolve(),
        source=job.source and source,
        data_config=None if job.data_config is None else data_config,
    )


def _call(place: int, job: Job, file: Path, parent: int) -> tuple[int, Outcome]:
    outcome = _work(job, place, file, parent=parent)
    return place, replace(outcome, job=replace(job, data=None))  # the parent has the data


def _work(job: Job, place: int, file: Path, *, parent: int | None) -> Outcome:
    """Train one job; what goes wrong becomes its outcome."""
    steps = np.memmap(file, np.int64, "r+")
    if parent is not None and steps[0]:
        return Outcome(job, [], stopped=int(steps[0]))
    steps[place + 1] = 0
    asked = False

    def watch(done: int) -> None:
        nonlocal asked
        steps[place + 1] = done
        if parent is not None and not asked and (steps[0] or os.getppid() != parent):
            asked = True
            signal.raise_signal(signal.SIGTERM)  # the loop finishes the step and saves

    began = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parent has opened the data too, and tells of collapses
            data = job.data or open_data(str(job.source), job.data_config or DataConfig(), job.config.run.seed)
            run = start(data, job.config, out=job.out, source=job.source, data_config=job.data_config, watch=watch)
    except StoppedError as stopped:
        return Outcome(job, [], time.monotonic() - began, stopped=stopped.signal)
    except (RunError, DataError, ValueError, OSError) as error:
        return Outcome(job, [], time.monotonic() - began, error=str(error))
    except Exception as error:  # whatever a network or torch raises: the others are to finish
        return Outcome(job, [], time.monotonic() - began, error=f"{type(error).__name__}: {error}")
    return Outcome(job, run.metrics, time.monotonic() - began)


def _finished(job: Job) -> list[dict[str, Any]] | None:
    """The metrics of a run that has been done already, with the same settings on the same data."""
    folder = Folder(job.out)
    try:
        found, metrics = folder.config, folder.metrics()
    except RunError:
        return None  # the worker tells what is wrong with it
    if job.data is None or found is None or not metrics or not (folder.path / "model.safetensors").is_file():
        return None
    try:
        wanted, settings = job.config.suited(job.data).plain, flat_settings(found)
    except DataError:
        return None
    same = all(settings.get(name) == value for name, value in wanted.items() if name not in FREE)
    done = metrics[-1]["step"] == job.config.training.steps and found.get("fingerprint") == fingerprint(job.data)
    return metrics if same and done else None


def _told(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"failed: {outcome.error}"
    last = outcome.metrics[-1] if outcome.metrics else {}
    scores = [(part, error_on(last, part)) for part in ("val", "test", "unlabeled")]
    errors = [f"{part} error {100 * error:5.2f} %" for part, error in scores if error is not None]
    return "  ".join([*errors[:1], f"{outcome.seconds:.0f} s" if outcome.seconds else "was finished already"])


@contextmanager
def _shared(count: int) -> Iterator[tuple[Steps, Path]]:
    """Numbers that every process sees: whether to stop, then the steps that each job has done."""
    with tempfile.TemporaryDirectory(prefix="halfsure-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "steps"
        np.array([0, *[NOT_BEGUN] * count], np.int64).tofile(file)
        yield np.memmap(file, np.int64, "r+"), file


@contextmanager
def _watched(board: Board, steps: Steps, stop: Stop) -> Iterator[None]:
    """Look at the shared numbers from time to time: show the steps, and hand a signal on."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK):
            if stop.signal is not None:
                steps[0] = stop.signal
            board.update(steps[1:].tolist())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
