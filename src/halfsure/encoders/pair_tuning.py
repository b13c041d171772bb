"""A few labels teach an encoder which samples belong together (SetFit's idea, for texts and pictures alike).

tuned = tune_pairs(encoder, texts, labels)
tuned.encode(more)                                   # features in which classes lie further apart
tuned_from(encoder, tuned.changed, "pairs")          # the same bits again, from the weights a run keeps
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from halfsure.encoders.changed_weights import tuned_from
from halfsure.encoders.encoder import Encoder, EncoderError, Features
from halfsure.encoders.pair_batches import Rows, balanced_rows, encode_rows, given, weak_views
from halfsure.encoders.pair_losses import contrast, cosine_regression

__all__ = ["Tuning", "labeled_rows", "logistic_regression", "surest_of_each_class", "tune_pairs"]


@dataclass(frozen=True)
class Tuning:
    """How an encoder is tuned; the values were chosen on samples and seeds that no table shows."""

    loss: Literal["contrast", "cosine"] = "contrast"
    """What pairs are taught: to be nearer than other pairs, or which cosine to have."""
    steps: int = 40
    batch: int = 32
    """Samples per step; all pairs among them count."""
    rate: float = 1e-4
    """Highest learning rate: it rises for a tenth of the steps, then falls in a line."""
    decay: float = 0.01
    """Weight decay."""
    temperature: float = 0.1
    """Of the contrast."""
    zoom: float = 0.7
    """Least part of a picture's sides that a view shows."""
    flip: bool = True
    """Whether a picture may be mirrored."""
    surest: float = 0.3
    """Part of the unlabeled samples that takes part in the second round."""
    most_unlabeled: int = 1000
    """Unlabeled samples that are looked at."""


@dataclass(frozen=True)
class _Taught:
    """Some of the samples, and a class for each of them."""

    samples: Any
    rows: Rows
    labels: Rows


def tune_pairs(
    encoder: Encoder,
    samples: Any,
    labels: ArrayLike,
    *,
    unlabeled: Any = None,
    seed: int = 0,
    tuning: Tuning | None = None,
) -> Encoder:
    """Train an encoder's network so that samples of one class get similar features; the encoder given stays as it is.

    Args:
        encoder: one whose network can be trained here, such as minilm or efficientnet-lite0.
        samples: texts, pictures as a normalised tensor (n, 3, side, side), or squares of bytes (n, side, side, 3).
        labels: a class per sample, −1 where it is unknown: such samples are left out.
        unlabeled: samples without labels, for a second round: the first round labels them, and the surest count.
        seed: of batches, views and dropout; with it the same machine gives the same bits.
        tuning: how; the defaults if not given.
    """
    how = tuning or Tuning()
    if encoder.untuned_checksum:
        raise EncoderError(f"{encoder.full_name} is tuned already; tune the encoder as it came")
    known = _Taught(samples, *labeled_rows(samples, labels))
    generator = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):  # dropout draws from torch's own generator
        torch.manual_seed(seed)
        tuned = _train(encoder, [known], how, generator)
        if unlabeled is not None and len(unlabeled):
            pool = np.sort(generator.permutation(len(unlabeled))[: how.most_unlabeled])
            tuned = _train(encoder, [known, _guessed(tuned, known, unlabeled, pool, how)], how, generator)
    return tuned


def labeled_rows(samples: Any, labels: ArrayLike) -> tuple[Rows, Rows]:
    """Samples that have a label, and their classes; labels that no pairs can be made of are refused."""
    y = np.asarray(labels)
    if y.shape != (len(samples),) or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"labels must be {len(samples)} whole numbers, one per sample, got {y.dtype} {y.shape}")
    rows = np.flatnonzero(y >= 0)
    counts = np.unique(y[rows], return_counts=True)[1]
    if len(counts) < 2:
        raise ValueError(f"tuning by pairs needs labels of at least two classes, got {len(counts)}")
    if counts.max() < 2:
        raise ValueError(
            "tuning by pairs needs a class with two labels: here each has one, so nothing belongs together"
        )
    return rows, y[rows].astype(np.int64)


def _train(encoder: Encoder, parts: Sequence[_Taught], how: Tuning, generator: np.random.Generator) -> Encoder:
    """Train a copy of the network; each step sees as many samples of each part."""
    net = encoder.network()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    _only_dropout_trains(net)
    weights = [weight for weight in net.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, how.rate, weight_decay=how.decay)
    for step in range(how.steps):
        optimiser.param_groups[0]["lr"] = how.rate * _share(step, how.steps)
        loss = _loss(encoder, net, parts, how, generator)
        if not loss.isfinite():
            raise EncoderError(f"tuning {encoder.full_name} diverged at step {step}; use a rate below {how.rate}")
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
    # Kept in float16: the encoder calculates with the rounded weights, so that a restored one gives the same bits.
    changed = {name: value.half() for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    return tuned_from(encoder, changed, "pairs")


def _loss(
    encoder: Encoder, net: nn.Module, parts: Sequence[_Taught], how: Tuning, generator: np.random.Generator
) -> Tensor:
    batches, labels = [], []
    for part in parts:
        rows = balanced_rows(part.labels, how.batch // len(parts), generator)
        batch = given(encoder, part.samples, part.rows[rows])
        batches.append(weak_views(batch, how.zoom, how.flip, generator) if isinstance(batch, Tensor) else batch)
        labels.append(part.labels[rows])
    samples = torch.cat(batches) if isinstance(batches[0], Tensor) else [text for batch in batches for text in batch]
    features = F.normalize(net(*encoder.inputs(samples)), dim=-1)
    classes = torch.from_numpy(np.concatenate(labels))
    return (
        contrast(features, classes, how.temperature) if how.loss == "contrast" else cosine_regression(features, classes)
    )


def _only_dropout_trains(net: nn.Module) -> None:
    """Norms keep their statistics: a few samples would spoil them."""
    net.eval()
    for module in net.modules():
        if isinstance(module, nn.Dropout | nn.MultiheadAttention):
            module.train()


def _share(step: int, steps: int) -> float:
    """Of the highest learning rate."""
    rising = max(1, steps // 10)
    return min((step + 1) / rising, (steps - step) / (steps - rising + 1))


def _guessed(encoder: Encoder, known: _Taught, unlabeled: Any, pool: Rows, how: Tuning) -> _Taught:
    """The surest of the unlabeled samples, with what logistic regression on the tuned features takes them for."""
    classifier = logistic_regression(encode_rows(encoder, known.samples, known.rows), known.labels)
    probs = classifier.predict_proba(encode_rows(encoder, unlabeled, pool))
    kept = surest_of_each_class(probs, how.surest)
    return _Taught(unlabeled, pool[kept], classifier.classes_[probs[kept].argmax(1)])


def logistic_regression(features: Features, labels: Rows) -> Any:
    """A classifier on features, with scikit-learn's defaults."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - slow to import

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")  # few labels of many classes
        return LogisticRegression(max_iter=1000).fit(features, labels)


def surest_of_each_class(probs: NDArray[Any], share: float) -> Rows:
    """The samples that are surest to be of each class, as many of each: in all at most this share. → (rows,)."""
    each = max(1, int(share * len(probs) / probs.shape[1]))
    guesses, sureness = probs.argmax(1), probs.max(1)
    order = np.argsort(-sureness, kind="stable")
    return np.sort(np.concatenate([order[guesses[order] == value][:each] for value in range(probs.shape[1])]))
