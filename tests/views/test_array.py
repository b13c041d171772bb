"""Views of feature rows: distribution, and what they may depend on. Bounds are five standard deviations."""

from typing import Any

import numpy as np
import pytest
import torch

from halfsure.views import ArrayView

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(400, 50)) * np.linspace(0.1, 3, 50) + 1
COUNT = ROWS.size


def test_without_any_noise_rows_stay() -> None:
    got = ArrayView()(ROWS, range(400), 0)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, torch.from_numpy(ROWS).float(), rtol=0, atol=0)
    given = torch.from_numpy(ROWS).float()
    assert ArrayView()(given, range(400), 0).data_ptr() != given.data_ptr()


def test_noise_is_normal_and_scaled_by_each_feature() -> None:
    added = ArrayView(noise=0.3, reference=ROWS)(ROWS, range(400), 0).numpy() - ROWS
    normal = np.sort((added / (0.3 * ROWS.std(0))).ravel())
    assert abs(normal.mean()) < 5 / np.sqrt(COUNT)
    assert abs(normal.std() - 1) < 5 / np.sqrt(2 * COUNT)
    distance = np.abs(np.searchsorted(normal, [-2, -1, 0, 1, 2]) / COUNT - [0.02275, 0.15866, 0.5, 0.84134, 0.97725])
    assert distance.max() < 5 * np.sqrt(0.25 / COUNT)
    plain = ArrayView(noise=0.3)(np.zeros((400, 50)), range(400), 0)
    assert plain.std().item() == pytest.approx(0.3, rel=0.03)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_dropout_and_swap_happen_as_often_as_asked(probability: float) -> None:
    bound = 5 * np.sqrt(probability * (1 - probability) / COUNT)
    dropped = ArrayView(dropout=probability)(ROWS, range(400), 0) == 0
    assert abs(dropped.float().mean().item() - probability) <= bound + 1e-7
    others = RNG.normal(size=(30, 50))
    swapped = ArrayView(swap=probability, reference=others)(ROWS, range(400), 0).numpy()
    assert abs((swapped != ROWS.astype(np.float32)).mean() - probability) <= bound
    taken = np.argwhere(swapped != ROWS.astype(np.float32))
    assert all(swapped[i, j] in others[:, j].astype(np.float32) for i, j in taken[:500])


def test_swaps_take_every_reference_row_alike() -> None:
    others = np.arange(20.0)[:, None].repeat(50, 1)
    taken = ArrayView(swap=1, reference=others)(ROWS, range(400), 0).long()
    counts = taken.flatten().bincount(minlength=20).double()
    assert (counts - COUNT / 20).abs().max() < 5 * np.sqrt(COUNT / 20)


def test_swap_noise_and_dropout_do_not_choose_the_same_features() -> None:
    ones = np.ones((400, 50))
    got = ArrayView(swap=0.5, dropout=0.5, reference=2 * ones)(ones, range(400), 0)
    for value, share in ((0, 0.5), (1, 0.25), (2, 0.25)):
        assert abs((got == value).float().mean().item() - share) < 5 * np.sqrt(0.25 / COUNT)


def test_a_view_depends_on_seed_stream_step_and_index_alone() -> None:
    view, indices = ArrayView(0.1, 0.2, 0.3, ROWS, seed=4), RNG.permutation(5000)[:400]
    whole = view(ROWS, indices, 7)
    order = RNG.permutation(400)
    assert torch.equal(view(ROWS[order], indices[order], 7), whole[order])
    assert torch.equal(torch.cat([view(ROWS[:3], indices[:3], 7), view(ROWS[3:], indices[3:], 7)]), whole)
    assert torch.equal(view(torch.from_numpy(ROWS), torch.from_numpy(indices), 7), whole)
    assert torch.equal(view(np.asfortranarray(ROWS), indices, 7), whole)
    others = [
        view(ROWS, indices, 8),
        view(ROWS, indices, 7, stream=1),
        view(ROWS, indices + 1, 7),
        ArrayView(0.1, 0.2, 0.3, ROWS, seed=5)(ROWS, indices, 7),
    ]
    for other in others:
        assert (other != whole).float().mean() > 0.7
    assert view(ROWS[:0], [], 0).shape == (0, 50)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": -1}, r"noise must be a finite number of at least 0, got -1"),
        ({"dropout": 1.5}, r"dropout must be a finite number from 0 to 1, got 1.5"),
        ({"swap": -0.1}, r"swap must be a finite number from 0 to 1, got -0.1"),
        ({"swap": 0.1}, r"swap noise needs reference rows"),
        ({"seed": -1}, r"seed must be a whole number"),
        ({"reference": ROWS[0]}, r"reference must be \(n, d\), got \(50,\)"),
        ({"reference": ROWS[:0]}, r"reference must have rows, all finite"),
        ({"reference": ROWS * np.nan}, r"reference must have rows, all finite"),
        ({"reference": ROWS.astype(int)}, r"reference must be floating point, got torch.int64"),
    ],
)
def test_bad_settings_are_refused_in_words(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ArrayView(**settings)


def test_bad_rows_are_refused_in_words() -> None:
    view = ArrayView(noise=0.1, reference=ROWS)
    with pytest.raises(ValueError, match=r"rows have 49 features, the reference rows 50"):
        view(ROWS[:, 1:], range(400), 0)
    with pytest.raises(ValueError, match=r"rows must be \(n, d\), got \(50,\)"):
        view(ROWS[0], [0], 0)
    with pytest.raises(ValueError, match=r"indices must be \(400,\)"):
        view(ROWS, range(3), 0)
    with pytest.raises(ValueError, match=r"step must be a whole number"):
        view(ROWS, range(400), -1)
    with pytest.raises(TypeError, match=r"rows must be a NumPy array or a torch.Tensor, got list"):
        view([[1.0]], [0], 0)  # type: ignore[arg-type]
