"""Which passes update batch-norm statistics, and which share a dropout mask: by hand from the batch."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from halfsure import sharpen, sparsemax, sparsemax_loss
from halfsure.algorithms import VAT, Context
from halfsure.methods import method
from halfsure.views.batch import Batch
from tests.algorithms.twins import CLASSES, NUMBERS, Twin, make_batch, make_module, read_net

MOMENTUM = 0.3
SHAPES = {"1d": (6,), "2d": (2, 3, 3)}
METHODS = [
    "supervised",
    "supervised+me",
    "vat",
    "vat+ads",
    "mixmatch",
    "mixmatch+ns",
    "mixmatch-ads",
    "fixmatch-ads+ns",
]


def normed(kind: str) -> nn.Sequential:
    """A norm of the inputs, whose statistics are those of the pass, a layer, and a norm of its outputs."""
    torch.manual_seed(0)
    if kind == "1d":
        layers = [nn.BatchNorm1d(6, momentum=MOMENTUM), nn.Linear(6, 5), nn.BatchNorm1d(5, momentum=MOMENTUM)]
        head = [nn.Tanh(), nn.Linear(5, CLASSES)]
    else:
        layers = [nn.BatchNorm2d(2, momentum=MOMENTUM), nn.Conv2d(2, 5, 2), nn.BatchNorm2d(5, momentum=MOMENTUM)]
        head = [nn.Tanh(), nn.Flatten(), nn.Linear(20, CLASSES)]
    return nn.Sequential(*layers, *head).double()


def moments(x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Mean, variance and the unbiased variance of each channel. (n, channels, …)."""
    axes = tuple(i for i in range(x.ndim) if i != 1)
    count = x.size // x.shape[1]
    return x.mean(axes), x.var(axes), x.var(axes) * count / (count - 1)


