"""Every kind of part in one file outside the package: what CONTRIBUTING promises is enough."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import halfsure
from halfsure.algorithms import Algorithm, AlgorithmSettings, Context, Facts, Losses, features, forward
from halfsure.data import Data, Reader, from_arrays
from halfsure.nets import Network, NetworkSettings
from halfsure.settings import Between, Fraction, Settings, Size
from halfsure.targets import Gate, Seen, Strategy
from halfsure.training.optimisers import Optimiser, OptimiserSettings
from halfsure.views import ViewMaker
from halfsure.views.batch import Views


@dataclass(frozen=True)
class NudgeSettings(Settings):
    """Of the strategy."""

    nudge: Fraction = 0.25
    """How far towards the best class."""


@halfsure.register
class Nudge(Strategy):
    """Moves a prediction a part of the way to its best class, and counts what it has seen."""

    name = "nudge"
    about = "nudge: a part of the way to the best class"
    Settings = NudgeSettings

    def __init__(self, nudge: float = NudgeSettings.nudge, **rest: Any) -> None:
        super().__init__(**rest)
        self.nudge = nudge

    counts: Tensor
    times: Tensor

    def prepare(self, classes: int, samples: int) -> None:
        """A count for each class and each sample."""
        super().prepare(classes, samples)
        self.register_buffer("counts", torch.zeros(classes, dtype=torch.int64))
        self.register_buffer("times", torch.zeros(samples, dtype=torch.int64))

    def observe(self, probs: Tensor, seen: Seen) -> None:
        """Count best classes and samples."""
        super().observe(probs, seen)
        self.counts += torch.bincount(probs.argmax(-1), minlength=len(self.counts))
        self.times += torch.bincount(seen.indices, minlength=len(self.times))

    def goal(self, probs: Tensor) -> Tensor:
        """(m, classes) → (m, classes)."""
        return torch.lerp(probs, F.one_hot(probs.argmax(-1), probs.shape[-1]).to(probs), self.nudge)


@halfsure.register
class Wobble(Strategy):
    """A loss and no target: what an evaluation has to bear as well."""

    name = "wobble"
    about = "wobble: smaller logits"

    def cost(self, logits: Tensor) -> Tensor:
        """(m, classes) → (m,)."""
        return logits.square().mean(-1)


@dataclass(frozen=True)
class MedianSettings(Settings):
    """Of the gate."""

    memory: Annotated[float, Between(0, 1)] = 0.9
    """How much of the running median stays."""


@halfsure.register
class Median(Gate):
    """The surer half of what is seen counts."""

    name = "median"
    about = "counts where the confidence is above its running median"
    Settings = MedianSettings

    def __init__(self, memory: float = MedianSettings.memory) -> None:
        super().__init__()
        self.memory = memory
        self.middle: Tensor
        self.register_buffer("middle", torch.zeros((), dtype=torch.float64))

    def observe(self, probs: Tensor, seen: Seen) -> None:
        """Take the batch's median in."""
        self.middle.lerp_(probs.amax(-1).double().median(), 1 - self.memory)

    def weigh(self, probs: Tensor) -> Tensor:
        """(m, classes) → (m,)."""
        return (probs.amax(-1) >= self.middle).to(probs.dtype)


@dataclass(frozen=True)
class TwinSettings(AlgorithmSettings):
    """Of the algorithm."""

    twin_weight: Size = 0.5
    """Weight of its own term."""


@halfsure.register
class Twin(Algorithm):
    """A second head on the features learns the labels too, and the teacher's prediction: a term of its own."""

    name = "twin"
    about = "a second head, taught by the averaged model"
    views = ("weak",)
    Settings = TwinSettings

    def __init__(self, map: Any = "softmax", added: Any = (), *, twin_weight: float = 0.5, **rest: Any) -> None:
        super().__init__(map, added, **rest)
        self.twin_weight = twin_weight

    def prepare(self, facts: Facts) -> None:
        """The head, once the size of the features is known."""
        super().prepare(facts)
        assert facts.features is not None
        self.head = nn.Linear(facts.features, facts.classes)
        nn.init.zeros_(self.head.weight)

    def step(self, context: Context) -> Losses:
        """Labels for both heads; the second one follows the averaged model on unlabeled samples."""
        batch = context.batch
        (logits,) = forward(context.model, batch.labeled)
        second = self.head(features(context.model, batch.unlabeled[0]))
        assert context.average is not None
        with torch.no_grad():
            taught = context.average(batch.unlabeled[0]).softmax(-1)
        twin = F.cross_entropy(second, taught, reduction="none")
        return Losses(supervised=self.supervised(logits, batch.labels), twin=twin)


@dataclass(frozen=True)
class ShakeSettings(Settings):
    """Of the views."""

    shake: Size = 0.2
    """Noise level of the strong view."""


