"""One step, and many: schedules, optimisers, averages, precision, and what happens when numbers are lost."""

import copy
import importlib
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from halfsure.data import Data
from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder
from halfsure.runs.run import Run, load
from halfsure.runs.start import start
from halfsure.settings import find
from halfsure.training.average import Average
from halfsure.training.config import Config
from halfsure.training.errors import BrokenError, RunError
from halfsure.training.evaluation import Evaluator
from halfsure.training.loop import train
from halfsure.training.optimisers import rate
from halfsure.training.ranks import Ranks
from halfsure.training.state import Training, make_feed
from halfsure.views.preprocessing import Preprocessing
from tests.training.helpers import differences, images, rows, tiny

CPU = torch.device("cpu")
train_module = importlib.import_module("halfsure.training.loop")  # the package has a function of this name


def make_training(data: Data, config: Config, model: nn.Module) -> Training:
    views = config.make_views(data, Preprocessing.of(data))
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    return Training(model.to(dtype), config.algorithm(), data, views, config, ranks=Ranks())


def network(seed: int = 0, *, norm: bool = False) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.BatchNorm1d(6) if norm else nn.Identity(), nn.Linear(6, 3))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1.0] * 10),
        ("linear", [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
        ("cosine", [math.cos(7 * math.pi * k / (16 * 10)) for k in range(10)]),
        ("drop", [1.0] * 8 + [0.2] * 2),
    ],
)
def test_schedules(schedule: Any, expected: list[float]) -> None:
    config = tiny(schedule=schedule, steps=10, lr=0.5)
    assert [rate(config.optimiser, step, 10) for step in range(10)] == pytest.approx(
        [0.5 * factor for factor in expected]
    )
    warm = config.replace(warmup=0.4)
    factors = [0.25, 0.5, 0.75] + [1.0] * 7
    wanted = [0.5 * factor * rise for factor, rise in zip(expected, factors, strict=True)]
    assert [rate(warm.optimiser, step, 10) for step in range(10)] == pytest.approx(wanted)


def test_the_schedule_reaches_the_optimiser() -> None:
    config = tiny(method="supervised", steps=4, schedule="linear", warmup=0.5, lr=0.8)
    training = make_training(rows(), config, network())
    used = []
    for _ in range(4):
        training.update()
        used.append({group["lr"] for group in training.optimizer.param_groups})
    assert [value for (value,) in used] == pytest.approx([0.4, 0.6, 0.4, 0.2])


@pytest.mark.parametrize(
    ("shape", "rises"),
    [("linear", lambda t: t), ("exp", lambda t: math.exp(-5 * (1 - t) ** 2))],
)
def test_the_ramp_weighs_the_unlabeled_terms(shape: Any, rises: Callable[[float], float]) -> None:
    config = tiny(
        method="vat+ads", steps=8, ramp=0.5, ramp_shape=shape, weight=3.0, distill_weight=0.7, precision="float64"
    )
    training = make_training(rows(), config, network())
    for step in range(8):
        terms = training.update()
        factor = rises(step / 4) if step < 4 else 1.0
        supervised, consistency, distillation = terms.terms.values()
        wanted = supervised + factor * (3.0 * consistency + 0.7 * distillation)
        assert terms.total.item() == pytest.approx(wanted.item(), rel=1e-12)
        assert consistency > 0


