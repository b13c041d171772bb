"""ADS's own reading of "leave sure predictions alone", as a gate."""

from torch import Tensor

from halfsure.settings import register
from halfsure.simplex import SOFTMAX, Map
from halfsure.targets.gate import Gate

__all__ = ["Informed"]


@register
class Informed(Gate):
    """A sample counts while its prediction still has several candidates: a single one says all there is to say.

    Examples:
        >>> import torch
        >>> from halfsure.targets.gates import Informed
        >>> Informed().weigh(torch.tensor([[1.0, 0.0], [0.6, 0.4]]))
        tensor([0., 1.])
    """

    name = "informed"
    about = "counts where the sparse prediction has more than one candidate"

    def suits(self, map: Map) -> None:
        """In softmax every class is a candidate of every sample, so nothing would ever be left alone."""
        if map == SOFTMAX:
            raise ValueError(
                "the gate informed leaves samples with a single candidate alone, and in softmax none has: use it in a "
                "sparse map, such as fixmatch-ads~informed or fixmatch@sparsemax-sh~informed"
            )

    def weigh(self, probs: Tensor) -> Tensor:
        """1 where more than one probability is not zero. (m, classes) → (m,)."""
        return ((probs > 0).sum(-1) > 1).to(probs.dtype)
