"""Which method for which data, by what was measured, and for how long."""

from dataclasses import dataclass
from typing import Any

from halfsure.data import Data

__all__ = ["Choice", "choose", "usual_steps"]

AUTO = "auto"


@dataclass(frozen=True)
class Choice:
    """A method, settings that go with it, and why it was chosen."""

    method: str
    why: str
    settings: dict[str, Any]


def choose(data: Data) -> Choice:
    """The method for this kind of data; docs/choosing.md has the measurements."""
    if len(data.seen) <= len(data.labeled):
        return Choice("supervised", "every sample is labeled, so there is nothing else to learn from", {})
    shares = {"prior": "labels"}
    if data.kind == "image":
        return Choice("fixmatch-ads", "ahead of FixMatch on MNIST and digits with few labels", shares)
    if data.texts:
        return Choice(
            "fixmatch-ads", "close to the best on AG News with few labels, and far ahead of labels alone", shares
        )
    return Choice("fixmatch-ads", "on rows of numbers it fell apart nowhere, as others did", shares)


def usual_steps(data: Data) -> int:
    """A number of steps that grows with the data: 60 for a hundred samples, at most 600 for images, 1,000 else."""
    return min(max(6 * len(data.seen) // 10, 60), 600 if data.kind == "image" else 1000)
