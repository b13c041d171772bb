"""The training loop: from a network and data to a run folder that can always be gone on with."""

import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from torch import nn
from torch.nn.parameter import is_lazy

from halfsure.algorithms import Algorithm, Facts
from halfsure.data import Data, DataError
from halfsure.nets import Network, is_separable
from halfsure.simplex import Map
from halfsure.training.class_shares import listed
from halfsure.training.config import Config, parse_time
from halfsure.training.determinism import PROMISE, require_workspace, torch_settings
from halfsure.training.errors import BrokenError, CollapseWarning, RunError, StoppedError
from halfsure.training.evaluation import Evaluator
from halfsure.training.memory import Memory
from halfsure.training.progress import Display
from halfsure.training.ranks import Ranks, local_device, ranks_for
from halfsure.training.signals import stop_signals
from halfsure.training.state import Training, seconds_a_step
from halfsure.views.batch import Views, check_views
from halfsure.views.maker import maker_of
from halfsure.views.preprocessing import Preprocessing

__all__ = ["Trained", "require_views", "train"]


ONE_VALUE = "Expected more than 1 value per channel"  # torch's word for it
ALONE = "batch norm needs two samples a step or more: raise batch and unlabeled_batch"
HARDLY_BEGUN = 100  # steps before which no network can be expected to predict every class


@dataclass(frozen=True)
class Trained:
    """What training ends with."""

    model: nn.Module
    """The averaged weights."""
    map: Map
    preprocessing: Preprocessing
    metrics: list[dict[str, Any]]
    config: dict[str, Any]
    """What the memory knows of the run."""


def train(
    model: nn.Module,
    data: Data,
    config: Config,
    *,
    memory: Memory | None = None,
    views: Views | None = None,
    console: Console | None = None,
    watch: Callable[[int], None] | None = None,
) -> Trained:
    """Train a network by a method. If the memory holds the same run already, go on where it stopped.

    `views` replace those the config describes; `watch` is called after each step with how many are done. The network is
    trained in place; what is returned holds its averaged copy.
    """
    config = config.suited(data)
    device = local_device(config.machine.device)
    require_workspace(config.machine, device)
    preprocessing = config.preprocessing(data)
    algorithm = config.algorithm(data)
    if views is not None:
        check_views(views)
    remedy = "" if views is None else 'give it as views={"weak": …, "strong": …}'
    views = config.make_views(data, preprocessing) if views is None else views
    require_views(views, algorithm, data, remedy)
    model, facts = _prepare(model, data, preprocessing, config, device)
    with torch.random.fork_rng():
        torch.manual_seed(config.run.seed)  # heads begin as networks do, by the seed
        algorithm.prepare(facts)
    algorithm = _moved(algorithm, config, device)
    algorithm.settle(is_separable(model))
    with torch_settings(config.machine), ranks_for(device) as ranks:
        trial = _rehearse(model, algorithm, data, views, config, ranks=ranks)
        with (memory or Memory()).join(ranks) as kept:
            if config.training.time is not None:
                evaluator = Evaluator(data, preprocessing, algorithm, config, ranks=ranks)
                config = config.replace(steps=kept.steps() or _steps_in(config.training.time, trial, evaluator))
            del trial
            kept.claim(data, config, algorithm.map, preprocessing)
            training = Training(model, algorithm, data, views, config, ranks=ranks)
            evaluator = Evaluator(data, preprocessing, algorithm, config, ranks=ranks)
            _run(training, evaluator, kept, console, watch)
    if ranks.first and kept.metrics:
        _warn_of_collapse(config, kept.metrics[-1])
    return Trained(training.average.model, algorithm.map, preprocessing, kept.metrics, kept.config)


def _run(
    training: Training,
    evaluator: Evaluator,
    memory: Memory,
    console: Console | None,
    watch: Callable[[int], None] | None,
) -> None:
    """Go on from where the memory is, to the end."""
    if state := memory.resume():
        training.restore(state)
        memory.mend(training.average.model)
    else:
        memory.save(training.state(), training.average.model)
    shown = console if training.ranks.first else None
    with Display(shown, training.done, training.config.training.steps, watch) as display:
        promise = [PROMISE[training.device.type]] if training.config.machine.deterministic else []
        display.notes([*promise, *memory.remarks])
        _loop(training, evaluator, memory, display)


def _loop(training: Training, evaluator: Evaluator, memory: Memory, display: Display) -> None:
    config, averaged = training.config, training.average.model
    often, saved = 60 * config.evaluation.save_minutes, time.monotonic()
    with stop_signals() as stop:
        training.wishes = lambda: (stop.signal is not None, time.monotonic() - saved > often)
        while training.done < config.training.steps:
            training.update()
            display.step(training.done)

            evaluating = evaluator.due(training.done)
            stopping, long_ago = training.granted()
            saving = evaluating or stopping or long_ago
            if saving or training.unseen:
                _check_finite(training, memory, weights=saving)
                display.losses(training.done, training.losses)
            if evaluating:
                try:
                    line = training.line() | evaluator.line(training.done, averaged)
                except FloatingPointError as error:
                    raise _lost(str(error), training.done, training, memory) from None
                memory.add(line)
                display.evaluated(line)
            if saving:
                memory.save(training.state(), averaged)
                saved = time.monotonic()
            if stopping and training.done < config.training.steps:
                raise StoppedError(f"stopped after step {training.done:,}. {memory.last_good()}", stop.signal or 15)


