"""Each network against hand-made counts and formulas, a naive twin, and a tiny problem it must learn."""

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from halfsure.nets import CNN13, MLP, Conv7, Norm, WideResNet

NORMS: tuple[Norm, ...] = ("batch", "group", "none")
# name: (a small network of one channel with a norm, a side it takes)
SMALL: dict[str, tuple[Callable[[Norm], nn.Module], int]] = {
    "wrn": (lambda norm: WideResNet(1, 4, depth=10, width=1, norm=norm), 8),
    "cnn13": (lambda norm: CNN13(1, 4, width=8, norm=norm, dropout=0.0), 12),
    "conv7": (lambda norm: Conv7(1, 4, width=8, norm=norm), 8),
    "mlp": (lambda norm: MLP(64, 4, hidden=(32, 32), norm=norm), 8),
}
EACH = pytest.mark.parametrize("name", SMALL)
EACH_NORM = pytest.mark.parametrize("norm", NORMS)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def kernels(convs: list[tuple[int, int, int]]) -> int:
    return sum(i * o * k * k for i, o, k in convs)


def channels_out(convs: list[tuple[int, int, int]]) -> int:
    return sum(o for _, o, _ in convs)


def wrn_convs(channels: int, n: int, w: int) -> list[tuple[int, int, int]]:
    groups = [(16, 16 * w), (16 * w, 32 * w), (32 * w, 64 * w)]
    convs = [(channels, 16, 3)]
    for i, o in groups:
        convs += [(i, o, 3), (o, o, 3)] + [(o, o, 3)] * (2 * n - 2) + ([(i, o, 1)] if i != o else [])
    return convs


def test_wrn_28_2_has_the_published_number_of_parameters() -> None:
    assert count(WideResNet(3, 10)) == 1_467_610


@pytest.mark.parametrize(
    ("channels", "classes", "depth", "width"), [(3, 10, 28, 2), (1, 7, 16, 1), (3, 100, 10, 3), (1, 2, 22, 2)]
)
def test_wrn_parameter_counts(channels: int, classes: int, depth: int, width: int) -> None:
    n, w = (depth - 4) // 6, width
    convs = wrn_convs(channels, n, w)
    # Inputs and middles of the blocks of each group, and the last norm.
    normed = 16 + 16 * w * (2 * n - 1) + 16 * w + 32 * w * (2 * n - 1) + 32 * w + 64 * w * (2 * n - 1) + 64 * w
    head = 64 * w * classes + classes
    for norm, extra in (("batch", 2 * normed), ("group", 2 * normed), ("none", channels_out(convs))):
        model = WideResNet(channels, classes, depth, width, norm=norm)  # type: ignore[arg-type]
        assert count(model) == kernels(convs) + extra + head, norm


@EACH_NORM
@pytest.mark.parametrize(("channels", "classes", "w"), [(3, 10, 128), (1, 5, 8)])
def test_cnn13_parameter_counts(channels: int, classes: int, w: int, norm: Norm) -> None:
    convs = [(channels, w, 3), (w, w, 3), (w, w, 3), (w, 2 * w, 3), (2 * w, 2 * w, 3), (2 * w, 2 * w, 3)]
    convs += [(2 * w, 4 * w, 3), (4 * w, 2 * w, 1), (2 * w, w, 1)]
    extra = channels_out(convs) * (1 if norm == "none" else 2)
    assert count(CNN13(channels, classes, w, norm)) == kernels(convs) + extra + w * classes + classes


@EACH_NORM
@pytest.mark.parametrize(
    ("width", "widths"),
    [
        (64, (64, 64, 128, 128, 128, 128)),
        (16, (16, 16, 32, 32, 64, 64)),
        (40, (40, 40, 80, 80, 128, 128)),
        (96, (96, 96, 192, 192, 192, 192)),
    ],
)
def test_conv7_parameter_counts(width: int, widths: tuple[int, ...], norm: Norm) -> None:
    convs = list(zip((3, *widths[:-1]), widths, [3] * 6, strict=True))
    extra = sum(widths) * (1 if norm == "none" else 2)
    assert count(Conv7(3, 10, width, norm)) == kernels(convs) + extra + widths[-1] * 10 + 10


@EACH_NORM
def test_mlp_parameter_counts(norm: Norm) -> None:
    extra = (1200 + 1200) * (1 if norm == "none" else 2)
    expected = 784 * 1200 + 1200 * 1200 + extra + 1200 * 10 + 10
    assert count(MLP(784, 10, hidden=(1200, 1200), norm=norm)) == expected
    assert count(MLP(6, 3, hidden=())) == 6 * 3 + 3


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [8, 28, 32, 96])
def test_logits_have_one_row_an_image(side: int, channels: int) -> None:
    x = torch.randn(2, channels, side, side + 1)
    models = [WideResNet(channels, 7, 10, 1), Conv7(channels, 7, 8), MLP(x[0].numel(), 7, hidden=(8,))]
    if side >= CNN13.smallest:
        models.append(CNN13(channels, 7, width=8))
    for model in models:
        logits = model(x)
        assert logits.shape == (2, 7)
        assert logits.isfinite().all()


