"""Every kind of X and y that people have: what is learnt, how it is told, and that new samples are encoded alike."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn

import halfsure
from halfsure.data.text import fit_text
from halfsure.estimator.features import SparseEncoder
from halfsure.training.errors import CollapseWarning
from tests.estimator.samples import COUNT, TRUTH, Y, clouds, pictures, quick, texts

pd = pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")


def frame() -> Any:
    """Numbers with a gap, categories with gaps, and texts."""
    city = np.where(np.arange(COUNT) % 4 == 0, None, np.array(["Rome", "Lima", "Oslo"])[TRUTH])  # type: ignore[call-overload]
    found = pd.DataFrame({"age": clouds()[:, 0], "city": city, "note": texts()})
    found.loc[5, "age"] = np.nan
    found.loc[7, "note"] = None
    return found


KINDS: dict[str, Callable[[], Any]] = {
    "array": clouds,
    "array of float32": lambda: clouds().astype(np.float32),
    "tensor": lambda: torch.from_numpy(clouds()),
    "tensor with a gradient": lambda: torch.from_numpy(clouds()).requires_grad_(),
    "tensor in half precision": lambda: torch.from_numpy(clouds()).bfloat16(),
    "lists": lambda: clouds().tolist(),
    "sparse matrix": lambda: scipy.sparse.csr_matrix(clouds()),
    "sparse array of columns": lambda: scipy.sparse.csc_array(clouds()),
    "wide sparse matrix": lambda: scipy.sparse.csr_matrix(np.repeat(clouds() * (clouds() > 1), 200, axis=1)),
    "data frame of numbers": lambda: pd.DataFrame(clouds(), columns=list("abcd")),
    "data frame of everything": frame,
    "strings": texts,
    "array of strings": lambda: np.array(texts()),
    "array of objects": lambda: np.array(texts(), dtype=object),
    "column of strings": lambda: pd.Series(texts()),
    "grey pictures": pictures,
    "coloured pictures": lambda: pictures(13, 9, 3),
    "tensor of pictures": lambda: torch.from_numpy(pictures()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_samples(kind: str) -> None:
    samples = KINDS[kind]()
    model = quick(steps=30, settings={"lr": 0.01}).fit(samples, Y)
    assert model.score(samples, TRUTH) > 0.8
    probs = model.predict_proba(samples)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-9)
    some = samples.iloc[:7] if hasattr(samples, "iloc") else samples[:7]
    np.testing.assert_allclose(model.predict_proba(some), probs[:7], atol=1e-5)  # new samples are encoded as those were
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(samples), probs)
    assert model.n_features_in_ == np.prod(getattr(samples, "shape", np.shape(samples))[1:])  # of texts 1


def test_kinds_that_hold_the_same_numbers_give_the_same_bits() -> None:
    rows = clouds().astype(np.float32)
    wanted = quick(steps=5).fit(rows, Y).predict_proba(rows)
    same = [rows.tolist(), torch.from_numpy(rows), scipy.sparse.csr_matrix(rows), pd.DataFrame(rows)]
    for kind in [*same, np.asfortranarray(rows), rows.astype(np.float64)]:
        np.testing.assert_array_equal(quick(steps=5).fit(kind, Y).predict_proba(kind), wanted)


def test_names_of_features_are_kept_and_forgotten() -> None:
    named = pd.DataFrame(clouds(), columns=list("abcd"))
    model = quick(steps=2).fit(named, Y)
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(named.rename(columns={"a": "z"}))
    assert not hasattr(model.fit(clouds(), Y), "feature_names_in_")
    assert model.fit(frame(), Y).feature_names_in_.tolist() == ["age", "city", "note"]
    for other in (texts(), pictures(9, 9)):
        assert not hasattr(model.fit(other, Y), "feature_names_in_")


def test_columns_are_found_by_their_names() -> None:
    model = quick(steps=5).fit(frame(), Y)
    probs = model.predict_proba(frame())
    np.testing.assert_array_equal(model.predict_proba(frame()[["note", "age", "city"]]), probs)
    assert len(model.predict_proba(frame().rename(index=lambda row: row % 7))) == COUNT  # whatever the rows are called


def test_a_wide_sparse_matrix_is_reduced_to_its_main_directions() -> None:
    words = [f"{text} word{i % 30} other{i % 41} more{i}" for i, text in enumerate(texts() * 10)]
    matrix = TfidfVectorizer().fit_transform(words)
    assert matrix.shape == (600, 681)
    encoder = SparseEncoder()
    rows = encoder.fit(quick(), matrix)
    _, _, right = np.linalg.svd(matrix.toarray().astype(np.float64), full_matrices=False)
    projected = matrix.toarray() @ right[:30].T
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    np.testing.assert_allclose(rows @ rows.T, projected @ projected.T, atol=1e-4)
    np.testing.assert_array_equal(encoder.encode(quick().fit(matrix, np.arange(600) % 2), matrix[:9]), rows[:9])
    assert SparseEncoder().fit(quick(), matrix[:, :512]).shape == (600, 512)  # narrow enough as it is


def test_an_empty_wide_matrix_teaches_nothing_and_does_not_crash() -> None:
    empty = scipy.sparse.csr_matrix((COUNT, 600))
    with pytest.warns(CollapseWarning, match="for every sample"):
        model = quick(steps=2).fit(empty, Y)
    assert model.predict(empty).shape == (COUNT,)


def test_texts_are_the_rows_of_their_encoding() -> None:
    model = quick(steps=3).fit(texts(), Y)
    rows = fit_text(texts()).rows(texts())
    np.testing.assert_array_equal(model.run_.predict_proba(rows).argmax(1), model.predict_proba(texts()).argmax(1))
    assert model.predict(["never seen words", ""]).shape == (2,)


def test_what_was_trained_on_is_not_kept() -> None:
    """A thousand texts more, and the model grows by no more than their new words."""
    few, many = texts(), texts() * 20
    one = len(pickle.dumps(quick(steps=2).fit(few, Y)))
    other = len(pickle.dumps(quick(steps=2).fit(many, np.tile(Y, 20))))
    assert other < one + 20_000  # a label for each is kept in transduction_


def test_a_run_folder_of_texts_knows_how_to_read_a_table(tmp_path: Path) -> None:
    model = quick(steps=3, out=tmp_path / "run").fit(texts(), Y)
    run = halfsure.load(tmp_path / "run")
    assert run.encoding is not None
    from halfsure.data.tables import TableEncoding  # noqa: PLC0415 - after the check for pandas

    encoding = TableEncoding.from_json({name: run.encoding[name] for name in ("label", "columns")})
    rows = encoding.rows(pd.DataFrame({"text": texts()}))
    assert [int(name) for name in run.predict(rows)] == model.predict(texts()).tolist()


class Pooled(nn.Module):
    """A network that wants (n, 3, 8, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[1:] == (3, 8, 8)
        return self.last(self.conv(x).relu().mean((2, 3)))  # type: ignore[no-any-return]


def test_arrays_of_any_shape_with_a_network_of_ones_own() -> None:
    blocks = np.random.default_rng(0).normal(size=(COUNT, 3, 8, 8)) + 3 * np.eye(3)[TRUTH][:, :, None, None]
    model = quick(net=Pooled(), steps=60, folds=2, method="supervised", settings={"lr": 0.02}).fit(blocks, Y)
    assert model.score(blocks, TRUTH) > 0.8
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(torch.from_numpy(blocks)), model.predict_proba(blocks))
    with pytest.raises(ValueError, match=r"X must be \(n, 3, 8, 8\), got \(60, 8, 8, 3\)"):
        model.predict(blocks.transpose(0, 2, 3, 1))
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        model.predict(blocks[:0])
    with pytest.raises(ValueError, match="dim 4"):
        quick().fit(blocks, Y)  # for the networks of halfsure these are no rows


