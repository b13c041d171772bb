"""Everything that changes while a run trains, and the one step that changes it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import clip_grad_norm_

from halfsure.algorithms import Algorithm, Losses, Objective, objective, ramp
from halfsure.data import Data
from halfsure.engine.config import Config
from halfsure.engine.folder import RunError
from halfsure.engine.inputs import Feed, Views
from halfsure.engine.optim import Average, make_optimizer, rate
from halfsure.engine.ranks import Ranks
from halfsure.engine.window import Window
from halfsure.views._draws import base_key

__all__ = ["Training", "seconds_a_step"]

DROPOUT = 5  # tells this randomness from that of the views


class Training:
    """Model, averaged model, optimiser, streams: what a checkpoint holds."""

    def __init__(
        self, model: nn.Module, algorithm: Algorithm, data: Data, views: Views, config: Config, *, ranks: Ranks
    ) -> None:
        self.model, self.algorithm, self.config, self.ranks = model, algorithm, config, ranks
        self.device = next(model.parameters()).device
        self.feed = Feed(data, views, algorithm.views, config, ranks=ranks, device=self.device)
        self.average = Average(model, config.ema)
        self.optimizer = make_optimizer(model, config)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.precision == "fp16")
        self.window = Window()
        norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
        self._norms = [(norm, norm.momentum) for norm in norms if norm.momentum is not None]
        self.done, self.seconds = 0, 0.0
        self._shared = ranks.wrap(model, self.device)
        if config.compile:
            model.compile()

    def update(self) -> Objective:
        """One step, with everything that is kept of it."""
        began = time.monotonic()
        terms, losses = self.step(self.done)
        self.average.update(self.model, self.done)
        self.window.add(terms, losses)
        self.done += 1
        self.seconds += time.monotonic() - began
        return terms

    def step(self, step: int) -> tuple[Objective, Losses]:
        """A batch, its losses, their gradient, new weights."""
        config = self.config
        # What a network draws by itself, dropout, follows from seed, step and rank: nothing has to be remembered.
        self._seed(int(base_key(DROPOUT, config.seed, self.ranks.rank, step)))
        batch = self.feed.next(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate(config, step)
        half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(config.precision)
        with torch.autocast(self.device.type, half, enabled=half is not None), self._young_statistics(step):
            losses = self.algorithm.step(self._shared, batch)
        ramped = ramp(step / config.steps, config.ramp, config.ramp_shape)
        terms = objective(losses, self.algorithm, ramped, self.ranks.mean)
        self.optimizer.zero_grad()
        self.scaler.scale(terms.total).backward()
        if config.clip is not None:
            self.scaler.unscale_(self.optimizer)
            clip_grad_norm_(self.model.parameters(), config.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return terms, losses

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
        norms = [] if self.config.compile else self._norms
        for norm, momentum in norms:
            norm.momentum = max(momentum, 1 / (step + 1))
        try:
            yield
        finally:
            for norm, momentum in norms:
                norm.momentum = momentum

    def line(self) -> dict[str, Any]:
        """What metrics.jsonl tells of training itself, over the steps since the last line."""
        return {"step": self.done, "seconds": round(self.seconds, 3), "train": self.window.means(self.ranks)}

    def state(self) -> dict[str, Any]:
        """All that a later process needs to go on with the same bits, as tensors and plain values."""
        return {
            "step": self.done,
            "seconds": self.seconds,
            "streams": self.feed.streams.state(),
            "window": self.ranks.all_objects(self.window.state()),
            **{name: part.state_dict() for name, part in self._parts().items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.done, self.seconds = state["step"], state["seconds"]
        self.feed.streams.restore(state["streams"])
        windows = state["window"]  # one a process; a number of them that changed takes the first one's
        self.window.restore(windows[self.ranks.rank if len(windows) == self.ranks.size else 0])
        for name, part in self._parts().items():
            try:
                part.load_state_dict(state[name])
            except (RuntimeError, ValueError, KeyError) as error:
                why = str(error).splitlines()[-1].strip()
                raise RunError(f"the network is not the one this run was begun with: {why}") from None

    def _parts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "average": self.average.model,
            "optimizer": self.optimizer,
            "algorithm": self.algorithm,
            "scaler": self.scaler,
        }


def seconds_a_step(training: Training, at_most: float) -> float:
    """Measure how long a step takes."""
    for _ in range(2):  # the first ones compile and allocate
        training.update()
    training.seconds, first = 0.0, training.done
    while not training.ranks.any(training.seconds > at_most) or training.done < first + 3:
        training.update()
    return training.ranks.same(training.seconds / (training.done - first))