@pytest.mark.parametrize(
    ("side", "sides"),
    [
        (8, [8, 8, 4, 4, 4, 4]),
        (15, [15, 15, 8, 8, 4, 4]),
        (16, [8, 8, 4, 4, 4, 4]),
        (28, [14, 14, 7, 7, 4, 4]),
        (96, [48, 48, 24, 24, 12, 12]),
    ],
)
def test_conv7_halves_images_as_long_as_there_is_something_to_halve(side: int, sides: list[int]) -> None:
    assert conv_sides(Conv7(1, 3, width=4), side) == sides


def test_cnn13_pools_twice_and_ends_without_padding() -> None:
    assert conv_sides(CNN13(1, 3, width=4), 32) == [32, 32, 32, 16, 16, 16, 6, 6, 6]
    assert conv_sides(CNN13(1, 3, width=4), 12) == [12, 12, 12, 6, 6, 6, 1, 1, 1]


def test_wrn_halves_the_image_in_the_second_and_third_group() -> None:
    assert conv_sides(WideResNet(1, 3, depth=10, width=2), 32) == [32, 32, 32, 32, 16, 16, 16, 8, 8, 8]


def conv_sides(model: nn.Module, side: int) -> list[int]:
    """The sides of the images that come out of each convolution, in the order of the forward pass."""
    sides: list[int] = []
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda _module, _inputs, out: sides.append(out.shape[-1]))
    model(torch.randn(2, 1, side, side))
    return sides


@EACH
@EACH_NORM
def test_norms_are_of_the_asked_kind_alone(name: str, norm: Norm) -> None:
    model = SMALL[name][0](norm)
    convs = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    hidden = {"wrn": 7, "cnn13": 9, "conv7": 6, "mlp": 2}[name]
    kinds = {"batch": _BatchNorm, "group": nn.GroupNorm}
    for kind, module_type in kinds.items():
        found = [m for m in model.modules() if isinstance(m, module_type)]
        assert len(found) == (hidden if kind == norm else 0)
    assert all((conv.bias is not None) == (norm == "none") for conv in convs)
    if name == "wrn":
        assert all(m.momentum == 0.001 for m in model.modules() if isinstance(m, nn.BatchNorm2d))


def naive_norm(state: dict[str, Tensor], name: str, x: Tensor, norm: Norm) -> Tensor:
    if norm == "none":
        return x
    scale, offset = (state[f"{name}.{key}"][None, :, None, None] for key in ("weight", "bias"))
    if norm == "batch":
        mean, var = (state[f"{name}.running_{key}"][None, :, None, None] for key in ("mean", "var"))
        return (x - mean) / (var + 1e-5).sqrt() * scale + offset
    size = x.shape[1] // max(g for g in range(1, 9) if x.shape[1] % g == 0)
    groups = [group for sample in x for group in sample.split(size)]
    parts = [(group - group.mean()) / (group.var(correction=0) + 1e-5).sqrt() for group in groups]
    return torch.cat(parts).reshape(x.shape) * scale + offset


