"""What can go wrong with a run, and what a person is warned of."""

__all__ = ["BrokenError", "CollapseWarning", "RunError", "StoppedError"]


class RunError(Exception):
    """What is wrong with a run or its folder, in a sentence."""


class BrokenError(RunError):
    """A run that could not go on: its numbers were lost, or it could not be saved. What was saved before is whole."""


class StoppedError(RunError):
    """A signal asked the run to stop; what it did so far is saved."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


class CollapseWarning(UserWarning):
    """Classes have died out, or were never learnt: the model does not predict them."""
