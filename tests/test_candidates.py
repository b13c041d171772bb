"""Sets of a given mean size: what benchmarks/candidates.py compares models by."""

import candidates
import pytest
import torch
from torch import Tensor


def table(seed: int, n: int = 60, classes: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, classes, generator=generator), torch.randint(classes, (n,), generator=generator)


def naive(logits: Tensor, labels: Tensor, size: float) -> float:
    """Widen the gap, one class of one sample at a time, as long as sets are small enough."""
    rows = logits.double().tolist()
    found = [{max(range(len(row)), key=row.__getitem__)} for row in rows]
    steps = sorted((max(row) - z, i, k) for i, row in enumerate(rows) for k, z in enumerate(row) if k not in found[i])
    for _, i, k in steps:
        if sum(map(len, found)) + 1 > size * len(rows):
            break
        found[i].add(k)
    return sum(label not in own for label, own in zip(labels.tolist(), found, strict=True)) / len(rows)


@pytest.mark.parametrize("size", [1.0, 1.1, 1.5, 2.0, 3.0, 4.9])
@pytest.mark.parametrize("seed", range(5))
def test_sets_equal_those_that_grow_one_class_at_a_time(seed: int, size: float) -> None:
    logits, labels = table(seed)
    assert candidates.missed(logits, labels, size) == pytest.approx(naive(logits, labels, size))


def test_no_temperature_and_no_offset_changes_what_is_missed() -> None:
    logits, labels = table(9)
    moved = 0.25 * logits.double() + torch.arange(60).unsqueeze(-1)
    for size in candidates.SIZES:
        assert candidates.missed(moved, labels, size) == candidates.missed(logits, labels, size)


def test_sets_of_one_miss_what_the_prediction_does_and_larger_ones_less() -> None:
    logits, labels = table(7)
    found = [candidates.missed(logits, labels, size) for size in (1.0, *candidates.SIZES, 4.0)]
    assert found[0] == pytest.approx((logits.argmax(-1) != labels).double().mean().item())
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]