@halfsure.register
class Shaken(ViewMaker):
    """Other views for rows: chosen by name."""

    name = "shaken"
    about = "rows with noise that a sample's number decides"
    kind = "array"
    Settings = ShakeSettings

    @classmethod
    def make(cls, data: Data, preprocessing: Any, settings: Any, seed: int) -> Views:
        """Each view a function of seed, step and sample."""

        def strong(samples: Any, indices: Any, step: int, stream: int = 0) -> Tensor:
            draws = [
                np.random.default_rng([seed, step, stream, int(i)]).normal(size=samples.shape[1:]) for i in indices
            ]
            noise = np.stack(draws) if draws else np.zeros(samples.shape)
            plain: Tensor = preprocessing(samples)
            shaken: Tensor = plain + settings.shake * torch.from_numpy(noise).float()
            return shaken

        return {"weak": lambda samples, indices, step, stream=0: preprocessing(samples), "strong": strong}


@dataclass(frozen=True)
class WaveSettings(Settings):
    """Of the reader."""

    waves: Annotated[int, Between(12)] = 60
    """How many samples."""


@halfsure.register
class WaveReader(Reader):
    """A kind of data of one's own: short signals of two channels, (length, channels)."""

    name = "waves"
    about = "made-up waves"
    Settings = WaveSettings

    @classmethod
    def takes(cls, source: str) -> bool:
        """Anything that ends in .wave."""
        return source.endswith(".wave")

    @classmethod
    def read(cls, source: str, settings: Any) -> Data:
        """Waves of three frequencies, a fifth of them labeled."""
        truth = np.arange(settings.waves) % 3
        time = np.linspace(0, 6, 16)
        phase = np.random.default_rng(0).normal(size=settings.waves)
        signals = np.sin(time * (truth + 1)[:, None] + phase[:, None])
        samples = np.stack([signals, np.abs(signals)], -1).astype(np.float32)
        known = np.where(np.arange(len(truth)) < len(truth) // 5 * 3, truth, -1)
        plain = from_arrays(samples.reshape(len(samples), -1), known, name=source)
        part = type(plain.train)(samples, plain.train.labels)
        return Data(source, "wave", plain.classes, part, plain.labeled)


@halfsure.register
class WaveViews(ViewMaker):
    """Views of waves: shifted in time."""

    name = "waves"
    about = "waves, shifted in time"
    kind = "wave"
    dimensions = 2

    @classmethod
    def preset(cls, name: str, data: Data) -> dict[str, Any]:
        """Their own network."""
        return {"net": "wavenet-8", "norm": "none", "steps": 30}

    @classmethod
    def make(cls, data: Data, preprocessing: Any, settings: Any, seed: int) -> Views:
        """Weak by one place, strong by several."""

        def rolled(most: int) -> Any:
            def view(samples: Any, indices: Any, step: int, stream: int = 0) -> Tensor:
                shifts = [int((i * 31 + step * 7 + stream) % (most + 1)) for i in indices]
                moved = [np.roll(sample, shift, 0) for sample, shift in zip(samples, shifts, strict=True)]
                found: Tensor = preprocessing(np.stack(moved) if moved else samples)
                return found

            return view

        return {"weak": rolled(1), "strong": rolled(5)}


@halfsure.register
class WaveNet(Network):
    """A network for waves: a dense layer on all values."""

    name = "wavenet"
    usage = "wavenet-WIDTH"
    about = "a small network for waves"
    examples = ("wavenet-8",)
    dimensions = (2,)
    Settings = NetworkSettings

    def __init__(self, inputs: int, classes: int, width: int) -> None:
        super().__init__()
        self.body = nn.Linear(inputs, width)
        self.head = nn.Linear(width, classes)  # type: ignore[assignment]

    @classmethod
    def sized(cls, sizes: tuple[int, ...], shape: tuple[int, ...], classes: int, **settings: Any) -> "WaveNet":
        """One width."""
        return cls(int(np.prod(shape)), classes, *sizes)

    def features(self, x: Tensor) -> Tensor:
        """(n, length, channels) → (n, width)."""
        return torch.tanh(self.body(x.flatten(1)))


@dataclass(frozen=True)
class CrawlSettings(OptimiserSettings):
    """Of the optimiser."""

    crawl: Size = 0.5
    """Momentum."""


@halfsure.register
class Crawl(Optimiser):
    """Gradient descent with a momentum of its own name."""

    name = "crawl"
    about = "gradient descent with momentum"
    Settings = CrawlSettings

    @classmethod
    def over(cls, groups: list[dict[str, Any]], settings: Any) -> torch.optim.Optimizer:
        """Of groups of parameters."""
        return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.crawl)
