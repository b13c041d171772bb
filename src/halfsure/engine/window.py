"""Loss terms and diagnostics, averaged over the steps since the last evaluation."""

import torch

from halfsure.algorithms import Losses, Objective
from halfsure.engine.ranks import Ranks

__all__ = ["Window"]


class Window:
    """Means over the steps since the last evaluation."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}

    def add(self, terms: Objective, losses: Losses) -> None:
        """Take a step in."""
        for name in ("total", "supervised", "consistency", "distillation"):
            self._add(name, float(getattr(terms, name).detach()), 1)
        for name, values in losses.diagnostics.items():
            self._add(name, float(values.sum()), len(values))

    def means(self, ranks: Ranks) -> dict[str, float]:
        """The means over all ranks; the window is empty afterwards."""
        names, sums = list(self._sums), list(self._sums.values())
        self._sums = {}
        averaged = ranks.average(torch.tensor(sums, dtype=torch.float64)).tolist()
        return {name: total / count if count else 0.0 for name, (total, count) in zip(names, averaged, strict=True)}

    def state(self) -> dict[str, list[float]]:
        """Sums and counts."""
        return {name: list(sums) for name, sums in self._sums.items()}

    def restore(self, state: dict[str, list[float]]) -> None:
        """Go on from a state."""
        self._sums = {name: list(sums) for name, sums in state.items()}

    def _add(self, name: str, total: float, count: int) -> None:
        sums = self._sums.setdefault(name, [0.0, 0.0])
        sums[0] += total
        sums[1] += count
