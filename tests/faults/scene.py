"""Where faults happen: a small run, how it goes undisturbed, and what must hold after any accident."""

import random
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import torch

import halfsure
from halfsure.cli import main
from halfsure.data import Split
from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder
from tests.faults import differences
from tests.faults.lives import MissedError, Watch, begin, live, other_threads, prepare
from tests.training.rank_driver import write_npz

__all__ = [
    "INTERVAL",
    "STEPS",
    "Fault",
    "Kind",
    "Scene",
    "attempt",
    "check_end",
    "check_folder",
    "contents",
    "each",
    "hit",
    "refused",
    "weights",
]

STEPS, EVALUATIONS = 36, 6
INTERVAL = STEPS // EVALUATIONS
SAVE_SECONDS = 0.05
TRIES = 5
METHODS = {"vat+ads": "mlp-16", "mixmatch-ads": "mlp-16", "fixmatch-ads": "conv7-4"}


@dataclass(frozen=True)
class Fault:
    """One accident, by its kind, and what went wrong, in sentences."""

    kind: str
    wrong: list[str]


@dataclass
class Scene:
    """A folder to be in, dice, and runs of one method after another."""

    root: Path
    dice: random.Random
    count: int = 0
    method: str = "vat+ads"
    undisturbed: dict[str, Path] = field(default_factory=dict)
    """How each method goes if nothing happens."""
    _stopped: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        prepare()
        self.root.chmod(0o755)  # some lives are those of a user without rights
        write_npz(self.data)
        self._warm()

    @property
    def data(self) -> Path:
        """Samples to train on."""
        return self.root / "blobs.npz"

    def train(self, out: Path, *more: str, method: str | None = None) -> list[str]:
        """The command that begins a run, or goes on with it."""
        method = method or self.method
        sizes = ["--steps", str(STEPS), "--evaluations", str(EVALUATIONS), "--batch", "7", "--unlabeled-batch", "13"]
        often = ["--save-minutes", str(SAVE_SECONDS / 60), "--threads", "1"]
        what = ["train", str(self.data), "--out", str(out), "--method", method, "--net", METHODS[method]]
        return [*what, *sizes, *often, *([] if "--tensorboard" in more else ["--no-tensorboard"]), "--no-report", *more]

    def resume(self, out: Path) -> list[str]:
        """The command that goes on with a run."""
        return ["resume", str(out), "--no-report"]

    def _warm(self) -> None:
        """Import whatever the commands import, and see that there is still only one thread."""
        out = self.root / "warm"
        predict = ["predict", str(out), str(self.data), "-o", str(self.root / "warm.csv")]
        for command in (self.train(out), ["report", str(out)], predict):
            with redirect_stdout(StringIO()):
                if code := main(command):
                    raise SystemExit(f"halfsure {command[0]} ended with {code}, with no fault at all")
        self.undisturbed = {method: self._undisturbed(method) for method in METHODS}
        if threads := other_threads():
            raise SystemExit(f"this process has the threads {', '.join(threads)} and cannot be forked safely")

    def _undisturbed(self, method: str) -> Path:
        out = self.root / f"{method} undisturbed"
        if wrong := live(self.train(out, method=method)).wrong(0, "the run is in"):
            raise SystemExit(f"{method}: the undisturbed run failed: {wrong[0]}")
        return out

    @property
    def whole(self) -> Path:
        """The undisturbed run of the method at hand."""
        return self.undisturbed[self.method]

    def fresh(self) -> Path:
        """A folder that is not there yet, for a run of the next method."""
        self.count += 1
        self.method = list(METHODS)[self.count % len(METHODS)]
        return self.root / f"run {self.count}"

    def stopped(self) -> Path:
        """A copy of a run of the next method that was stopped in its middle, with two whole checkpoints."""
        out = self.fresh()
        if self.method not in self._stopped:
            first, watch = self.root / f"{self.method} stopped", Watch()
            life = begin(self.train(first), watch)
            if not life.until(lambda: watch.done > STEPS // 2 and watch.saves > 2):
                raise SystemExit("a run was faster than expected")
            life.send(signal.SIGTERM)
            if wrong := life.end().wrong(128 + signal.SIGTERM, "stopped after step"):
                raise SystemExit(wrong[0])
            self._stopped[self.method] = first
        shutil.copytree(self._stopped[self.method], out)
        return out

    def goes_on(self, out: Path, *words: str) -> list[str]:
        """What is wrong once a run was gone on with to its end, which has to be that of the undisturbed one."""
        again = (out / "config.json").exists()
        state = Folder(out).resume()[0] if again else None
        told = ["going on from step"] if state is not None and 0 < state["step"] < STEPS else []
        command = self.train(out) if not again or self.dice.random() < 0.3 else self.resume(out)
        wrong = live(command).wrong(0, *words, *told)
        return wrong + attempt(check_end, out, self.whole)


Inject = Callable[[Scene], list[str]]


@dataclass(frozen=True)
class Kind:
    """Accidents of a kind, and how many of them there are to be."""

    name: str
    number: int
    inject: Callable[[Scene, int], Iterable[Fault]]
    slow: bool = False
    """Whether one of them takes many seconds."""
    few: int = 1
    """How many show all that there are."""


def each(name: str, number: int, inject: Inject, slow: bool = False) -> Kind:
    """A kind of accident that happens to a run of its own each time."""

    def one_by_one(scene: Scene, count: int) -> Iterator[Fault]:
        for _ in range(count):
            yield Fault(name, hit(inject, scene))

    return Kind(name, number, one_by_one, slow)


def hit(inject: Inject, scene: Scene) -> list[str]:
    """What an accident leaves wrong; on a busy machine it may come too late, and is then tried again."""
    for _ in range(TRIES - 1):
        with suppress(MissedError):
            return attempt(inject, scene)
    return attempt(inject, scene)


def check_folder(path: Path, undisturbed: Path, watch: Watch | None = None) -> list[str]:
    """What is wrong with a folder right after an accident: all of it has to open, and an interval at most is lost."""
    folder = Folder(path)
    if folder.config is None:
        return ["config.json is lost"] if watch is None or watch.saved >= 0 else []
    Split.load(path / "split.json")
    state, trouble = folder.resume()
    if state is None and watch is not None and watch.saved < 0:
        return []
    if state is None or trouble:
        return [trouble or "no checkpoint is left"]
    wrong, until = [], state["step"]
    if watch is not None and until < watch.saved:
        wrong.append(f"the checkpoint of step {watch.saved} is lost, the last is that of {until}")
    if watch is not None and watch.done - until > INTERVAL:
        wrong.append(f"of {watch.done} steps only {until} are left: more than an interval is lost")
    wrong += differences(folder.metrics(up_to=until), Folder(undisturbed).metrics(up_to=until), at="metrics")
    wrong += [f"a parameter is not finite: {name}" for name, value in weights(path) if not bool(value.isfinite().all())]
    return wrong


def check_end(path: Path, undisturbed: Path) -> list[str]:
    """Where a run that got to its end differs from the one that nothing happened to."""
    state, expected = (read_state(folder / "resume.safetensors") for folder in (path, undisturbed))
    wrong = differences(state, expected, at="state")
    wrong += differences(Folder(path).metrics(), Folder(undisturbed).metrics(), at="metrics")
    wrong += differences(weights(path), weights(undisturbed), at="model")
    wrong += [f"{part.name} was left behind" for part in path.glob("*.part")]
    return wrong if state["step"] == STEPS else [*wrong, f"it ended at step {state['step']}"]


def weights(path: Path) -> list[tuple[str, torch.Tensor]]:
    return list(halfsure.load(path).model.named_parameters())


def attempt(check: Callable[..., list[str]], *arguments: Any) -> list[str]:
    """What a check finds; that it cannot be done is a finding too."""
    try:
        return check(*arguments)
    except MissedError:
        raise
    except (Exception, SystemExit) as error:
        return [f"{type(error).__name__}: {error}"]


def contents(path: Path) -> dict[str, bytes]:
    """Every file of a folder but the lock."""
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file() and file.name != ".lock"}


def refused(command: list[str], out: Path, *words: str) -> list[str]:
    """What is wrong with a command that has to be refused in these words and to leave the folder as it was."""
    before = contents(out)
    wrong = live(command).wrong(2, *words)
    return wrong + ([] if contents(out) == before else ["it was refused, and changed files all the same"])
