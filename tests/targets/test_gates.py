"""Gates against plain loops, in every map, and what a gate does to losses and targets."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halfsure import ADS, MinEntropy, NegativeSampling, PseudoLabel, Sharpening, TopM
from halfsure.settings import parts
from halfsure.simplex import SOFTMAX, SPARSEMAX, get_map
from halfsure.targets import Gate, Strategy
from halfsure.targets.gates import Always, Fixed, Informed

SPARSE = ("sparsemax", "entmax1.5")


def drawn(seed: int, classes: int = 5, scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(7, classes, generator=generator, dtype=torch.float64)


def loop(gate: str, row: list[float], threshold: float) -> float:
    """How much a sample counts, from the words of the definition."""
    if gate == "none":
        return 1.0
    if gate == "fixed":
        return 1.0 if max(row) >= threshold else 0.0
    return 1.0 if sum(value > 0 for value in row) > 1 else 0.0


@given(st.integers(0, 2**31), st.sampled_from(["softmax", *SPARSE]), st.floats(0, 1))
def test_weights_equal_a_loop(seed: int, map: str, threshold: float) -> None:
    probs = get_map(map)(drawn(seed))
    for gate in (Always(), Fixed(threshold), Informed()):
        assert gate.weigh(probs).tolist() == [loop(gate.name, row, threshold) for row in probs.tolist()]


STRATEGIES = [ADS(), Sharpening(map="sparsemax"), PseudoLabel(map="sparsemax"), TopM(3, map="sparsemax")]
STRATEGIES += [MinEntropy("sparsemax"), NegativeSampling(map="sparsemax")]


@pytest.mark.parametrize("plain", STRATEGIES, ids=lambda strategy: strategy.name)
@pytest.mark.parametrize("gate", [Informed(), Fixed(0.7)], ids=lambda gate: gate.name)
def test_a_gate_multiplies_losses_and_weighs_targets(plain: Strategy, gate: Gate) -> None:
    number = {"m": 3} if plain.numbered else {}
    make = type(plain)
    gated, free = (make(**number, map="sparsemax", gate=one) for one in (gate, Always()))
    for seed in range(20):
        logits = drawn(seed)
        weight = gate.weigh(free.predict(logits))
        torch.testing.assert_close(gated.losses(logits), weight * free.losses(logits), rtol=0, atol=0)
        torch.testing.assert_close(gated(logits), (weight * free.losses(logits)).mean(), rtol=1e-12, atol=1e-15)
        if gated.explicit():
            target = gated.target(logits)
            assert torch.equal(target.probs, free.target(logits).probs)
            assert torch.equal(target.weight, weight)


def test_pseudo_labels_threshold_is_its_gates() -> None:
    strategy = PseudoLabel(threshold=0.8)
    assert isinstance(strategy.gate, Fixed)
    assert strategy.threshold == strategy.gate.threshold == 0.8
    assert PseudoLabel(gate=Always()).target(drawn(0)).weight.tolist() == [1.0] * 7
    with pytest.raises(AttributeError, match="threshold"):
        _ = PseudoLabel(gate=Always()).threshold


def test_informed_leaves_alone_what_ads_leaves_alone() -> None:
    """A single candidate is where ADS's own loss is zero for want of anything to sharpen (Theorem 1's first case)."""
    logits = torch.cat([drawn(seed) for seed in range(30)])
    left_alone = Informed().weigh(SPARSEMAX(logits)) == 0
    assert 0.1 < left_alone.double().mean() < 0.9
    assert ADS().losses(logits)[left_alone].abs().max() == 0


def test_informed_is_empty_in_softmax_and_refused() -> None:
    assert Informed().weigh(SOFTMAX(drawn(1))).tolist() == [1.0] * 7
    with pytest.raises(ValueError, match="in softmax none has"):
        Sharpening(gate=Informed())


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan"), "0.9", True])
def test_a_threshold_is_a_number_from_0_to_1(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold must be a finite number from 0 to 1"):
        Fixed(threshold)


def test_every_gate_says_what_it_does_and_asking_changes_nothing() -> None:
    for name, kind in parts("gate").items():
        gate = kind()
        assert (gate.name, bool(gate.about)) == (name, True)
        gate.prepare(5, 100)
        before = {key: value.clone() for key, value in gate.state_dict().items()}
        weight = gate.weigh(SPARSEMAX(drawn(3)))
        assert weight.shape == (7,)
        assert ((weight >= 0) & (weight <= 1)).all()
        assert all(torch.equal(before[key], value) for key, value in gate.state_dict().items())
