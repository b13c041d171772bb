"""Tuning by pairs: the losses against naive twins, the same bits, better features, refused inputs."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from halfsure.encoders import Encoder, EncoderError, open_encoder, own
from halfsure.encoders.changed_weights import tuned_from
from halfsure.encoders.choosing import encoder_named
from halfsure.encoders.pair_batches import balanced_rows, encode_rows, weak_views
from halfsure.encoders.pair_losses import contrast, cosine_regression
from halfsure.encoders.pair_tuning import Tuning, surest_of_each_class, tune_pairs
from halfsure.encoders.pair_verdict import pays

SIDE = 8
QUICK = Tuning(steps=30, batch=16, rate=1e-2)


def small_network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8)
        )


def small() -> Encoder:
    return own(small_network(), "image", name="small", side=SIDE, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


def squares(n: int, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Noise, in which the second class is a little brighter in its upper half."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    pictures = generator.integers(0, 256, (n, SIDE, SIDE, 3))
    pictures[:, : SIDE // 2] += 60 * labels[:, None, None, None]
    return pictures.clip(0, 255).astype(np.uint8), labels


def separation(encoder: Encoder, pictures: Any, labels: NDArray[np.int64]) -> float:
    """Mean cosine within classes, less that between them."""
    features = encode_rows(encoder, pictures, np.arange(len(pictures)))
    cosines, same = features @ features.T, labels[:, None] == labels
    return float(cosines[same & ~np.eye(len(labels), dtype=bool)].mean() - cosines[~same].mean())


def naive_cosine(features: Tensor, labels: Tensor) -> Tensor:
    near, far = [], []
    for i in range(len(labels)):
        for j in range(len(labels)):
            cosine = (features[i] * features[j]).sum()
            if i != j and labels[i] == labels[j]:
                near.append((cosine - 1) ** 2)
            elif labels[i] != labels[j]:
                far.append(cosine**2)
    return sum(near, torch.tensor(0.0)) / max(1, len(near)) + sum(far, torch.tensor(0.0)) / max(1, len(far))


def naive_contrast(features: Tensor, labels: Tensor) -> Tensor:
    losses = []
    for i in range(len(labels)):
        others = [j for j in range(len(labels)) if j != i]
        total = sum(torch.exp(features[i] @ features[j] / 0.1) for j in others)
        own_class = [j for j in others if labels[j] == labels[i]]
        if own_class:
            terms = [-torch.log(torch.exp(features[i] @ features[j] / 0.1) / total) for j in own_class]
            losses.append(torch.stack(terms).mean())
    return torch.stack(losses).mean()


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2], [0, 1, 1, 1, 1], [3, 0, 3, 0, 0]])
def test_losses_and_their_gradients_are_those_of_the_naive_loops(labels: list[int]) -> None:
    x = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    y = torch.tensor(labels)
    for fast, slow in (
        (cosine_regression, naive_cosine),
        (lambda z, y: contrast(z, y, 0.1), naive_contrast),
    ):
        found, wanted = (loss(F.normalize(x, dim=1), y) for loss in (fast, slow))
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(*(torch.autograd.grad(loss, x)[0] for loss in (found, wanted)))


def test_classes_that_lie_at_right_angles_cost_no_cosine() -> None:
    features = torch.eye(3)[[0, 0, 1, 1, 2, 2]]
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    assert cosine_regression(features, labels) == 0
    assert contrast(features, labels, 0.1).item() == pytest.approx(math.log1p(4 * math.exp(-10)), rel=1e-3)


def test_samples_each_alone_in_their_class_teach_nothing_to_the_contrast() -> None:
    features = F.normalize(torch.randn(3, 4), dim=1).requires_grad_()
    loss = contrast(features, torch.arange(3), 0.1)
    loss.backward()
    assert loss == 0
    assert features.grad is not None
    assert not features.grad.any()


@pytest.mark.parametrize("loss", ["cosine", "contrast"])
def test_tuned_features_separate_new_samples_better(loss: Any) -> None:
    encoder, (pictures, labels) = small(), squares(40)
    tuned = tune_pairs(encoder, pictures, labels, tuning=replace(QUICK, loss=loss))
    new, truth = squares(200, seed=1)
    assert separation(tuned, new, truth) > separation(encoder, new, truth) + 0.1


def test_the_encoder_given_stays_as_it_is_and_the_tuned_one_says_what_it_is() -> None:
    encoder, (pictures, labels) = small(), squares(20)
    before = encode_rows(encoder, pictures, np.arange(20))
    tuned = tune_pairs(encoder, pictures, labels, tuning=QUICK)
    assert np.array_equal(encode_rows(encoder, pictures, np.arange(20)), before)
    assert type(tuned) is type(encoder)
    assert tuned.full_name == "own:small+pairs"
    assert tuned.untuned_checksum == encoder.checksum != tuned.checksum
    assert tuned.as_json()["tuned_from"] == encoder.checksum
    assert set(tuned.changed) == {f"{layer}.{kind}" for layer in (1, 2, 4) for kind in ("weight", "bias")}


def test_a_seed_gives_the_same_bits_and_leaves_torchs_generator_alone() -> None:
    pictures, labels = squares(20)
    state = torch.get_rng_state()
    first, again, other = (tune_pairs(small(), pictures, labels, seed=seed, tuning=QUICK) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert first.checksum == again.checksum != other.checksum
    rows = np.arange(20)
    assert np.array_equal(encode_rows(first, pictures, rows), encode_rows(again, pictures, rows))


def test_a_restored_encoder_gives_the_same_bits() -> None:
    pictures, labels = squares(20)
    tuned = tune_pairs(small(), pictures, labels, tuning=QUICK)
    restored = tuned_from(small(), tuned.changed, "pairs")
    assert restored.as_json() == tuned.as_json()
    rows = np.arange(20)
    assert np.array_equal(encode_rows(restored, pictures, rows), encode_rows(tuned, pictures, rows))


def test_pictures_as_bytes_and_as_a_normalised_tensor_are_the_same() -> None:
    pictures, labels = squares(20)
    normalised = ((torch.from_numpy(pictures) / 255 - 0.5) / 0.5).permute(0, 3, 1, 2).contiguous()
    first, second = (tune_pairs(small(), given, labels, tuning=QUICK) for given in (pictures, normalised))
    assert first.checksum == second.checksum


def test_samples_without_a_label_teach_nothing_unless_they_are_given_as_unlabeled() -> None:
    pictures, labels = squares(40)
    some = np.where(np.arange(40) < 16, labels, -1)
    tuned = tune_pairs(small(), pictures, some, tuning=QUICK)
    spoilt = np.where((some < 0)[:, None, None, None], 0, pictures).astype(np.uint8)
    assert tune_pairs(small(), spoilt, some, tuning=QUICK).checksum == tuned.checksum
    assert tune_pairs(small(), pictures, some, unlabeled=pictures[16:], tuning=QUICK).checksum != tuned.checksum


def test_imbalanced_classes_single_labels_and_many_classes_can_be_tuned() -> None:
    pictures, _ = squares(60)
    for labels in (np.array([0] * 57 + [1, 1, 2]), np.arange(60) // 2, np.array([0] * 30 + list(range(1, 31)))):
        tune_pairs(small(), pictures, labels, unlabeled=pictures, tuning=replace(QUICK, steps=2, batch=8))


def test_batches_hold_pairs_of_each_class_and_are_bounded() -> None:
    generator = np.random.default_rng(0)
    labels = np.array([0] * 50 + [1] * 3 + [2])
    rows = balanced_rows(labels, 12, generator)
    assert np.unique(labels[rows], return_counts=True)[1].tolist() == [4, 3, 2]
    assert len(balanced_rows(np.arange(1000) // 4, 32, generator)) == 32


def test_a_view_shows_a_part_of_the_picture_and_the_whole_one_where_nothing_may_change() -> None:
    pictures = torch.rand(6, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    generator = np.random.default_rng(0)
    torch.testing.assert_close(weak_views(pictures, 1.0, False, generator), pictures, atol=1e-5, rtol=0)
    mirrored = weak_views(pictures, 1.0, True, generator)
    kinds = [
        torch.allclose(m, p, atol=1e-5) + 2 * torch.allclose(m, p.flip(-1), atol=1e-5)
        for m, p in zip(mirrored, pictures, strict=True)
    ]
    assert set(kinds) == {1, 2}


def test_the_gate_takes_the_surest_of_each_class() -> None:
    probs = np.array([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.3, 0.7], [0.45, 0.55], [0.7, 0.3]])
    assert surest_of_each_class(probs, 2 / 3).tolist() == [0, 2, 3, 4]
    assert surest_of_each_class(probs, 1 / 3).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([0, 0, 0, 0], "at least two classes, got 1"),
        ([-1, -1, -1, -1], "at least two classes, got 0"),
        ([0, 1, 2, -1], "each has one"),
        ([0, 1], "4 whole numbers"),
        ([0.0, 1.0, 0.0, 1.0], "whole numbers"),
    ],
)
def test_labels_that_make_no_pairs_are_refused(labels: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tune_pairs(small(), squares(4)[0], labels)


def test_an_encoder_without_a_network_is_refused() -> None:
    encoder = own(lambda pictures: pictures.mean((2, 3)), "image", name="colour", side=SIDE)
    with pytest.raises(EncoderError, match=r"own:colour cannot be tuned: .*efficientnet-lite0.*minilm"):
        tune_pairs(encoder, *squares(8))


def test_a_tuned_encoder_is_not_tuned_again() -> None:
    pictures, labels = squares(8)
    tuned = tune_pairs(small(), pictures, labels, tuning=replace(QUICK, steps=1))
    with pytest.raises(EncoderError, match="tuned already"):
        tune_pairs(tuned, pictures, labels)
    with pytest.raises(EncoderError, match="tuned already"):
        tuned_from(tuned, tuned.changed, "pairs")


def test_weights_of_another_network_or_damaged_ones_are_refused() -> None:
    for changed, says in (
        ({"9.weight": torch.zeros(2)}, "not of own:small"),
        ({"1.bias": torch.zeros(2)}, "not of own:small"),
        ({"1.bias": torch.full((32,), torch.nan)}, "damaged"),
    ):
        with pytest.raises(EncoderError, match=says):
            tuned_from(small(), changed, "pairs")


def test_a_rate_that_diverges_is_said() -> None:
    with pytest.raises(EncoderError, match="diverged at step"):
        tune_pairs(small(), *squares(8), tuning=replace(QUICK, rate=1e30))


def test_held_out_labels_say_that_tuning_pays() -> None:
    def constant_but_for_a_little() -> nn.Module:
        net = small_network()
        with torch.no_grad():
            net[4].bias.fill_(100.0)  # type: ignore[index]
        return net

    encoder = own(constant_but_for_a_little(), "image", name="dull", side=SIDE, mean=(0.5,) * 3, std=(0.5,) * 3)
    found = pays(encoder, *squares(60), tuning=replace(QUICK, steps=60))
    assert found.held_out == 60
    assert found.pays
    assert found.errors_tuned < found.errors_frozen
    assert found.sentence.startswith("tuning pays: of 60 held-out labels")


def test_noise_does_not_pay_and_time_is_kept() -> None:
    pictures, labels = squares(16)
    late = pays(small(), pictures, labels, tuning=QUICK, most_seconds=0.0)
    assert (late.pays, late.held_out) == (False, 0)
    assert "0 s are allowed" in late.sentence
    few = pays(small(), pictures[:3], np.array([0, 1, 1]), tuning=QUICK)
    assert not few.pays
    assert "too few labels" in few.sentence


def test_a_fold_never_sees_its_held_out_samples() -> None:
    pictures, _ = squares(30)
    random = np.random.default_rng(5).integers(0, 2, 30)
    found = pays(
        small(), np.random.default_rng(6).integers(0, 256, pictures.shape).astype(np.uint8), random, tuning=QUICK
    )
    assert found.errors_tuned > 7  # seen samples would be learnt by heart


def opened(name: str, **settings: Any) -> Encoder:
    if missing := encoder_named(name)[0].missing():
        pytest.skip(f"{name} is not installed; run: {missing}")
    return open_encoder(name, **settings)


@pytest.mark.slow
def test_minilm_is_tuned_and_restored() -> None:
    encoder = opened("minilm")
    texts = ["a fine film", "what a joy", "a dull mess", "how boring", "lovely", "awful"]
    labels = [1, 1, 0, 0, 1, 0]
    tuned = tune_pairs(encoder, texts, labels, tuning=Tuning(steps=5))
    restored = tuned_from(encoder, tuned.changed, "pairs")
    assert np.array_equal(tuned.encode(texts), restored.encode(texts))
    assert separation(tuned, texts, np.array(labels)) > separation(encoder, texts, np.array(labels))
    assert not any(name.startswith(("words", "places", "kinds")) for name in tuned.changed)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_efficientnet_is_tuned_and_restored_and_its_graph_is_the_tuned_one(precision: str) -> None:
    encoder = opened("efficientnet-lite0", encoder_side=32, encoder_precision=precision)
    pictures = np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3)).astype(np.uint8)
    labels, rows = np.arange(8) % 2, np.arange(8)
    tuned = tune_pairs(encoder, pictures, labels, tuning=Tuning(steps=3))
    features = encode_rows(tuned, pictures, rows)
    assert np.array_equal(features, encode_rows(tuned_from(encoder, tuned.changed, "pairs"), pictures, rows))
    assert tuned.precision == encoder.precision
    normalised = ((torch.from_numpy(pictures) / 255 - 0.498) / 0.502).permute(0, 3, 1, 2)
    with torch.inference_mode():
        plain = F.normalize(tuned.network()(normalised), dim=1).numpy()
    assert np.abs(features - plain).max() < (1e-4 if precision == "float32" else 0.02)
    assert np.abs(features - encode_rows(encoder, pictures, rows)).max() > 1e-3
