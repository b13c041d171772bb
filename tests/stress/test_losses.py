"""Every loss and its gradient is finite for finite logits, however extreme, in every precision, by both codes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halfsure import ADS, MinEntropy, NegativeSampling, PseudoLabel, Sharpening, TopM
from halfsure.algorithms.distances import DISTANCES
from halfsure.simplex import get_map, widen
from tests.codes import code  # noqa: F401 - a fixture for the whole module

MAPS = ("softmax", "sparsemax", "entmax1.5", "entmax1.01")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@st.composite
def extremes(draw: st.DrawFn) -> Tensor:
    """Logits from below the normal numbers to nearly half the largest, two of which still have a finite distance."""
    dtype = draw(st.sampled_from(DTYPES))
    # Half precision is computed in float32, but a loss of its largest numbers has to fit in it again.
    most, least = 0.49 * torch.finfo(dtype).max, torch.finfo(dtype).tiny / 8
    usual = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-4, 1e4, -1e4, 1e20, 1e37, most, -most, most / 2, least, -least])
    number = usual | st.floats(-most, most) | st.floats(-5, 5)
    classes = draw(st.sampled_from([1, 2, 3, 5]))
    values = draw(st.lists(st.lists(number, min_size=classes, max_size=classes), min_size=0, max_size=4))
    return torch.tensor(values, dtype=torch.float64).reshape(-1, classes).clamp(-most, most).to(dtype)


def check(losses: Tensor, logits: Tensor, name: str) -> None:
    assert losses.shape == logits.shape[:1], name
    assert bool(losses.isfinite().all()), f"{name}: {losses.tolist()}"
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert bool(gradient.isfinite().all()), f"{name}: {gradient.tolist()}"


@pytest.mark.parametrize("map", MAPS)
@given(logits=extremes(), seed=st.integers(0, 99))
@settings(max_examples=settings().max_examples // 2)  # each takes long
def test_finite_logits_give_finite_losses_and_gradients(map: str, logits: Tensor, seed: int) -> None:
    logits.requires_grad_()
    classes = logits.shape[-1]
    for strategy in (
        *(MinEntropy(map), Sharpening(map=map), Sharpening(1e-3, map), PseudoLabel(map=map), PseudoLabel(0.0, map)),
        *(NegativeSampling(map=map), ADS(map=map), ADS(3.0, map), ADS(50.0, map), TopM(min(2, classes), map=map)),
    ):
        check(strategy.losses(logits), logits, repr(strategy))
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, logits.shape[:1], generator=draw)
    soft = torch.rand(logits.shape, generator=draw).softmax(-1)
    check(get_map(map).loss(logits, labels), logits, "class indices")
    check(get_map(map).loss(logits, soft.to(logits.dtype)), logits, "soft targets")
    for name, distance in DISTANCES.items():
        wide = widen(logits)
        check(distance(get_map(map), wide, soft.to(wide.dtype)), logits, name)
