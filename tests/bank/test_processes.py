"""A bank and several processes: they share the work, wait for each other, and may die at any moment."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfsure.bank import Rows, banked, views_wanted, workers
from halfsure.data import DataError
from halfsure.data.originals import PictureArray
from halfsure.encoders import Encoder, EncoderError, own
from tests.bank.scenes import SIDE, Endless, counting, logging, pictures, some_features

pytestmark = pytest.mark.slow
VIEWS = views_wanted(weak=1, strong=2)
COUNT = 600


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes are started after the first group."""
    monkeypatch.setattr(workers, "ALONE", 0.0)
    monkeypatch.setattr(workers, "WORTH", 0.0)


def same(one: Rows, other: Rows) -> None:
    assert one.shape == other.shape
    for view in range(one.views):
        np.testing.assert_array_equal(one.take(np.arange(len(one)), view), other.take(np.arange(len(one)), view))


def lines(log: Path) -> list[tuple[int, int]]:
    """Process and pictures of each batch; the first is what a function is tried with."""
    found = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [(int(process), int(count)) for process, count in found]


@pytest.mark.usefixtures("at_once")
def test_processes_share_the_work_and_the_bits_are_the_same(tmp_path: Path) -> None:
    log, images = tmp_path / "log", PictureArray(pictures(COUNT))
    rows = banked(images, logging(log, 0.01), VIEWS, folder=tmp_path / "a", workers=2)
    processes = {process for process, _ in lines(log)}
    assert len(processes) == 3
    same(rows, banked(images, logging(log), VIEWS, folder=tmp_path / "b", workers=1))
    assert len(list((tmp_path / "a").glob("*/*.rows"))) == 1


@pytest.mark.usefixtures("at_once")
def test_lambdas_and_what_cannot_travel_are_encoded_too(tmp_path: Path) -> None:
    images, lock = PictureArray(pictures(100)), threading.Lock()

    def locked(samples: Any) -> Any:
        with lock:
            return some_features(samples)

    expected = banked(images, counting()[0], VIEWS, folder=tmp_path / "a", workers=1)
    for number, function in enumerate([lambda x: 1 * some_features(x), locked]):
        encoder = own(function, "image", side=SIDE)
        same(banked(images, encoder, VIEWS, folder=tmp_path / str(number), workers=2), expected)


@pytest.mark.usefixtures("at_once")
def test_a_name_that_opens_other_weights_is_not_believed(tmp_path: Path) -> None:
    images, (encoder, _) = PictureArray(pictures(100)), counting()
    expected = banked(images, encoder, VIEWS, folder=tmp_path / "a", workers=1)
    encoder.opened_as = "there-is-none", {}
    same(banked(images, encoder, VIEWS, folder=tmp_path / "b", workers=2), expected)


class Dies:
    __name__ = "dies"

    def __init__(self, parent: int) -> None:
        self._parent = parent

    def __call__(self, samples: Any) -> Any:
        if os.getpid() != self._parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return some_features(samples)


class Breaks(Dies):
    __name__ = "breaks"

    def __call__(self, samples: Any) -> Any:
        found = some_features(samples)
        return found if os.getpid() == self._parent else found / 0


@pytest.mark.usefixtures("at_once")
def test_a_process_that_dies_or_an_encoder_that_breaks_there_is_a_sentence(tmp_path: Path) -> None:
    images = PictureArray(pictures(100))
    with pytest.raises(DataError, match="died: it may have run out of memory"):
        banked(images, own(Dies(os.getpid()), "image", side=SIDE), VIEWS, folder=tmp_path, workers=2)
    with pytest.raises(EncoderError, match="not finite"):
        banked(images, own(Breaks(os.getpid()), "image", side=SIDE), VIEWS, folder=tmp_path, workers=2)


CHILD = """
import sys
from pathlib import Path
from halfsure.bank import banked, workers
from halfsure.data.originals import PictureArray
from tests.bank.scenes import logging, pictures
from tests.bank.test_processes import COUNT, VIEWS
workers.ALONE = workers.WORTH = 0.0
folder, count, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
encoder = logging(folder / "log", seconds)
print("begun", flush=True)
try:
    banked(PictureArray(pictures(COUNT)), encoder, VIEWS, folder=folder / "bank", workers=count)
except KeyboardInterrupt:
    sys.exit(130)
"""


