"""Which method for which data, by what was measured, and what goes with it."""

from dataclasses import dataclass
from typing import Any

from halfsure.data import Data
from halfsure.data.dataset import Text

__all__ = ["AUTO", "SHARES", "Choice", "choose"]

AUTO = "auto"
SHARES = "auto also holds its targets to the class shares of the labels (prior)"
"""What is said where the settings of a choice are taken over."""


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
    if any(hasattr(one, "view") for one in data.encoded):
        return Choice("supervised", "on photographs through an encoder labels alone were ahead of FixMatch", {})
    if any(isinstance(one, Text) for one in data.encoded):
        return Choice(
            "fixmatch-ads", "close to the best on AG News with few labels, and far ahead of labels alone", shares
        )
    return Choice("fixmatch-ads", "on rows of numbers it fell apart nowhere, as others did", shares)
