"""Everything that changes while a run trains, and the one step that changes it."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import clip_grad_norm_

from halfsure.algorithms import Algorithm, Context, Losses, Objective, objective, ramp
from halfsure.data import Data
from halfsure.settings import find
from halfsure.targets import Clock
from halfsure.training.average import Average
from halfsure.training.config import Config
from halfsure.training.errors import RunError
from halfsure.training.optimisers import rate
from halfsure.training.ranks import Ranks
from halfsure.training.running_losses import TOTAL, RunningLosses
from halfsure.training.saved_state import check_state
from halfsure.views.batch import ViewName, Views
from halfsure.views.draws import base_key
from halfsure.views.feed import Feed

__all__ = ["Training", "make_feed", "seconds_a_step"]

DROPOUT = 5  # tells this randomness from that of the views
AHEAD = 50  # steps that may be given to a device before the host looks at what became of them


class Training:
    """Model, averaged model, algorithm, optimiser, streams: what a checkpoint holds."""

    def __init__(
        self, model: nn.Module, algorithm: Algorithm, data: Data, views: Views, config: Config, *, ranks: Ranks
    ) -> None:
        self.model, self.algorithm, self.config, self.ranks = model, algorithm, config, ranks
        self.device = next(model.parameters()).device
        self.feed = make_feed(data, views, algorithm.views, config, ranks=ranks, device=self.device)
        self.average = Average(model, config.training.ema)
        heads = list(algorithm.parameters())
        self.heads = Average(algorithm, config.training.ema) if heads else None
        """The averaged copy of the algorithm, where it has something to learn."""
        learning = nn.ModuleList([model, algorithm]) if heads else model
        self.optimizer = find("optimizer", config.run.optimizer).make(learning, config.optimiser)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.machine.precision == "fp16")
        self.running = RunningLosses()
        norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
        self._norms = [(norm, norm.momentum) for norm in norms if norm.momentum is not None]
        self.done, self.seconds = 0, 0.0
        self.losses: dict[str, float] = {}
        """The loss terms of the last step that was looked at."""
        self.wishes: Callable[[], Sequence[bool]] = tuple
        """What this rank would like all to do after the step."""
        self._granted: list[bool] = []
        self._weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        self._heads, self._term_weights = heads, algorithm.weights
        self._shared = ranks.wrap(model, self.device)
        if config.machine.compile:
            model.compile()

    def update(self) -> Objective:
        """One step, with everything that is kept of it."""
        began = time.monotonic()
        terms, losses = self.step(self.done)
        self.average.update(self.model, self.done)
        if self.heads is not None:
            self.heads.update(self.algorithm, self.done)
        self.running.add(terms, losses)
        self.done += 1
        self.seconds += time.monotonic() - began
        return terms

    @property
    def unseen(self) -> bool:
        """Whether it is time to look: on the CPU after every step, elsewhere a look stops the device."""
        return self.running.unread >= (1 if self.device.type == "cpu" else AHEAD)

    def look(self) -> tuple[str, int] | None:
        """Read the losses of the steps since the last look. → the first one that is lost and its step, if one is."""
        began = time.monotonic()
        found = self.running.read()
        self.seconds += time.monotonic() - began
        self.losses = found[-1] if found else self.losses
        for step, losses in enumerate(found, self.done - len(found) + 1):
            for name in (*(name for name in losses if name != TOTAL), TOTAL):
                if not math.isfinite(losses[name]):
                    return f"the {name} loss", step
        return None

    def granted(self) -> list[bool]:
        """Which of the wishes any rank had; of several ranks, when they last told each other in the step."""
        return self._granted if self.ranks.size > 1 else list(self.wishes())

    def step(self, step: int) -> tuple[Objective, Losses]:
        """A batch, its losses, their gradient, new weights."""
        config, training = self.config, self.config.training
        # What a network draws by itself, dropout, follows from seed, step and rank: nothing has to be remembered.
        self._seed(int(base_key(DROPOUT, config.run.seed, self.ranks.rank, step)))
        batch = self.feed.next(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate(config.optimiser, step, training.steps) * group.get("rate", 1.0)
        context = Context(
            self._shared,
            batch,
            self.average.model,
            None if self.heads is None else self.heads.model,
            Clock(step, training.steps),
            self.ranks.gathered,
        )
        half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(config.machine.precision)
        with torch.autocast(self.device.type, half, enabled=half is not None), self._young_statistics(step):
            losses = self.algorithm.step(context)
        ramped = ramp(step / training.steps, training.ramp, training.ramp_shape)
        terms = objective(losses, self._term_weights, ramped, self._means)
        for weight in self._weights:
            weight.grad = None
        self.scaler.scale(terms.total).backward()
        self.ranks.average_gradients(self._heads)
        if training.clip is not None:
            self.scaler.unscale_(self.optimizer)
            clip_grad_norm_(self._weights, training.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return terms, losses

    def _means(self, *terms: Tensor) -> list[Tensor]:
        """This rank's part of each term's mean. One message tells ranks of each other's samples and wishes."""
        numbers = self.ranks.sums(*map(len, terms), *self.wishes()) if self.ranks.size > 1 else []
        counts, self._granted = numbers[: len(terms)], [number > 0 for number in numbers[len(terms) :]]
        return [self.ranks.mean(term, count) for term, count in zip_longest(terms, counts)]

    def _seed(self, seed: int) -> None:
        """Seed the device's generator alone: `torch.manual_seed` asks after every kind, and keeps a list of asking."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    @contextmanager
    def _young_statistics(self, step: int) -> Iterator[None]:
        """Batch norm's running statistics are plain means until its momentum's memory is full.

        With a momentum of .001 they would otherwise be half their initial values after 600 steps. A compiled network
        keeps its momentum: every other one would be compiled anew.
        """
        norms = [] if self.config.machine.compile else self._norms
        for norm, momentum in norms:
            norm.momentum = max(momentum, 1 / (step + 1))
        try:
            yield
        finally:
            for norm, momentum in norms:
                norm.momentum = momentum

    def line(self) -> dict[str, Any]:
        """What metrics.jsonl tells of training itself, over the steps since the last line."""
        return {"step": self.done, "seconds": round(self.seconds, 3), "train": self.running.means(self.ranks)}

    def state(self) -> dict[str, Any]:
        """All that a later process needs to go on with the same bits, as tensors and plain values."""
        return {
            "step": self.done,
            "seconds": self.seconds,
            "streams": self.feed.streams.state(),
            "window": self.ranks.all_objects(self.running.state()),
            **{name: part.state_dict() for name, part in self._parts().items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state; what no run like this one can have saved is refused."""
        try:
            check_state(state, self.optimizer, self.config.training.steps)
        except ValueError as error:
            raise RunError(f"the checkpoint is not one of this run: {error}") from None
        self.done, self.seconds = state["step"], state["seconds"]
        self.feed.streams.restore(state["streams"])
        windows = state["window"]  # one a process; a number of them that changed takes the first one's
        self.running.restore(windows[self.ranks.rank if len(windows) == self.ranks.size else 0])
        for name, part in self._parts().items():
            try:
                part.load_state_dict(state[name])
            except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
                why = str(error).splitlines()[-1].strip()
                raise RunError(f"the network is not the one this run was begun with: {why}") from None

    def _parts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "average": self.average.model,
            "optimizer": self.optimizer,
            "algorithm": self.algorithm,
            "scaler": self.scaler,
            **({} if self.heads is None else {"averaged_algorithm": self.heads.model}),
        }


def seconds_a_step(training: Training, at_most: float) -> float:
    """Measure how long a step takes."""
    for _ in range(2):  # the first ones compile and allocate
        training.update()
        training.look()
    training.seconds, first = 0.0, training.done
    while not training.ranks.any(training.seconds > at_most) or training.done < first + 3:
        training.update()
        training.look()
    return training.ranks.same(training.seconds / (training.done - first))


def make_feed(
    data: Data, views: Views, wanted: tuple[ViewName, ...], config: Config, *, ranks: Ranks, device: torch.device
) -> Feed:
    """The batches of a config, for this rank."""
    return Feed(
        data,
        views,
        wanted,
        batch=config.training.batch,
        unlabeled_batch=config.training.unlabeled_batch,
        seed=config.run.seed,
        rank=ranks.rank,
        ranks=ranks.size,
        device=device,
        dtype=torch.float64 if config.machine.precision == "float64" else torch.float32,
    )