class Hand:
    """Updates written down from their publications, for one tensor."""

    def __init__(self, config: Config, value: Tensor, decays: bool) -> None:
        self.config, self.value, self.decay = config, value.clone(), config.weight_decay if decays else 0.0
        self.first: Tensor | None = None
        self.second = torch.zeros_like(value)

    def step(self, gradient: Tensor, lr: float, t: int) -> None:
        if self.config.optimizer == "sgd":
            gradient = gradient + self.decay * self.value
            momentum = self.config.momentum
            self.first = gradient if self.first is None else momentum * self.first + gradient
            self.value = self.value - lr * (gradient + momentum * self.first)  # Nesterov
            return
        self.first = 0.1 * gradient if self.first is None else 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        unbiased, scale = self.first / (1 - 0.9**t), self.second / (1 - 0.999**t)
        self.value = self.value - lr * self.decay * self.value - lr * unbiased / (scale.sqrt() + 1e-8)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "sgd", "weight_decay": 0.3},
        {"optimizer": "sgd", "weight_decay": 0.3, "momentum": 0.0},
        {"optimizer": "sgd", "clip": 0.01},
        {"optimizer": "adam"},
        {"optimizer": "adam", "weight_decay": 0.3},
        {"optimizer": "adamw", "weight_decay": 0.3, "clip": 0.05},
        {"optimizer": "adamw"},
    ],
)
def test_updates_by_hand(changes: dict[str, Any]) -> None:
    """Four steps of cross-entropy, each weight by the formula of its optimiser; decay on kernels only."""
    config = tiny(method="supervised", precision="float64", steps=4, **changes)
    data, model = rows(), network(norm=True).double()
    training = make_training(data, config, copy.deepcopy(model))
    views = config.make_views(data, Preprocessing.of(data))
    feed = make_feed(data, views, (), config, ranks=Ranks(), device=CPU)
    hands = {n: Hand(config, p.detach(), decays=p.ndim > 1) for n, p in model.named_parameters()}
    clipped = False
    for step in range(4):
        training.update()
        batch = feed.next(step)
        loss = F.cross_entropy(model(batch.labeled), batch.labels)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
        factor = min(1.0, config.clip / (norm + 1e-6)) if config.clip else 1.0
        clipped |= factor < 1
        with torch.no_grad():
            for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
                hands[name].step(factor * gradient, config.lr * math.cos(7 / 16 * math.pi * step / 4), step + 1)
                parameter.copy_(hands[name].value)
        for name, parameter in training.model.named_parameters():
            torch.testing.assert_close(parameter.detach(), hands[name].value, rtol=1e-10, atol=1e-12, msg=name)
    assert clipped == (config.clip is not None)


def test_weight_decay_is_for_kernels() -> None:
    model = network(norm=True)
    settings = tiny(optimizer="adamw", weight_decay=0.3).optimiser
    groups = find("optimizer", "adamw").make(model, settings).param_groups
    shapes = [(group["weight_decay"], sorted(tuple(p.shape) for p in group["params"])) for group in groups]
    assert shapes == [(0.3, [(3, 6), (6, 5)]), (0.0, [(3,), (6,), (6,), (6,)])]


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.999])
def test_averages_follow_the_recursion_and_buffers_are_copied(decay: float) -> None:
    config = tiny(method="fixmatch-ads", ema=decay, precision="float64", steps=8)
    training = make_training(rows(), config, network(norm=True))
    naive = {name: value.detach().clone() for name, value in training.model.named_parameters()}
    for t in range(8):
        training.update()
        held = min(decay, (1 + t) / (10 + t)) if decay else 0.0
        for name, value in training.model.named_parameters():
            naive[name] = held * naive[name] + (1 - held) * value.detach()
        for name, value in training.average.model.named_parameters():
            torch.testing.assert_close(value, naive[name], rtol=1e-12, atol=1e-14, msg=f"{name} after step {t}")
        pairs = zip(training.average.model.buffers(), training.model.buffers(), strict=True)
        assert all(torch.equal(mine, theirs) for mine, theirs in pairs)
    assert not training.average.model.training
    assert not any(parameter.requires_grad for parameter in training.average.model.parameters())
    if decay == 0:
        pairs = zip(training.average.model.parameters(), training.model.parameters(), strict=True)
        assert all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_an_average_leaves_the_network_alone() -> None:
    model = network(norm=True)
    before = copy.deepcopy(model.state_dict())
    average = Average(model, 0.9)
    average.update(model, 100)
    assert differences(dict(before), dict(model.state_dict())) == []
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("method", ["vat+ads", "mixmatch-ads", "fixmatch-ads"])
def test_evaluating_more_often_changes_nothing(method: str, tmp_path: Path) -> None:
    config = tiny(method=method, net="mlp-8", norm="batch", dropout=0.3)
    states = []
    for evaluations in (1, 12):
        start(rows(), config.replace(evaluations=evaluations), out=tmp_path / str(evaluations))
        state = read_state(tmp_path / str(evaluations) / "resume.safetensors")
        states.append({name: part for name, part in state.items() if name not in ("settings", "metrics")})
        assert len(load(tmp_path / str(evaluations)).metrics) == evaluations
    assert differences(*states) == []


