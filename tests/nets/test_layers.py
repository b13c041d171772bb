"""Norm layers, frozen statistics, and which parameters are decayed."""

import copy
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from halfsure.nets import MLP, Conv7, WideResNet, build, frozen_statistics, kernels_and_rest
from halfsure.nets.layers import Head, norm_layer


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed(model: nn.Module, before: dict[str, Tensor]) -> set[str]:
    return {name.split(".")[-1] for name, value in model.state_dict().items() if not value.equal(before[name])}


@pytest.mark.parametrize(
    ("channels", "per_group", "groups"),
    [(16, 1, 8), (128, 1, 8), (12, 1, 6), (7, 1, 7), (11, 1, 1), (1, 1, 1), (16, 8, 2), (7, 8, 1), (256, 8, 8)],
)
def test_groups_divide_the_channels(channels: int, per_group: int, groups: int) -> None:
    layer = norm_layer("group", channels, per_group=per_group)
    assert isinstance(layer, nn.GroupNorm)
    assert (layer.num_groups, layer.num_channels) == (groups, channels)


def test_an_unknown_norm_is_refused() -> None:
    with pytest.raises(ValueError, match="norm must be one of 'batch', 'group', 'none', got 'layer'"):
        norm_layer(cast(Any, "layer"), 4)


BATCH_NORMS: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [
    (lambda: nn.BatchNorm1d(5), (6, 5)),
    (lambda: nn.BatchNorm2d(5, momentum=None), (6, 5, 3, 3)),  # None: the mean of all batches, which counts them
    (lambda: nn.BatchNorm3d(5), (6, 5, 2, 2, 2)),
    (lambda: WideResNet(5, 3, depth=10, width=1), (6, 5, 8, 8)),
    (lambda: MLP(5, 3, hidden=(16,), norm="batch"), (6, 5)),
]


@pytest.mark.parametrize(("make", "shape"), BATCH_NORMS)
def test_frozen_statistics_change_no_buffer_and_no_output(
    make: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    model = make()
    model(torch.randn(shape))  # so that what is frozen differs from the start
    x = 3 * torch.randn(shape) + 1
    free = copy.deepcopy(model)
    before = state(model)
    a = x.clone().requires_grad_()
    b = x.clone().requires_grad_()
    with frozen_statistics(model):
        frozen_out = model(a)
    free_out = free(b)
    assert frozen_out.equal(free_out)
    frozen_out.square().sum().backward()
    free_out.square().sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.equal(b.grad)
    assert changed(model, before) == set()
    assert changed(free, before) == {"running_mean", "running_var", "num_batches_tracked"}
    model(x)  # and out of the block it learns as if the block had not been
    assert changed(model, state(free)) == set()


def test_frozen_statistics_leave_evaluation_alone() -> None:
    model = Conv7(1, 3, width=4)
    x = torch.randn(6, 1, 8, 8)
    model(x)
    model.eval()
    outside = model(x)
    with frozen_statistics(model):
        assert model(x).equal(outside)
    assert not model.train()(x).allclose(outside)


def test_frozen_statistics_end_with_an_exception() -> None:
    model = nn.BatchNorm1d(4)
    before = state(model)

    def fail() -> None:
        with frozen_statistics(model):
            model(torch.randn(8, 4))
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert changed(model, before) == set()
    model(torch.randn(8, 4))
    assert "running_mean" in changed(model, before)


def test_frozen_statistics_nest() -> None:
    model = nn.BatchNorm1d(4)
    before = state(model)
    with frozen_statistics(model):
        with frozen_statistics(model):
            model(torch.randn(8, 4))
        model(torch.randn(8, 4))  # the inner block's end must not thaw the outer one
        assert changed(model, before) == set()
    model(torch.randn(8, 4))
    assert changed(model, before) != set()


def test_frozen_statistics_leave_untracked_norms_untracked() -> None:
    without, with_ = nn.BatchNorm1d(4, track_running_stats=False), nn.SyncBatchNorm(4)
    with frozen_statistics(nn.Sequential(without, with_)):
        assert not without.track_running_stats
        assert not with_.track_running_stats
    assert not without.track_running_stats
    assert with_.track_running_stats


def test_kernels_are_the_weights_of_dense_and_convolution() -> None:
    model = WideResNet(3, 4, depth=10, width=2)
    kernels, rest = kernels_and_rest(model)
    by_type = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert {id(p) for p in kernels} == {id(p) for p in by_type}
    assert len(kernels) == len(by_type)
    assert {id(p) for p in rest} == {id(p) for p in model.parameters()} - {id(p) for p in kernels}
    assert len(rest) == 2 * 7 + 1  # scale and offset of two norms in each of three blocks and of the last; head bias


def test_frozen_parameters_are_left_out_and_shared_ones_come_once() -> None:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    first.bias.requires_grad_(False)
    kernels, rest = kernels_and_rest(nn.Sequential(first, second))
    assert [id(p) for p in kernels] == [id(first.weight)]
    assert [id(p) for p in rest] == [id(second.bias)]


def test_decaying_kernels_only_moves_kernels_only() -> None:
    model = MLP(4, 3, hidden=(8,), norm="batch")
    kernels, rest = kernels_and_rest(model)
    before = state(model)
    groups = [{"params": kernels, "weight_decay": 0.5}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    (0 * F.cross_entropy(model.eval()(torch.randn(5, 4)), torch.zeros(5, dtype=torch.long))).backward()
    optimizer.step()
    moved = {name for name, value in model.state_dict().items() if not value.equal(before[name])}
    assert moved == {"hidden.0.weight", "head.weight"}


@pytest.mark.parametrize("name", ["wrn-10-1", "cnn13-4", "conv7-4", "mlp"])
def test_logits_keep_full_precision_under_autocast(name: str) -> None:
    """Those of another dtype would be rounded to three digits."""
    model, x = build(name, (12, 12, 1), 10).eval(), torch.rand(16, 1, 12, 12)
    features: list[Tensor] = []
    head = cast(nn.Linear, model.head)
    head.register_forward_pre_hook(lambda _, inputs: features.append(inputs[0]))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(x)
    assert logits.dtype == torch.float32
    assert features[0].dtype == torch.bfloat16
    torch.testing.assert_close(logits, F.linear(features[0].float(), head.weight, head.bias), rtol=0, atol=0)
    assert not logits.equal(logits.bfloat16().float())


def test_a_compiled_head_keeps_full_precision_too() -> None:
    head, x = Head(8, 3), torch.rand(4, 8)
    compiled = torch.compile(head, backend="eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(compiled(x), F.linear(x, head.weight, head.bias).float(), rtol=1e-2, atol=1e-2)
        assert compiled(x).equal(head(x))
        assert compiled(x).dtype == torch.float32


def test_a_network_of_another_precision_or_without_values_has_its_logits() -> None:
    model, x = build("conv7-4", (8, 8, 1), 10), torch.rand(2, 1, 8, 8)
    assert copy.deepcopy(model).bfloat16()(x.bfloat16()).dtype == torch.bfloat16
    assert model.double()(x.double()).dtype == torch.float64
    assert model.to("meta")(x.double().to("meta")).shape == (2, 10)
