"""Logits and labels → what a run is judged by: errors, calibration, candidates, pseudo-labels, collapse.

Every result is plain JSON: int, float, list, dict, and None for a measure that has no value, such as the error of no
sample at all. NaN and infinities never occur. Sums are rounded once, at their end (`math.fsum`), so that no measure
depends on the order the samples come in.

A label of −1 is unknown. Its sample is left out of what needs the label and counts in everything else.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from halfsure._checks import check_count, check_logits, check_number, check_real
from halfsure.simplex import SOFTMAX, SPARSEMAX, Map, fenchel_young
from halfsure.targets import Target

__all__ = ["dead_classes", "last_median", "paired_difference", "pseudo_labels", "score"]

TENTHS = [tenth / 10 for tenth in range(1, 10)]
"""The inner edges of the histogram's bins."""

FEW = 5
"""Below this expected count, a class that is never predicted may be chance."""

ENTRIES = 2**17
"""How many logits are looked at in one go: a dozen float64 copies of them, 1 MB each, are best kept near the core."""


def score(logits: Tensor, labels: Tensor, map: Map, *, bins: int = 15) -> dict[str, Any]:
    """Measure predictions, in float64. Logits (n, classes) and labels (n,) → a dictionary.

    Labels are class indices or −1. The prediction is the largest logit, of equal ones the first; p is `map(logits)`.

    Of all samples:

    - `samples`, and `labeled`: how many there are, and how many of them have a label.
    - `predicted`: how often each class is the prediction.
    - `dominant`: mean of max p; `softmax_dominant`: the same, read through softmax.
    - `support`: mean number m of a sample's candidates, the classes with p > 0. In softmax that is every class whose
      probability does not underflow, hence `sparse_support`: the same, read through sparsemax.
    - `histogram`: how many of the n · classes entries of p lie in [0, .1), [.1, .2) … [.9, 1].

    Of the samples with a label:

    - `error`, and `class_error`, by true class: the share of wrong predictions.
    - `brier`: mean of Σ(p − y)², from 0 to 2.
    - `loss`: mean Fenchel–Young loss of the map; `softmax_nll`: that of softmax, the cross-entropy.
    - `reliability`: for each of `bins` equal parts (lower, upper] of the unit interval, the `count` of samples whose
      max p falls there, their mean `confidence` max p and their `accuracy`.
    - `ece`: mean distance of confidence and accuracy over those bins, weighted by count; `softmax_ece`: the same,
      read through softmax.
    - `ece_equal_mass`: the same over samples sorted by max p and cut into `bins` parts whose counts differ by at most
      one. Samples of equal max p share their mean accuracy, so it does not matter which of them a cut separates.
    - `dominant_right`, `dominant_wrong`: mean of max p where the prediction is the label, and where it is not.
    - `top_m_accuracy`: how often the true class is among the sample's own m candidates; `sparse_top_m_accuracy`: the
      same, read through sparsemax, in which models of any map can be compared.

    A loss too large for a float is None as well.

    Examples:
        >>> import torch
        >>> from halfsure.metrics import score
        >>> from halfsure.simplex import SPARSEMAX
        >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.5, 0.0, -2.0]])
        >>> result = score(logits, torch.tensor([0, 2, -1]), SPARSEMAX)
        >>> result["samples"], result["labeled"], result["error"], result["top_m_accuracy"]
        (3, 2, 0.5, 1.0)
        >>> result["support"], result["predicted"], result["class_error"]
        (2.0, [2, 1, 0], [0.0, None, 1.0])
    """
    check_logits(logits)
    _check_labels(labels, *logits.shape)
    bins = check_count("bins", bins, 1)
    _refuse_rows("rows of logits", ~logits.isfinite().all(-1), "the model has diverged, or classes are masked by −inf")

    n, classes = logits.shape
    labels = labels.detach().cpu().long()
    column = _columns(logits.detach(), labels, map)
    known = labels >= 0
    right = known & (column["best"] == labels)
    reliability = _reliability(column["dominant"][known], right[known], bins)
    return {
        "samples": n,
        "labeled": int(known.sum()),
        "error": _mean(~right[known]),
        "brier": _mean(column["brier"][known]),
        "ece": _calibration_error(reliability),
        "ece_equal_mass": _equal_mass_error(column["dominant"][known], right[known], bins),
        "loss": _mean(column["loss"][known]),
        "reliability": reliability,
        "softmax_nll": _mean(column["softmax_nll"][known]),
        "softmax_ece": _calibration_error(_reliability(column["softmax_dominant"][known], right[known], bins)),
        "dominant": _mean(column["dominant"]),
        "dominant_right": _mean(column["dominant"][right]),
        "dominant_wrong": _mean(column["dominant"][known & ~right]),
        "softmax_dominant": _mean(column["softmax_dominant"]),
        "support": _mean(column["support"]),
        "top_m_accuracy": _mean(column["top_m"][known]),
        "sparse_support": _mean(column["sparse_support"]),
        "sparse_top_m_accuracy": _mean(column["sparse_top_m"][known]),
        "histogram": column["histogram"].sum(0).tolist(),
        "predicted": _count(column["best"], classes),
        "class_error": _shares(_count(labels[known & ~right], classes), _count(labels[known], classes)),
    }


