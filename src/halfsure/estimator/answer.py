"""Did the unlabeled data help? The answer of a fit, with its interval, in words and numbers."""

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import torch

from halfsure.trust import paired_interval, temperature_note, wilson
from halfsure.verdict.folds import Fold

__all__ = ["FallbackWarning", "Report", "make_report", "warn_of_fallback"]

WIDE = 0.2
"""An interval of more than so many points from end to end says little."""


class FallbackWarning(UserWarning):
    """The unlabeled data hurt, beyond doubt: the supervised model was kept."""


@dataclass(frozen=True)
class Report:
    """What a fit found out about itself, by cross-validation over the labels."""

    method: str
    """The method of the model that was kept."""
    why: str
    """Why it was chosen."""
    labels: int
    unlabeled: int
    folds: int
    """How many parts of the labels were held out in turn; 0 if nothing was checked."""
    accuracy: float | None
    """Of held-out labels, by models trained without them."""
    interval: tuple[float, float] | None
    """Where that accuracy lies, at 95 % confidence (Wilson)."""
    supervised: float | None
    """Accuracy of the same network on the same labels, without the unlabeled samples."""
    difference: dict[str, Any] | None
    """Accuracy with unlabeled samples minus without: mean, low, high, n (Bonett and Price)."""
    fell_back: bool
    """Whether the unlabeled data hurt, so that the supervised model was kept."""
    alone: str = "labels alone"
    """What the supervised baseline had: of texts also rows that all texts, the unlabeled ones too, had a part in."""
    temperature: float = 1.0
    """What the logits are divided by; at the end of its range, 0.1 or 10, the report says what that means."""

    @property
    def helped(self) -> bool | None:
        """True or False where the interval leaves no doubt, None where it holds zero or nothing was checked."""
        if self.difference is None or self.difference["low"] <= 0 <= self.difference["high"]:
            return None
        return bool(self.difference["mean"] > 0)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"helped": self.helped}

    def __str__(self) -> str:
        """The answer in a few sentences."""
        lines = [f"{self.method}: {self.why}."]
        if self.accuracy is None or self.interval is None:
            lines.append("Nothing was checked: no labels were held out.")
            return "\n".join(lines)
        low, high = self.interval
        lines.append(
            f"Accuracy on held-out labels: {_percent(self.accuracy)} [{_percent(low)}, {_percent(high)}], "
            f"from {self.labels} labels and {self.unlabeled:,} unlabeled samples."
        )
        if self.difference is not None and self.supervised is not None:
            lines.append(f"Did the unlabeled samples help? {self._verdict()}")
        if note := temperature_note(self.temperature):
            lines.append(note)
        return "\n".join(lines)

    def _verdict(self) -> str:
        assert self.difference is not None
        assert self.supervised is not None
        low, high = self.difference["low"], self.difference["high"]
        found = f"with them {_percent(self.supervised + self.difference['mean'])}, " if self.fell_back else ""
        found += (
            f"{self.alone} give {_percent(self.supervised)}, a difference of {100 * self.difference['mean']:+.1f} "
            f"points [{100 * low:+.1f}, {100 * high:+.1f}]"
        )
        wide = f"; with {self.difference['n']} labels that interval is wide" if high - low > WIDE else ""
        if self.helped is None:
            return f"It cannot be said: {found}{wide}."
        return f"{'Yes' if self.helped else 'No, they hurt'}: {found}{wide}."


def make_report(
    method: str, why: str, *, labels: int, unlabeled: int, folds: list[Fold], baseline: list[Fold], learnt: bool = False
) -> Report:
    """Put the answer together from the folds of the method and of its supervised baseline.

    `learnt` says that the rows themselves were learnt from all samples, as those of texts are.
    """
    if not folds:
        return Report(method, why, labels, unlabeled, 0, None, None, None, None, fell_back=False)
    right = torch.cat([fold.right for fold in folds])
    alone = torch.cat([fold.right for fold in baseline]) if baseline else None
    difference = None if alone is None else paired_interval(alone, right)
    hurt = difference is not None and difference["high"] < 0
    kept = alone if hurt and alone is not None else right
    return Report(
        "supervised" if hurt else method,
        f"{method} was tried and hurt" if hurt else why,
        labels,
        unlabeled,
        len(folds),
        float(kept.double().mean()),
        wilson(int(kept.sum()), len(kept)),
        None if alone is None else float(alone.double().mean()),
        difference,
        fell_back=hurt,
        alone="labels alone, on rows learnt from all samples," if learnt else "labels alone",
    )


def warn_of_fallback(method: str, report: Report) -> None:
    """Tell whoever called `fit` that another method's model was kept."""
    assert report.difference is not None
    worse, low, high = (-100 * report.difference[name] for name in ("mean", "high", "low"))
    warnings.warn(
        f"{method} did worse than labels alone on held-out labels, by {worse:.1f} points [{low:.1f}, {high:.1f}]: the "
        "supervised model is kept",
        FallbackWarning,
        stacklevel=4,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
