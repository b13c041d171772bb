"""Kill training runs at random moments, go on with them, and see that nothing was lost.

    python -m tests.faults.kills [--kills 50] [--method vat+ads …] [--seed 0]

For each method one run goes undisturbed. Others are killed with SIGKILL again and again, half of the time just as they
save, until as many kills as asked for have hit a process that was training. After every kill the folder has to open,
with no more lost than what came after the last checkpoint; at the end of every run all bits have to be those of the
undisturbed one.

Importing takes longer than training here: this process imports everything once and forks every life of a run.
"""

import argparse
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._dynamo  # optimizers import it, and the views numba: both before anything is forked

import halfsure
import halfsure.views._kernel
from halfsure.data import Data
from halfsure.engine import record
from halfsure.engine.config import Config, DataConfig
from halfsure.engine.entry import go_on, open_data, start
from halfsure.engine.evaluate import Evaluator
from halfsure.engine.folder import Folder, read_state
from halfsure.engine.presets import preset
from halfsure.engine.training import Training
from tests.faults import differences

METHODS = ("vat+ads", "mixmatch-ads", "fixmatch-ads")
SOURCE, LABELS = "digits", DataConfig(labels=20)
STEPS, EVALUATIONS = 60, 6
SAVE_SECONDS = 0.1
PAUSE = 0.003
MOMENTS = ("before", "step", "evaluation", "metrics line", "model file", "checkpoint")


class Watch:
    """What a run is doing, in memory that outlives it."""

    _layout = struct.Struct("4q")

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self._layout.size)

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
    """Step of the last checkpoint that was whole."""

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


@dataclass
class Tally:
    """Kills of one kind."""

    injected: int = 0
    lost: int = 0
    runs: set[int] = field(default_factory=set)


