"""The losses inside torch's own machinery: compile, vmap, functional derivatives, autocast, other layouts."""

import shutil
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import grad, jacfwd, jacrev, vmap

import halfsure
from halfsure.simplex import get_map
from tests.test_simplex import randn

ADS, ENTMAX = halfsure.ADS(), get_map("entmax1.5")
LABELS = torch.arange(6) % 5
SOFT = torch.softmax(randn(6, 5, seed=4), -1)

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": halfsure.softmax,
    "sparsemax": halfsure.sparsemax,
    "entmax": lambda z: halfsure.entmax(z, 1.5),
    "sparsemax_loss": lambda z: halfsure.sparsemax_loss(z, LABELS),
    "soft sparsemax_loss": lambda z: halfsure.sparsemax_loss(z, SOFT),
    "entmax loss": lambda z: ENTMAX.loss(z, LABELS),
    "ads_loss": halfsure.ads_loss,
    "me": halfsure.MinEntropy().losses,
    "sh": halfsure.Sharpening().losses,
    "pl": halfsure.PseudoLabel(0.3).losses,
    "ns": halfsure.NegativeSampling().losses,
    "top2": halfsure.TopM(2, map="sparsemax").losses,
    "ads target": lambda z: ADS.target(z).probs,
}
EACH = pytest.mark.parametrize("name", FUNCTIONS)
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
# Inductor takes seconds a function: it compiles the three that stand in a user's loop.
IN_A_LOOP = ("sparsemax", "sparsemax_loss", "ads_loss")
COMPILED = [
    *(("aot_eager", name) for name in IN_A_LOOP),
    *(pytest.param("aot_eager", name, marks=pytest.mark.slow) for name in FUNCTIONS if name not in IN_A_LOOP),
    *(pytest.param("inductor", name, marks=[pytest.mark.slow, needs_compiler]) for name in IN_A_LOOP),
]


def value_and_gradient(function: Callable[[Tensor], Tensor], z: Tensor) -> tuple[Tensor, Tensor]:
    z = z.detach().requires_grad_()
    value = function(z)
    if not value.requires_grad:
        return value, torch.zeros_like(z)
    return value.detach(), torch.autograd.grad(value.square().sum(), z)[0]


@pytest.mark.parametrize(("backend", "name"), COMPILED)
def test_compiled_without_a_graph_break(backend: str, name: str) -> None:
    torch.compiler.reset()
    compiled = torch.compile(FUNCTIONS[name], backend=backend, fullgraph=True)
    z = randn(6, 5).float()
    for got, wanted in zip(value_and_gradient(compiled, z), value_and_gradient(FUNCTIONS[name], z), strict=True):
        torch.testing.assert_close(got, wanted)


@EACH
def test_vmap_over_an_ensemble(name: str) -> None:
    z = randn(4, 6, 5)
    torch.testing.assert_close(vmap(FUNCTIONS[name])(z), torch.stack([FUNCTIONS[name](part) for part in z]))


@EACH
def test_functional_gradients_under_vmap(name: str) -> None:
    def total(z: Tensor) -> Tensor:
        return FUNCTIONS[name](z).square().sum()

    z = randn(4, 6, 5)
    wanted = torch.stack([value_and_gradient(FUNCTIONS[name], part)[1] for part in z])
    torch.testing.assert_close(vmap(grad(total))(z), wanted)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "entmax" not in name])
def test_forward_mode_agrees_with_reverse_mode_at_first_and_second_order(name: str) -> None:
    z, function = randn(6, 5)[:, :4], FUNCTIONS[name]
    z = torch.cat([z, z[:, :1] - 0.1], -1)
    first = jacrev(function)(z)
    torch.testing.assert_close(jacfwd(function)(z), first)
    second = jacrev(jacrev(function))(z)
    torch.testing.assert_close(jacfwd(jacrev(function))(z), second)
    torch.testing.assert_close(jacfwd(jacfwd(function))(z), second)


def test_forward_mode_is_refused_where_it_could_be_wrong() -> None:
    with pytest.raises(RuntimeError, match="jvp"):
        jacfwd(FUNCTIONS["entmax"])(randn(6, 5))


def test_a_setting_may_change_under_the_compiler() -> None:
    torch.compiler.reset()
    compiled = torch.compile(halfsure.ads_loss, backend="aot_eager", fullgraph=True)
    z = randn(6, 5)
    for r in (2.0, 2.5, 3.0):
        torch.testing.assert_close(compiled(z, r), halfsure.ads_loss(z, r))


@EACH
def test_autocast_computes_and_returns_single_precision(name: str) -> None:
    z = randn(6, 5).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, gradient = value_and_gradient(FUNCTIONS[name], z)
    wanted, wanted_gradient = value_and_gradient(FUNCTIONS[name], z.float())
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(gradient, wanted_gradient.bfloat16())


@EACH
def test_layout_does_not_matter(name: str) -> None:
    wide = randn(5, 12).T[::2]
    assert not wide.is_contiguous()
    torch.testing.assert_close(FUNCTIONS[name](wide), FUNCTIONS[name](wide.contiguous()))


@EACH
def test_inputs_are_not_changed(name: str) -> None:
    z = randn(6, 5)
    before = z.clone()
    FUNCTIONS[name](z)
    assert torch.equal(z, before)


def test_meta_tensors_pass_through() -> None:
    z = torch.empty(6, 5, device="meta")
    assert halfsure.ads_loss(z, reduction="none").shape == (6,)
    assert halfsure.sparsemax_loss(z, torch.empty(6, dtype=torch.long, device="meta")).shape == (6,)