def expected_statistics(model: nn.Sequential, samples: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Running mean and variance of both norms after one pass over the samples, from the fresh state 0 and 1."""
    x, found = samples.numpy(), []
    for layer in list(model)[:3]:
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            mean, variance, unbiased = moments(x)
            found.append((torch.tensor(MOMENTUM * mean), torch.tensor(1 - MOMENTUM + MOMENTUM * unbiased)))
            shape = (1, -1, *[1] * (x.ndim - 2))
            x = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + layer.eps)
        else:
            x = layer(torch.from_numpy(x)).detach().numpy()
    return found


def samples_of_the_pass(name: str, model: nn.Module, batch: Batch) -> Tensor:
    """What the one pass that counts sees."""
    joint = torch.cat([batch.labeled, *batch.unlabeled])
    if not name.startswith("mixmatch"):
        return joint
    generator = batch.draws.generator()
    lam = generator.beta(0.75, 0.75, len(joint))
    partner = generator.permutation(len(joint))
    share = np.maximum(lam, 1 - lam).reshape(-1, *[1] * (joint.ndim - 1))
    x = joint.numpy()
    return torch.from_numpy(share * x + (1 - share) * x[partner])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", SHAPES)
def test_running_statistics_are_those_of_the_documented_pass(kind: str, name: str) -> None:
    model, algorithm = normed(kind), method(name)
    batch = make_batch(labeled=4, unlabeled=7, views=len(algorithm.views), shape=SHAPES[kind])
    expected = expected_statistics(normed(kind), samples_of_the_pass(name, model, batch))
    algorithm.step(Context(model, batch))
    norms = [layer for layer in model if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d))]
    for norm, (mean, variance) in zip(norms, expected, strict=True):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        torch.testing.assert_close(norm.running_mean, mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(norm.running_var, variance, rtol=1e-12, atol=1e-12)
        assert norm.num_batches_tracked == 1
        assert norm.track_running_stats


@pytest.mark.parametrize("kind", SHAPES)
def test_weak_views_without_a_gradient_do_not_count(kind: str) -> None:
    """And are normalised by themselves: their targets do not depend on the other samples."""
    model, algorithm = normed(kind), method("fixmatch-ads", weak_grad=False)
    batch = make_batch(labeled=4, unlabeled=7, shape=SHAPES[kind])
    weak, strong = batch.unlabeled
    expected = expected_statistics(normed(kind), torch.cat([batch.labeled, strong]))
    losses = algorithm.step(Context(model, batch))
    norms = [layer for layer in model if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d))]
    for norm, (mean, variance) in zip(norms, expected, strict=True):
        torch.testing.assert_close(norm.running_mean, mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(norm.running_var, variance, rtol=1e-12, atol=1e-12)
        assert norm.num_batches_tracked == 1
        assert norm.track_running_stats
    target = sharpen(sparsemax(normed(kind)(weak)).detach())
    logits = normed(kind)(torch.cat([batch.labeled, strong]))[4:]
    torch.testing.assert_close(losses.consistency, sparsemax_loss(logits, target), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("power_steps", [0, 1, 3])
def test_power_steps_and_the_perturbed_pass_do_not_count(power_steps: int) -> None:
    model, batch = normed("1d"), make_batch(views=1, shape=(6,))
    VAT(power_steps=power_steps, epsilon=50.0).step(Context(model, batch))
    (mean, _), _ = expected_statistics(normed("1d"), torch.cat([batch.labeled, *batch.unlabeled]))
    norm = model[0]
    assert isinstance(norm, nn.BatchNorm1d)
    torch.testing.assert_close(norm.running_mean, mean, rtol=1e-12, atol=1e-12)
    assert norm.num_batches_tracked == 1


@pytest.mark.parametrize("name", ["vat", "mixmatch", "fixmatch-ads"])
def test_the_passes_that_do_not_count_still_normalise_by_their_batch(name: str) -> None:
    """Losses do not depend on what the norms have learned before."""
    algorithm = method(name)
    batch = make_batch(views=len(algorithm.views), shape=(6,))
    fresh, old = normed("1d"), normed("1d")
    for norm in (old[0], old[2]):
        assert isinstance(norm, nn.BatchNorm1d)
        assert norm.running_mean is not None
        norm.running_mean.fill_(100.0)
    one, two = algorithm.step(Context(fresh, batch)), algorithm.step(Context(old, batch))
    torch.testing.assert_close(one.consistency, two.consistency, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["vat@sparsemax+ads", "mixmatch@sparsemax-ads"])
def test_norms_in_evaluation_mode_go_by_what_they_have_learned(name: str) -> None:
    """A fresh one without its ε is the identity: the whole step is the plain twin's."""
    algorithm, twin, plain = method(name, r=NUMBERS["ads_r"]), Twin.of(name), make_module()
    model = nn.Sequential(plain, nn.BatchNorm1d(CLASSES, eps=0.0).double().eval())
    batch, net = make_batch(views=len(algorithm.views)), read_net(plain)
    _, consistency, _ = twin.losses(net, batch, twin.freeze(net, batch))
    found = algorithm.step(Context(model, batch)).consistency.tolist()
    assert found == pytest.approx(consistency, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", METHODS)
def test_norms_in_evaluation_mode_learn_nothing(name: str) -> None:
    model, algorithm = normed("1d").eval(), method(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    algorithm.step(Context(model, make_batch(views=len(algorithm.views), shape=(6,))))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not model.training


# Dropout


def dropping(p: float = 0.5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Dropout(p), nn.Linear(16, 16), nn.Tanh(), nn.Dropout(p), nn.Linear(16, CLASSES)
    ).double()


@pytest.mark.parametrize("map", ["softmax", "sparsemax", "entmax1.5"])
def test_unmoved_samples_lose_nothing_although_dropout_is_on(map: str) -> None:
    model, batch = dropping(), make_batch(views=1, shape=(6,))
    assert not torch.equal(model(batch.labeled), model(batch.labeled)), "dropout is on"
    still = VAT(map, epsilon=0.0, distance="l2").step(Context(model, batch)).consistency
    assert torch.equal(still, torch.zeros_like(still))
    moved = VAT(map, epsilon=1.0, distance="l2").step(Context(model, batch)).consistency
    assert moved.max() > 1e-4


@pytest.mark.parametrize("power_steps", [0, 1, 2, 3])
def test_all_passes_share_one_dropout_mask(power_steps: int) -> None:
    model, batch = dropping(), make_batch(views=1, shape=(6,))
    masks: dict[int, list[Tensor]] = {2: [], 5: []}
    for place, found in masks.items():
        model[place].register_forward_hook(lambda _, __, output, found=found: found.append(output == 0))
    VAT(power_steps=power_steps).step(Context(model, batch))
    for found in masks.values():
        assert len(found) == 2 + power_steps
        assert found[0].any()
        for i, mask in enumerate(found[1:], start=1):
            assert torch.equal(mask, found[0]), f"pass {i} has a mask of its own"


@pytest.mark.parametrize("power_steps", [0, 1, 3])
def test_the_generator_ends_where_one_clean_pass_leaves_it(power_steps: int) -> None:
    model, batch = dropping(), make_batch(views=1, shape=(6,))
    torch.manual_seed(5)
    model(torch.cat([batch.labeled, *batch.unlabeled]))
    expected = torch.get_rng_state()
    torch.manual_seed(5)
    VAT(power_steps=power_steps).step(Context(model, batch))
    assert torch.equal(torch.get_rng_state(), expected)


@pytest.mark.parametrize("name", ["vat", "mixmatch-ads", "fixmatch"])
def test_a_step_without_dropout_draws_nothing_from_the_global_generators(name: str) -> None:
    algorithm, model = method(name), normed("1d")
    batch = make_batch(views=len(algorithm.views), shape=(6,))
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1]  # type: ignore[index] # noqa: NPY002
    algorithm.step(Context(model, batch))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # type: ignore[index] # noqa: NPY002
