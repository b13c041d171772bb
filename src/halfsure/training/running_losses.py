"""Loss terms and diagnostics, averaged over the steps since the last evaluation."""

import torch
from torch import Tensor

from halfsure.algorithms import Losses, Objective
from halfsure.training.ranks import Ranks

__all__ = ["TOTAL", "RunningLosses"]

TOTAL = "total"


class RunningLosses:
    """Means over the steps since the last evaluation.

    The numbers of a step stay on their device until they are read: to read one makes the host wait for all that the
    device has still to do.
    """

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}
        self._unread: list[tuple[dict[str, tuple[Tensor, int]], int]] = []

    @property
    def unread(self) -> int:
        """The number of steps that were not read yet."""
        return len(self._unread)

    def add(self, terms: Objective, losses: Losses) -> None:
        """Take a step in."""
        step = {name: (value.detach(), 1) for name, value in {TOTAL: terms.total, **terms.terms}.items()}
        step |= {name: (values.sum(), len(values)) for name, values in losses.diagnostics.items()}
        self._unread.append((step, len(terms.terms) + 1))

    def read(self) -> list[dict[str, float]]:
        """The loss terms of the steps that were not read yet, by one look at the device."""
        unread, self._unread = self._unread, []
        if not unread:
            return []
        numbers = iter(torch.stack([value for step, _ in unread for value, _ in step.values()]).tolist())
        found = []
        for step, terms in unread:
            totals = {name: next(numbers) for name in step}
            for name, (_, count) in step.items():
                self._add(name, totals[name], count)
            found.append(dict(list(totals.items())[:terms]))
        return found

    def means(self, ranks: Ranks) -> dict[str, float]:
        """The means over all ranks; the window is empty afterwards."""
        self.read()
        names, sums = list(self._sums), list(self._sums.values())
        self._sums = {}
        averaged = ranks.average(torch.tensor(sums, dtype=torch.float64)).tolist()
        return {name: total / count if count else 0.0 for name, (total, count) in zip(names, averaged, strict=True)}

    def state(self) -> dict[str, list[float]]:
        """Sums and counts."""
        self.read()
        return {name: list(sums) for name, sums in self._sums.items()}

    def restore(self, state: dict[str, list[float]]) -> None:
        """Go on from a state."""
        self._sums, self._unread = {name: list(sums) for name, sums in state.items()}, []

    def _add(self, name: str, total: float, count: int) -> None:
        sums = self._sums.setdefault(name, [0.0, 0.0])
        sums[0] += total
        sums[1] += count