def test_an_evaluation_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Training] = []
    loop, line = train_module._loop, Evaluator.line

    def spying(training: Training, *rest: Any) -> None:
        seen.append(training)
        loop(training, *rest)

    def around(self: Evaluator, step: int, model: nn.Module) -> dict[str, Any]:
        (training,) = seen
        before = copy.deepcopy(training.state()), torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
        assert all(module.training for module in training.model.modules())
        found = line(self, step, model)
        after = training.state(), torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
        assert differences(before[:2], after[:2]) == []
        assert all(np.array_equal(one, other) for one, other in zip(before[2], after[2], strict=True))
        assert all(module.training for module in training.model.modules())
        assert all(parameter.requires_grad for parameter in training.model.parameters())
        return found

    monkeypatch.setattr(train_module, "_loop", spying)
    monkeypatch.setattr(Evaluator, "line", around)
    run = start(images(12), tiny(method="vat+ads", net="cnn13-4", norm="batch", steps=3))
    assert len(run.metrics) == 3
    assert not run.model.training


def test_the_random_state_threads_and_strictness_are_given_back() -> None:
    poisoned = Poisoned(0)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    threads = torch.get_num_threads()
    start(images(12), tiny(net="cnn13-4", steps=2, threads=2, deterministic=True))
    with pytest.raises(BrokenError):
        start(rows(), tiny(steps=2, threads=2, deterministic=True), model=poisoned)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numbers)  # type: ignore[index]  # noqa: NPY002
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def outcome(run: Run) -> dict[str, Any]:
    return {"metrics": run.metrics, "weights": dict(run.model.state_dict())}


def test_the_seed_says_it_all() -> None:
    data, config = images(12), tiny(method="mixmatch-ads", net="cnn13-4", norm="batch", steps=6)
    first = start(data, config)
    torch.manual_seed(99)  # what the caller drew before has no influence
    assert differences(outcome(first), outcome(start(data, config))) == []
    other = start(data, config.replace(seed=1))
    assert all(not torch.equal(a, b) for a, b in zip(first.model.parameters(), other.model.parameters(), strict=True))


def test_dropout_differs_from_step_to_step() -> None:
    """Else a network would learn with one mask for ever."""
    dropped = nn.Dropout(0.5)
    masks: list[Tensor] = []
    dropped.register_forward_hook(lambda _, inputs, output: masks.append((output == 0).float()))
    model = nn.Sequential(nn.Linear(5, 40), nn.Tanh(), dropped, nn.Linear(40, 3))
    training = make_training(rows(), tiny(method="supervised"), model)
    for _ in range(4):
        training.update()
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 4


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("fixmatch-ads", {"threads": 2}),
        ("fixmatch-ads", {"eval_batch": 7}),
        ("fixmatch-ads", {"eval_batch": 1}),
        ("fixmatch-ads", {"channels_last": False}),
        ("vat+ads", {"channels_last": False}),
    ],
)
def test_what_should_change_only_rounding(method: str, changes: dict[str, Any]) -> None:
    config = tiny(method=method, net="conv7-4", norm="batch", steps=2 if "threads" in changes else 6, lr=1e-3)
    data = images()
    one, other = start(data, config), start(data, config.replace(**changes))
    assert one.model.training == other.model.training
    torch.testing.assert_close(one.logits(data.train.samples), other.logits(data.train.samples), rtol=1e-5, atol=1e-5)
    for key in ("loss", "brier", "dominant"):
        a, b = (run.metrics[-1]["test"][key] for run in (one, other))
        assert a == pytest.approx(b, abs=1e-5)


@pytest.mark.parametrize("method", ["vat+ads", "mixmatch-ads", "fixmatch-ads"])
def test_half_precision_trains(method: str) -> None:
    data, config = images(12), tiny(method=method, net="cnn13-4", norm="batch", steps=6, lr=1e-3)
    exact, rounded = start(data, config), start(data, config.replace(precision="bf16"))
    assert all(parameter.dtype == torch.float32 for parameter in rounded.model.parameters())
    assert differences(exact.metrics, rounded.metrics) != []
    one, other = exact.logits(data.train.samples), rounded.logits(data.train.samples)
    torch.testing.assert_close(one, other, rtol=0.3, atol=0.3)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's compiler, of itself
def test_a_compiled_network_trains_to_the_same() -> None:
    data, config = rows(), tiny(steps=3)
    torch.manual_seed(0)
    model = nn.Linear(5, 3)
    other = start(data, config, model=copy.deepcopy(model))
    one = start(data, config.replace(compile=True), model=model)
    torch.testing.assert_close(one.logits(data.train.samples), other.logits(data.train.samples), rtol=1e-5, atol=1e-5)
    assert set(one.model.state_dict()) == set(other.model.state_dict())


