"""Pictures that break the thread that decodes them, and processes that die at their work."""

import os
import signal
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image

from halfsure.data import images
from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder
from tests.faults import differences
from tests.faults.lives import Life, MissedError, begin, live
from tests.faults.scene import Scene, each, weights

__all__ = ["KINDS"]

CLASSES, EACH = ("cat", "dog"), 8
ERRORS = (
    RuntimeError("the decoder is confused"),
    MemoryError(),
    struct.error("unpack requires a buffer of 4 bytes"),
    zlib.error("Error -3 while decompressing data"),
    IndexError("list index out of range"),
    KeyError(274),
    OverflowError("Python int too large"),
    AttributeError("'NoneType' object has no attribute 'read'"),
    ZeroDivisionError("division by zero"),
    AssertionError(),
    OSError("image file is truncated"),
)
RUNS = ("supervised-s0", "vat+ads-s0")
SMALL = 100
"""Bytes above which decoded pictures live in a file, for a fault."""


def pictures(scene: Scene) -> Path:
    """A folder of small pictures, the same every time."""
    folder = scene.root / "pictures"
    if not folder.exists():
        draw = np.random.default_rng(0)
        for place, name in enumerate(CLASSES):
            (folder / name).mkdir(parents=True)
            for number in range(EACH):
                values = draw.integers(0, 100, (8, 8), dtype=np.uint8) + np.uint8(120 * place)
                Image.fromarray(values).save(folder / name / f"{number}.png")
    return folder


def command(scene: Scene, out: Path, *more: str) -> list[str]:
    sizes = ["--net", "mlp-8", "--steps", "4", "--evaluations", "1", "--batch", "4", "--unlabeled-batch", "4"]
    rest = ["--labels", "6", "--folds", "0", "--no-report", "--no-tensorboard", "--threads", "1", *more]
    return ["train", str(pictures(scene)), "--out", str(out), "--method", "fixmatch-ads", *sizes, *rest]


@contextmanager
def decoder(decode: Callable[..., Any], cache: Path, limit: int) -> Iterator[None]:
    """Another decoder, decoded pictures in this folder, and a limit from which on they are."""
    with (
        mock.patch.object(images, "decode_one", decode),
        mock.patch.object(images, "IN_MEMORY", limit),
        mock.patch.dict(os.environ, {"HALFSURE_DATA": str(cache)}),
    ):
        yield


def thread_fails(scene: Scene) -> list[str]:
    """One picture breaks its decoder: it is named, nothing is begun; and left out if that is asked for."""
    out = scene.fresh()
    victim = scene.dice.choice(sorted(pictures(scene).rglob("*.png")))
    error, limit = scene.dice.choice(ERRORS), scene.dice.choice((SMALL, images.IN_MEMORY))
    original, cache = images.decode_one, out.with_name(f"{out.name} cache")

    def decode(path: Path, *rest: Any) -> Any:
        if path.name == victim.name and path.parent.name == victim.parent.name:
            raise error
        return original(path, *rest)

    def broken() -> AbstractContextManager[None]:
        return decoder(decode, cache, limit)

    wrong = live(command(scene, out), None, broken).wrong(2, f"1 of {2 * EACH} images cannot be read", str(victim))
    wrong += ["a run was begun all the same"] if out.exists() else []
    wrong += [f"{left.name} was left behind" for left in cache.rglob("*") if left.is_file()]
    end = live(command(scene, out, "--skip-bad"), None, broken)
    return wrong + end.wrong(0, "the run is in", f"{2 * EACH - 1} samples")


def killed_while_decoding(scene: Scene) -> list[str]:
    """A process is killed with half of the pictures in their file: the same command works, and cleans up."""
    out = scene.fresh()
    cache, original = out.with_name(f"{out.name} cache"), images.decode_one

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.1)
        return original(*arguments)

    life = begin(command(scene, out), None, lambda: decoder(slowly, cache, SMALL))
    life.until(lambda: any(cache.rglob("*.part")))
    time.sleep(scene.dice.uniform(0, 0.5))
    life.send(signal.SIGKILL)
    wrong = [] if life.end().code == -signal.SIGKILL else ["it was faster than the kill"]
    wrong += [] if any(cache.rglob("*.part")) else ["nothing was left behind that could be in the way"]
    wrong += live(command(scene, out), None, lambda: decoder(original, cache, SMALL)).wrong(0, "the run is in")
    wrong += [f"{left.name} was left behind" for left in cache.rglob("*.part")]
    plain = out.with_name(f"{out.name} in memory")
    wrong += live(command(scene, plain)).wrong(0, "the run is in")
    return wrong + differences(weights(out), weights(plain), at="model")


def compare(scene: Scene, out: Path) -> list[str]:
    what = ["compare", str(scene.data), "--out", str(out), "--methods", "supervised,vat+ads", "--seeds", "1"]
    sizes = ["--net", "mlp-8", "--steps", "200", "--evaluations", "4", "--batch", "7", "--unlabeled-batch", "13"]
    return [*what, "--jobs", "2", "--save-minutes", "0.001", *sizes, "--no-tensorboard"]


def worker_killed(scene: Scene) -> list[str]:
    """A process of a comparison is killed in the middle of a run: that run is tried again, the others go on."""
    whole, out = scene.root / "comparison", scene.fresh()
    if not whole.exists() and (wrong := live(compare(scene, whole)).wrong(0)):
        return wrong
    life = begin(compare(scene, out))
    victim = scene.dice.choice(RUNS)
    life.until((out / victim / "resume.previous.safetensors").exists)
    worker = locker(life, out / victim / ".lock")
    if worker is None:
        life.end()
        raise MissedError(f"the run {victim} was faster than expected")
    os.kill(worker, signal.SIGKILL)
    wrong = life.end(180).wrong(0)
    for run in RUNS:
        state, expected = (read_state(folder / run / "resume.safetensors") for folder in (out, whole))
        wrong += differences(state, expected, at=run)
        wrong += differences(Folder(out / run).metrics(), Folder(whole / run).metrics(), at=run)
    return wrong


def locker(life: Life, lock: Path) -> int | None:
    """The process below a life that holds a file open; None if there is none."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != life.pid:
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(stat[1]) == life.pid and any(os.readlink(fd) == str(lock) for fd in (entry / "fd").iterdir()):
                    return int(entry.name)
            except OSError:
                continue
    return None


KINDS = [
    each("picture that breaks its decoder", 12, thread_fails),
    each("killed while it decodes", 4, killed_while_decoding),
    each("worker of a comparison killed", 2, worker_killed, slow=True),
]
