"""The kernels on the CPU, against the plain torch code; the whole suite of the maps and losses runs on them too."""

import importlib.util
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import halfsure
from halfsure import kernels
from halfsure._compiled import cached
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
    torch.testing.assert_close(torch.autograd.grad(again, z)[0], once)


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


@pytest.mark.slow
def test_compiled_code_is_kept_for_the_next_process() -> None:
    program = (
        "import torch, halfsure; from halfsure.kernels import _numba; halfsure.ads_loss(torch.randn(3, 4)); "
        "s = _numba.ads_forward.stats; print(len(s.cache_hits), len(s.cache_misses))"
    )
    halfsure.ads_loss(torch.randn(3, 4))  # compiled by now, whoever came first
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0"]


# What the kernels take on trust


@pytest.mark.parametrize("offset", [0.0, 100.0, 1e4, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [10, 300])
def test_an_offset_costs_no_loss_its_digits(classes: int, dtype: torch.dtype, offset: float) -> None:
    """Against the exact difference: the logits are whole multiples of what an offset leaves of their digits."""
    z = ((4 * randn(40, classes)).round() / 4).to(dtype)
    bound = 100 * torch.finfo(dtype).eps
    for name, function in functions(40, classes).items():
        assert torch.equal(z + offset - offset, z)
        torch.testing.assert_close(function(z + offset), function(z), rtol=bound, atol=bound, msg=name)


def test_a_target_elsewhere_is_refused() -> None:
    z = randn(4, 3)
    for target in (torch.zeros(4, dtype=torch.long, device="meta"), torch.zeros(4, 3, device="meta")):
        with pytest.raises(ValueError, match="targets are on meta, logits on cpu"):
            halfsure.sparsemax_loss(z, target)


def test_labels_that_change_behind_our_back_write_nowhere_else() -> None:
    buffer = np.zeros(64, np.int64)
    z = randn(64, 10).requires_grad_()
    loss = halfsure.sparsemax_loss(z, torch.from_numpy(buffer)).sum()
    buffer[:] = 10**12
    loss.backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()


@EACH
def test_saved_tensors_that_hooks_may_change_belong_to_the_plain_code(name: str) -> None:
    """A hook may give back another type than it was given; the kernels would read beyond its end."""
    function, z = functions(6, 5)[name], randn(6, 5)
    wanted = value_and_gradient(function, z)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.clone(), lambda tensor: tensor):
        assert not kernels.usable(z)
        got = value_and_gradient(function, z)
    for mine, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, other)


def test_lazily_negated_tensors_are_what_they_say() -> None:
    z = randn(7, 9)
    assert torch.equal(halfsure.sparsemax(torch._neg_view(z)), halfsure.sparsemax(-z))
    loss = halfsure.ads_loss(moved := z.clone().requires_grad_(), reduction="none")
    come = torch._neg_view(randn(7, seed=2))
    (lazily,) = torch.autograd.grad(loss, moved, come, retain_graph=True)
    torch.testing.assert_close(lazily, torch.autograd.grad(loss, moved, come.resolve_neg())[0])


def test_a_tangent_passes_through_a_backward_pass() -> None:
    z = randn(6, 5).requires_grad_()
    loss = halfsure.ads_loss(z)
    with forward_ad.dual_level():
        come = forward_ad.make_dual(torch.ones((), dtype=torch.float64), torch.full((), 2.0, dtype=torch.float64))
        gradient = forward_ad.unpack_dual(torch.autograd.grad(loss, z, come)[0])
    assert gradient.tangent is not None
    torch.testing.assert_close(gradient.tangent, 2 * gradient.primal)


def test_plain_code_is_a_choice_of_each_thread() -> None:
    z = randn(2, 3)
    with ThreadPoolExecutor(1) as pool, plain_code():
        assert not kernels.usable(z)
        assert pool.submit(kernels.usable, z).result()
    assert kernels.usable(z)


def test_a_result_may_be_changed_in_place() -> None:
    z = randn(6, 5).requires_grad_()
    probs = halfsure.sparsemax(z)
    doubled = probs.detach() * 2
    assert torch.equal(probs.mul_(2), doubled)


def test_without_a_folder_to_write_to_it_compiles_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(signature: Any = None, **options: Any) -> Any:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return compile_now(signature, **options)

    compile_now: Any = numba.njit
    monkeypatch.setattr("numba.njit", refuse)

    @cached(None)
    def twice(x: int) -> int:
        return 2 * x

    assert twice(21) == 42


PRIVATE = {
    "_are_functorch_transforms_active": torch._C,
    "_len_torch_dispatch_stack": torch._C,
    "_get_tracing_state": torch._C,
    "_has_storage": torch._C,
    "_top_saved_tensors_default_hooks": torch._C._autograd,
    "_current_level": forward_ad,
}


@pytest.mark.parametrize("name", PRIVATE)
def test_without_a_private_name_of_torch_the_plain_code_takes_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.usable(torch.zeros(2, 3))
    monkeypatch.delattr(PRIVATE[name], name)
    spec = importlib.util.spec_from_file_location("kernels_of_another_torch", kernels.__file__)
    assert spec is not None
    assert spec.loader is not None
    other = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other)
    assert not other.usable(torch.zeros(2, 3))
    with other.plain_code():
        pass
    assert not other.usable(torch.zeros(2, 3))


def test_every_private_name_of_torch_is_one_of_them() -> None:
    """A use that is not known here would not be tested above."""
    text = Path(kernels.__file__).read_text(encoding="utf-8")
    found = set(re.findall(r"(?:torch\._C(?:\._autograd)?|forward_ad)\.(_(?!C\b|autograd\b)\w+)", text))
    assert found == set(PRIVATE)


@pytest.mark.slow
def test_the_package_is_imported_and_computes_without_private_names() -> None:
    lines = [
        "import torch",
        "del torch._C._autograd._top_saved_tensors_default_hooks, torch._foreach_lerp_",  # torch itself does without
        "import halfsure, halfsure.simplex",
        "from halfsure.training.average import Average",
        "z = torch.tensor([[1.0, 0.5, -1.0]], requires_grad=True)",
        "assert halfsure.sparsemax(z).tolist() == [[0.75, 0.25, 0.0]]",
        "halfsure.ads_loss(z).backward()",
        "net, average = torch.nn.Linear(2, 2), Average(torch.nn.Linear(2, 2), 0.0)",
        "average.update(net, 0)",
        "assert torch.equal(average.model.weight, net.weight)",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)
