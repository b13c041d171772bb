"""Word vectors and the rows of texts: against naive loops, through JSON, and on texts that hardly are any."""

import base64
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from halfsure.data import DataError, reduce
from halfsure.data import text as text_module
from halfsure.data.reduce import main_directions
from halfsure.data.text import TextEncoding, fit_text

HALF = 2.0**-11
"""How far rounding to half precision moves a number, relative to it."""


def corpus(texts: int = 40, words: int = 12, length: int = 9, seed: int = 0) -> list[str]:
    """Texts of two topics that share some words, with capitals and punctuation."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(texts):
        topic = rng.integers(0, 2 * words // 3, length) + (number % 2) * (words // 3)
        found.append(", ".join(f"Word{word}" for word in topic) + "!")
    return found


def naive_vectors(texts: Sequence[str], words: Sequence[str], piece: int) -> NDArray[np.float64]:
    """Positive pointwise mutual information by counting in loops. → (words, words)."""
    together = np.zeros((len(words), len(words)))
    for text in texts:
        found = re.findall(r"\w+", text.lower())
        for start in range(0, len(found), piece):
            inside = set(found[start : start + piece])
            for i, one in enumerate(words):
                for j, other in enumerate(words):
                    together[i, j] += one in inside and other in inside
    totals = together.sum(1)
    context = totals**0.75 / (totals**0.75).sum()
    information = np.zeros_like(together)
    for i in range(len(words)):
        for j in range(len(words)):
            if together[i, j] > 0:
                information[i, j] = max(0.0, math.log(together[i, j] / totals[i] / context[j]))
    return information


@pytest.mark.parametrize(("dimensions", "piece"), [(64, 64), (4, 64), (4, 5), (1, 3)])
def test_vectors_are_those_of_naive_counting(dimensions: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "PIECE", piece)
    texts = corpus()
    encoding = fit_text(texts, dimensions)
    assert list(encoding.words) == sorted({word for text in texts for word in re.findall(r"\w+", text.lower())})
    left, values, _ = np.linalg.svd(naive_vectors(texts, encoding.words, piece))
    if dimensions < len(values):
        assert values[dimensions - 1] > 1.001 * values[dimensions]  # else the directions were not determined
    wanted = (left * values)[:, :dimensions]
    lengths = np.linalg.norm(wanted, axis=1)
    # A Gram matrix does not depend on the signs of directions, nor on which of two equal ones comes first.
    bound = 2.1 * HALF * np.outer(lengths, lengths).max() + 1e-9
    np.testing.assert_allclose(encoding.vectors @ encoding.vectors.T, wanted @ wanted.T, atol=bound)
    np.testing.assert_allclose(np.linalg.norm(encoding.vectors, axis=0), values[: encoding.vectors.shape[1]], rtol=1e-3)


def test_weights_are_inverse_document_frequencies() -> None:
    texts = corpus()
    encoding = fit_text(texts)
    for word, weight in zip(encoding.words, encoding.weights, strict=True):
        inside = sum(word in re.findall(r"\w+", text.lower()) for text in texts)
        assert weight == pytest.approx(math.log((1 + len(texts)) / (1 + inside)) + 1, rel=HALF)


def naive_row(encoding: TextEncoding, text: str) -> NDArray[np.float64]:
    total = np.zeros(encoding.vectors.shape[1])
    for word in re.findall(r"\w+", text.lower()):
        if word in encoding.words:
            number = encoding.words.index(word)
            total += float(encoding.weights[number]) * encoding.vectors[number].astype(np.float64)
    length = math.sqrt((total**2).sum())
    return total / length if length else total


@given(
    texts=st.lists(st.lists(st.sampled_from(["word0", "WORD3", "word5", "word11", "new", "", "?"])), max_size=8),
)
def test_rows_are_weighted_means_of_length_1(texts: list[list[str]]) -> None:
    encoding = fit_text(corpus(), 5)
    given_texts = [" ".join(words) for words in texts]
    rows = encoding.rows(given_texts)
    assert rows.shape == (len(texts), 5)
    assert rows.dtype == np.float32
    for row, text in zip(rows, given_texts, strict=True):
        np.testing.assert_allclose(row, naive_row(encoding, text), atol=1e-5)


def test_a_text_without_known_words_is_zeros_and_every_other_has_length_1() -> None:
    encoding = fit_text(corpus())
    rows = encoding.rows(["", "never seen", "…", "word1", "word1 never seen"])
    assert (rows[:3] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(rows[3:], axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(rows[3], rows[4])


def test_a_row_depends_on_its_own_words_alone() -> None:
    texts = corpus(texts=30)
    encoding = fit_text(texts)
    alone = np.concatenate([encoding.rows([text]) for text in texts])
    np.testing.assert_array_equal(encoding.rows(texts), alone)
    np.testing.assert_array_equal(encoding.rows(texts[::-1])[::-1], alone)


def test_words_are_padded_as_they_stand() -> None:
    encoding = fit_text(corpus())
    words = encoding.read(["word3 word1 word3", "", "new word5"])
    assert len(words) == 3
    numbers, there = words.padded(np.array([2, 0, 1, 0]))
    assert there.tolist() == [[True, False, False], [True] * 3, [False] * 3, [True] * 3]
    found = [[encoding.words[n] for n in row[mask]] for row, mask in zip(numbers, there, strict=True)]
    assert found == [["word5"], ["word3", "word1", "word3"], [], ["word3", "word1", "word3"]]
    assert words.padded(np.array([1]))[0].shape == (1, 1)


def test_json_gives_the_same_bits_back_in_two_bytes_a_number() -> None:
    texts = corpus(texts=300, words=400, length=40)
    encoding = fit_text(texts)
    stored = json.dumps(encoding.to_json())
    again = TextEncoding.from_json(json.loads(stored))
    assert again.words == encoding.words
    assert again.weights.tobytes() == encoding.weights.tobytes()
    assert again.vectors.tobytes() == encoding.vectors.tobytes()
    np.testing.assert_array_equal(again.rows(texts), encoding.rows(texts))
    assert len(stored) < 3 * encoding.vectors.size + 20 * len(encoding.words) + 200


def packed(*numbers: float) -> str:
    return base64.b64encode(np.array(numbers, "<f2").tobytes()).decode()


GOOD = {"words": ["a", "b"], "weights": packed(1, 2), "vectors": packed(1, 2, 3, 4)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": None}, "must be a list of strings"),
        ({"words": "ab"}, "must be a list of strings"),
        ({"words": ["a", 1]}, "must be a list of strings"),
        ({"words": ["a", ["b"]]}, "must be a list of strings"),
        ({"words": []}, "0 words but not a vector and a weight for each"),
        ({"words": ["a", "a"]}, "has a word twice"),
        ({"words": ["a", "b", "c"]}, "3 words but not a vector and a weight for each"),
        ({"weights": packed(1)}, "2 words but not a vector and a weight for each"),
        ({"vectors": packed(1, 2, 3)}, "2 words but not a vector and a weight for each"),
        ({"vectors": ""}, "2 words but not a vector and a weight for each"),
        ({"vectors": packed(1, 2, 3, math.inf)}, "not all finite"),
        ({"weights": packed(1, math.nan)}, "not all finite"),
        ({"weights": "AAA"}, "cannot be read"),
        ({"weights": "AAAA"}, "cannot be read"),  # three bytes are no whole number of halves
        ({"weights": "*" * 8}, "cannot be read"),
        ({"weights": [1.0, 2.0]}, "cannot be read"),
        ({"weights": None}, "cannot be read"),
        ({"more": 1}, "must be stored as words, weights and vectors"),
    ],
)
def test_hostile_json_is_refused_in_a_sentence(changes: dict[str, Any], message: str) -> None:
    assert TextEncoding.from_json(GOOD).vectors.shape == (2, 2)
    with pytest.raises(DataError, match=message):
        TextEncoding.from_json(GOOD | changes)


@pytest.mark.parametrize("fields", [None, [], "text", 3, {}, {"words": ["a"]}])
def test_what_is_no_encoding_is_refused(fields: Any) -> None:
    with pytest.raises(DataError, match="must be stored as words, weights and vectors"):
        TextEncoding.from_json(fields)


STRANGE = {
    "no text": [],
    "one text": ["a cat sat on the mat"],
    "one word": ["cat"],
    "empty strings": ["", "", ""],
    "no words": ["…", "?!", " "],
    "the same word nine times": ["cat"] * 9,
    "the same word ten times": ["cat cat cat"] * 10,
    "two words that are always together": ["left right"] * 12,
    "two groups of words that never meet": ["a b c", "d e f"] * 10,
    "words of their own, nine texts": [f"left{i} right{i}" for i in range(9)],
    "words of their own, ten texts": [f"left{i} right{i}" for i in range(10)],
    "one huge text": [" ".join(f"w{i % 300}" for i in range(100_000)), "w1 w2", "w2 w3"],
    "letters of everywhere": ["Straße ŒUVRE 東京 ١٢٣ naïve", "東京 straße"] * 6,
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_texts_become_finite_rows_the_same_every_time(name: str) -> None:
    texts = STRANGE[name]
    encoding = fit_text(texts)
    rows = encoding.rows(texts)
    assert rows.shape == (len(texts), encoding.vectors.shape[1])
    assert encoding.vectors.shape[1] <= 64
    lengths = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(lengths, np.round(lengths), atol=1e-5)  # 0 or 1
    fit_text(corpus())
    again = fit_text(list(texts))
    assert again.words == encoding.words
    assert again.vectors.tobytes() == encoding.vectors.tobytes()
    assert TextEncoding.from_json(encoding.to_json()).vectors.tobytes() == encoding.vectors.tobytes()


def test_words_of_a_single_text_count_only_where_texts_are_few() -> None:
    nine, ten = ([f"left{i} both" for i in range(count)] for count in (9, 10))
    assert len(fit_text(nine).words) == 10
    assert fit_text(ten).words == ("both",)


def test_of_equally_frequent_words_the_alphabet_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the order of a set, which differs from process to process."""
    monkeypatch.setattr(text_module, "MOST_WORDS", 7)
    words = [f"w{i:02}" for i in range(40)]
    assert fit_text([" ".join(reversed(words))] * 2 + ["w39"]).words == (*words[:6], "w39")