def pseudo_labels(targets: Target, labels: Tensor) -> dict[str, Any]:
    """Compare targets with labels that training did not see, class by class. (batch, classes), (batch,) → a dictionary.

    A sample takes part if its weight is above 0; what its target names is the most probable class, of equal ones the
    first.

    - `coverage`: the share of all samples that take part.
    - `precision`: the share of those, as far as their label is known, whose target names it.
    - `by_class`: lists over the classes. `count`: how many targets name the class; `precision`: how many of these are
      right; `coverage`: how many samples of the class take part, whatever their target names; `correct`: how many
      samples of the class take part with the right target. All but `count` are shares of samples with a known label.

    Examples:
        >>> import torch
        >>> from halfsure import PseudoLabel
        >>> from halfsure.metrics import pseudo_labels
        >>> targets = PseudoLabel(0.9).target(torch.tensor([[5.0, 0.0], [5.0, 0.0], [0.0, 1.0]]))
        >>> pseudo_labels(targets, torch.tensor([0, 1, 1]))["precision"]
        0.5
        >>> pseudo_labels(targets, torch.tensor([0, 1, 1]))["by_class"]["coverage"]
        [1.0, 0.5]
    """
    probs, weight = targets
    check_real("target probabilities", probs)
    if probs.ndim != 2 or weight.shape != probs.shape[:1]:
        raise ValueError(
            "targets must be probabilities (batch, classes) and weights (batch,), "
            f"got {tuple(probs.shape)} and {tuple(weight.shape)}"
        )
    _check_labels(labels, *probs.shape)
    # PseudoLabel gives a NaN prediction the weight 0: such a row says nothing and does no harm.
    broken = weight.isnan() | (weight > 0) & ~probs.isfinite().all(-1)
    _refuse_rows("targets with a weight", broken, "the model that gave them has diverged")

    n, classes = probs.shape
    named = probs.detach().argmax(-1).cpu()
    labels = labels.detach().cpu().long()
    active = (weight.detach() > 0).cpu()
    known = labels >= 0
    right = active & known & (named == labels)
    right_count = _count(labels[right], classes)
    in_class = _count(labels[known], classes)
    return {
        "coverage": _share(int(active.sum()), n),
        "precision": _share(int(right.sum()), int((active & known).sum())),
        "by_class": {
            "count": _count(named[active], classes),
            "precision": _shares(right_count, _count(named[active & known], classes)),
            "coverage": _shares(_count(labels[active & known], classes), in_class),
            "correct": _shares(right_count, in_class),
        },
    }


