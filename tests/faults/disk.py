"""Disks that are full and folders that cannot be written to, by a small tmpfs where this process may mount one."""

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.faults.lives import Watch, begin, live
from tests.faults.scene import STEPS, Fault, Kind, Scene, attempt, check_end, check_folder, contents, each, hit, refused

__all__ = ["KINDS"]

SIZE = 2**21
PAGE = 4096
NOBODY = 65534
NO_MOUNT = " (limit of file sizes: no right to mount)"
Faults = Iterator[Fault]


@dataclass(frozen=True)
class Disk:
    """A small disk, mounted at a path."""

    path: Path

    def fill(self, free: int = 0) -> None:
        """Leave so many bytes free."""
        with open(self.path / "ballast", "ab") as file, suppress(OSError):
            while (left := self._free() - free) > 0:
                file.write(bytes(min(left, PAGE)))
                file.flush()

    def empty(self) -> None:
        """Take away what fills it."""
        (self.path / "ballast").unlink(missing_ok=True)

    def _free(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_bsize


@contextmanager
def mounted(path: Path) -> Iterator[Disk]:
    """A small disk for the time of the block."""
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", path], check=True, capture_output=True)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", path], check=True, capture_output=True)


@cache
def may_mount() -> bool:
    """Whether this process has the right to."""
    place = Path("/tmp") / f"halfsure-mount-{os.getpid()}"
    try:
        with mounted(place):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        with suppress(OSError):
            place.rmdir()


def full_in_run(scene: Scene) -> list[str]:
    """Too little room from the start, or none from some step on; once there is room again the run goes on."""
    place, watch = scene.fresh(), Watch()
    out = place / "run"
    with mounted(place) as disk:
        late = scene.dice.random() < 0.6
        if not late:
            disk.fill(free=PAGE * scene.dice.randint(8, 20))
        life = begin(scene.train(out), watch)
        if late:
            after = scene.dice.randrange(STEPS - 8)
            life.until(lambda: watch.done > after)
            disk.fill()
        end = life.broken_off()
        wrong = end.wrong(1, "could not be saved: No space left on device.")
        wrong += end.wrong(1, f"that of step {watch.saved}") if watch.saved >= 0 else end.wrong(1, "Nothing had been")
        wrong += attempt(check_folder, out, scene.whole, watch)
        disk.empty()
        return wrong + scene.goes_on(out)


def full_at_beginning(scene: Scene) -> list[str]:
    place = scene.fresh()
    out = place / "run"
    with mounted(place) as disk:
        disk.fill(free=PAGE * scene.dice.randint(0, 3))
        wrong = live(scene.train(out)).wrong((1, 2), "No space left on device")
        wrong += [f"{part.name} was left behind" for part in out.glob("*.part")]
        disk.empty()
        return wrong + scene.goes_on(out)


def full_for_results(scene: Scene) -> list[str]:
    """While a report or predictions are written: none, or a whole one."""
    place = scene.fresh()
    files = {"report": place / "page.html", "predict": place / scene.dice.choice(("p.csv", "p.parquet"))}
    name = scene.dice.choice(list(files))
    command = {"report": ["report", str(scene.whole)], "predict": ["predict", str(scene.whole), str(scene.data)]}[name]
    with mounted(place) as disk:
        disk.fill()
        wrong = live([*command, "-o", str(files[name])]).wrong(2, "No space left on device")
        wrong += [f"{left} was left behind" for left in os.listdir(place) if left != "ballast"]
        disk.empty()
        return wrong + live([*command, "-o", str(files[name])]).wrong(0, str(files[name]))


def full_for_events(scene: Scene) -> list[str]:
    """TensorBoard's thread cannot write: the run says so and trains on."""
    out = scene.fresh()
    with mounted(out / "tensorboard") as disk:
        disk.fill(free=PAGE * scene.dice.randint(0, 1))
        end = live(scene.train(out, "--tensorboard"))
        wrong = end.wrong(0, "TensorBoard events are no longer written: No space left on device; the run goes on")
        return wrong + attempt(check_end, out, scene.whole)


def file_too_large(scene: Scene) -> list[str]:
    """Where nothing can be mounted: a limit of the size of files, which fails in the middle of one."""
    out, watch = scene.fresh(), Watch()

    @contextmanager
    def limited() -> Iterator[None]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (scene.dice.randint(5_000, 24_000),) * 2)
        yield

    wrong = live(scene.train(out), watch, limited).wrong(1, f"could not be saved: {os.strerror(errno.EFBIG)}.")
    return wrong + attempt(check_folder, out, scene.whole, watch) + scene.goes_on(out)


