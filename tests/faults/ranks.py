"""Runs on two ranks of which one is killed, under torchrun and without; and refusals that all ranks share.

    torchrun --nproc-per-node 2 -m tests.faults.ranks RANK STEP step|save train SOURCE …

is the command line with one accident in its first life: that rank is killed in this step, or in the next save after it.
"""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from torch import distributed

from halfsure.cli import main
from halfsure.runs.folder import Folder
from halfsure.training.state import Training
from tests.faults.lives import End, begin
from tests.faults.oddities import failing
from tests.faults.scene import STEPS, Scene, attempt, check_end, check_folder, each

__all__ = ["KINDS"]

HERE = Path(__file__).parents[2]
PATIENCE = 120


def forked(
    words: Sequence[str], meeting: Path, first: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> list[End]:
    """Run a command as two ranks, the first of them under a patch. → how each ended."""
    meeting.unlink(missing_ok=True)

    def rank(number: int) -> Callable[[], AbstractContextManager[Any]]:
        @contextmanager
        def joined() -> Iterator[None]:
            os.environ |= {"RANK": str(number), "WORLD_SIZE": "2"}
            distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=number, world_size=2)
            with first() if number == 0 else nullcontext():
                yield

        return joined

    lives = [begin(words, None, rank(number)) for number in (0, 1)]
    return [life.end() for life in lives]


def undisturbed(scene: Scene) -> Path:
    """How the method at hand goes on two ranks if nothing happens."""
    out = scene.root / f"{scene.method} on two ranks"
    if not out.exists():
        for end in forked(scene.train(out), scene.root / "meeting"):
            if wrong := end.wrong(0):
                raise SystemExit(f"the undisturbed run on two ranks failed: {wrong[0]}")
    return out


def torchrun(restarts: int, *arguments: str) -> End:
    """Run this module as two ranks."""
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
    command = [sys.executable, "-m", *launcher, "-m", "tests.faults.ranks", *arguments]
    with subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.terminate()  # a launcher that is killed would leave its ranks behind
            said = process.communicate()[0] + f"\nit hung and was stopped after {PATIENCE} s"
    return End(process.returncode, said)


def accident(scene: Scene) -> list[str]:
    where = scene.dice.choice((["0", "save"], ["0", "step"], ["1", "step"]))
    return [where[0], str(scene.dice.randrange(8, STEPS - 8)), where[1]]


def restarted(scene: Scene) -> list[str]:
    """The launcher starts all ranks again; they go on to the bits of two ranks that nothing happened to."""
    out = scene.fresh()
    whole = undisturbed(scene)
    end = torchrun(2, *accident(scene), *scene.train(out))
    wrong = [] if end.code == 0 else [f"it ended with {end.code}: {end.said[-500:]}"]
    wrong += [] if "going on from step" in end.said else ["it did not say that it went on"]
    return wrong + attempt(check_end, out, whole)


def not_restarted(scene: Scene) -> list[str]:
    """The launcher ends with an error, and later the same command on two ranks goes on."""
    out = scene.fresh()
    whole = undisturbed(scene)
    end = torchrun(0, *accident(scene), *scene.train(out))
    wrong = [] if end.code else ["the launcher took no notice"]
    wrong += attempt(check_folder, out, whole)
    for again in forked(scene.train(out), scene.root / "meeting"):
        wrong += again.wrong(0)
    return wrong + attempt(check_end, out, whole)


def refused_together(scene: Scene) -> list[str]:
    """What the first rank refuses or cannot save ends both, and one of them says why."""
    out = scene.fresh()
    whole, kind = undisturbed(scene), scene.dice.choice(("locked", "damaged", "disk", "killed"))
    if kind in ("locked", "damaged"):
        wrong = [text for end in forked(scene.train(out), scene.root / "meeting") for text in end.wrong(0)]
    if kind == "locked":
        with Folder(out).lock():
            ends = forked(scene.train(out), scene.root / "meeting")
        return wrong + ends[0].wrong(2, "another process is training") + quiet(ends[1])
    if kind == "damaged":
        for name in ("resume.safetensors", "resume.previous.safetensors"):
            (out / name).write_bytes(b"")
        ends = forked(scene.train(out), scene.root / "meeting")
        return wrong + ends[0].wrong(2, "there is nothing whole to go on from") + quiet(ends[1])
    if kind == "disk":
        fault = failing(os, "fsync", OSError(errno.EIO, os.strerror(errno.EIO)), scene.dice.randint(9, 30))
        ends = forked(scene.train(out), scene.root / "meeting", fault)
        wrong = ends[0].wrong(1, "could not be saved: Input/output error.") + quiet(ends[1])
    else:
        ends = forked(scene.train(out), scene.root / "meeting", lambda: dies("step", scene.dice.randrange(8, 20)))
        wrong = ends[1].wrong(2, "another process of this run has ended")
    wrong += attempt(check_folder, out, whole)
    for again in forked(scene.train(out), scene.root / "meeting"):
        wrong += again.wrong(0)
    return wrong + attempt(check_end, out, whole)


def quiet(end: End) -> list[str]:
    """What is wrong with a rank that leaves it to the first to speak."""
    return end.wrong(2) + ([f"it spoke too: {end.said[-300:]}"] if "halfsure:" in end.said else [])


@contextmanager
def dies(moment: str, step: int) -> Iterator[None]:
    """Be killed in a step, or in the first save from that step on, between two renames."""
    update, save, replace = Training.update, Folder.save, os.replace

    def updating(training: Training) -> Any:
        if moment == "step" and training.done >= step:
            os.kill(os.getpid(), signal.SIGKILL)
        return update(training)

    def saving(folder: Folder, state: dict[str, Any]) -> None:
        with mock.patch.object(os, "replace", renaming) if state["step"] >= step else nullcontext():
            save(folder, state)

    def renaming(source: Any, target: Any) -> None:
        replace(source, target)
        os.kill(os.getpid(), signal.SIGKILL)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(Training, "update", updating))
        if moment == "save":
            stack.enter_context(mock.patch.object(Folder, "save", saving))
        yield


def drive(rank: str, step: str, moment: str, *command: str) -> int:
    """Be a rank; of the first life's ranks one has an accident."""
    here = os.environ["RANK"] == rank and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    with dies(moment, int(step)) if here else nullcontext():
        return main(command)


KINDS = [
    each("ranks that end together", 8, refused_together),
    each("rank killed and restarted by torchrun", 3, restarted, slow=True),
    each("rank killed, torchrun not to restart", 2, not_restarted, slow=True),
]

if __name__ == "__main__":
    sys.exit(drive(*sys.argv[1:]))