def test_pictures_with_a_network_of_ones_own_come_as_channels_first() -> None:
    model = quick(net=Pooled(), steps=2).fit(pictures(8, 8, 3), Y)
    assert model.predict(pictures(8, 8, 3)).shape == (COUNT,)


def test_views_of_ones_own() -> None:
    calls: list[str] = []

    def view(name: str) -> Any:
        def seen(rows: NDArray[Any], indices: Any, step: int, stream: int = 0) -> Tensor:
            calls.append(name)
            return torch.from_numpy(np.asarray(rows, dtype=np.float32))

        return seen

    quick(method="fixmatch-ads", views={"weak": view("weak"), "strong": view("strong")}, steps=3).fit(clouds(), Y)
    assert {name: calls.count(name) for name in ("weak", "strong")} == {"weak": 8, "strong": 4}  # a rehearsal, 3 steps


def gaps(nothing: Any, names: Any) -> list[Any]:
    return [nothing if label < 0 else names[label] for label in Y.tolist()]


LABELS: dict[str, tuple[Any, Any]] = {
    "ints": (Y, np.array([0, 1, 2])),
    "small ints": (Y.astype(np.int8), np.array([0, 1, 2], np.int8)),
    "other ints": (np.where(Y < 0, -1, 10 * Y - 5), np.array([-5, 5, 15])),
    "list with None": (gaps(None, [0, 1, 2]), np.array([0, 1, 2])),
    "tensor": (torch.from_numpy(Y), np.array([0, 1, 2])),
    "floats with −1": (Y.astype(float), np.array([0.0, 1.0, 2.0])),
    "floats with NaN": (np.where(Y < 0, np.nan, Y), np.array([0.0, 1.0, 2.0])),
    "column of floats with NaN": (pd.Series(np.where(Y < 0, np.nan, Y)), np.array([0.0, 1.0, 2.0])),
    "column with NA": (pd.Series(gaps(None, [0, 1, 2]), dtype="Int64"), np.array([0, 1, 2])),
    "strings with None": (gaps(None, "abc"), np.array(["a", "b", "c"], object)),
    "strings with NaN": (gaps(np.nan, "abc"), np.array(["a", "b", "c"], object)),
    "strings with −1": (gaps(-1, "abc"), np.array(["a", "b", "c"], object)),
    "empty strings": (gaps("", ["one", "three", "two"]), np.array(["one", "three", "two"])),
    "array of strings": (np.array(gaps("", "abc")), np.array(["a", "b", "c"])),
    "array of strings and −1": (np.array(gaps(-1, "abc")), np.array(["a", "b", "c"], "<U21")),
    "array of strings and NaN": (np.array(gaps(np.nan, "abc")), np.array(["a", "b", "c"], "<U32")),
    "column of strings with NA": (pd.Series(gaps(pd.NA, "abc"), dtype="string"), np.array(["a", "b", "c"], object)),
    "categories": (pd.Series(gaps(None, "abc"), dtype="category"), np.array(["a", "b", "c"], object)),
}