def child(folder: Path, workers: int = 1, seconds: float = 0.0) -> "subprocess.Popen[bytes]":
    arguments = [sys.executable, "-c", CHILD, str(folder), str(workers), str(seconds)]
    begun = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    assert begun.stdout is not None
    begun.stdout.readline()
    return begun


def the_encoder(folder: Path) -> Encoder:
    return logging(folder / "log")


KILLED = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
from halfsure.bank import banked
from halfsure.data.originals import PictureArray
from tests.bank.scenes import logging, pictures
from tests.bank.test_processes import COUNT, VIEWS
folder = Path(sys.argv[1])
encoder, images, dice = logging(folder / "log", 0.01), PictureArray(pictures(COUNT)), np.random.default_rng(5)
banked(images.take([0]), encoder, VIEWS, folder=folder / "warm", workers=1)
for _ in range(20):
    child = os.fork()
    if not child:
        banked(images, encoder, VIEWS, folder=folder / "bank", workers=1)
        os._exit(0)
    time.sleep(dice.uniform(0, 0.4))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(sum(file.stat().st_size for file in folder.glob("bank/*/*.rows")), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_killed_at_random_moments_it_ends_in_the_same_bits(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sizes = list(map(int, done.stdout.split()))
    assert len(sizes) == 20
    assert len(set(sizes)) > 3  # it was killed at different moments
    images, log = PictureArray(pictures(COUNT)), tmp_path / "log"
    before = sum(count for _, count in lines(log))
    rows = banked(images, the_encoder(tmp_path), VIEWS, folder=tmp_path / "bank", workers=1)
    assert sum(count for _, count in lines(log)) - before < COUNT * len(VIEWS)
    same(rows, banked(images, the_encoder(tmp_path), VIEWS, folder=tmp_path / "other", workers=1))


def gone(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"


def until(true: Any, seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_workers_end_with_their_parent_and_another_goes_on(tmp_path: Path, number: int, code: int) -> None:
    with child(tmp_path, workers=2, seconds=0.05) as running:
        until(lambda: len({process for process, _ in lines(tmp_path / "log")}) == 3)
        running.send_signal(number)
        assert running.wait(60) == code
        others = {process for process, _ in lines(tmp_path / "log")}
        until(lambda: all(map(gone, others)), 10)
    rows = banked(PictureArray(pictures(COUNT)), the_encoder(tmp_path), VIEWS, folder=tmp_path / "bank")
    assert rows.places.shape == (COUNT, len(VIEWS))


def test_two_commands_at_once_do_the_work_once(tmp_path: Path) -> None:
    with child(tmp_path, seconds=0.005) as one, child(tmp_path, seconds=0.005) as other:
        assert (one.wait(120), other.wait(120)) == (0, 0)
    encoded = sum(count for _, count in lines(tmp_path / "log") if count > 1)
    assert encoded == COUNT * len(VIEWS)


def test_the_one_that_waits_takes_over_from_one_that_dies(tmp_path: Path) -> None:
    with child(tmp_path, seconds=0.05) as one:
        until(lambda: len(lines(tmp_path / "log")) > 10)
        with child(tmp_path) as other:
            time.sleep(0.3)
            assert other.poll() is None
            one.send_signal(signal.SIGKILL)
            assert other.wait(120) == 0


LARGE = """
import resource, sys
from pathlib import Path
import numpy as np
from halfsure.bank import banked, views_wanted
from halfsure.encoders import own
from tests.bank.scenes import Endless
def mean(pictures):
    return pictures.mean((2, 3))
encoder = own(mean, "image", side=16)
folder = Path(sys.argv[1])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
banked(Endless(np.arange(2_000)), encoder, views_wanted(0, 1), folder=folder, workers=1)
before = peak()
rows = banked(Endless(np.arange(200_000)), encoder, views_wanted(0, 1), folder=folder, workers=1)
assert len(rows) == 200_000
for first in range(0, 200_000, 1000):
    rows.take(np.arange(first, first + 1000), 1)
print(before, peak())
"""


def test_many_pictures_take_little_memory(tmp_path: Path) -> None:
    """200,000 pictures in two views: keys and places, and nothing that grows with pixels or features."""
    arguments = [sys.executable, "-c", LARGE, str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert after - before < 120  # MB
    assert len(Endless(range(3))) == 3
