"""Runs that are killed with SIGKILL at random moments, half of the time just as they save, and gone on with.

Each run is killed again and again until it is at its end. After every kill the folder has to open, with no more lost
than what came after the last checkpoint; at the end all bits have to be those of the undisturbed run.
"""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.lives import MOMENTS, Life, Watch, begin
from tests.faults.scene import Fault, Kind, Scene, attempt, check_end, check_folder

__all__ = ["KINDS"]

PREFIX = "killed in its "


def kill_at_random(life: Life, watch: Watch, scene: Scene) -> bool:
    """Wait for a moment and kill. → whether the process was still training."""
    dice = scene.dice
    saves = dice.randint(1, 6) if dice.random() < 0.6 else 0
    alive = life.until(lambda: bool(watch.begun))
    for _ in range(saves):
        for now in (False, True):
            alive = alive and life.until(lambda now=now: watch.saving is now)  # type: ignore[misc]
    time.sleep(dice.uniform(0, 0.03) if saves else dice.uniform(0, 0.3))
    life.send(signal.SIGKILL)
    return alive and life.end().code == -signal.SIGKILL


def one_run(scene: Scene, out: Path, kills: int) -> list[tuple[str, list[str]]]:
    """From the beginning to the end, killed on the way. → for every kill its moment and what went wrong."""
    hits: list[tuple[str, list[str]]] = []
    watch = Watch()
    while True:
        again = (out / "config.json").exists() and scene.dice.random() < 0.5
        found = watch.saved  # by this life; its own checkpoints come later
        life = begin(scene.resume(out) if again else scene.train(out), watch)
        if len(hits) >= kills or not kill_at_random(life, watch, scene):
            break
        # Between the parts of a step that are told of, a run is in a step too.
        moment = MOMENTS[watch.moment] if watch.moment else "step"
        hits.append((moment, attempt(check_folder, out, scene.whole, watch)))
    end = life.end()
    told = any(words in end.said for words in ("going on from step", "this run is finished"))
    wrong = end.wrong(0, "the run is in") or attempt(check_end, out, scene.whole)
    wrong += ["it did not say that it went on"] if found > 0 and not told else []
    return [(moment, own or wrong) for moment, own in hits]


def killed(scene: Scene, count: int) -> Iterator[Fault]:
    """As many kills as asked for, over as many runs as it takes."""
    hit = 0
    while hit < count:
        for moment, wrong in one_run(scene, scene.fresh(), count - hit):
            hit += 1
            yield Fault(PREFIX + moment, wrong)


KINDS = [Kind("killed", 120, killed, few=6)]