def full(scene: Scene, count: int) -> Faults:
    """On a disk that can be mounted, or else by a limit."""
    if not may_mount():
        print("full disk: not injected, no right to mount; a limit of the size of files instead", flush=True)
    for place in range(count):
        if not may_mount():
            yield Fault(f"full disk{NO_MOUNT}", hit(file_too_large, scene))
            continue
        kinds = {
            "in a run": full_in_run,
            "at the beginning": full_at_beginning,
            "for a report or predictions": full_for_results,
        }
        name = ("in a run", "in a run", "at the beginning", "for a report or predictions", "in a run")[place % 5]
        yield Fault(f"full disk {name}", hit(kinds[name], scene))


def events(scene: Scene, count: int) -> Faults:
    if not may_mount():
        print("full disk for TensorBoard: not injected, no right to mount", flush=True)
        return
    for _ in range(count):
        yield Fault("full disk for TensorBoard", hit(full_for_events, scene))


@contextmanager
def without_rights() -> Iterator[None]:
    """Be a user whom permissions bind; root is not."""
    if os.geteuid() == 0:
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    yield


def given_away(path: Path, mode: int) -> None:
    """Make a folder and its files that user's, with these rights to the folder."""
    if os.geteuid() == 0:
        for file in (path, *path.iterdir()):
            os.chown(file, NOBODY, NOBODY)
    path.chmod(mode)


def locked_in_run(scene: Scene) -> list[str]:
    """In the middle of a run its folder can no longer be written to."""
    out, watch = scene.fresh(), Watch()
    out.mkdir()
    given_away(out, 0o755)
    after = scene.dice.randrange(STEPS - 8)
    life = begin(scene.train(out), watch, without_rights)
    life.until(lambda: watch.done > after)
    given_away(out, 0o555)
    wrong = life.broken_off().wrong(
        1, "could not be saved: Permission denied.", "The last good checkpoint is that of step"
    )
    wrong += attempt(check_folder, out, scene.whole, watch)
    out.chmod(0o755)
    return wrong + scene.goes_on(out)


def locked_from_start(scene: Scene) -> list[str]:
    """A folder below one that cannot be written to; then a run that was begun when it still could."""
    place = scene.fresh()
    place.mkdir(mode=0o555)
    wrong = live(scene.train(place / "run"), None, without_rights).wrong(
        2, "a run cannot be kept in", "Permission denied"
    )
    out = scene.stopped()
    given_away(out, 0o555)
    before = contents(out)
    wrong += live(scene.resume(out), None, without_rights).wrong((1, 2), "Permission denied")
    wrong += [] if contents(out) == before else ["it was refused, and changed files all the same"]
    out.chmod(0o755)
    return wrong + scene.goes_on(out)


def read_only_disk(scene: Scene) -> list[str]:
    """A disk that is mounted read-only: nothing can be trained, and everything be used."""
    source, place = scene.stopped(), scene.fresh()
    scene.fresh()
    out = place / "run"
    with mounted(place):
        shutil.copytree(source, out)
        subprocess.run(["mount", "-o", "remount,ro", place], check=True, capture_output=True)
        moved = [*scene.resume(out), "--source", str(scene.data)]  # from its new place the run does not find its data
        wrong = refused(moved, out, "a run cannot be kept in", "Read-only file system")
        for command in (["report", str(out)], ["predict", str(out), str(scene.data)]):
            suffix = {"report": ".html", "predict": ".csv"}[command[0]]
            file = place.with_suffix(suffix)
            wrong += live([*command, "-o", str(file)]).wrong(0, str(file))
        return wrong


def read_only(scene: Scene, count: int) -> Faults:
    if not may_mount():
        print("disk read-only: not injected, no right to mount", flush=True)
    for place in range(count):
        kinds = [("folder read-only in a run", locked_in_run), ("folder read-only from the start", locked_from_start)]
        kinds += [("disk read-only", read_only_disk)] if may_mount() else []
        name, inject = kinds[place % len(kinds)]
        yield Fault(name, hit(inject, scene))


KINDS = [
    Kind("full disk", 25, full, few=4),
    Kind("full TensorBoard", 3, events),
    each("file too large", 5, file_too_large),
    Kind("read-only", 12, read_only, few=3),
]