def dead_classes(predicted: Sequence[int], expected: Sequence[float], share: float = 0.1) -> list[int]:
    """Find the classes that a collapsed model has given up: predicted less than `share` of how often they should be.

    `predicted` counts predictions and `expected` gives the classes' shares, on any scale. A class that so few samples
    should hold fewer than five times is never called dead.

    Examples:
        >>> from halfsure.metrics import dead_classes
        >>> dead_classes([70, 2, 28], [1, 1, 1])
        [1]
        >>> dead_classes([10, 0], [0.6, 0.4])
        []
    """
    share = check_number("share", share, 0, 1)
    if len(predicted) != len(expected):
        raise ValueError(
            f"predicted and expected must name the same classes, got {len(predicted)} counts and {len(expected)} shares"
        )
    counts = [check_number("a count of predictions", count, 0) for count in predicted]
    shares = [check_number("an expected share", value, 0) for value in expected]
    total = math.fsum(shares)
    if shares and total == 0:
        raise ValueError("the expected shares must not all be 0; give a number above 0 for each class that occurs")
    samples = math.fsum(counts)
    due = [samples * value / total for value in shares]
    return [k for k, count in enumerate(counts) if due[k] >= FEW and count < share * due[k]]


def paired_difference(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> dict[str, Any]:
    """Mean of b − a over seeds, with its Student-t interval. Two sequences, pair by pair → a dictionary.

    `mean`, `low`, `high`, the number of pairs `n`, and `sd`, the standard deviation of the differences. One pair says
    nothing about its spread: `low`, `high` and `sd` are then None, and without any pair so is `mean`.

    Examples:
        >>> from halfsure.metrics import paired_difference
        >>> result = paired_difference([5.0, 6.0, 7.0], [4.5, 5.0, 6.3])
        >>> {name: round(value, 3) for name, value in result.items()}
        {'mean': -0.733, 'low': -1.358, 'high': -0.108, 'n': 3, 'sd': 0.252}
    """
    confidence = check_number("confidence", confidence, 0, 1)
    if confidence == 1:
        raise ValueError("confidence must be below 1: nothing short of the whole line is certain to hold the mean")
    if len(a) != len(b):
        raise ValueError(f"a and b must be paired, one value a seed, got {len(a)} and {len(b)} values")
    differences = [float(after) - float(before) for before, after in zip(a, b, strict=True)]
    for pair, difference in enumerate(differences):
        if not math.isfinite(difference):
            raise ValueError(f"pair {pair} has no finite difference: a = {a[pair]!r}, b = {b[pair]!r}")
    n = len(differences)
    if n < 2:
        return {"mean": differences[0] if n else None, "low": None, "high": None, "n": n, "sd": None}

    from scipy.special import stdtrit  # noqa: PLC0415  the quantile alone: scipy.stats takes a second to import

    mean = math.fsum(differences) / n
    sd = statistics.stdev(differences)
    margin = float(stdtrit(n - 1, (1 + confidence) / 2)) * sd / math.sqrt(n)
    return {"mean": mean, "low": mean - margin, "high": mean + margin, "n": n, "sd": sd}


def last_median(values: Sequence[float | None], k: int) -> float | None:
    """Median of the last k values that are not None; of all of them if there are fewer, None if there are none.

    Examples:
        >>> from halfsure.metrics import last_median
        >>> last_median([0.9, 0.2, None, 0.4, 0.3], k=3)
        0.3
    """
    present = [float(value) for value in values if value is not None][-check_count("k", k, 1) :]
    if not all(map(math.isfinite, present)):
        raise ValueError(f"the last {k} values must be finite to have a median, got {present}; put None for a gap")
    return statistics.median(present) if present else None


def _columns(logits: Tensor, labels: Tensor, map: Map) -> dict[str, Tensor]:
    """What each sample adds to the measures, a few thousand samples at a time. (n, classes), (n,) → columns (n, …)."""
    size = max(1, ENTRIES // logits.shape[-1])
    parts = [
        _columns_of_part(some.cpu().double(), theirs, map)
        for some, theirs in zip(logits.split(size), labels.split(size), strict=True)
    ]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _columns_of_part(logits: Tensor, labels: Tensor, map: Map) -> dict[str, Tensor]:
    probs, soft = map(logits), SOFTMAX(logits)
    sparse = probs if map == SPARSEMAX else SPARSEMAX(logits)
    truth = labels.clamp(min=0)  # an unknown label may stand for any class here: the caller drops what it gives
    index = truth.unsqueeze(-1)
    bins = torch.bucketize(probs, torch.tensor(TENTHS, dtype=probs.dtype), right=True)  # lower ≤ p < upper
    return {
        "best": logits.argmax(-1),
        "brier": (probs - torch.zeros_like(probs).scatter(-1, index, 1)).square().sum(-1),
        "loss": fenchel_young(map, logits, probs, truth),
        "softmax_nll": F.cross_entropy(logits, truth, reduction="none"),
        "dominant": probs.amax(-1),
        "softmax_dominant": soft.amax(-1),
        "support": (probs > 0).sum(-1),
        "sparse_support": (sparse > 0).sum(-1),
        "top_m": probs.gather(-1, index).squeeze(-1) > 0,
        "sparse_top_m": sparse.gather(-1, index).squeeze(-1) > 0,
        "histogram": bins.flatten().bincount(minlength=10).unsqueeze(0),  # one row a part, to be added up
    }


def _reliability(confidence: Tensor, right: Tensor, bins: int) -> list[dict[str, Any]]:
    """Confidence and accuracy in equal parts (lower, upper] of the unit interval. (labeled,), (labeled,) → a table."""
    edges = [edge / bins for edge in range(bins + 1)]
    place = torch.bucketize(confidence, torch.tensor(edges[1:-1], dtype=confidence.dtype))  # lower < p ≤ upper
    counts, order = _count(place, bins), place.argsort()
    groups = zip(confidence[order].split(counts), right[order].split(counts), strict=True)
    return [
        {
            "lower": edges[b],
            "upper": edges[b + 1],
            "count": counts[b],
            "confidence": _mean(confidences),
            "accuracy": _mean(hits),
        }
        for b, (confidences, hits) in enumerate(groups)
    ]


def _calibration_error(reliability: list[dict[str, Any]]) -> float | None:
    filled = [row for row in reliability if row["count"]]
    gaps = math.fsum(row["count"] * abs(row["confidence"] - row["accuracy"]) for row in filled)
    return gaps / sum(row["count"] for row in filled) if filled else None


def _equal_mass_error(confidence: Tensor, right: Tensor, bins: int) -> float | None:
    """Calibration error over bins of equal count; equal confidences share their accuracy. (labeled,) → a number."""
    levels, level, counts = confidence.unique(return_inverse=True, return_counts=True)
    accuracy = level.bincount(weights=right.double(), minlength=len(levels)) / counts
    gaps = (levels - accuracy).repeat_interleave(counts)  # sorted by confidence, as `unique` gives it
    total = math.fsum(abs(math.fsum(part.tolist())) for part in gaps.tensor_split(bins))
    return total / len(gaps) if len(gaps) else None


def _mean(values: Tensor) -> float | None:
    """Mean of a column, None if it is empty or not a finite number. (rows,) → a number."""
    if values.numel() == 0 or not values.isfinite().all():
        return None
    try:
        return math.fsum(values.tolist()) / len(values)
    except OverflowError:
        return None


def _count(classes: Tensor, number: int) -> list[int]:
    """How often each class occurs. (rows,) → (classes,)."""
    counts: list[int] = classes.bincount(minlength=number).tolist()
    return counts


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _shares(parts: list[int], wholes: list[int]) -> list[float | None]:
    return [_share(part, whole) for part, whole in zip(parts, wholes, strict=True)]


def _check_labels(labels: Tensor, batch: int, classes: int) -> None:
    if not isinstance(labels, Tensor):
        raise TypeError(f"labels must be a torch.Tensor, got {type(labels).__name__}; try torch.as_tensor(...)")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"labels must be integers, got {labels.dtype}; convert them with .long()")
    if labels.shape != (batch,):
        raise ValueError(f"labels must be ({batch},), one a sample, got {tuple(labels.shape)}")
    labels = labels.long()  # in a small integer type the number of classes itself may wrap
    if not ((labels >= -1) & (labels < classes)).all():
        raise ValueError(
            f"labels must lie in −1 … {classes - 1}, −1 being unknown, got {labels.min()} … {labels.max()}"
        )


def _refuse_rows(name: str, bad: Tensor, why: str) -> None:
    if bad.any():
        rows = bad.nonzero().flatten()
        raise ValueError(f"{len(rows)} of {len(bad)} {name} are not finite, the first is row {int(rows[0])}; {why}")
