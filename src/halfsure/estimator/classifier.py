"""The scikit-learn face: a few labels and many unlabeled samples in, a classifier that knows when it is unsure out."""

import copy
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted
from torch import nn

from halfsure._checks import check_count, check_number
from halfsure.bank.encoded import Banked, Opener, plain_features, ready
from halfsure.bank.end_to_end import end_to_end, train_encoder
from halfsure.bank.seeing import NONE, EncoderWanted, TextsSeen, see_pictures
from halfsure.bank.tuned import tune
from halfsure.data import Data, Part
from halfsure.data.arrays import name_each
from halfsure.data.columns import warn_of_columns
from halfsure.data.dataset import UNLABELED, Text, texts_of
from halfsure.data.embeddings import Embedding
from halfsure.data.originals import PictureArray
from halfsure.encoders import Encoder
from halfsure.estimator.answer import make_report, warn_of_fallback
from halfsure.estimator.features import ShapedEncoder, as_plain, choose_encoder
from halfsure.estimator.labels import known_labels, read_labels
from halfsure.estimator.plan import make_config, shared_time, supervised, wanted_encoder
from halfsure.learners.automatic import AUTO
from halfsure.runs.evidence import Again
from halfsure.runs.model_file import set_temperature
from halfsure.runs.run import MODEL, Run
from halfsure.runs.start import start
from halfsure.runs.with_encoder import as_seen_by
from halfsure.training.class_shares import label_shares
from halfsure.training.config import Config
from halfsure.training.errors import CollapseWarning
from halfsure.trust import Guarantee
from halfsure.verdict.folds import Evidence, Fold, deal, fold_of, how_many, weigh, without
from halfsure.views.batch import Views

__all__ = ["SSLClassifier"]


class SSLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learn from a few labels and many unlabeled samples.

    Args:
        method: in the paper's notation (`halfsure methods` lists them), or "auto": chosen by the kind of data.
        encoder: the name of a pretrained network that pictures or texts are seen through (`halfsure encoders` lists
            them), or one of your own: `halfsure.encoders.own(…)`. "auto" is the best installed, "none" does without.
        net: the name of a network, such as "mlp-64" or "wrn-16-2", or an `nn.Module` of your own that returns logits;
            None is the preset's. Yours is copied, never changed.
        views: your own weak and strong views, {"weak": …, "strong": …}, as `halfsure.fit` takes them.
        steps: updates of each model; None is the preset's, which grows with the data.
        time: a time for the whole fit, such as "5m", in place of `steps`.
        folds: parts of the labels that are held out in turn, to see whether the unlabeled data help, to calibrate, and
            to make sets with a coverage. "auto" is 5 with fewer than 500 labels, else one part of a fifth; 0 checks
            nothing, and only then may a class have a single label.
        calibrate: scale the logits by a temperature fitted on held-out labels.
        class_weight: "balanced", or a weight for each class, as a mapping or in the order of `classes_`.
        prior: class shares of the data. "labels": like those of the labels, which are a random sample; "estimate": the
            labels were chosen by class, shares are estimated from predictions; "uniform"; or a share for each class.
            "auto" trains as "labels" does where the method is "auto", and without a prior where you name the method.
        random_state: the same number gives the same model.
        n_jobs: models to train at once, in processes.
        out: a folder to keep the run of the final model in, with its report.html.
        settings: any other field of `halfsure.training.Config`, such as {"lr": 1e-3, "batch": 32}.

    Attributes:
        classes_: what can be predicted, ascending.
        method_: the method of the model that was kept.
        report_: did the unlabeled data help? `print(model.report_)` answers.
        transduction_: a label for each training sample: the given one, or the predicted one.
        history_: what each evaluation of the training run measured.
        temperature_: what the logits are divided by, from 0.1 to 10; `report_` says what either end means.
        prior_: class shares that sets and thresholds are weighted to; None where the labels are a random sample.
        run_: the trained model, a `halfsure.Run`.

    Examples:
        >>> import numpy as np
        >>> from halfsure import SSLClassifier
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(-2, 1, (50, 2)), rng.normal(2, 1, (50, 2))])
        >>> y = np.full(100, -1)
        >>> y[:5], y[50:55] = 0, 1
        >>> model = SSLClassifier().fit(X, y)
        >>> model.predict([[-2, -2], [2, 2]])
        array([0, 1])
        >>> model.predict_set([[-2, -2]])
        [(0,)]
    """

    def __init__(
        self,
        method: str = AUTO,
        *,
        encoder: str | Encoder = AUTO,
        net: str | nn.Module | None = None,
        views: Views | None = None,
        steps: int | None = None,
        time: str | None = None,
        folds: int | Literal["auto"] = "auto",
        calibrate: bool = True,
        class_weight: Literal["balanced"] | Mapping[Any, float] | Sequence[float] | None = None,
        prior: str | Sequence[float] | None = AUTO,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        out: str | os.PathLike[str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.encoder = encoder
        self.net = net
        self.views = views
        self.steps = steps
        self.time = time
        self.folds = folds
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.prior = prior
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.out = out
        self.settings = settings

    def fit(self, X: Any, y: Any, groups: Any = None) -> "SSLClassifier":  # noqa: N803 - scikit-learn's name
        """Learn from all samples, of which y labels some; −1, None, NaN or an empty string means unlabeled.

        `groups` says which samples belong together, such as those of one patient: no fold has some of a group to learn
        from and others to be checked on.
        """
        fresh = type(self)(**self.get_params(deep=False))
        fresh._fit(as_plain(X), y, groups)
        # Only now: a fit that fails leaves what was fitted before as it was.
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.__dict__.update(vars(fresh))
        return self

    def _fit(self, X: Any, y: Any, groups: Any) -> None:  # noqa: N803
        data = self._read(X, y, groups)
        own = self.views is not None or isinstance(self.net, nn.Module)
        if self.out is not None and own and (Path(self.out) / "config.json").exists():
            raise ValueError(
                f"{self.out} holds a run already, and whether it had these views and this network cannot be told: "
                "choose another folder, or remove it"
            )
        wanted = wanted_encoder(self)
        data = train_encoder(data, wanted.tune, wanted.tune_rate)
        config, why = make_config(self, data)
        data = tune(data, wanted.tune, config.seed, unlabeled=wanted.tune_unlabeled)
        self.opener_ = _opener_of_pictures(data)
        held = self._hold_out(data, config.seed)
        ready(data, config.algorithm(data).views)  # once, and not in every process that trains
        alone = supervised(data, config, self.settings or ()) if held and config.method != "supervised" else None
        if self.time is not None:
            models = 1 + len(held) * (1 if alone is None else 2)
            config = config.replace(time=shared_time(self.time, models))
            alone = alone and alone.replace(time=config.time)

        folds, baseline = self._cross_validate(data, held, [config] if alone is None else [config, alone])
        self.report_ = make_report(
            config.method,
            why,
            labels=len(data.labeled),
            unlabeled=len(data.train) - len(data.labeled),
            folds=folds,
            baseline=baseline,
            learnt=self._learnt(data),
        )
        if alone is not None and self.report_.fell_back:
            warn_of_fallback(config.method, self.report_)
            config, folds = alone, baseline
        self.run_ = self._train(data, config, out=self.out)
        self.method_, self.history_ = config.method, self.run_.metrics
        self._gather(data, folds)
        self.transduction_ = self._transduce(data)
        if self.out is not None:
            from halfsure.report import write  # noqa: PLC0415 - matplotlib is slow to import

            write([self.out], Path(self.out) / "report.html", data=data)

    def predict(self, X: Any, abstain: float | None = None) -> NDArray[Any]:  # noqa: N803
        """The best class of each sample.

        `abstain=0.95` answers only where the model is sure enough that, by the held-out labels, at most 5 % of the
        answers are wrong; elsewhere it gives −1, or None where classes are strings.
        """
        samples = self._samples(X)
        if abstain is None:
            answers: NDArray[Any] = self.classes_[self.run_.best(samples).numpy()]
            return answers
        self._evidence("abstaining")
        said = self.run_.answers(samples, abstain=check_number("abstain", abstain, 0, 1))
        best, sure = said.best.numpy(), said.sure.numpy()
        numbers = self.classes_.dtype.kind in "iuf"
        answers = self.classes_[best] if numbers else self.classes_[best].astype(object)
        answers = answers.astype(np.int64) if answers.dtype.kind == "u" else answers
        answers[~sure] = UNLABELED if numbers else None
        return answers

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Probabilities in the model's own map: in sparsemax most of them are exactly zero. → (n, classes)."""
        samples = self._samples(X)
        return self.run_.predict_proba(samples)

    def predict_set(self, X: Any, coverage: float | None = None) -> list[tuple[Any, ...]]:  # noqa: N803
        """The candidate classes of each sample, the most likely first.

        Without `coverage` those whose probability is not zero. With it conformal sets, which hold the true class as
        often as was asked for: `guarantee(coverage)` says under which conditions, and how sure that is. They are for
        samples that were not among the training samples.
        """
        samples = self._samples(X)
        if coverage is not None:
            self._evidence("a coverage")
        again: Again = lambda run: run.samples(as_plain(X))  # noqa: E731
        return self.run_.answers(samples, coverage=coverage, again=again).sets(self.classes_.tolist())

    def guarantee(self, coverage: float) -> Guarantee:
        """What is promised of `predict_set(X, coverage)`, as a number and in a sentence."""
        check_is_fitted(self)
        return self._evidence("a coverage").guarantee(coverage)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Accuracy on the samples that have a label."""
        known, labels = known_labels(y)
        found = self.predict(X)
        if len(found) != len(known):
            raise ValueError(f"X has {len(found)} samples and y has {len(known)} labels: give one label a sample")
        if not known.any():
            raise ValueError("y has no label to score against")
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(labels, found[known], sample_weight=weights))

    def _read(self, X: Any, y: Any, groups: Any) -> Data:  # noqa: N803
        """Encode samples and labels."""
        labels, self.classes_ = read_labels(y)
        wanted = wanted_encoder(self)
        own = self.encoder if isinstance(self.encoder, Encoder) else None
        texts = TextsSeen(wanted, own)
        self.encoder_ = choose_encoder(X, shaped=isinstance(self.net, nn.Module), texts=texts)
        samples = self.encoder_.fit(self, X)
        if hasattr(X, "columns") and hasattr(X, "isna"):
            warn_of_columns(X.rename(columns=str), map(str, X.columns), options=False)
        if len(samples) != len(labels):
            raise ValueError(f"X has {len(samples)} samples and y has {len(labels)} labels: give one label a sample")
        encoded = self.encoder_.encoded(X)
        data = Data(
            "X",
            self.encoder_.kind,
            tuple(str(name) for name in self.classes_.tolist()),
            Part(samples, labels, groups=name_each("groups", groups), texts=texts_of(encoded)),
            np.flatnonzero(labels != UNLABELED),
            encoding=self.encoder_.as_json(),
            encoded=encoded,
            notes=(*texts.told, *(one.note for one in encoded if isinstance(one, Embedding))),
        )
        return self._seen(data, wanted, own)

    def _seen(self, data: Data, wanted: EncoderWanted, own: Encoder | None) -> Data:
        """The same through an encoder of pictures, if there is to be one."""
        if data.kind != "image" or wanted.encoder == NONE:
            if all(isinstance(one, Embedding) for one in data.encoded) and (
                own is not None or wanted.encoder not in (AUTO, NONE)
            ):
                raise ValueError("X holds neither pictures nor texts for an encoder: take encoder='none'")
            return data
        return see_pictures(data, wanted, own=own)

    def _learnt(self, data: Data) -> bool:
        """Whether the rows themselves were learnt from all samples, as those of words are."""
        words = any(isinstance(one, Text) for one in data.encoded)
        return words or getattr(self.encoder_, "directions", None) is not None

    def _hold_out(self, data: Data, seed: int) -> list[NDArray[np.int64]]:
        """Which labeled samples are held out, fold by fold."""
        try:
            folds = how_many(data) if self.folds == "auto" else check_count("folds", self.folds)
        except ValueError:
            raise ValueError(f"folds must be a whole number of at least 0, or 'auto', got {self.folds!r}") from None
        return deal(data, folds, seed) if folds else []

    def _cross_validate(
        self, data: Data, held: list[NDArray[np.int64]], configs: list[Config]
    ) -> tuple[list[Fold], list[Fold]]:
        """The folds of each config, the second the baseline's."""
        left = [without(data, some) for some in held]
        for some in left:
            ready(some, configs[0].algorithm(data).views)
        jobs = [(config, *fold) for config in configs for fold in zip(left, held, strict=True)]
        train = delayed(self._train_fold)
        runs = Parallel(n_jobs=self.n_jobs)(train(some, config) for config, some, _ in jobs)
        folds = [fold_of(some, rows, run) for (_, some, rows), run in zip(jobs, runs, strict=True)]
        return folds[: len(held)], folds[len(held) :]

    def _train_fold(self, data: Data, config: Config) -> Run:
        with warnings.catch_warnings():  # what becomes of a fold's model is in the report
            warnings.simplefilter("ignore", CollapseWarning)
            return self._train(data, config.replace(evaluations=1))

    def _train(self, data: Data, config: Config, out: str | os.PathLike[str] | None = None) -> Run:
        return start(data, config, model=self._network(), views=self.views, out=out)

    def _network(self) -> nn.Module | None:
        """A copy of the network of one's own, which sees samples in their own shape; None without one."""
        if not isinstance(self.net, nn.Module):
            return None
        net = copy.deepcopy(self.net)
        return (
            nn.Sequential(nn.Unflatten(1, self.encoder_.shape), net)
            if isinstance(self.encoder_, ShapedEncoder)
            else net
        )

    def _gather(self, data: Data, folds: list[Fold]) -> None:
        """What the held-out labels say, weighted to the class shares of the data where those differ."""
        self.evidence_, self.temperature_, self.prior_ = None, 1.0, None
        if not folds:
            return
        weights = None
        if self.prior is not None and not (isinstance(self.prior, str) and self.prior in (AUTO, "labels")):
            equal = [1.0] * len(data.classes)
            given = {"estimate": None, "uniform": equal}[self.prior] if isinstance(self.prior, str) else self.prior
            weights = weigh(data, folds, given)
            self.prior_ = (weights.numpy() * label_shares(data)).tolist()
        self.evidence_ = Evidence.of(folds, weights, calibrate=self.calibrate)
        self.temperature_ = self.evidence_.temperature
        self.report_ = replace(self.report_, temperature=self.temperature_)
        self.run_ = replace(self.run_, temperature=self.temperature_, held=self.evidence_)
        if self.run_.path is not None:
            set_temperature(self.run_.path / MODEL, self.temperature_)

    def _transduce(self, data: Data) -> NDArray[Any]:
        """A label for each training sample."""
        found = self.run_.best(as_seen_by(self.run_, data).train.samples).numpy()
        known = data.train.labels != UNLABELED
        labels: NDArray[Any] = self.classes_[np.where(known, data.train.labels, found)]
        return labels

    def _samples(self, X: Any) -> NDArray[Any]:  # noqa: N803
        check_is_fitted(self)
        if self.run_.is_tuned and self.opener_ is None:
            return self.run_.samples(as_plain(X))
        samples = self.encoder_.encode(self, as_plain(X))
        return samples if self.opener_ is None else plain_features(PictureArray(samples), self.opener_.encoder)

    def _evidence(self, what: str) -> Evidence:
        if self.evidence_ is None:
            raise ValueError(f"{what} needs labels that were held out: fit with folds='auto' instead of folds=0")
        return self.evidence_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.three_d_array = True
        return tags


def _opener_of_pictures(data: Data) -> Opener | None:
    """What opens the encoder that pictures are seen through, if they are."""
    if data.train.originals is None or end_to_end(data) is not None:
        return None
    return next((one.opener for one in data.encoded if isinstance(one, Banked)), None)
