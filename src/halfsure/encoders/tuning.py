"""A few labels teach an encoder which samples belong together (SetFit's idea, for texts and pictures alike).

tuned = tune_pairs(encoder, texts, labels)
tuned.encode(more)                                   # features in which classes lie further apart
same = tuned_from(encoder, tuned.changed)            # the same bits again, from the weights a run keeps
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from halfsure.encoders.encoder import Encoder, EncoderError, Features, PictureEncoder
from halfsure.encoders.pair_losses import contrast, cosine_regression

__all__ = ["Tuning", "encode_all", "tune_pairs", "tuned_from"]

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Tuning:
    """How an encoder is tuned; the values were chosen on samples and seeds that no table shows."""

    loss: Literal["contrast", "cosine"] = "cosine"
    """What pairs are told: to be nearer than other pairs, or which cosine to have."""
    steps: int = 60
    batch: int = 32
    """Samples per step; all pairs among them count."""
    rate: float = 1e-4
    """Learning rate, after a tenth of the steps; from there it falls to 0 in a line."""
    decay: float = 0.01
    temperature: float = 0.1
    flip: bool = True
    """Whether a picture's mirror image is of the same class."""
    zoom: float = 0.7
    """The least part of a picture's side that a view shows."""
    surest: float = 0.3
    """Part of the unlabeled samples that get labels from the tuned encoder, the surest of each class."""
    most_unlabeled: int = 2000


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
        labels: a class per sample, −1 where it is unknown: such samples are unlabeled.
        unlabeled: more samples; the surest of them take part in a second round, with the labels the first gives them.
        seed: of batches, views and dropout; the same seed gives the same bits on the same machine.
        tuning: how; the defaults if not given.
    """
    how = tuning or Tuning()
    known, y, rest = _checked(encoder, samples, labels)
    generator = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):  # dropout draws from torch's own generator
        torch.manual_seed(seed)
        net = _train(encoder, encoder.network(), [_Labeled(samples, known, y)], how, generator)
        pool = _pool(samples, rest, unlabeled, how.most_unlabeled, generator)
        if pool:
            first = _tuned(encoder, net)
            guessed = _guess(first, _Labeled(samples, known, y), pool, how.surest)
            net = _train(encoder, encoder.network(), [_Labeled(samples, known, y), *guessed], how, generator)
    return _tuned(encoder, net)


def tuned_from(encoder: Encoder, changed: Mapping[str, Tensor]) -> Encoder:
    """The tuned encoder again, from the encoder as it came and the weights that tuning changed."""
    if encoder.untuned_checksum:
        raise EncoderError(f"{encoder.full_name} is tuned already; give the encoder as it came")
    net = encoder.network()
    state = net.state_dict()
    for name, value in changed.items():
        if name not in state or state[name].shape != value.shape:
            raise EncoderError(
                f"the tuned weights are not of {encoder.full_name}: it has no {name} {tuple(value.shape)}"
            )
        if not value.isfinite().all():
            raise EncoderError(f"the tuned weights of {encoder.full_name} are damaged: {name} is not finite")
        state[name] = value.to(state[name].dtype)
    net.load_state_dict(state)
    tuned = encoder.with_network(net)
    tuned.changed = dict(changed)
    tuned.untuned_checksum = encoder.checksum
    tuned.checksum = _digest(encoder.checksum, changed)
    tuned.full_name = f"{encoder.full_name}+pairs"
    return tuned


def encode_all(encoder: Encoder, samples: Any, batch: int = 256) -> Features:
    """Features of samples in any form that tuning takes, batch after batch. → (n, dimension)."""
    return encode_rows(encoder, samples, np.arange(len(samples)), batch)


@dataclass(frozen=True)
class _Labeled:
    """Some of the samples, and a class for each of them."""

    samples: Any
    rows: Labels
    labels: Labels


def _checked(encoder: Encoder, samples: Any, labels: ArrayLike) -> tuple[Labels, Labels, Labels]:
    """Rows with a label, their classes, and the other rows."""
    if encoder.untuned_checksum:
        raise EncoderError(f"{encoder.full_name} is tuned already; tune the encoder as it came")
    y = np.asarray(labels)
    if y.shape != (len(samples),) or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"labels must be {len(samples)} whole numbers, one per sample, got {y.dtype} {y.shape}")
    known = np.flatnonzero(y >= 0)
    counts = np.unique(y[known], return_counts=True)[1]
    if len(counts) < 2:
        raise ValueError(f"tuning needs labels of at least two classes, got {len(counts)}")
    if counts.max() < 2:
        raise ValueError("tuning by pairs needs two labels of one class at least; each class has one label here")
    return known, y[known].astype(np.int64), np.flatnonzero(y < 0)


def _train(
    encoder: Encoder, net: nn.Module, parts: list[_Labeled], how: Tuning, generator: np.random.Generator
) -> nn.Module:
    """Train a network; each step sees as many samples of each part."""
    _only_dropout_trains(net)
    weights = [weight for weight in net.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, how.rate, weight_decay=how.decay)
    for step in range(how.steps):
        batches = [_batch(part.labels, how.batch // len(parts), generator) for part in parts]
        views = [_view(encoder, part.samples, part.rows[rows], how, generator) for part, rows in zip(parts, batches)]
        labels = torch.from_numpy(np.concatenate([part.labels[rows] for part, rows in zip(parts, batches)]))
        samples = torch.cat(views) if isinstance(views[0], Tensor) else [text for view in views for text in view]
        features = F.normalize(net(*encoder.inputs(samples)).float(), dim=-1)
        loss = (
            cosine_regression(features, labels) if how.loss == "cosine" else contrast(features, labels, how.temperature)
        )
        if not loss.isfinite():
            raise EncoderError(
                f"tuning {encoder.full_name} diverged at step {step}; use a smaller rate than {how.rate}"
            )
        for group in optimiser.param_groups:
            group["lr"] = how.rate * _share(step, how.steps)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
    return net


def _share(step: int, steps: int) -> float:
    """Of the learning rate: up in the first tenth, then down in a line."""
    rising = max(1, steps // 10)
    return min((step + 1) / rising, (steps - step) / (steps - rising + 1))


def _only_dropout_trains(net: nn.Module) -> None:
    """Norms keep their statistics: a few samples would spoil them."""
    net.eval()
    for module in net.modules():
        if isinstance(module, (nn.modules.dropout._DropoutNd, nn.MultiheadAttention)):
            module.train()


def _batch(labels: Labels, size: int, generator: np.random.Generator) -> Labels:
    """Rows of a batch: as many of each class, or of some classes where there are many; a single one comes twice."""
    classes = generator.permutation(np.unique(labels))[: max(2, size // 2)]
    chosen = []
    for value in classes:
        rows = generator.permutation(np.flatnonzero(labels == value))[: max(2, size // len(classes))]
        chosen.append(np.repeat(rows, 2) if len(rows) == 1 else rows)
    return np.concatenate(chosen)


def _given(encoder: Encoder, samples: Any, rows: Labels) -> Any:
    """These samples as the encoder takes them."""
    if not isinstance(encoder, PictureEncoder):
        return [samples[row] for row in rows]
    if isinstance(samples, Tensor) and samples.dtype != torch.uint8:
        return samples[torch.from_numpy(rows)]
    pictures = torch.from_numpy(np.stack([np.asarray(samples[int(row)]) for row in rows]))
    mean, std = torch.tensor(encoder.mean), torch.tensor(encoder.std)
    return ((pictures / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()


def _view(encoder: Encoder, samples: Any, rows: Labels, how: Tuning, generator: np.random.Generator) -> Any:
    """Texts as they are; pictures mirrored half of the time, moved and enlarged a little."""
    given = _given(encoder, samples, rows)
    if not isinstance(given, Tensor):
        return given
    n = len(given)
    zoom = generator.uniform(how.zoom, 1, n)
    shift = generator.uniform(-1, 1, (n, 2)) * (1 - zoom)[:, None]
    mirrored = np.where((generator.random(n) < 0.5) & how.flip, -1.0, 1.0)
    maps = np.zeros((n, 2, 3), np.float32)
    maps[:, 0, 0], maps[:, 1, 1], maps[:, :, 2] = zoom * mirrored, zoom, shift
    grid = F.affine_grid(torch.from_numpy(maps), list(given.shape), align_corners=False)
    return F.grid_sample(given, grid, padding_mode="border", align_corners=False)


def _pool(
    samples: Any, rest: Labels, unlabeled: Any, most: int, generator: np.random.Generator
) -> list[tuple[Any, Labels]]:
    """Samples without labels and which rows of them; at most so many."""
    pools = [(samples, rest), *([] if unlabeled is None else [(unlabeled, np.arange(len(unlabeled)))])]
    total = sum(len(rows) for _, rows in pools)
    kept = np.sort(generator.permutation(total)[:most])
    found, start = [], 0
    for source, rows in pools:
        mine = kept[(kept >= start) & (kept < start + len(rows))] - start
        start += len(rows)
        if len(mine):
            found.append((source, rows[mine]))
    return found


def _guess(encoder: Encoder, known: _Labeled, pool: list[tuple[Any, Labels]], surest: float) -> list[_Labeled]:
    """The surest of each class among unlabeled samples, by logistic regression on the features."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - slow to import

    classifier = LogisticRegression(max_iter=1000).fit(
        _unit(encode_rows(encoder, known.samples, known.rows)), known.labels
    )
    probs = [classifier.predict_proba(_unit(encode_rows(encoder, source, rows))) for source, rows in pool]
    kept = gate(np.concatenate(probs), surest)
    found, start = [], 0
    for (source, rows), part in zip(pool, probs):
        mine = np.flatnonzero(kept[start : start + len(rows)])
        start += len(rows)
        if len(mine):
            found.append(_Labeled(source, rows[mine], classifier.classes_[part[mine].argmax(1)]))
    return found


