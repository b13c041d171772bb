"""Random samples with known truth, for the tests of this folder."""

import torch
from hypothesis import strategies as st
from torch import Tensor

from halfsure.simplex import SOFTMAX, SPARSEMAX, get_map

MAPS = [SOFTMAX, get_map("entmax1.5"), SPARSEMAX]
NAN, INF = float("nan"), float("inf")


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=generator(seed), dtype=torch.float64)


def random_labels(n: int, classes: int, seed: int = 1) -> Tensor:
    return torch.randint(classes, (n,), generator=generator(seed))


def drawn(probs: Tensor, seed: int) -> Tensor:
    """A class for each row, drawn by its probabilities. (n, K) → (n,)."""
    return torch.multinomial(probs, 1, generator=generator(seed)).squeeze(-1)


@st.composite
def tables(draw: st.DrawFn, fewest: int = 0) -> tuple[Tensor, Tensor]:
    """(logits, labels), exact ties and all scales among them."""
    n, classes, seed = draw(st.integers(fewest, 30)), draw(st.integers(1, 6)), draw(st.integers(0, 2**31))
    logits = randn(n, classes, seed=seed)
    if draw(st.booleans()):
        logits = logits.mul(2).round().div(2)
    return logits * draw(st.sampled_from([0.1, 1.0, 4.0, 100.0])), random_labels(n, classes, seed + 1)
