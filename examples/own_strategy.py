"""A strategy of one's own, in a file of its own: a setting, running state, and nothing else to touch.

It sharpens as hard as the model has become sure: the power rises from 1 to `most` with the running mean confidence.

    python examples/own_strategy.py
    halfsure compare digits --parts examples/own_strategy.py --methods fixmatch-sh,fixmatch-warm --warm-most 4
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

import halfsure
from halfsure.settings import Between, Settings
from halfsure.targets import Seen, Strategy, sharpen


@dataclass(frozen=True)
class WarmSettings(Settings):
    """What the strategy can be told; it is an option of `halfsure train` at once."""

    warm_most: Annotated[float, Between(1)] = 3.0
    """Power of the sharpening once the model is sure."""


@halfsure.register
class Warm(Strategy):
    """Towards p^r, r rising with the running confidence."""

    name = "warm"
    about = "warm sharpening: harder as the model becomes sure"
    Settings = WarmSettings

    def __init__(self, warm_most: float = WarmSettings.warm_most, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]  # map and gate
        self.warm_most = WarmSettings(warm_most).warm_most
        self.confidence: Tensor
        self.register_buffer("confidence", torch.zeros(()))  # saved, moved and resumed by itself

    def observe(self, probs: Tensor, seen: Seen) -> None:
        """Once per training step, with the samples of all ranks; never at evaluations."""
        super().observe(probs, seen)
        self.confidence.lerp_(probs.amax(-1).mean().to(self.confidence), 0.05)

    def goal(self, probs: Tensor) -> Tensor:
        """(batch, classes) → (batch, classes)."""
        return sharpen(probs, 1 + (self.warm_most - 1) * float(self.confidence))


if __name__ == "__main__":
    from halfsure.data import load

    run = halfsure.fit(None, load("digits", labels=40), "fixmatch-warm", warm_most=4.0, steps=200)
    print(f"{run.settings['method']}: test error {100 * run.metrics[-1]['test']['error']:.1f} %")