def naive_wrn(state: dict[str, Tensor], x: Tensor, n: int, norm: Norm) -> Tensor:
    """A wide residual network block by block, from its numbers alone."""

    def conv(name: str, x: Tensor, stride: int = 1) -> Tensor:
        kernel = state[f"{name}.weight"]
        size = kernel.shape[-1]
        patches = F.unfold(x, size, padding=size // 2, stride=stride)
        out = kernel.flatten(1) @ patches
        side = -(-x.shape[-1] // stride)
        bias = state.get(f"{name}.bias", torch.zeros(len(kernel), dtype=x.dtype))
        return out.reshape(len(x), len(kernel), side, side) + bias[:, None, None]

    def active(name: str, x: Tensor) -> Tensor:
        x = naive_norm(state, name, x, norm)
        return torch.where(x > 0, x, 0.1 * x)

    x = conv("stem", x)
    for b in range(3 * n):
        block = f"blocks.{b}"
        stride = 2 if b in (n, 2 * n) else 1
        a = active(f"{block}.norm1", x)
        out = conv(f"{block}.conv2", active(f"{block}.norm2", conv(f"{block}.conv1", a, stride)))
        aside = a if b == 0 else x
        x = out + (conv(f"{block}.shortcut", aside, stride) if f"{block}.shortcut.weight" in state else aside)
    x = active("norm", x).sum((-2, -1)) / x.shape[-1] ** 2
    return x @ state["head.weight"].T + state["head.bias"]


@EACH_NORM
@pytest.mark.parametrize(("depth", "width"), [(10, 2), (16, 1)])
def test_wrn_agrees_with_its_naive_twin(depth: int, width: int, norm: Norm) -> None:
    model = WideResNet(3, 5, depth, width, norm).double().eval()
    state = model.state_dict()
    for name, value in state.items():  # biases, scales and statistics start as 0 and 1, which would hide mistakes
        if value.ndim == 1:
            value.copy_(torch.rand_like(value) + 0.5 if "var" in name else torch.randn_like(value))
    x = torch.randn(3, 3, 9, 9, dtype=torch.double)
    torch.testing.assert_close(model(x), naive_wrn(state, x, (depth - 4) // 6, norm))


def test_wrn_weights_start_with_the_published_scale() -> None:
    model = WideResNet(3, 100)  # with so many classes Glorot's scale of the head is far from He's
    convs = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert len(convs) == 1 + 24 + 3
    for conv in convs:
        wanted = math.sqrt(2 / (conv.kernel_size[0] ** 2 * conv.out_channels))
        off = 5 * wanted / math.sqrt(2 * conv.weight.numel())  # five standard errors of a standard deviation
        assert abs(conv.weight.std().item() - wanted) < off
    assert abs(model.head.weight.std().item() / math.sqrt(2 / (128 + 100)) - 1) < 5 / math.sqrt(2 * 12800)
    assert model.head.bias.count_nonzero() == 0


@pytest.mark.parametrize("model", [Conv7(3, 10, norm="none"), MLP(784, 10)])
def test_conv7_and_mlp_start_with_he_weights_and_no_bias(model: nn.Module) -> None:
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) > 2
    for layer in layers:
        fan_in = layer.weight[0].numel()
        gain = 1 if layer is layers[-1] else 2 / (1 + 0.1**2)
        assert abs(layer.weight.std().item() / math.sqrt(gain / fan_in) - 1) < 5 / math.sqrt(2 * layer.weight.numel())
        assert layer.bias is not None
        assert layer.bias.count_nonzero() == 0


def test_cnn13_keeps_torchs_uniform_weights() -> None:
    convs = [m for m in CNN13(3, 10, width=32).modules() if isinstance(m, nn.Conv2d)]
    assert len(convs) == 9
    for conv in convs:
        bound = 1 / math.sqrt(conv.weight[0].numel())
        assert 0.95 * bound < conv.weight.abs().max() <= bound
        assert abs(conv.weight.std().item() / (bound / math.sqrt(3)) - 1) < 5 / math.sqrt(2 * conv.weight.numel())


@EACH_NORM
@pytest.mark.parametrize(
    "make",
    [
        lambda norm: WideResNet(3, 10, depth=40, width=1, norm=norm),
        lambda norm: CNN13(3, 10, width=32, norm=norm),
        lambda norm: Conv7(3, 10, width=32, norm=norm),
        lambda norm: MLP(3 * 16 * 16, 10, norm=norm),
    ],
)
def test_first_logits_are_of_moderate_scale(make: Callable[[Norm], nn.Module], norm: Norm) -> None:
    logits = make(norm)(torch.randn(8, 3, 16, 16))
    assert logits.isfinite().all()
    assert 0.02 < logits.std() < 1.5


def test_without_norm_the_branches_of_a_deep_wrn_are_damped() -> None:
    """Each of L branches adds 1/L of its shortcut's variance, so blocks without a new shortcut multiply it by < e."""
    model = WideResNet(3, 10, depth=40, width=2, norm="none")
    x = torch.randn(2, 3, 16, 16)
    scales: list[float] = []
    model.blocks.register_forward_pre_hook(lambda _module, inputs: scales.append(inputs[0].std().item()))
    for block in model.blocks:
        block.register_forward_hook(lambda _module, _inputs, out: scales.append(out.std().item()))
    model(x)
    growth = [math.log(after / before) for before, after in itertools.pairwise(scales)]
    assert all(abs(growth[b]) < 0.2 for b in range(18) if b not in (0, 6, 12))
    assert sum(growth[b] for b in range(18) if b not in (0, 6, 12)) < 1


@EACH
@EACH_NORM
def test_a_tiny_problem_is_learned(name: str, norm: Norm) -> None:
    make, side = SMALL[name]
    model = make(norm)
    x = torch.randn(32, 1, side, side)
    labels = torch.arange(32) % 4
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3 if name == "conv7" else 5e-3)
    losses = []
    for _ in range(60):
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] < 3
    assert losses[-1] < 0.5 * losses[0]


@EACH
@EACH_NORM
def test_other_precisions_layouts_and_copies(name: str, norm: Norm) -> None:
    make, side = SMALL[name]
    model = make(norm)
    x = torch.randn(4, 1, side, side)
    logits = model(x)
    twin = copy.deepcopy(model)
    assert twin(x).equal(logits)
    torch.testing.assert_close(
        twin.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last)),  # type: ignore[call-overload]
        logits,
        rtol=1e-4,
        atol=1e-5,
    )
    precise = twin.double()(x.double())
    assert precise.dtype == torch.double
    torch.testing.assert_close(precise.float(), logits, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        next(twin.parameters()).zero_()
    assert model(x).equal(logits)


@EACH
def test_the_global_seed_decides_the_weights(name: str) -> None:
    make, _ = SMALL[name]
    weights = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        weights.append(torch.cat([p.flatten() for p in make("none").parameters()]))
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


@pytest.mark.parametrize("name", ["wrn", "conv7"])
def test_the_compiler_traces_the_whole_network(name: str) -> None:
    make, side = SMALL[name]
    model = make("batch").eval()
    x = torch.randn(2, 1, side, side)
    compiled: Any = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))