def test_pieces_are_taken_from_all_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "MOST_PIECES", 10)
    texts = [f"early{i % 3} always" for i in range(50)] + [f"late{i % 3} always" for i in range(50)]
    encoding = fit_text(texts)
    rows = encoding.rows(["early0", "early1", "late0"])
    assert np.isfinite(encoding.vectors).all()
    assert (np.linalg.norm(rows, axis=1) > 0).all()


@pytest.mark.parametrize("shape", [(30, 50), (50, 30), (40, 40)])
@pytest.mark.parametrize("most", [1, 7, 64])
def test_directions_are_those_of_a_whole_decomposition(
    shape: tuple[int, int], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=shape) * (rng.random(shape) < 0.3)
    _, values, right = np.linalg.svd(dense)
    for limit in (1000, 10):  # in one go, and by Lanczos' method, which finds all but one
        monkeypatch.setattr(reduce, "DENSE", limit)
        found = main_directions(csr_matrix(dense), most)
        count = min(most, min(shape) - (limit == 10))
        assert found.shape == (shape[1], count)
        np.testing.assert_allclose(np.abs((found * right[:count].T).sum(0)), 1, rtol=1e-8)
        np.testing.assert_allclose(np.linalg.norm(dense @ found, axis=0), values[:count], rtol=1e-8)
        assert (found[np.abs(found).argmax(0), np.arange(count)] > 0).all()


def test_directions_without_anything_along_them_are_left_out() -> None:
    twice = csr_matrix(np.outer([1, 2, 3, 4], [1, 0, 1, 1]) + np.outer([1, 0, 0, -1], [0, 1, 0, 0]))
    assert main_directions(twice, 4).shape == (4, 2)
    assert main_directions(csr_matrix((5, 3)), 4).shape == (3, 0)
