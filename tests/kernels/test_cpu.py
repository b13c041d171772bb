"""The kernels on the CPU, against the plain torch code; the whole suite of the maps and losses runs on them too."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import halfsure
from halfsure import kernels
from halfsure.kernels import cpu, plain_code
from tests.test_simplex import randn

NAN, INF = float("nan"), float("inf")
# Around the widths at which the code takes another way, and around whole vectors.
CLASSES = [1, 2, 3, 7, 8, 10, 12, 13, 31, 33, 64, 65, 100, 127, 128, 129, 192, 255, 256, 257, 511, 513, 1000, 4099]
BATCHES = [1, 2, 63, 64, 65, 130]

Function = Callable[[Tensor], Tensor]


def functions(n: int, classes: int) -> dict[str, Function]:
    labels = torch.arange(n) % classes
    soft = torch.softmax(3 * randn(n, classes, seed=5), -1)
    return {
        "sparsemax": halfsure.sparsemax,
        "labels": lambda z: halfsure.sparsemax_loss(z, labels),
        "soft": lambda z: halfsure.sparsemax_loss(z, soft.to(z)),
        "ads": lambda z: halfsure.ads_loss(z, reduction="none"),
        "ads mean": halfsure.ads_loss,
    }


NAMES = list(functions(1, 1))
EACH = pytest.mark.parametrize("name", NAMES)


def value_and_gradient(function: Function, z: Tensor, *, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    z = z.detach().requires_grad_()
    value = function(z)
    come = torch.ones_like(value) if weights is None else weights[: value.numel()].reshape(value.shape)
    return value.detach(), torch.autograd.grad(value, z, come)[0]


def assert_twins(function: Function, z: Tensor, tolerance: float) -> None:
    assert kernels.usable(z)
    weights = randn(z.numel(), seed=9).to(z)
    got = value_and_gradient(function, z, weights=weights)
    with plain_code():
        assert not kernels.usable(z)
        wanted = value_and_gradient(function, z, weights=weights)
    for mine, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance, equal_nan=True)


@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", CLASSES)
def test_equal_to_the_plain_code_at_any_width(classes: int, dtype: torch.dtype, name: str) -> None:
    tolerance = 2e-5 if dtype == torch.float32 else 1e-11
    for scale in (1e-4, 1.0, 30.0):
        assert_twins(functions(5, classes)[name], (scale * randn(5, classes)).to(dtype), tolerance)


@EACH
@pytest.mark.parametrize("batch", BATCHES)
def test_equal_to_the_plain_code_at_any_batch_size(batch: int, name: str) -> None:
    for classes in (10, 300):
        assert_twins(functions(batch, classes)[name], randn(batch, classes).float(), 1e-5)


@EACH
@pytest.mark.parametrize("classes", [4, 200])
def test_ties_masks_and_bad_rows(classes: int, name: str) -> None:
    z = randn(9, classes)
    z[0] = 0
    z[1, :2] = z[1].max() + 1
    z[2, 2:] = -INF
    z[3] = -INF
    z[4, 1] = INF
    z[5, 0] = NAN
    z[6, -1] = -NAN
    z[7] = torch.arange(classes) % 2
    z[8] = -torch.arange(classes, dtype=torch.float64)  # the second sits exactly on the threshold
    assert_twins(functions(9, classes)[name], z, 1e-12)
    assert_twins(functions(9, classes)[name], z.float(), 1e-5)
    assert_twins(functions(9, classes)[name], z + 1e6, 1e-8)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ads mean"])
@pytest.mark.parametrize("classes", [10, 128, 129, 600])
def test_a_row_has_the_same_bits_in_any_company(classes: int, name: str) -> None:
    z = randn(150, classes).float()
    z[1::3] *= 1e-4
    z[2::7] *= 100
    together = value_and_gradient(functions(150, classes)[name], z)
    for i in (0, 1, 2, 63, 64, 149):
        function = functions(150, classes)[name]
        if name in ("labels", "soft"):  # the target goes with the row
            rolled = value_and_gradient(function, torch.cat([z[i:], z[:i]]).roll(i, 0))
            assert all(torch.equal(a, b) for a, b in zip(rolled, together, strict=True))
        else:
            alone = value_and_gradient(function, z[i : i + 1])
            assert all(torch.equal(a[0], b[i]) for a, b in zip(alone, together, strict=True))


@EACH
def test_threads_do_not_change_a_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    z = randn(67, 300).float()
    weights = randn(z.numel(), seed=3).float()
    one = value_and_gradient(functions(67, 300)[name], z, weights=weights)
    monkeypatch.setattr(cpu, "ENOUGH", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    three = value_and_gradient(functions(67, 300)[name], z, weights=weights)
    assert all(torch.equal(a, b) for a, b in zip(one, three, strict=True))


def test_several_threads_may_call_at_once() -> None:
    batches = [randn(65, 40, seed=seed).float() for seed in range(40)]
    wanted = [halfsure.ads_loss(z) for z in batches]
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(a, b) for a, b in zip(pool.map(halfsure.ads_loss, batches), wanted, strict=True))


def test_numbers_on_a_geometric_scale_are_solved_too() -> None:
    """Where sorting would be needed most: every class is far from the next, down to the smallest difference."""
    for classes in (40, 200, 2000):
        z = -torch.logspace(-9, 0.5, classes, dtype=torch.float64)[None]
        assert_twins(halfsure.sparsemax, z, 1e-12)
        assert_twins(halfsure.sparsemax, z.flip(-1).float(), 1e-5)


@EACH
def test_derivatives_of_both_orders(name: str) -> None:
    z = randn(6, 5).requires_grad_()
    function = functions(6, 5)[name]
    if name.startswith("ads"):  # its target is held fixed, which differences of the loss do not see
        gradient = torch.autograd.grad(function(z).sum(), z, create_graph=True)[0]
        got = torch.autograd.grad(gradient.square().sum(), z)[0]
        with plain_code():
            plain = torch.autograd.grad(function(z).sum(), z, create_graph=True)[0]
            torch.testing.assert_close(got, torch.autograd.grad(plain.square().sum(), z)[0])
    else:
        assert gradcheck(function, (z,))
        assert gradgradcheck(function, (z,))


@EACH
def test_gradients_of_any_layout_and_in_batches(name: str) -> None:
    z = randn(6, 5).requires_grad_()
    function = functions(6, 5)[name]
    value = function(z)
    come = torch.stack([randn(*value.shape, seed=k) if value.ndim else torch.tensor(float(k)).double() for k in (1, 2)])
    wanted = [torch.autograd.grad(value, z, each, retain_graph=True)[0] for each in come]
    (batched,) = torch.autograd.grad(value, z, come, retain_graph=True, is_grads_batched=True)
    torch.testing.assert_close(batched, torch.stack(wanted))
    strided = come.movedim(0, -1).contiguous()[..., 0]
    assert torch.equal(torch.autograd.grad(value, z, strided)[0], wanted[0])


@EACH
def test_forward_mode_takes_the_plain_code(name: str) -> None:
    z, tangent = randn(6, 5), randn(6, 5, seed=1)
    function = functions(6, 5)[name]
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(function(forward_ad.make_dual(z, tangent))).tangent
    weights = randn(*moved.shape, seed=2) if moved.ndim else torch.ones((), dtype=torch.float64)
    backward = value_and_gradient(function, z, weights=weights.flatten())[1]
    torch.testing.assert_close((weights * moved).sum(), (backward * tangent).sum())


def test_parameters_checkpoints_and_repeated_backward_passes() -> None:
    z = nn.Parameter(randn(6, 5))
    loss = halfsure.ads_loss(z)
    loss.backward(retain_graph=True)
    (once,) = torch.autograd.grad(halfsure.ads_loss(z), z)
    loss.backward()
    assert z.grad is not None
    assert torch.equal(z.grad, 2 * once)
    again = checkpoint(halfsure.ads_loss, z, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(again, z)[0], once)


def test_a_tensor_of_another_kind_takes_the_plain_code() -> None:
    class Own(Tensor):
        pass

    assert not kernels.usable(randn(2, 3).as_subclass(Own))
    assert not kernels.usable(randn(2, 3).half())
    assert not kernels.usable(randn(0, 3))
    assert not kernels.usable(torch.empty(2, 3, device="meta"))
    z = randn(2, 3)
    with FlopCounterMode(display=False):  # it looks at every operation
        assert not kernels.usable(z)
        torch.testing.assert_close(halfsure.ads_loss(z), kernels.ads_loss(z, mean=True))


def test_tracing_records_the_plain_code() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the checks of shapes, which a trace leaves out, and of its age
        traced = torch.jit.trace(halfsure.sparsemax, randn(3, 4))
    z = randn(3, 4, seed=2)
    torch.testing.assert_close(traced(z), halfsure.sparsemax(z))


def test_compiled_code_is_kept_for_the_next_process() -> None:
    program = (
        "import torch, halfsure; from halfsure.kernels import _numba; halfsure.ads_loss(torch.randn(3, 4)); "
        "s = _numba.ads_forward.stats; print(len(s.cache_hits), len(s.cache_misses))"
    )
    halfsure.ads_loss(torch.randn(3, 4))  # compiled by now, whoever came first
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0"]