def _warn_of_collapse(config: Config, line: dict[str, Any]) -> None:
    """Name the classes that the model does not predict in the end, or the only one that it does."""
    method, steps = config.run.method, config.training.steps
    remedy = "train longer, or lower the learning rate, the weight of the unlabeled terms, or (vat) epsilon"
    if line.get("constant") is not None:
        told = (
            f"{method} predicts {line['constant']} for every sample, of whatever class: it collapsed, or has "
            f"learnt nothing in {steps:,} steps. Its error is no result: {remedy}; or the samples do not differ"
        )
    elif line.get("dead") and steps >= HARDLY_BEGUN:
        told = (
            f"{method} hardly predicts {listed(line['dead'])}: they died out, a collapse, or were not learnt "
            f"yet, or are far rarer than among the labels. Unless it is the last, the error is no result: {remedy}"
        )
    else:
        return
    warnings.warn(told, CollapseWarning, stacklevel=3)


def _prepare(
    model: nn.Module, data: Data, preprocessing: Preprocessing, config: Config, device: torch.device
) -> tuple[nn.Module, Facts]:
    """Move the network to where it trains, see that it gives one logit per class, and what features it has."""
    if any(is_lazy(parameter) for parameter in model.parameters()):
        raise RunError("the network has lazy modules: pass a sample through it once, so that they get their sizes")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RunError("the network has no parameters to train: none requires a gradient")
    layout = torch.channels_last if config.machine.channels_last and data.kind == "image" else torch.preserve_format
    model = model.to(device)
    dtype = _dtype(config)
    model._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)
    model.to(memory_format=layout)  # type: ignore[call-overload]  # torch's stubs leave it out
    # A part that its owner put into evaluation mode, such as the norms of a trained backbone, stays in it.
    modes = {module: module.training or not model.training for module in model.modules()}
    model.eval()
    with torch.no_grad():
        samples = preprocessing(data.train.samples[:2]).to(device, dtype)
        logits = model(samples)
        features = model.features(samples) if isinstance(model, Network) else None
    for module, mode in modes.items():
        module.training = mode
    if not isinstance(logits, torch.Tensor) or logits.shape[1:] != (len(data.classes),):
        found = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise RunError(
            f"{data.name} has {len(data.classes)} classes, so for 2 samples the network must return logits "
            f"(2, {len(data.classes)}); it returns {found}"
        )
    size = None if features is None else features.shape[-1]
    return model, Facts(len(data.classes), len(data.train), size)


def _moved(algorithm: Algorithm, config: Config, device: torch.device) -> Algorithm:
    """The algorithm where the network trains, what it learns in the network's precision."""
    algorithm = algorithm.to(device)
    for weight in algorithm.parameters():
        weight.data = weight.data.to(_dtype(config))
    return algorithm


def _dtype(config: Config) -> torch.dtype:
    return torch.float64 if config.machine.precision == "float64" else torch.float32


def _rehearse(
    model: nn.Module, algorithm: Algorithm, data: Data, views: Views, config: Config, *, ranks: Ranks
) -> Training:
    """Take a step on copies: what cannot be trained is refused before a folder is begun."""
    try:
        trial = Training(copy.deepcopy(model), copy.deepcopy(algorithm), data, views, config, ranks=ranks)
        trial.step(0)
    except (ValueError, RuntimeError) as error:
        alone = ALONE if config.run.net is None else f"{ALONE}, or set norm to none or group"
        why = alone if ONE_VALUE in str(error) else str(error)
        raise RunError(f"{config.run.method} cannot take a step on {data.name}: {why}") from error
    return trial


def _steps_in(budget: str, trial: Training, evaluator: Evaluator) -> int:
    """How many steps fit into the time that was asked for, beside the evaluations."""
    seconds = parse_time(budget)
    pace = seconds_a_step(trial, at_most=min(5.0, 0.05 * seconds))
    began = time.monotonic()
    evaluator.line(trial.config.training.steps, trial.average.model)
    evaluations = trial.ranks.same(time.monotonic() - began) * trial.config.evaluation.evaluations
    return max(1, int((0.95 * seconds - evaluations) / pace))


def _check_finite(training: Training, memory: Memory, *, weights: bool) -> None:
    """End a run that has lost its numbers before anything of it is saved."""
    if lost := training.look():
        raise _lost(*lost, training, memory)
    if weights:
        for what, model in (("weight", training.model), ("averaged weight", training.average.model)):
            state = {n: v for n, v in model.state_dict().items() if v.is_floating_point()}
            bad = [name for name, value in state.items() if not bool(value.isfinite().all())]
            if bad:
                raise _lost(f"the {what} {bad[0]}", training.done, training, memory)


def _lost(what: str, step: int, training: Training, memory: Memory) -> BrokenError:
    return BrokenError(
        f"{what} became infinite or NaN in step {step:,} of {training.config.run.method}: lower the learning "
        f"rate or clip gradients, in a new folder, or look for such values in the data. {memory.where()}"
    )


def require_views(views: Views, algorithm: Algorithm, data: Data, remedy: str = "") -> None:
    """Refuse an algorithm that wants views which are not there; `remedy` is how to have one."""
    if "weak" not in views:  # labeled samples pass through it, whatever the method
        raise DataError(f"every method needs a weak view, and {data.name} has none here; {remedy or 'make one'}")
    if "strong" in algorithm.views and "strong" not in views:
        strength = f"raise {' or '.join(maker_of(data).strength)}"
        raise DataError(
            f"{algorithm.name} needs strong views, and {data.name} has none here; {remedy or strength}, or choose a "
            "method without them, such as vat+ads or mixmatch-ads"
        )
