"""What the command line sets for its process: how threads wait, and what becomes of freed memory."""

import json
import os
import platform
import subprocess
import sys
from typing import Any

import pytest

GLIBC = platform.libc_ver()[0] == "glibc"
NAMES = ("OMP_WAIT_POLICY", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
TELL = f"print(json.dumps({{name: os.environ.get(name) for name in {NAMES}}}))"
# Page faults of taking, filling and giving back 64 MB, which glibc by itself maps anew every time.
FAULTS = """
import json, resource
import numpy as np
def fill():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(2**26, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
fill()
print(json.dumps([fill() for _ in range(3)]))
"""


def run(code: str, **own: str) -> Any:
    """Run code in a process with these settings of its owner. → what it printed as JSON."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES} | own
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def prepared(**own: str) -> Any:
    return run(f"import json, os; from halfsure.cli.process import prepare_process; prepare_process(); {TELL}", **own)


def test_threads_wait_asleep_unless_their_owner_says_otherwise() -> None:
    assert prepared()["OMP_WAIT_POLICY"] == "passive"
    assert prepared(OMP_WAIT_POLICY="active")["OMP_WAIT_POLICY"] == "active"


@pytest.mark.slow
def test_settings_are_there_before_torch_is() -> None:
    code = (
        "import json, sys; from unittest import mock; import halfsure.cli as cli; known = []\n"
        "with mock.patch.object(cli, 'prepare_process', lambda: known.append('torch' in sys.modules)):\n"
        "    cli.main(['methods', '--json'])\n"
        "print(json.dumps([known, 'torch' in sys.modules]))"
    )
    assert run(code) == [[False], True]


@pytest.mark.parametrize("words", [["version"], ["--version"], ["--help"], ["trian"], []])
def test_what_needs_no_torch_does_not_wait_for_it(words: list[str]) -> None:
    code = (
        f"import json, sys; from halfsure.cli import main\ntry:\n    main({words})\nexcept SystemExit:\n    pass\n"
        "print(json.dumps([name for name in ('torch', 'numpy', 'tyro', 'joblib') if name in sys.modules]))"
    )
    assert run(code) == []


@pytest.mark.skipif(not GLIBC, reason="this C library is not glibc")
def test_freed_memory_is_kept() -> None:
    before = f"import json, os; from halfsure.cli.process import prepare_process; prepare_process(); {TELL}\n"
    assert min(run(FAULTS)) > 16 * max(1, *run(before + FAULTS))
    # And so in processes that are started from there.
    assert max(run(FAULTS, **{name: prepared()[name] for name in NAMES[1:3]})) < min(run(FAULTS)) / 16


@pytest.mark.parametrize(
    "own", [{"MALLOC_TRIM_THRESHOLD_": "1000000"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=262144"}], ids=str
)
def test_own_settings_of_memory_stay(own: dict[str, str]) -> None:
    found = prepared(**own)
    assert {name: value for name, value in found.items() if value is not None} == {"OMP_WAIT_POLICY": "passive", **own}
