"""Views of texts: which words stay, what becomes of them, and how a table with texts is seen in training."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from halfsure.data import Data, Part
from halfsure.data.dataset import Text
from halfsure.data.text import TextEncoding, Words, fit_text
from halfsure.runs.start import start
from halfsure.training.config import Config
from halfsure.views import TextView
from halfsure.views.preprocessing import Preprocessing
from tests.training.helpers import tiny

RNG = np.random.default_rng(0)
TEXTS = [" ".join(f"w{word}" for word in RNG.integers(0, 40, length)) for length in [0, 1, 2, 3, *[12] * 60, 300]]
ENCODING = fit_text(TEXTS, 6)
WORDS = ENCODING.read(TEXTS)
EVERYONE = np.arange(len(TEXTS))

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def scramble(number: int) -> int:
    """The finaliser of SplitMix64, in plain integers."""
    number &= MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK
    return number ^ (number >> 31)


def naive_words(index: int, drop: float, seed: int, step: int, stream: int) -> list[str]:
    """The words of a text that stay: by 24 bits of (kind, seed, stream, step), then the sample, then the place."""
    base = 0
    for number in (6, seed, stream, step):
        base = scramble(base + number + GOLDEN)
    key = scramble(base + index)
    words = [word for word in TEXTS[index].split() if word in ENCODING.words]
    kept = [
        word for place, word in enumerate(words) if scramble(key + (place + 1) * GOLDEN) >> 40 >= round(drop * 2**24)
    ]
    return kept or words


@pytest.mark.parametrize(("drop", "seed", "step", "stream"), [(0.3, 0, 0, 0), (0.7, 5, 11, 2), (0.95, 1, 999, 65537)])
def test_views_against_a_naive_twin(drop: float, seed: int, step: int, stream: int) -> None:
    view = TextView(ENCODING, WORDS, drop, seed)(EVERYONE, step, stream)
    wanted = ENCODING.rows([" ".join(naive_words(i, drop, seed, step, stream)) for i in range(len(TEXTS))])
    assert view.dtype == torch.float32
    np.testing.assert_array_equal(view.numpy(), wanted)


def test_without_dropping_a_view_is_the_row() -> None:
    np.testing.assert_array_equal(TextView(ENCODING, WORDS)(EVERYONE, 3).numpy(), ENCODING.rows(TEXTS))


def test_a_text_that_would_lose_all_words_keeps_them_all() -> None:
    np.testing.assert_array_equal(TextView(ENCODING, WORDS, drop=1.0)(EVERYONE, 3).numpy(), ENCODING.rows(TEXTS))
    single = ["w3"] * 500  # such a word always stays
    view = TextView(ENCODING, ENCODING.read(single), drop=0.9)(np.arange(500), 0)
    np.testing.assert_array_equal(view.numpy(), ENCODING.rows(single))


def test_a_view_depends_on_seed_stream_step_and_index_alone() -> None:
    view = TextView(ENCODING, WORDS, 0.5, seed=4)
    whole = view(EVERYONE, 7)
    order = RNG.permutation(len(TEXTS))
    assert torch.equal(view(EVERYONE[order], 7), whole[order])
    assert torch.equal(view(torch.from_numpy(EVERYONE[order]), 7), whole[order])
    # The longest text is among some of these batches only.
    assert torch.equal(torch.cat([view([i], 7) for i in EVERYONE]), whole)
    assert torch.equal(view([9, 9, 9], 7), whole[[9, 9, 9]])
    for other in (view(EVERYONE, 8), view(EVERYONE, 7, 1), TextView(ENCODING, WORDS, 0.5, seed=5)(EVERYONE, 7)):
        assert (other[4:] != whole[4:]).any(1).float().mean() > 0.9
    assert view([], 0).shape == (0, 6)


@pytest.mark.parametrize("drop", [0.1, 0.3, 0.7])
def test_words_are_dropped_as_often_as_asked(drop: float) -> None:
    """Words whose vectors are unit vectors, and weigh 1: a row then counts them."""
    words, texts = 50, 400
    encoding = TextEncoding(
        tuple(f"w{i:02}" for i in range(words)), np.ones(words, np.float32), np.eye(words, dtype=np.float32)
    )
    numbers = np.tile(np.arange(words, dtype=np.int32), texts)
    view = TextView(encoding, Words(numbers, words * np.arange(texts + 1)), drop)(np.arange(texts), 0)
    kept = (view > 0).double()
    bound = 5 * np.sqrt(drop * (1 - drop))
    assert abs(kept.mean() - (1 - drop)) < bound / np.sqrt(words * texts)
    assert (kept.mean(0) - (1 - drop)).abs().max() < bound / np.sqrt(texts)  # wherever in the text
    assert abs(np.corrcoef(kept.T.numpy())[np.triu_indices(words, 1)].mean()) < 0.01  # each for itself


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"drop": -0.1}, "drop must be a finite number from 0 to 1"),
        ({"drop": 1.1}, "drop must be a finite number from 0 to 1"),
        ({"drop": float("nan")}, "drop must be a finite number from 0 to 1"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_settings_are_refused_in_words(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextView(ENCODING, WORDS, **settings)


def test_bad_calls_are_refused_in_words() -> None:
    view = TextView(ENCODING, WORDS)
    with pytest.raises(ValueError, match="step must be a whole number"):
        view([0], -1)
    with pytest.raises(ValueError, match="indices must be integers"):
        view([0.5], 0)
    with pytest.raises(ValueError, match="indices are places in the set"):
        view([-1], 0)
    with pytest.raises(ValueError, match=f"indices go up to {len(TEXTS)}, but there are {len(TEXTS)} texts"):
        view([len(TEXTS)], 0)


def numbers_and_texts() -> Data:
    """A number, a text and another number a row."""
    rng = np.random.default_rng(1)
    numbers = rng.normal(5, 3, (len(TEXTS), 2)).astype(np.float32)
    rows = np.concatenate([numbers[:, :1], ENCODING.rows(TEXTS), numbers[:, 1:]], axis=1)
    labels = np.where(EVERYONE < 20, EVERYONE % 2, -1)
    return Data("notes", "array", ("a", "b"), Part(rows, labels), EVERYONE[:20], encoded=(Text(1, ENCODING, WORDS),))


def seen(data: Data, config: Config) -> tuple[Preprocessing, dict[str, NDArray[np.float32]]]:
    preprocessing = Preprocessing.of(data)
    views: dict[Any, Any] = dict(config.make_views(data, preprocessing))
    return preprocessing, {name: view(data.train.samples, EVERYONE, 3, 1).numpy() for name, view in views.items()}


def test_numbers_get_noise_and_texts_lose_words() -> None:
    data = numbers_and_texts()
    config = tiny(weak_noise=0.1, strong_noise=0.5, strong_swap=0.0, weak_drop=0.3, strong_drop=0.7, seed=2)
    preprocessing, views = seen(data, config)
    plain = preprocessing(data.train.samples).numpy()
    mean, std = np.array(preprocessing.mean), np.array(preprocessing.std)
    for name, noise, drop, stream in (("weak", 0.1, 0.3, 1), ("strong", 0.5, 0.7, 1 + 2**16)):
        view = views[name]
        added = (view - plain)[:, [0, 7]]
        assert added.std() == pytest.approx(noise, rel=0.35)
        dropped = TextView(ENCODING, WORDS, drop, seed=2)(EVERYONE, 3, stream).numpy()
        np.testing.assert_allclose(view[:, 1:7], (dropped - mean[1:7]) / std[1:7], atol=1e-5)
    assert (views["weak"] != views["strong"])[4:].mean() > 0.9


def test_weak_and_strong_views_do_not_drop_the_same_words() -> None:
    config = tiny(weak_drop=0.5, strong_drop=0.5, weak_noise=0.0, strong_noise=0.0, strong_swap=0.0)
    _, views = seen(numbers_and_texts(), config)
    assert (views["weak"][4:, 1:7] != views["strong"][4:, 1:7]).any(1).mean() > 0.9
    np.testing.assert_array_equal(views["weak"][:, [0, 7]], views["strong"][:, [0, 7]])


def test_dropping_words_alone_makes_a_strong_view() -> None:
    data = numbers_and_texts()
    config = tiny(strong_noise=0.0, strong_swap=0.0, strong_drop=0.5)
    assert set(config.make_views(data, Preprocessing.of(data))) == {"weak", "strong"}
    still = tiny(strong_noise=0.0, strong_swap=0.0, strong_drop=0.0)
    assert set(still.make_views(data, Preprocessing.of(data))) == {"weak"}
    run = start(data, config)
    assert run.logits(data.train.samples).isfinite().all()


def test_text_features_share_one_scale() -> None:
    data = numbers_and_texts()
    found = Preprocessing.of(data)
    exact = data.train.samples.astype(np.float64)
    np.testing.assert_allclose(found.mean, exact.mean(0), atol=1e-7)
    assert len(set(found.std[1:7])) == 1
    assert found.std[1] == pytest.approx(np.sqrt(exact[:, 1:7].var(0).mean()), rel=1e-6)
    np.testing.assert_allclose(np.array(found.std)[[0, 7]], exact[:, [0, 7]].std(0), rtol=1e-6)


def test_a_direction_that_no_text_has_is_on_the_common_scale_too() -> None:
    data = numbers_and_texts()
    data.train.samples[:, 3] = 0.25
    found = Preprocessing.of(data)
    assert len(set(found.std[1:7])) == 1
    data.train.samples[:, 1:7] = 0.25  # and where none of them tells texts apart, nothing is blown up
    assert Preprocessing.of(data).std[1:7] == (1.0,) * 6
