"""An encoder and a classifier on its features, trained together, the encoder more slowly."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from halfsure.nets.layers import Slow
from halfsure.nets.network import Network

__all__ = ["Tunable"]

PREFIX = "encoder.module."
Through = Callable[[nn.Module, Tensor], Tensor]


class Tunable(Network):
    """What an encoder's network takes → features → logits. (n, …) → (n, classes).

    Its state is what training may change: frozen weights of the encoder are neither saved nor loaded.

    Args:
        encoder: the network; its weights that do not require a gradient are frozen.
        head: the classifier on features.
        through: what takes samples through the encoder's network to its features.
        mean, std: what is taken from the features and what they are divided by, (features,).
        rate: of the encoder, as a part of the classifier's.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: Network,
        through: Through,
        *,
        mean: Sequence[float],
        std: Sequence[float],
        rate: float,
    ) -> None:
        super().__init__()
        encoder.eval()  # norms keep their statistics: a few samples would spoil them
        self.frozen = frozenset(name for name in encoder.state_dict()) - frozenset(trained_names(encoder))
        self.encoder, self.head, self.through = Slow(encoder, rate), head, through  # type: ignore[assignment]
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32), persistent=False)
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32), persistent=False)

    def encoded(self, x: Tensor) -> Tensor:
        """Features as the classifier takes them. (n, …) → (n, dimension)."""
        found = self.through(self.encoder.module, x)
        return (found - self.get_buffer("mean")) / self.get_buffer("std")

    def features(self, x: Tensor) -> Tensor:
        """What the classifier's last layer sees. (n, …) → (n, features)."""
        classifier: Any = self.head
        found: Tensor = classifier.features(self.encoded(x))
        return found

    def forward(self, x: Tensor) -> Tensor:
        """(n, …) → (n, classes)."""
        logits: Tensor = self.head(self.encoded(x))
        return logits

    def changed(self) -> dict[str, Tensor]:
        """The encoder's weights that training may have changed, by their names in its network."""
        state = self.encoder.module.state_dict()
        return {name: value.detach().float().cpu().clone() for name, value in state.items() if name not in self.frozen}

    def state_dict(self, *arguments: Any, **named: Any) -> Any:
        """Without the frozen weights."""
        state = super().state_dict(*arguments, **named)
        start = f"{named.get('prefix', '')}{PREFIX}"
        for name in self.frozen:
            state.pop(f"{start}{name}", None)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *arguments: Any, **named: Any) -> Any:
        """Frozen weights stay as they are."""
        own = self.encoder.module.state_dict()
        kept = {f"{PREFIX}{name}": own[name] for name in self.frozen}
        return super().load_state_dict({**kept, **state_dict}, *arguments, **named)


def trained_names(net: nn.Module) -> Collection[str]:
    """The weights of a network that require a gradient, by their names."""
    return [name for name, weight in net.named_parameters() if weight.requires_grad]
