"""The training loop: from a network and data to a run folder that can always be gone on with."""

import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from rich.console import Console
from torch import nn
from torch.nn.parameter import is_lazy

from halfsure.algorithms import Algorithm, FixMatch
from halfsure.data import Data
from halfsure.engine.classes import class_settings, listed
from halfsure.engine.config import Config, parse_time
from halfsure.engine.evaluate import Evaluator
from halfsure.engine.folder import BrokenError, Folder, RunError
from halfsure.engine.inputs import Preprocessing, Views, make_views, require_views
from halfsure.engine.progress import Display
from halfsure.engine.ranks import Ranks, local_device, ranks_for
from halfsure.engine.record import Record
from halfsure.engine.run import Run
from halfsure.engine.signals import stop_signals
from halfsure.engine.strict import PROMISE, require_workspace, torch_settings
from halfsure.engine.training import Training, seconds_a_step
from halfsure.nets import is_separable

__all__ = ["CollapseWarning", "StoppedError", "train"]


ONE_VALUE = "Expected more than 1 value per channel"  # torch's word for it
ALONE = "batch norm needs two samples a step or more: raise batch, or set norm to none or group"
HARDLY_BEGUN = 100  # steps before which no network can be expected to predict every class


class CollapseWarning(UserWarning):
    """Classes have died out, or were never learnt: the model does not predict them."""


