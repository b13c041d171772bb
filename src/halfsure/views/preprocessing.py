"""Stored samples → numbers of about unit size, as a model takes them."""

from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data, DataError
from halfsure.settings import Settings
from halfsure.views.maker import maker_of, maker_of_kind

__all__ = ["Preprocessing"]


@dataclass(frozen=True)
class Preprocessing:
    """How stored samples become numbers of about unit size. It is kept with the model, as JSON."""

    kind: str
    shape: tuple[int, ...]
    """Of one stored sample: (height, width, channels) or (features,)."""
    mean: tuple[float, ...]
    """What is taken away, by channel or feature; of images in 0 … 1."""
    std: tuple[float, ...]
    """What is divided by afterwards."""

    @classmethod
    def of(cls, data: Data, settings: Settings | None = None) -> "Preprocessing":
        """Measure it on the training samples, those held out for validation apart."""
        maker = maker_of(data)
        mean, std = maker.measure(data, settings or maker.Settings())
        return cls(data.kind, data.train.samples.shape[1:], tuple(mean), tuple(std))

    def __call__(self, samples: NDArray[Any]) -> Tensor:
        """Without any randomness. (n, *shape) → what the network takes, float32."""
        if len(self.shape) == 3 and (*samples.shape[1:], 1) == self.shape:
            samples = samples[..., None]  # grey images, as `from_arrays` takes them
        if samples.shape[1:] != self.shape:
            raise DataError(f"samples must be (n, {', '.join(map(str, self.shape))}), got {samples.shape}")
        return maker_of_kind(self.kind).tensor(samples, self.mean, self.std)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Preprocessing":
        """Read what `as_json` gave."""
        shape, mean, std = (tuple(values[key]) for key in ("shape", "mean", "std"))
        return cls(values["kind"], shape, mean, std)