@pytest.mark.parametrize("kind", LABELS)
def test_every_kind_of_labels(kind: str) -> None:
    given, classes = LABELS[kind]
    model = quick(steps=15, settings={"lr": 0.02}).fit(clouds(), given)
    assert model.classes_.dtype == classes.dtype
    assert model.classes_.tolist() == classes.tolist()
    assert model.predict(clouds()).dtype == classes.dtype
    assert (model.predict(clouds()) == classes[TRUTH]).mean() > 0.8
    assert model.report_.labels == (Y >= 0).sum()
    assert model.score(clouds(), given) == pytest.approx((model.predict(clouds()) == classes[TRUTH])[Y >= 0].mean())
    assert model.transduction_[Y >= 0].tolist() == classes[TRUTH][Y >= 0].tolist()
    np.testing.assert_array_equal(model.transduction_[Y < 0], model.predict(clouds())[Y < 0])


def test_booleans_are_all_labels() -> None:
    truth = TRUTH == 0
    model = quick(steps=40).fit(clouds(), truth)
    assert model.classes_.tolist() == [False, True]
    assert model.predict(clouds()).dtype == bool
    assert (model.report_.unlabeled, model.method_) == (0, "supervised")
    with_gaps = pd.Series(np.where(Y < 0, None, truth), dtype="boolean")
    assert quick(steps=2).fit(clouds(), with_gaps).report_.unlabeled == (Y < 0).sum()


def test_a_column_of_labels_is_taken_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="column-vector y was passed"):
        assert quick(steps=2).fit(clouds(), Y[:, None]).classes_.tolist() == [0, 1, 2]
