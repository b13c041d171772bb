"""Arrays, sparse matrices, tables, texts, pictures → the samples a network takes; and again for new ones."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data
from torch import Tensor

from halfsure.data.dataset import DataError, Encoded, Kind
from halfsure.data.embeddings import Embedding, embedding_in
from halfsure.data.reduce import main_directions
from halfsure.data.tables import LENIENT, Column, TableEncoding, TextEncoder, fit_table, fitted
from halfsure.data.text import TextRows, unit

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Encoder", "ShapedEncoder", "as_plain", "choose_encoder"]

WIDE = 512
"""A sparse matrix with more columns than these is reduced to its main directions."""
DIRECTIONS, ROWS_A_DIRECTION = 64, 20


class Encoder(Protocol):
    """Turns what a person passes as X into samples."""

    kind: Kind

    def fit(self, owner: BaseEstimator, X: Any) -> NDArray[Any]:  # noqa: N803 - scikit-learn's name
        """Learn from training samples and encode them."""
        ...

    def encode(self, owner: BaseEstimator, X: Any) -> NDArray[Any]:  # noqa: N803
        """Encode new samples, once they are seen to be like those of training."""
        ...

    def encoded(self, X: Any) -> tuple[Encoded, ...]:  # noqa: N803
        """The texts among the features, for views that leave words out."""
        ...

    def as_json(self) -> dict[str, Any] | None:
        """What a run folder keeps of it."""
        ...


def choose_encoder(X: Any, *, shaped: bool, texts: TextEncoder | None = None) -> Encoder:  # noqa: N803
    """The encoder for this kind of X; `shaped` allows arrays of any shape, for a network of one's own.

    `texts` says how texts become rows.
    """
    if _is_mixed(X):
        return TableEncoder(texts)
    if strings := _strings(X):
        if not all(isinstance(value, str) for value in strings):
            raise ValueError("some of the texts in X are no strings: write '' where there is none")
        return TextsEncoder(texts)
    if getattr(X, "dtype", None) == np.uint8 and getattr(X, "ndim", 0) in (3, 4):
        return ImageEncoder()
    if issparse(X):
        return SparseEncoder()
    return ShapedEncoder() if shaped and getattr(X, "ndim", 2) > 2 else RowEncoder()


class _Plain:
    """What encoders have in common that know neither texts nor JSON."""

    kind: Kind = "array"

    def encoded(self, X: Any) -> tuple[Encoded, ...]:  # noqa: N803
        """None."""
        return ()

    def as_json(self) -> dict[str, Any] | None:
        """Nothing to keep: arrays are taken as they are."""
        return None


@dataclass
class RowEncoder(_Plain):
    """Rows of numbers, checked as scikit-learn checks them."""

    embedding: Embedding | None = None

    def fit(self, owner: BaseEstimator, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """See `Encoder`."""
        rows = self._take(owner, X, reset=True)
        self.embedding = embedding_in(rows)
        return rows

    def encoded(self, X: Any) -> tuple[Encoded, ...]:  # noqa: N803
        """All of the features, where they are an embedding."""
        return (self.embedding,) if self.embedding else ()

    def encode(self, owner: BaseEstimator, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """See `Encoder`."""
        return self._take(owner, X, reset=False)

    def _take(self, owner: BaseEstimator, X: Any, *, reset: bool) -> NDArray[np.float32]:  # noqa: N803
        rows: NDArray[np.float32] = _validate(owner, X, reset=reset)
        return rows


@dataclass
class ShapedEncoder(_Plain):
    """Numbers of any shape, flattened: a network of one's own sees them in their shape again."""

    shape: tuple[int, ...] = ()

    def fit(self, owner: BaseEstimator, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """See `Encoder`."""
        self.shape = tuple(X.shape[1:])
        return self._take(owner, X, reset=True)

    def encode(self, owner: BaseEstimator, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """See `Encoder`."""
        if tuple(np.shape(X)[1:]) != self.shape:
            raise ValueError(f"X must be (n, {', '.join(map(str, self.shape))}), got {np.shape(X)}")
        return self._take(owner, X, reset=False)

    def _take(self, owner: BaseEstimator, X: Any, *, reset: bool) -> NDArray[np.float32]:  # noqa: N803
        flat = np.asarray(X).reshape(len(X), math.prod(self.shape))
        rows: NDArray[np.float32] = _validate(owner, flat, reset=reset)
        return rows


@dataclass
class SparseEncoder(_Plain):
    """A sparse matrix: dense where it is narrow, else rows of length 1 in its main directions."""

    directions: NDArray[np.float32] | None = None
    """(columns, directions)."""

    def fit(self, owner: BaseEstimator, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """See `Encoder`."""
        matrix = self._take(owner, X, reset=True)
        if matrix.shape[1] > WIDE and matrix.nnz:
            # Far fewer than rows: else they would fit the rows themselves, and new ones would lie elsewhere.
            most = min(DIRECTIONS, max(2, matrix.shape[0] // ROWS_A_DIRECTION))
            self.directions = main_directions(matrix, most).astype(np.float32)
        return self._reduce(matrix)

    def encode(self, owner: BaseEstimator, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """See `Encoder`."""
        return self._reduce(self._take(owner, X, reset=False))

    def _take(self, owner: BaseEstimator, X: Any, *, reset: bool) -> Any:  # noqa: N803
        return _validate(owner, X, reset=reset, accept_sparse="csr")

    def _reduce(self, matrix: Any) -> NDArray[np.float32]:
        if self.directions is None:
            dense: NDArray[np.float32] = matrix.toarray() if issparse(matrix) else matrix
            return dense
        return unit(np.asarray(matrix @ self.directions))


@dataclass
class ImageEncoder(_Plain):
    """uint8 images, (n, height, width) or (n, height, width, channels)."""

    shape: tuple[int, ...] = ()
    kind: Kind = "image"

    def fit(self, owner: BaseEstimator, X: Any) -> NDArray[np.uint8]:  # noqa: N803
        """See `Encoder`."""
        images = self._take(X)
        self.shape = images.shape[1:]
        owner.n_features_in_ = int(np.prod(self.shape))
        return images

    def encode(self, owner: BaseEstimator, X: Any) -> NDArray[np.uint8]:  # noqa: N803
        """See `Encoder`."""
        images = self._take(X)
        if images.shape[1:] != self.shape:
            raise ValueError(f"X has images of shape {images.shape[1:]}, the classifier was fitted on {self.shape}")
        return images

    def as_json(self) -> dict[str, Any] | None:
        """See `Encoder`."""
        return {"kind": "image", "shape": list(self.shape)}

    def _take(self, X: Any) -> NDArray[np.uint8]:  # noqa: N803
        given = np.asarray(X)
        images = given[..., None] if given.ndim == 3 else given
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] not in (1, 3) or 0 in images.shape:
            raise ValueError(
                "images must be uint8 of shape (n, height, width) or (n, height, width, 1 or 3 channels), with at "
                f"least one of them, got {given.dtype} of shape {given.shape}"
            )
        return images


@dataclass
class TextsEncoder(_Plain):
    """A list of strings."""

    fitter: TextEncoder | None = None
    encoding: TextRows | None = None

    def fit(self, owner: BaseEstimator, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """See `Encoder`."""
        texts = _strings(X)
        self.encoding = fitted(texts, self.fitter)
        assert self.encoding is not None  # of a function of one's own an encoder is made first
        owner.n_features_in_ = 1
        return self.encoding.rows(texts)

    def encode(self, owner: BaseEstimator, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """See `Encoder`."""
        texts = _strings(X)
        if not texts or not all(isinstance(value, str) for value in texts):
            raise ValueError("X must be a list of strings, as the classifier was fitted on")
        assert self.encoding is not None
        return self.encoding.rows(texts)

    def encoded(self, X: Any) -> tuple[Encoded, ...]:  # noqa: N803
        """See `Encoder`."""
        assert self.encoding is not None
        return (self.encoding.beside(0, _strings(X)),)

    def as_json(self) -> dict[str, Any] | None:
        """As a table with a single column, `text`."""
        table = TableEncoding("", (Column("text", "text", text=self.encoding),))
        return {"kind": "table", **table.to_json()}


@dataclass
class TableEncoder(_Plain):
    """A DataFrame with numbers, categories and texts."""

    fitter: TextEncoder | None = None
    encoding: TableEncoding | None = None

    def fit(self, owner: BaseEstimator, X: "pd.DataFrame") -> NDArray[np.float32]:  # noqa: N803
        """See `Encoder`."""
        names = [str(name) for name in X.columns]
        if "" in names or len(set(names)) < len(names):
            raise ValueError("the columns of X need names, and each another one")
        self.encoding = fit_table(X, text_encoder=self.fitter)
        owner.feature_names_in_ = np.array(names, dtype=object)
        owner.n_features_in_ = X.shape[1]
        return self.encoding.rows(X)

    def encode(self, owner: BaseEstimator, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """See `Encoder`."""
        if not hasattr(X, "columns"):
            raise ValueError("X must be a DataFrame with the columns that the classifier was fitted on")
        assert self.encoding is not None
        try:
            return self.encoding.rows(X, lenient=False)
        except DataError as error:
            raise DataError(str(error).removesuffix(f"; {LENIENT}")) from None  # which cannot be asked for here

    def encoded(self, X: "pd.DataFrame") -> tuple[Encoded, ...]:  # noqa: N803
        """See `Encoder`."""
        assert self.encoding is not None
        return self.encoding.encoded(X)

    def as_json(self) -> dict[str, Any] | None:
        """See `Encoder`."""
        return None if self.encoding is None else {"kind": "table", **self.encoding.to_json()}


def as_plain(X: Any) -> Any:  # noqa: N803
    """A tensor as an array; everything else as it is."""
    if not isinstance(X, Tensor):
        return X
    return (X.float() if X.dtype == torch.bfloat16 else X).numpy(force=True)


def _validate(owner: BaseEstimator, X: Any, *, reset: bool, accept_sparse: str | bool = False) -> Any:  # noqa: N803
    """Numbers as scikit-learn takes them: finite, as many features as in training."""
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, and is named
        return validate_data(owner, X, reset=reset, accept_sparse=accept_sparse, dtype=np.float32)


def _strings(X: Any) -> list[Any]:  # noqa: N803
    """The values of a list, column or array of one dimension that has strings in it; else nothing."""
    if isinstance(X, np.ndarray) and (X.ndim != 1 or X.dtype.kind not in "UOT"):
        return []
    values = X.tolist() if hasattr(X, "tolist") and getattr(X, "ndim", 0) == 1 else X
    return list(values) if isinstance(values, list | tuple) and any(isinstance(v, str) for v in values) else []


def _is_mixed(X: Any) -> bool:  # noqa: N803
    """Whether X is a DataFrame that scikit-learn could not take as numbers."""
    if not (hasattr(X, "columns") and hasattr(X, "isna")):
        return False
    return any(dtype.kind not in "biuf" for dtype in X.dtypes) or bool(X.isna().to_numpy().any())