def test_float64_is_double_all_the_way() -> None:
    data = rows()
    run = start(data, tiny(precision="float64", method="vat+ads", norm="batch"))
    assert {value.dtype for value in run.model.state_dict().values()} == {torch.float64, torch.int64}
    other = start(data, tiny(precision="float32", method="vat+ads", norm="batch"))
    one, two = run.logits(data.train.samples).double(), other.logits(data.train.samples).double()
    torch.testing.assert_close(one, two, rtol=1e-2, atol=1e-2)


def test_learning_lowers_the_error() -> None:
    no_ops = {"ops": 0, "cutout": 2, "shift": 1}  # ops change brightness, which is the class
    for data, own in ((images(), no_ops), (rows(), {})):
        run = start(data, tiny(steps=80, evaluations=2, ema=0.9, **own))
        assert run.metrics[-1]["test"]["error"] < 0.2  # 0.67 by chance
        assert run.metrics[-1]["train"]["supervised"] < 0.3


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (nn.Linear(5, 4), r"\(2, 4\)"),
        (nn.Sequential(nn.Linear(5, 3), nn.Unflatten(1, (3, 1))), r"\(2, 3, 1\)"),
        (nn.Sequential(nn.Linear(5, 6), nn.LSTM(6, 3)), "tuple"),
        (nn.Sequential(nn.Linear(5, 3), nn.Flatten(0)), r"\(6,\)"),
    ],
)
def test_a_network_that_gives_no_logits_is_refused(model: nn.Module, found: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=rf"for 2 samples the network must return logits \(2, 3\); it returns {found}"):
        start(rows(), tiny(), model=model, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_network_is_trained_in_place_and_the_run_has_a_copy() -> None:
    model = network(norm=True)
    before = copy.deepcopy(model.state_dict())
    run = start(rows(), tiny(), model=model)
    assert all(not torch.equal(before[name], value) for name, value in model.named_parameters())
    assert run.model is not model
    assert model.training
    assert any(not torch.equal(a, b) for a, b in zip(run.model.parameters(), model.parameters(), strict=True))


class Poisoned(nn.Module):
    """Gives NaN in training after so many passes."""

    def __init__(self, after: int | None, seed: int = 0) -> None:
        super().__init__()
        self.inner, self.after, self.passes = network(seed, norm=True), after, 0

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x)
        if not self.training or self.after is None:
            return logits
        self.passes += 1
        return logits * math.nan if self.passes > self.after else logits