class StoppedError(RunError):
    """A signal asked the run to stop; what it did so far is saved."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


def train(
    model: nn.Module,
    data: Data,
    config: Config,
    *,
    folder: Folder | None = None,
    about: dict[str, Any] | None = None,
    views: Views | None = None,
    console: Console | None = None,
    watch: Callable[[int], None] | None = None,
) -> Run:
    """Train a network by a method. If the folder holds the same run already, go on where it stopped.

    `about` is what the folder is to remember beside the config; `views` replace those the config describes; `watch` is
    called after each step with how many are done. The network is trained in place, the run that is returned holds its
    averaged copy.
    """
    config.check()
    device = local_device(config.device)
    require_workspace(config, device)
    algorithm = config.algorithm(**class_settings(data, config)).to(device)
    preprocessing = Preprocessing.of(data, config.normalise)
    views = views or make_views(data, preprocessing, config)
    require_views(views, algorithm, data)
    model = _prepare(model, data, preprocessing, config, device)
    if isinstance(algorithm, FixMatch) and config.weak_grad is None:
        algorithm.weak_grad = bool(algorithm.added) or not is_separable(model)
    with torch_settings(config), ranks_for(device) as ranks:
        trial = _rehearse(model, algorithm, data, views, config, ranks=ranks)
        with Record(folder, ranks) as record:
            if config.time is not None:
                evaluator = Evaluator(data, preprocessing, algorithm, config, ranks=ranks)
                config = replace(config, steps=record.steps() or _steps_in(config.time, trial, evaluator))
            del trial
            record.claim(data, config, about or {}, algorithm.map, preprocessing)
            training = Training(model, algorithm, data, views, config, ranks=ranks)
            evaluator = Evaluator(data, preprocessing, algorithm, config, ranks=ranks)
            _run(training, evaluator, record, console, watch)
    if ranks.first and record.metrics:
        _warn_of_collapse(config, record.metrics[-1])
    path = None if folder is None else folder.path
    averaged = training.average.model
    return Run(averaged, algorithm.map, data.classes, preprocessing, record.metrics, record.config, path, data.encoding)


def _run(
    training: Training,
    evaluator: Evaluator,
    record: Record,
    console: Console | None,
    watch: Callable[[int], None] | None,
) -> None:
    """Go on from where the record is, to the end."""
    if state := record.resume():
        training.restore(state)
        record.mend(training.average.model)
    else:
        record.save(training.state(), training.average.model)
    shown = console if training.ranks.first else None
    with Display(shown, training.done, training.config.steps, watch) as display:
        promise = [PROMISE[training.device.type]] if training.config.deterministic else []
        display.notes([*promise, *record.remarks])
        _loop(training, evaluator, record, display)


def _loop(training: Training, evaluator: Evaluator, record: Record, display: Display) -> None:
    config, averaged = training.config, training.average.model
    saved = time.monotonic()
    with stop_signals() as stop:
        training.wishes = lambda: (stop.signal is not None, time.monotonic() - saved > 60 * config.save_minutes)
        while training.done < config.steps:
            training.update()
            display.step(training.done)

            evaluating = evaluator.due(training.done)
            stopping, long_ago = training.granted()
            saving = evaluating or stopping or long_ago
            if saving or training.unseen:
                _check_finite(training, record, weights=saving)
                display.losses(training.done, training.losses)
            if evaluating:
                try:
                    line = training.line() | evaluator.line(training.done, averaged)
                except FloatingPointError as error:
                    raise _lost(str(error), training.done, training, record) from None
                record.add(line)
                display.evaluated(line)
            if saving:
                record.save(training.state(), averaged)
                saved = time.monotonic()
            if stopping and training.done < config.steps:
                raise StoppedError(f"stopped after step {training.done:,}. {record.last_good()}", stop.signal or 15)


def _warn_of_collapse(config: Config, line: dict[str, Any]) -> None:
    """Name the classes that the model does not predict in the end, or the only one that it does."""
    remedy = "train longer, or lower the learning rate, the weight of the unlabeled terms, or (vat) epsilon"
    if line.get("constant") is not None:
        told = (
            f"{config.method} predicts {line['constant']} for every sample, of whatever class: it collapsed, or has "
            f"learnt nothing in {config.steps:,} steps. Its error is no result: {remedy}; or the samples do not differ"
        )
    elif line.get("dead") and config.steps >= HARDLY_BEGUN:
        told = (
            f"{config.method} hardly predicts {listed(line['dead'])}: they died out, a collapse, or were not learnt "
            f"yet, or are far rarer than among the labels. Unless it is the last, the error is no result: {remedy}"
        )
    else:
        return
    warnings.warn(told, CollapseWarning, stacklevel=3)


def _prepare(
    model: nn.Module, data: Data, preprocessing: Preprocessing, config: Config, device: torch.device
) -> nn.Module:
    """Move the network to where it trains, and see that it gives one logit a class."""
    if any(is_lazy(parameter) for parameter in model.parameters()):
        raise RunError("the network has lazy modules: pass a sample through it once, so that they get their sizes")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RunError("the network has no parameters to train: none requires a gradient")
    layout = torch.channels_last if config.channels_last and data.kind == "image" else torch.preserve_format
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    model = model.to(device)
    model._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)
    model.to(memory_format=layout)  # type: ignore[call-overload]  # torch's stubs leave it out
    # A part that its owner put into evaluation mode, such as the norms of a trained backbone, stays in it.
    modes = {module: module.training or not model.training for module in model.modules()}
    model.eval()
    with torch.no_grad():
        logits = model(preprocessing(data.train.samples[:2]).to(device, dtype))
    for module, mode in modes.items():
        module.training = mode
    if not isinstance(logits, torch.Tensor) or logits.shape[1:] != (len(data.classes),):
        found = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise RunError(
            f"{data.name} has {len(data.classes)} classes, so for 2 samples the network must return logits "
            f"(2, {len(data.classes)}); it returns {found}"
        )
    return model


def _rehearse(
    model: nn.Module, algorithm: Algorithm, data: Data, views: Views, config: Config, *, ranks: Ranks
) -> Training:
    """Take a step on copies: what cannot be trained is refused before a folder is begun."""
    try:
        trial = Training(copy.deepcopy(model), copy.deepcopy(algorithm), data, views, config, ranks=ranks)
        trial.step(0)
    except (ValueError, RuntimeError) as error:
        why = ALONE if ONE_VALUE in str(error) else str(error)
        raise RunError(f"{config.method} cannot take a step on {data.name}: {why}") from error
    return trial


def _steps_in(budget: str, trial: Training, evaluator: Evaluator) -> int:
    """How many steps fit into the time that was asked for, beside the evaluations."""
    seconds = parse_time(budget)
    pace = seconds_a_step(trial, at_most=min(5.0, 0.05 * seconds))
    began = time.monotonic()
    evaluator.line(trial.config.steps, trial.average.model)
    evaluations = trial.ranks.same(time.monotonic() - began) * trial.config.evaluations
    return max(1, int((0.95 * seconds - evaluations) / pace))


def _check_finite(training: Training, record: Record, *, weights: bool) -> None:
    """End a run that has lost its numbers before anything of it is saved."""
    if lost := training.look():
        raise _lost(*lost, training, record)
    if weights:
        for what, model in (("weight", training.model), ("averaged weight", training.average.model)):
            state = {n: v for n, v in model.state_dict().items() if v.is_floating_point()}
            bad = [name for name, value in state.items() if not bool(value.isfinite().all())]
            if bad:
                raise _lost(f"the {what} {bad[0]}", training.done, training, record)


def _lost(what: str, step: int, training: Training, record: Record) -> BrokenError:
    return BrokenError(
        f"{what} became infinite or NaN in step {step:,} of {training.config.method}: lower the learning "
        f"rate or clip gradients, in a new folder, or look for such values in the data. {record.where()}"
    )
