"""A run that trains an encoder together with its classifier: what training sees, and what is kept of it."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from halfsure.bank.end_to_end import end_to_end, for_training, how_trained, seen_through, trainable, trained_encoder
from halfsure.bank.tuned import Kept, tuned_fields
from halfsure.data import Data
from halfsure.nets import Network
from halfsure.nets.tunable import Tunable
from halfsure.runs.run import Run
from halfsure.training.errors import RunError
from halfsure.views.of_rows import RowViews
from halfsure.views.preprocessing import Preprocessing

__all__ = ["EndToEndRun", "as_seen_by"]


@dataclass(frozen=True)
class EndToEndRun:
    """Between training, which sees pixels and words, and a run folder, which keeps an encoder and a classifier."""

    data: Data
    """As features of the encoder as it came."""

    @classmethod
    def of(cls, data: Data) -> "EndToEndRun | None":
        """None for data whose encoder stays as it is."""
        return None if end_to_end(data) is None else cls(data)

    @property
    def inputs(self) -> Data:
        """The data that training sees."""
        return for_training(self.data)

    @property
    def preprocessing(self) -> Preprocessing:
        """Of features: one scale for all, as for every encoder."""
        mean, std = RowViews.measure(self.data, None)
        return Preprocessing(RowViews.kind, self.data.train.samples.shape[1:], tuple(mean), tuple(std))

    def network(self, classifier: nn.Module) -> Tunable:
        """The encoder's network with a classifier on its features."""
        banked, how = end_to_end(self.data), how_trained(self.data)
        assert banked is not None and how is not None  # noqa: PT018
        if not isinstance(classifier, Network):
            raise RunError("tune last and all train a classifier of halfsure: omit your own network, or take tune none")
        encoder, features = banked.opener.encoder, self.preprocessing
        net = trainable(encoder, how.way)
        return Tunable(net, classifier, encoder.through, mean=features.mean, std=features.std, rate=how.rate)

    def kept(self, model: nn.Module) -> "KeptOfRun":
        """What a run keeps of the network."""
        assert isinstance(model, Tunable)
        changed = model.changed()
        return KeptOfRun(model.head, changed, *trained_encoder(self.data, changed))


@dataclass(frozen=True)
class KeptOfRun:
    """A classifier, and the encoder that it was trained with."""

    classifier: nn.Module
    changed: dict[str, Tensor]
    """The encoder's weights that were trained."""
    fields: dict[str, Any]
    """What the encoder says of itself."""
    encoding: dict[str, Any]
    """How new samples become features."""

    @property
    def encoder(self) -> Kept:
        """What is needed to open the encoder again."""
        return Kept(self.fields["tuned_from"], self.changed)


def as_seen_by(run: Run, data: Data) -> Data:
    """Data as a model takes them: of an encoder that was trained with it, through that encoder."""
    return seen_through(data, partial(run.encoders.open, tuned_fields(run.encoding)))
