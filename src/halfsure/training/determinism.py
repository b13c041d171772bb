"""Torch as a run wants it: threads, random state, and operations that give the same bits every time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.backends import cudnn

from halfsure.training.config import MachineSettings
from halfsure.training.errors import RunError

__all__ = ["PROMISE", "require_workspace", "torch_settings"]

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
REPEATABLE = (":4096:8", ":16:8")
"""The settings of cuBLAS under which its results do not depend on timing; it reads them once, when CUDA begins."""

PROMISE = {
    "cpu": "deterministic: an operation that may differ from run to run would be refused. On the CPU there is none in "
    "halfsure: the bits are the same without, and a step takes about as long",
    "cuda": "deterministic: an operation that may differ from run to run is refused, cuDNN tries no algorithms out and "
    "cuBLAS keeps a fixed workspace: a step takes longer",
}


def require_workspace(machine: MachineSettings, device: torch.device) -> None:
    """Have cuBLAS repeat itself if the run is to be deterministic; it can be told before CUDA begins, not after."""
    if not machine.deterministic or device.type != "cuda" or os.environ.get(WORKSPACE) in REPEATABLE:
        return
    if torch.cuda.is_initialized() or WORKSPACE in os.environ:
        raise RunError(
            f"a deterministic run on a GPU needs the environment variable {WORKSPACE}={REPEATABLE[0]} from the start: "
            "set it before Python begins, or leave deterministic away"
        )
    os.environ[WORKSPACE] = REPEATABLE[0]


@contextmanager
def torch_settings(machine: MachineSettings) -> Iterator[None]:
    """Threads, determinism and the random state of torch, given back afterwards as they were."""
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    only_warns, tries = torch.is_deterministic_algorithms_warn_only_enabled(), cudnn.benchmark
    with torch.random.fork_rng():
        try:
            torch.set_num_threads(machine.threads or threads)
            if machine.deterministic:
                torch.use_deterministic_algorithms(True)
                cudnn.benchmark = False
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(strict, warn_only=only_warns)
            cudnn.benchmark = tries
