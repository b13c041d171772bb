"""Signals that ask a run to end: Ctrl-C, Ctrl-C twice, SIGTERM, a terminal that is closed."""

import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from halfsure.cli import main
from tests.faults.lives import Life, Watch, begin, heed
from tests.faults.scene import STEPS, Scene, attempt, check_folder, each

__all__ = ["KINDS"]

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HERE = Path(__file__).parents[2]
# Tells when the command begins: before that Python itself starts, and nobody can catch anything.
START = "import sys, halfsure.cli as cli; print('begun', flush=True); sys.exit(cli.main(sys.argv[1:]))"


def at_random(scene: Scene, life: Life, watch: Watch) -> bool:
    """Wait for a moment of a run, more often than not while it saves. → whether it is still training."""
    after = scene.dice.randrange(STEPS - 8)
    alive = life.until(lambda: watch.done > after)
    if scene.dice.random() < 0.6:
        alive = alive and life.until(lambda: watch.saving)
        time.sleep(scene.dice.uniform(0, 0.01))
    return alive


def once(scene: Scene) -> list[str]:
    """The step is finished and saved."""
    out, watch = scene.fresh(), Watch()
    number = scene.dice.choice(ENDINGS)
    life = begin(scene.train(out), watch)
    at_random(scene, life, watch)
    life.send(number)
    wrong = life.broken_off().wrong(128 + number, "stopped after step", "go on with: halfsure resume")
    wrong += [] if watch.saved == watch.done else [f"{watch.done} steps were done, {watch.saved} are saved"]
    return wrong + attempt(check_folder, out, scene.whole, watch) + scene.goes_on(out)


def twice(scene: Scene) -> list[str]:
    """It ends at once, wherever it is; if the first signal was enough already, as after one."""
    out, watch = scene.fresh(), Watch()
    number = scene.dice.choice((signal.SIGINT, signal.SIGINT, *ENDINGS))
    life = begin(scene.train(out), watch)
    at_random(scene, life, watch)
    life.send(number)
    time.sleep(scene.dice.uniform(0, 0.05))
    life.send(number)
    wrong = life.broken_off().wrong(128 + number, "halfsure: stopped")
    return wrong + attempt(check_folder, out, scene.whole, watch) + scene.goes_on(out)


def early(scene: Scene) -> list[str]:
    """While the command still imports, reads data or begins its folder."""
    out = scene.fresh()
    number = scene.dice.choice(ENDINGS)
    command = [sys.executable, "-c", START, *scene.train(out)]
    with subprocess.Popen(
        command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(scene.dice.uniform(0, 2.0))
        process.send_signal(number)
        said = process.stdout.read()
    wrong = [] if process.returncode == 128 + number else [f"it ended with {process.returncode}, not {128 + number}"]
    wrong += [] if "halfsure: stopped" in said else [f"it did not say that it stopped, but: {said[:600]}"]
    wrong += [f"it showed a trace: {said[-1500:]}"] if "Traceback" in said else []
    return wrong + scene.goes_on(out)


def terminal_closed(scene: Scene) -> list[str]:
    """The terminal goes away: SIGHUP comes, and nothing can be printed any more."""
    out, watch = scene.fresh(), Watch()
    watch.begun = watch.moment = watch.saves = 0
    pid, terminal = pty.fork()
    if pid == 0:
        code = 1
        try:
            heed()
            for place, name in ((1, "stdout"), (2, "stderr")):
                setattr(sys, name, open(place, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
            with watch.attached():
                code = main(scene.train(out))
        finally:
            os._exit(code)
    os.set_blocking(terminal, False)

    def reached(after: int) -> bool:
        with suppress(BlockingIOError):
            os.read(terminal, 65536)  # else the run would wait for a reader
        return bool(watch.done > after)

    with open(os.devnull, "w+", encoding="utf-8") as nothing:
        life, after = Life(pid, nothing), scene.dice.randrange(STEPS - 8)
        life.until(lambda: reached(after))
        os.close(terminal)
        end = life.broken_off()
    wrong = [] if end.code == 128 + signal.SIGHUP else [f"it ended with {end.code}, not {128 + signal.SIGHUP}"]
    wrong += [] if watch.saved == watch.done else [f"{watch.done} steps were done, {watch.saved} are saved"]
    return wrong + attempt(check_folder, out, scene.whole, watch) + scene.goes_on(out)


KINDS = [
    each("stopped by Ctrl-C, SIGTERM or SIGHUP", 14, once),
    each("stopped twice within 50 ms", 16, twice),
    each("stopped before it trains", 6, early, slow=True),
    each("terminal closed", 5, terminal_closed),
]
