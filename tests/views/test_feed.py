"""From stored samples to batches: scaling, views, streams, and what the labels say about classes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from halfsure.data import Data, DataError, from_arrays
from halfsure.runs.start import start
from halfsure.training.class_shares import class_weights, label_shares, prior_shares
from halfsure.training.config import Config
from halfsure.training.errors import RunError
from halfsure.training.loop import require_views
from halfsure.training.ranks import Ranks
from halfsure.training.state import make_feed
from halfsure.views import moments as moments_module
from halfsure.views.batch import Batch, ViewName
from halfsure.views.feed import Feed
from halfsure.views.preprocessing import Preprocessing
from tests.training.helpers import images, rows, tiny

BOTH: tuple[ViewName, ...] = ("weak", "strong")


def table(samples: NDArray[Any]) -> Data:
    return from_arrays(samples, np.arange(len(samples)) % 3)


def feed(data: Data, config: Config, wanted: tuple[ViewName, ...] = ("weak", "strong")) -> Feed:
    views = config.make_views(data, Preprocessing.of(data))
    return make_feed(data, views, wanted, config, ranks=Ranks(), device=torch.device("cpu"))


@pytest.mark.parametrize("channels", [1, 3])
def test_images_by_channel(channels: int) -> None:
    data = images(channels=channels)
    found = tiny(views="images", normalise="channels").preprocessing(data)
    pixels = data.train.samples.astype(np.float64) / 255
    np.testing.assert_allclose(found.mean, pixels.mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(found.std, pixels.std((0, 1, 2)), rtol=1e-10)
    scaled = found(data.train.samples)
    assert scaled.shape == (60, channels, 8, 8)
    wanted = ((pixels - pixels.mean((0, 1, 2))) / pixels.std((0, 1, 2))).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(scaled.numpy(), wanted, atol=1e-5)


def test_images_by_half() -> None:
    data = images(channels=3)
    found = Preprocessing.of(data)
    wanted = (data.train.samples.transpose(0, 3, 1, 2) / 255 - 0.5) / 0.5
    np.testing.assert_allclose(found(data.train.samples).numpy(), wanted, atol=1e-6)


def test_black_images_are_scaled_by_one() -> None:
    data = table(np.zeros((6, 4, 4), dtype=np.uint8))
    found = tiny(views="images", normalise="channels").preprocessing(data)
    assert (found.mean, found.std) == ((0.0,), (1.0,))
    assert (found(data.train.samples) == 0).all()


ROWS = {
    "plain": lambda rng, n: rng.normal(size=(n, 4)),
    "large means, small deviations": lambda rng, n: rng.normal([1e4, -3e5, 0, 7e3], [1, 1, 1e-3, 1e3], (n, 4)),
    "trend": lambda rng, n: rng.normal(size=(n, 4)) + np.linspace(0, 1e4, n)[:, None],
    "large values": lambda rng, n: rng.normal(size=(n, 4)) * 1e30,
    "heavy tails": lambda rng, n: rng.standard_cauchy(size=(n, 4)),
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("count", [60, 777])
def test_rows_have_mean_0_and_deviation_1(kind: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments_module, "CHUNK", 100)
    data = table(ROWS[kind](np.random.default_rng(0), count).astype(np.float32))
    exact = data.train.samples.astype(np.float64)
    found = Preprocessing.of(data)
    np.testing.assert_allclose(found.mean, exact.mean(0), rtol=1e-9, atol=1e-9 * exact.std())
    np.testing.assert_allclose(found.std, exact.std(0), rtol=1e-7)
    scaled = found(data.train.samples).double().numpy()
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(scaled.std(0), 1, rtol=1e-4)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e-9, 1e-7, 1e-3])
def test_rows_in_small_units_are_not_taken_for_constant(scale: float) -> None:
    """A farad, a metre of wavelength: features of 1e-9 carry as much as those of 1."""
    samples = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    plain, small = (Preprocessing.of(table(x))(x) for x in (samples, (samples * scale).astype(np.float32)))
    torch.testing.assert_close(small, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [60, 12_345])
@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 7.0, 1e6, 1.7e9, 1e12, 3e18, 1e20, 7e25, 1e30])
def test_constant_columns_become_zero(value: float, count: int) -> None:
    samples = np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32)
    samples[:, 1] = value
    scaled = Preprocessing.of(table(samples))(samples)
    assert scaled[:, 1].abs().max() < 1e-3
    assert scaled[:, [0, 2]].std(correction=0).item() == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("kind", ["float32", "float64", "int16"])
def test_mapped_rows_are_scaled_as_those_in_memory(kind: str, tmp_path: Path) -> None:
    samples = (100 * np.random.default_rng(0).normal(size=(60, 5))).astype(kind)
    np.save(tmp_path / "X.npy", samples)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    labels = np.where(np.arange(60) < 12, np.arange(60) % 3, -1)
    one, other = from_arrays(mapped, labels), from_arrays(samples, labels)
    assert isinstance(one.train.samples, np.memmap)
    a, b = Preprocessing.of(one), Preprocessing.of(other)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-6)
    np.testing.assert_allclose(a.std, b.std, rtol=1e-6)
    torch.testing.assert_close(a(one.train.samples), b(other.train.samples), rtol=1e-5, atol=1e-5)
    if kind == "float32":
        first, second = (start(data, tiny(steps=3)).metrics[-1]["train"] for data in (one, other))
        assert first == second


def test_preprocessing_survives_json() -> None:
    channels = tiny(normalise="channels")
    for data, config in ((images(channels=3), channels), (images(), tiny()), (rows(), tiny())):
        found = config.preprocessing(data)
        again = Preprocessing.from_json(json.loads(json.dumps(found.as_json())))
        assert again == found
        assert torch.equal(again(data.train.samples), found(data.train.samples))


@pytest.mark.parametrize(
    ("make", "samples", "message"),
    [
        (images, np.zeros((2, 9, 8, 1), np.uint8), r"samples must be \(n, 8, 8, 1\), got \(2, 9, 8, 1\)"),
        (images, np.zeros((2, 8, 8, 1), np.float32), "images must be uint8"),
        (rows, np.zeros((2, 4)), r"samples must be \(n, 5\), got \(2, 4\)"),
        (rows, np.full((2, 5), np.nan), "rows must be finite"),
        (rows, np.full((2, 5), np.inf), "rows must be finite"),
    ],
)
def test_samples_of_another_kind_are_refused(make: Any, samples: NDArray[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Preprocessing.of(make())(samples)


def test_rows_too_far_from_those_trained_on_are_refused_rather_than_infinite() -> None:
    """Finite in float64, but not as what the model takes."""
    with pytest.raises(DataError, match="finite"):
        Preprocessing.of(rows())(np.full((1, 5), 1e300))


def same(one: Batch, other: Batch) -> bool:
    return (
        torch.equal(one.labeled, other.labeled)
        and torch.equal(one.labels, other.labels)
        and all(torch.equal(a, b) for a, b in zip(one.unlabeled, other.unlabeled, strict=True))
        and np.array_equal(one.draws.labeled, other.draws.labeled)
        and np.array_equal(one.draws.unlabeled, other.draws.unlabeled)
    )


@pytest.mark.parametrize("make", [images, rows])
def test_a_batch_depends_on_the_step_and_the_config_alone(make: Any) -> None:
    config, data = tiny(), make()
    first = feed(data, config)
    states, batches = [], []
    for step in range(20):
        states.append(json.loads(json.dumps(first.streams.state())))
        batches.append(first.next(step))
    for step in (0, 3, 7, 8, 19):
        later = feed(make(), config)
        later.streams.restore(states[step])
        for place in range(step, min(step + 3, 20)):
            assert same(later.next(place), batches[place])
    assert not any(same(batches[0], batch) for batch in batches[1:])
    assert not same(feed(data, config.replace(seed=1)).next(0), batches[0])


def test_labels_are_those_of_their_samples() -> None:
    data = rows()
    one = feed(data, tiny())
    seen: list[int] = []
    for step in range(4):
        batch = one.next(step)
        assert batch.labels.tolist() == data.train.labels[batch.draws.labeled].tolist()
        assert set(batch.draws.labeled) <= set(data.labeled)
        seen += batch.draws.labeled.tolist()
    assert sorted(seen) == sorted([*range(12)] * 2)


@pytest.mark.parametrize("make", [images, rows])
def test_views_of_one_sample_differ(make: Any) -> None:
    """Labeled, first weak, second weak, strong: each has its own randomness, in one step and of one sample."""
    data = make(count=12)
    own = {"shift": 3, "ops": 0} if make is images else {"weak_noise": 0.5, "strong_noise": 0.5, "strong_swap": 0.0}
    config = tiny(batch=12, unlabeled_batch=12, **own)
    batch = feed(data, config, ("weak", "weak", "strong")).next(0)
    by_labeled, by_unlabeled = np.argsort(batch.draws.labeled), np.argsort(batch.draws.unlabeled)
    views = [batch.labeled[by_labeled], *(view[by_unlabeled] for view in batch.unlabeled)]
    plain = Preprocessing.of(data)(data.train.samples)
    for place, view in enumerate(views):
        for other in (*views[place + 1 :], plain):
            assert (view != other).flatten(1).any(1).float().mean() > 0.8


def test_weak_and_strong_noise_of_rows_are_not_the_same_draws() -> None:
    data = rows(features=50, count=60)
    config = tiny(unlabeled_batch=60, weak_noise=0.5, strong_noise=1.0, strong_swap=0.0, batch=12)
    batch = feed(data, config, ("weak", "strong", "weak")).next(0)
    plain = Preprocessing.of(data)(data.train.samples)
    noises = [view - plain[batch.draws.unlabeled] for view in batch.unlabeled]
    noises.append(batch.labeled - plain[batch.draws.labeled])
    deviations = [noise.std().item() for noise in noises]
    assert deviations == pytest.approx([0.5, 1.0, 0.5, 0.5], rel=0.1)
    shared = torch.stack([noise.flatten() for noise in noises[:3]])
    assert (torch.corrcoef(shared) - torch.eye(3)).abs().max() < 0.08
    labeled = {int(sample): row for row, sample in enumerate(batch.draws.labeled)}
    pairs = [(row, labeled[int(s)]) for row, s in enumerate(batch.draws.unlabeled) if int(s) in labeled]
    one = torch.stack([noises[0][row].flatten() for row, _ in pairs]).flatten()
    other = torch.stack([noises[3][row].flatten() for _, row in pairs]).flatten()
    assert torch.corrcoef(torch.stack([one, other]))[0, 1].abs() < 0.15


def test_weak_and_strong_views_of_rows_differ_in_the_same_stream() -> None:
    data = rows(features=50)
    config = tiny(weak_noise=1.0, strong_noise=1.0, strong_swap=0.0)
    views = config.make_views(data, Preprocessing.of(data))
    plain = Preprocessing.of(data)(data.train.samples)
    noises = [(views[name](data.train.samples, np.arange(60), 3, 1) - plain).flatten() for name in BOTH]
    assert torch.corrcoef(torch.stack(noises))[0, 1].abs() < 0.08


def test_a_strong_view_without_strength_is_left_out_and_missed() -> None:
    weak_rows = tiny(strong_noise=0.0, strong_swap=0.0)
    weak_images = tiny(ops=0, cutout=0)
    for data, config in ((rows(), weak_rows), (images(), weak_images)):
        views = config.make_views(data, Preprocessing.of(data))
        assert set(views) == {"weak"}
        with pytest.raises(DataError, match=r"fixmatch-ads needs strong views.*choose a method without them"):
            require_views(views, config.algorithm(), data)
        require_views(views, config.replace(method="vat+ads").algorithm(), data)
        with pytest.raises(DataError, match="needs strong views"):
            start(data, config)
    assert set(tiny(ops=0, cutout=2).make_views(images(), Preprocessing.of(images()))) == {"weak", "strong"}


def unbalanced() -> Data:
    """Labels 6, 4 and 2 of three classes; the truth of the others is known but must not count."""
    labels = np.array([0] * 6 + [1] * 4 + [2] * 2 + [2] * 48)
    return from_arrays(rows().train.samples, labels).with_labels(np.arange(12))


def test_shares_of_the_labels() -> None:
    assert label_shares(unbalanced()).tolist() == pytest.approx([0.5, 1 / 3, 1 / 6])


def test_class_weights_by_hand() -> None:
    data = unbalanced()
    assert class_weights(data, None) is None
    assert prior_shares(data, None) is None
    balanced = class_weights(data, "balanced")
    assert balanced == pytest.approx([2 / 3, 1.0, 2.0])  # n / (classes · count), as everywhere
    given = class_weights(data, (1.0, 0.0, 3.0))
    assert given == pytest.approx([1.0, 0.0, 3.0])  # the labels' mean weight is 1 already
    for weights in ("balanced", (5.0, 1.0, 2.0), (1e-9, 1e-9, 1e-9)):
        found = class_weights(data, weights)
        assert np.mean(np.array(found)[data.train.labels[data.labeled]]) == pytest.approx(1)


def test_priors_by_hand() -> None:
    data = unbalanced()
    assert prior_shares(data, "labels") == pytest.approx([0.5, 1 / 3, 1 / 6])
    assert prior_shares(data, "uniform") == pytest.approx([1 / 3] * 3)
    assert prior_shares(data, (2.0, 1.0, 1.0)) == pytest.approx([0.5, 0.25, 0.25])


@pytest.mark.parametrize("name", ["class_weight", "prior"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((1.0, 1.0), "has 2 values, but .* has 3 classes"),
        ((1.0, 1.0, 1.0, 1.0), "has 4 values"),
        ((), "has 0 values"),
        ((1.0, -0.1, 1.0), "not negative"),
        ((0.0, 0.0, 0.0), "not all zero"),
        ((1.0, float("nan"), 1.0), "must be numbers"),
        ((1.0, float("inf"), 1.0), "must be numbers"),
    ],
)
def test_class_settings_that_mean_nothing_are_refused(name: str, values: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"{name} .*{message}"):
        {"class_weight": class_weights, "prior": prior_shares}[name](rows(), values)


@pytest.mark.parametrize("name", ["class_weight", "prior"])
def test_a_word_that_is_none_of_the_choices_is_refused(name: str) -> None:
    with pytest.raises((ValueError, DataError, RunError), match=name):
        start(rows(), tiny(method="fixmatch", **{name: "balansed"}))


@pytest.mark.parametrize("weights", [(0.0, 0.0, 1.0), (1.0, 0.0, 0.0)])
def test_class_weights_may_leave_classes_out(weights: tuple[float, ...]) -> None:
    data = unbalanced()
    found = np.array(class_weights(data, weights))
    assert np.isfinite(found).all()
    assert (found[np.array(weights) == 0] == 0).all()


def test_class_weights_reach_the_supervised_loss() -> None:
    data = unbalanced()
    config = tiny(method="supervised", batch=12, steps=1, evaluations=1, weak_noise=0.0, precision="float64")
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 3).double()
    logits = model(Preprocessing.of(data)(data.train.samples[:12]).double()).detach()
    losses = torch.nn.functional.cross_entropy(logits, torch.from_numpy(data.train.labels[:12]), reduction="none")
    weights = torch.tensor([2 / 3, 1.0, 2.0], dtype=torch.float64)[data.train.labels[:12]]
    run = start(data, config.replace(class_weight="balanced"), model=model)
    assert run.metrics[-1]["train"]["supervised"] == pytest.approx((weights * losses).mean().item(), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, 0) for name in ("steps", "batch", "unlabeled_batch", "evaluations", "last", "eval_batch", "threads")],
        *[(name, -1) for name in ("seed", "shift", "ops", "cutout", "unlabeled_sample", "test_sample", "momentum")],
        *[(name, -0.1) for name in ("lr", "weight_decay", "weak_noise", "strong_noise", "save_minutes")],
        *[(name, 1.1) for name in ("warmup", "ramp", "strong_swap", "ema")],
        *[(name, float("nan")) for name in ("lr", "ema", "warmup", "clip")],
        *[(name, "x") for name in ("preset", "norm", "optimizer", "schedule", "distance", "precision", "time")],
        *[("clip", 0.0), ("ema", 1.0), ("steps", 1.5), ("batch", True), ("time", "0s"), ("time", "5")],
    ],
)
def test_settings_out_of_range_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match="time is" if name == "time" else name):
        tiny(**({"optimizer": "sgd"} if name == "momentum" else {}) | {name: value})


@pytest.mark.parametrize(("time", "seconds"), [("90s", 90), ("5m", 300), ("1.5h", 5400), ("1d", 86400), (" 2 m ", 120)])
def test_times(time: str, seconds: float) -> None:
    from halfsure.training.config import parse_time  # noqa: PLC0415 - of this test alone

    assert parse_time(time) == seconds


@pytest.mark.parametrize(("name", "value"), [("lr", "1e-3"), ("flip", "no"), ("net", 5), ("steps", "9"), ("method", 3)])
def test_settings_of_another_type_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        tiny(**{name: value})


def test_a_config_survives_json() -> None:
    for config in (Config(), tiny(shift=3), tiny(prior=(0.2, 0.3, 0.5), class_weight="balanced", clip=1.0, time="3m")):
        assert Config.from_json(json.loads(json.dumps(config.as_json()))) == config
    with pytest.raises(ValueError, match="no setting 'learning_rate'"):
        Config.from_json({"optimizer": {"learning_rate": 1.0}})