def fork(life: Callable[[], Any], watch: Watch) -> int:
    """Live in a process of its own. → its id."""
    watch.moment = watch.begun = 0
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with watch.attached():
            life()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(pid: int) -> int | None:
    """The status a process ended with; None while it lives."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def wait_until(reached: Callable[[], bool], pid: int) -> int | None:
    """Wait for a condition. → None, or the status of a process that ended before."""
    while not reached():
        if (status := ended(pid)) is not None:
            return status
        time.sleep(0.0005)
    return None


def kill_at_random(pid: int, watch: Watch, dice: random.Random) -> int:
    """Wait for a moment and kill. → how the process ended: −9, unless it was faster."""
    saving = MOMENTS.index("metrics line")
    saves = dice.randint(1, 8) if dice.random() < 0.5 else 0
    status = wait_until(lambda: bool(watch.begun), pid)
    for _ in range(saves):
        for now in (False, True):
            if status is None:
                status = wait_until(lambda now=now: (watch.moment >= saving) is now, pid)  # type: ignore[misc]
    if status is not None:
        return status
    time.sleep(dice.uniform(0, 0.06) if saves else dice.uniform(0, 1.2))
    os.kill(pid, signal.SIGKILL)
    return exit_code(pid)


def check_folder(path: Path, watch: Watch, undisturbed: Path) -> list[str]:
    """What is wrong with a folder right after a kill."""
    folder = Folder(path)
    if folder.config is None:
        return ["config.json is lost"]
    state, trouble = folder.resume()
    if state is None or trouble:
        return [trouble or "no checkpoint is left"]
    wrong = []
    if state["step"] < watch.saved:
        wrong.append(f"the checkpoint of step {watch.saved} is lost, the last is that of {state['step']}")
    if watch.done - state["step"] > STEPS / EVALUATIONS:
        wrong.append(f"of {watch.done} steps only {state['step']} are left: more than an interval is lost")
    until = state["step"]
    wrong += differences(folder.metrics(up_to=until), Folder(undisturbed).metrics(up_to=until), at="metrics")
    wrong += [f"a parameter is not finite: {name}" for name, value in weights(path) if not bool(value.isfinite().all())]
    return wrong


def weights(path: Path) -> list[tuple[str, torch.Tensor]]:
    return list(halfsure.load(path).model.named_parameters())


def check_end(path: Path, undisturbed: Path) -> list[str]:
    """Where a run that got to its end differs from the one that nothing happened to."""
    state, expected = (read_state(folder / "resume.pt") for folder in (path, undisturbed))
    wrong = differences(state, expected, at="state")
    wrong += differences(Folder(path).metrics(), Folder(undisturbed).metrics(), at="metrics")
    wrong += differences(weights(path), weights(undisturbed), at="model")
    return wrong if state["step"] == STEPS else [*wrong, f"it ended at step {state['step']}"]


@dataclass(frozen=True)
class Victim:
    """A run as it can be begun again and again in folders of its own."""

    data: Data
    config: Config
    undisturbed: Path
    """Where it went without an accident."""

    def begin(self, path: Path) -> None:
        """Begin, or go on by the same call."""
        start(self.data, self.config, out=path, source=SOURCE, data_config=LABELS)

    def killed(self, path: Path, dice: random.Random, kills: int, found: Counter[str]) -> list[tuple[str, list[str]]]:
        """From the beginning to the end, killed on the way. → for every kill its moment and what went wrong.

        What the kills left behind is counted in `found`.
        """
        hits: list[tuple[str, list[str]]] = []
        watch = Watch()
        while True:
            resume = Folder(path).config is not None and dice.random() < 0.5
            pid = fork((lambda: go_on(path)) if resume else (lambda: self.begin(path)), watch)
            status = kill_at_random(pid, watch, dice) if len(hits) < kills else exit_code(pid)
            if status != -signal.SIGKILL:
                break
            if watch.begun:  # else nothing was being trained yet, and nothing is counted
                # Between the parts of a step that are told of, a run is in a step too.
                moment = MOMENTS[watch.moment] if watch.moment else "step"
                hits.append((moment, attempt(check_folder, path, watch, self.undisturbed)))
                found["half-written files"] += any(path.glob("*.part"))
                found["no resume.pt, only resume.previous.pt"] += not (path / "resume.pt").exists()
        wrong = [f"it ended with the exit code {status}"] if status else attempt(check_end, path, self.undisturbed)
        return [(moment, own or wrong) for moment, own in hits]


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def torment(method: str, kills: int, data: Data, root: Path, dice: random.Random) -> tuple[dict[str, Tally], int]:
    """Kill runs of a method. → what became of them, by the moment they were killed in, and the number of runs."""
    small: dict[str, Any] = {
        "net": "conv7-8",
        "unlabeled_sample": 300,
        "test_sample": 100,
        "tensorboard": False,
        "threads": 1,
    }
    often: dict[str, Any] = {"steps": STEPS, "evaluations": EVALUATIONS, "save_minutes": SAVE_SECONDS / 60}
    victim = Victim(data, replace(preset(data, method), **small, **often), root / f"{method} undisturbed")
    if exit_code(fork(lambda: victim.begin(victim.undisturbed), Watch())):
        raise SystemExit(f"{method}: the undisturbed run failed")
    tallies, runs, found = {moment: Tally() for moment in MOMENTS[1:]}, 0, Counter[str]()
    while (left := kills - sum(tally.injected for tally in tallies.values())) > 0:
        runs += 1
        path = root / f"{method} {runs}"
        for moment, wrong in victim.killed(path, dice, left, found):
            tallies[moment].injected += 1
            tallies[moment].lost += bool(wrong)
            tallies[moment].runs.add(runs)
            for sentence in wrong[:5]:
                print(f"LOST  {path.name}, killed in its {moment}: {sentence}")
    print(f"{method}: kills found {', '.join(f'{what} {n} times' for what, n in found.items())}")
    return tallies, runs


def attempt(check: Callable[..., list[str]], *arguments: Any) -> list[str]:
    """What a check finds; that it cannot be done is a finding too."""
    try:
        return check(*arguments)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def other_threads() -> list[str]:
    """Threads beside the main one, by name; but for that of pyarrow's allocator, which takes care of forks itself."""
    tasks = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    return [name for task in tasks if not (name := (task / "comm").read_text().strip()).startswith("jemalloc")]


def main() -> int:
    """Kill, and print a table. → 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kills", description="Kill training runs.")
    parser.add_argument("--kills", type=int, default=50, help="of each method")
    parser.add_argument("--method", nargs="+", default=METHODS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # a process with threads cannot be forked
        os.execve(sys.executable, sys.orig_argv, os.environ | {"OMP_NUM_THREADS": "1"})
    torch.set_num_threads(1)
    data = open_data(SOURCE, LABELS, 0)
    if threads := other_threads():
        raise SystemExit(f"this process has the threads {', '.join(threads)} and cannot be forked safely")
    row = "{:<14} {:<14} {:>8} {:>8} {:>5} {:>5} {:>8}".format
    print(row("method", "killed in", "injected", "survived", "lost", "runs", "seconds"))
    lost = 0
    with tempfile.TemporaryDirectory() as root:
        for method in given.method:
            began = time.monotonic()
            tallies, runs = torment(method, given.kills, data, Path(root), random.Random(f"{given.seed} {method}"))
            for moment, tally in tallies.items():
                n, gone = tally.injected, tally.lost
                print(row(method, moment, n, n - gone, gone, len(tally.runs), ""))
            n, gone = (sum(counts) for counts in zip(*((t.injected, t.lost) for t in tallies.values()), strict=True))
            print(row(method, "all", n, n - gone, gone, runs, f"{time.monotonic() - began:.0f}"), flush=True)
            lost += gone
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
