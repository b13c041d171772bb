"""Accidents that training has to survive, and how to see that they left no trace."""

from typing import Any

import torch


def differences(one: Any, other: Any, tolerance: float = 0.0, at: str = "") -> list[str]:
    """Where two nested values differ, in words; with no tolerance, in a single bit. The seconds a run took may."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other} - {"seconds"}, key=str)
        missing = [f"{at}.{key} is there only once" for key in keys if (key in one) != (key in other)]
        shared = [key for key in keys if key in one and key in other]
        return missing + [
            text for key in shared for text in differences(one[key], other[key], tolerance, f"{at}.{key}")
        ]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [text for i, (a, b) in pairs for text in differences(a, b, tolerance, f"{at}[{i}]")]
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        alike = one.dtype == other.dtype and one.shape == other.shape
        far = (one.double() - other.double()).abs().max().item() if alike and one.numel() else 0.0
        return [] if alike and (torch.equal(one, other) or far <= tolerance) else [f"{at} differs by {far:.1e}"]
    if isinstance(one, float) and isinstance(other, float):
        return [] if one == other or abs(one - other) <= tolerance else [f"{at}: {one!r} and {other!r}"]
    return [] if type(one) is type(other) and one == other else [f"{at}: {one!r} and {other!r}"]