def test_dropout_drops_in_training_alone() -> None:
    x = torch.randn(4, 1, 12, 12)
    for dropout, same in ((0.5, False), (0.0, True)):
        for model in (CNN13(1, 3, width=8, norm="none", dropout=dropout), MLP(144, 3, dropout=dropout)):
            assert model(x).equal(model(x)) == same
            model.eval()
            assert model(x).equal(model(x))


def test_group_norm_keeps_narrow_layers_alive() -> None:
    """With one value a group, a norm would answer zero whatever comes in."""
    for model, shape in ((MLP(6, 3, hidden=(7, 8), norm="group"), (5, 6)), (CNN13(1, 3, 8, "group"), (5, 1, 12, 12))):
        assert model.eval()(torch.randn(shape)).std(0).min() > 1e-3


def test_the_mlp_reads_images_as_rows() -> None:
    model = MLP(2 * 3 * 4, 5)
    x = torch.randn(6, 2, 3, 4)
    assert model(x).equal(model(x.reshape(6, 24)))


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (CNN13(1, 3, width=4), torch.rand(2, 1, 11, 32), r"at least 12 pixels a side .* got 11 × 32; enlarge"),
        (WideResNet(1, 3, 10, 1), torch.rand(2, 1, 7, 7), "at least 8 pixels a side"),
        (Conv7(1, 3, width=4), torch.rand(2, 1, 28, 7), "at least 8 pixels a side"),
        (Conv7(3, 3, width=4), torch.rand(2, 28, 28, 3), r"images must be \(n, 3, height, width\), got .*permute"),
        (Conv7(1, 3, width=4), torch.rand(28, 28), r"images must be \(n, 1, height, width\)"),
        (Conv7(1, 3, width=4), torch.zeros(2, 1, 8, 8, dtype=torch.uint8), r"floating point, got torch.uint8"),
        (MLP(9, 3), torch.rand(2, 8), r"must have 9 values each.* got \(2, 8\)"),
        (MLP(9, 3), torch.rand(9), r"must have 9 values each"),
        (MLP(9, 3), torch.ones(2, 9, dtype=torch.long), r"floating point, got torch.int64; .*\.float\(\)"),
    ],
)
def test_wrong_inputs_are_refused(model: nn.Module, x: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WideResNet(3, 10, depth=27), "6n \\+ 4, got 27; try 22 or 28"),
        (lambda: WideResNet(3, 10, depth=4), "depth must be a whole number of at least 10"),
        (lambda: WideResNet(3, 10, width=0), "width must be a whole number of at least 1, got 0"),
        (lambda: WideResNet(3, 1), "classes must be a whole number of at least 2, got 1"),
        (lambda: CNN13(0, 10), "channels must be a whole number of at least 1"),
        (lambda: CNN13(1, 10, dropout=1.0), "dropout must be a finite number from 0 to 0.99"),
        (lambda: Conv7(1, 10, width=2.5), "width must be a whole number of at least 1, got 2.5"),  # type: ignore[arg-type]
        (lambda: Conv7(1, 10, norm="layer"), "norm must be one of"),  # type: ignore[arg-type]
        (lambda: MLP(0, 10), "features must be a whole number of at least 1"),
        (lambda: MLP(4, 10, hidden=(8, 0)), "each hidden size must be a whole number of at least 1, got 0"),
        (lambda: MLP(4, True), "classes must be a whole number"),
        (lambda: MLP(4, 3, dropout=-0.1), "dropout must be"),
    ],
)
def test_wrong_settings_are_refused(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