@pytest.mark.parametrize("evaluations", [12, 3, 1])
def test_a_run_that_loses_its_numbers_says_where_and_can_be_gone_on_with(evaluations: int, tmp_path: Path) -> None:
    config = tiny(method="supervised", evaluations=evaluations)
    start(rows(), config, model=Poisoned(None), out=tmp_path / "whole")
    out = tmp_path / "broken"
    good = 9 - 9 % (12 // evaluations)
    told = rf"the supervised loss became infinite or NaN in step 10 of supervised: .*checkpoint is that of step {good}"
    with pytest.raises(BrokenError, match=told + rf", in {re.escape(str(out))}"):
        start(rows(), config, model=Poisoned(9), out=out)
    state, trouble = Folder(out).resume()
    assert state is not None
    assert state["step"] == good
    assert trouble == ""
    assert all(value.isfinite().all() for value in state["model"].values())
    start(rows(), config, model=Poisoned(None), out=out)
    assert differences(*(read_state(folder / "resume.safetensors") for folder in (out, tmp_path / "whole"))) == []


def test_the_term_that_was_lost_is_named() -> None:
    class Blind(nn.Module):
        """Knows labeled samples from strong views by their number: they come first."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.passes = network(), 0

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.inner(x)
            self.passes += self.training
            if self.passes <= 3:
                return logits
            return torch.cat([logits[:14], logits[14:] + math.inf])

    with pytest.raises(BrokenError, match=r"the consistency loss became .* in step 4 .*Nothing was saved: the run has"):
        start(rows(), tiny(), model=Blind())


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_huge_learning_rate_is_a_broken_run_or_a_bad_one(optimizer: str, tmp_path: Path) -> None:
    """Whatever overflows first, weights, losses or the logits of an evaluation: never an error of another kind."""
    ends: dict[str, int] = {}
    for lr in (1e4, 1e30, 1e36, 1e37, 1e38):
        for seed in range(4):
            config = tiny(method="supervised", optimizer=optimizer, lr=lr, evaluations=4, steps=4, seed=seed)
            try:
                start(rows(), config, model=network(seed))
                end = "finished"
            except BrokenError as error:
                end = "broken" if "became infinite or NaN in step" in str(error) else str(error)
            except ValueError as error:
                end = str(error)
            ends[end] = ends.get(end, 0) + 1
    assert set(ends) == {"finished", "broken"}, ends


def test_after_a_huge_learning_rate_what_was_saved_is_finite(tmp_path: Path) -> None:
    config = tiny(method="supervised", lr=3e38, evaluations=1, save_minutes=0)
    with pytest.raises(BrokenError, match="last good checkpoint is that of step"):
        start(rows(), config, model=network(), out=tmp_path)
    state, _ = Folder(tmp_path).resume()
    assert state is not None
    for part in ("model", "average"):
        assert all(value.isfinite().all() for value in state[part].values()), part


class Hidden(nn.Module):
    """A weight with a gradient of NaN that the loss does not show: the root of 0, times 0."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.root = network(), nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x)
        return logits + 0 * self.root.sqrt()


@pytest.mark.parametrize("steps", [1, 3])
def test_a_lost_weight_is_noticed_before_it_is_saved(steps: int, tmp_path: Path) -> None:
    told = "the weight root" if steps == 1 else "the supervised loss"
    with pytest.raises(BrokenError, match=f"{told} became infinite or NaN in step {min(steps, 2)} .*that of step 0"):
        start(rows(), tiny(method="supervised", steps=steps, evaluations=1), model=Hidden(), out=tmp_path)
    assert read_state(tmp_path / "resume.safetensors")["step"] == 0
    assert all(bool(value.isfinite().all()) for value in load(tmp_path, Hidden()).model.state_dict().values())


class Overflowing(nn.Module):
    """A buffer that overflows although every loss is finite, as the statistics of batch norm can."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()
        self.register_buffer("seen", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x)
        if self.training:
            self.seen: Tensor = self.seen * 1e30
            return logits
        return logits * self.seen


@pytest.mark.parametrize("evaluations", [12, 1])
def test_lost_statistics_are_noticed_before_they_are_saved(evaluations: int, tmp_path: Path) -> None:
    config = tiny(method="supervised", evaluations=evaluations, save_minutes=0)
    with pytest.raises(BrokenError, match="that of step"):
        start(rows(), config, model=Overflowing(), out=tmp_path)
    state, _ = Folder(tmp_path).resume()
    assert state is not None
    assert state["average"]["seen"].isfinite().all()


def test_a_run_without_labels_to_spare_takes_them_all() -> None:
    data = rows(labels=3)
    training = make_training(data, tiny(method="supervised", batch=64), network())
    sizes: list[int] = []
    training.model.register_forward_hook(lambda _, inputs, output: sizes.append(len(output)))
    training.update()
    assert sizes == [3]


def test_time_becomes_a_number_of_steps_that_is_kept(tmp_path: Path) -> None:
    config = tiny(method="supervised", time="0.5s", steps=7)
    run = start(rows(), config, out=tmp_path)
    steps = run.settings["steps"]
    assert run.metrics[-1]["step"] == steps
    assert steps > 10
    again = start(rows(), config.replace(steps=9), out=tmp_path)
    assert again.settings["steps"] == steps
    with pytest.raises(RunError, match=r"time was '0\.5s', now '2s'"):
        start(rows(), config.replace(time="2s"), out=tmp_path)


def test_train_takes_views_of_ones_own() -> None:
    seen: list[tuple[int, int]] = []

    def weak(samples: Any, indices: Any, step: int, stream: int) -> Tensor:
        seen.append((step, stream))
        return torch.from_numpy(samples)

    run = train(network(), rows(), tiny(method="mixmatch-ads", steps=2), views={"weak": weak})
    assert run.metrics[-1]["step"] == 2
    rehearsal = [(0, 0), (0, 1), (0, 2)]
    assert seen == [*rehearsal, (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_averages_are_the_same_without_a_private_name_of_torch() -> None:
    from halfsure.training import average  # noqa: PLC0415

    torch.manual_seed(0)
    for weight in (0.0, 0.1, 0.5, 1.0):
        old, new = [torch.randn(3, 5), torch.randn(7)], [torch.randn(3, 5), torch.randn(7)]
        fast, plain = [[tensor.clone() for tensor in old] for _ in range(2)]
        average._lerp(fast, new, weight)
        average._lerp_each(plain, new, weight)
        assert all(torch.equal(one, other) for one, other in zip(fast, plain, strict=True))
