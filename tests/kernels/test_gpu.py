"""The GPU's kernels where there is no GPU: in Triton's interpreter, and through its compiler down to machine code."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_in_the_interpreter() -> None:
    """In a process of its own, for Triton decides on its first import whether it compiles or interprets."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/kernels/in_interpreter.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


@pytest.mark.skipif("TRITON_INTERPRET" in os.environ, reason="where Triton interprets it does not compile")
@pytest.mark.parametrize("real", ["fp32", pytest.param("fp64", marks=pytest.mark.slow)])
def test_down_to_machine_code(real: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter takes what the compiler refuses."""
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415 it may not be installed
    from triton.compiler import ASTSource, compile  # noqa: PLC0415 the same

    from halfsure.kernels import gpu  # noqa: PLC0415 the same

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = [gpu._ads_forward, gpu._ads_backward, gpu._probs_forward, gpu._probs_backward]
    variants = [(kernel, False) for kernel in kernels]
    variants += [(kernel, soft) for kernel in (gpu._loss_forward, gpu._loss_backward) for soft in (False, True)]
    for kernel, soft in variants:
        constants = {"block": 1024, "soft": soft}
        kinds = {"block": "constexpr", "soft": "constexpr", "classes": "i32", "stride": "i32"}
        kinds["target"] = f"*{real}" if soft else "*i64"
        signature = {name: kinds.get(name, f"*{real}") for name in kernel.arg_names}
        given: dict[str, Any] = {name: constants[name] for name in signature if name in constants}
        code = compile(ASTSource(kernel, signature, given), GPUTarget("cuda", 80, 32), {"num_warps": 2}).asm
        assert code["cubin"]
