"""Random logits of every kind a network can give, and how exact a dtype is."""

import torch
from hypothesis import strategies as st
from torch import Tensor

EPS = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 1.2e-7, torch.float64: 2.3e-16}
DTYPES = tuple(EPS)


@st.composite
def logits(draw: st.DrawFn, dtypes: tuple[torch.dtype, ...] = (torch.float64,), masks: bool = True) -> Tensor:
    """(batch, classes): scales from 1e-6 to 1e8, an offset, exact ties, −inf masks that spare a class a row."""
    batch, classes = draw(st.integers(1, 4)), draw(st.integers(1, 24) | st.just(300))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    z = torch.randn(batch, classes, generator=generator, dtype=torch.float64)
    if draw(st.booleans()):  # exact ties
        z = z.mul(2).round().div(2)
    dtype = draw(st.sampled_from(dtypes))
    # Half precision ends at 65,504.
    largest = 3 if dtype == torch.float16 else 8
    z = z * 10.0 ** draw(st.integers(-6, largest)) + draw(st.sampled_from([0.0, -3.0, 10.0**largest]))
    if masks and draw(st.booleans()):
        masked = torch.rand(batch, classes, generator=generator) < 0.3
        masked[:, torch.randint(classes, (1,), generator=generator)] = False
        z = z.masked_fill(masked, -torch.inf)
    return z.to(dtype)
