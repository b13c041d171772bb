"""Samples → logits, a batch at a time."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from halfsure.simplex import widen
from halfsure.training.ranks import Ranks
from halfsure.views.preprocessing import Preprocessing

__all__ = ["logits_of"]


def logits_of(
    model: nn.Module,
    samples: NDArray[Any],
    preprocessing: Preprocessing,
    *,
    batch: int,
    ranks: Ranks | None = None,
    chosen: NDArray[np.int64] | None = None,
) -> Tensor:
    """Logits on the CPU of all samples or those chosen, a batch at a time, shared out over ranks. → (n, classes)."""
    ranks = ranks or Ranks()
    like = next(iter(model.parameters()))
    wanted = np.arange(len(samples)) if chosen is None else chosen
    mine = wanted[ranks.rank :: ranks.size]
    found = []
    with torch.inference_mode():
        for start in range(0, max(len(mine), 1), batch):
            part = samples[mine[start : start + batch]]
            found.append(widen(model(preprocessing(part).to(like.device, like.dtype))))
        return ranks.gather(torch.cat(found), len(wanted)).cpu()
