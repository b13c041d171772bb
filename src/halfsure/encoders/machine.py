"""What this machine calculates fast with."""

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

__all__ = ["fast_bfloat16", "has_onnx", "onnx_session"]


@cache
def fast_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 by itself; others do it slower than float32."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def has_onnx() -> bool:
    """Whether graphs can be written and run."""
    return all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))


def onnx_session(graph: Callable[[], bytes]) -> Any:
    """A session of onnxruntime for a graph, with as many threads as torch has; None where it is not installed."""
    if not has_onnx():
        return None
    import onnxruntime  # noqa: PLC0415 - an extra

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Threads that wait for work spin, and take the time of others.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    return onnxruntime.InferenceSession(graph(), options, providers=["CPUExecutionProvider"])