def gate(probs: NDArray[Any], share: float) -> NDArray[np.bool_]:
    """Whether each sample is among the surest of the class it is taken for. (n, classes) → (n,)."""
    top, guesses = probs.max(1), probs.argmax(1)
    each = max(1, int(share * len(probs) / probs.shape[1]))
    kept = np.zeros(len(probs), bool)
    for value in range(probs.shape[1]):
        rows = np.flatnonzero(guesses == value)
        kept[rows[np.argsort(-top[rows], kind="stable")[:each]]] = True
    return kept


def encode_rows(encoder: Encoder, samples: Any, rows: Labels, batch: int = 256) -> Features:
    parts = [
        encoder.encode(_given(encoder, samples, rows[first : first + batch])) for first in range(0, len(rows), batch)
    ]
    return np.concatenate(parts) if parts else np.empty((0, encoder.dimension), np.float32)


def _unit(features: Features) -> Features:
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), np.finfo(np.float32).tiny)


def _tuned(encoder: Encoder, net: nn.Module) -> Encoder:
    """The encoder with this network, its weights rounded to what a run keeps."""
    before = encoder.network().state_dict()
    changed = {name: value.half() for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    return tuned_from(encoder, changed)


def _digest(untuned: str, changed: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(untuned.encode())
    for name in sorted(changed):
        digest.update(name.encode())
        digest.update(changed[name].contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
