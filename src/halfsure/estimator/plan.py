"""The parameters of a classifier → every setting of its training."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import nn

from halfsure._checks import check_count
from halfsure.bank.seeing import NONE, EncoderWanted
from halfsure.data import Data
from halfsure.encoders import Encoder
from halfsure.learners.automatic import AUTO, SHARES, Choice, choose
from halfsure.methods import layout, parse
from halfsure.runs.tensorboard import require_events
from halfsure.settings import Settings, declared
from halfsure.training.config import Config, parse_time
from halfsure.training.presets import preset

__all__ = ["make_config", "shared_time", "supervised", "wanted_encoder"]

PARAMETERS = {name: name for name in ("method", "net", "steps", "time", "class_weight", "prior", "encoder")} | {
    "seed": "random_state"
}
"""Settings that a parameter of the classifier stands for."""
OF_NETWORKS = ("norm", "dropout")
OF_ENCODERS = {setting.name for setting in declared(EncoderWanted)} - {"encoder"}
PRIORS = (AUTO, "labels", "estimate", "uniform")


def make_config(owner: Any, data: Data) -> tuple[Config, str]:
    """Every setting of the training, and why this method."""
    choice = choose(data) if owner.method == AUTO else Choice(owner.method, "the method you asked for", {})
    own = _check_settings(owner)
    require_events(own)
    if owner.steps is not None and owner.time is not None:
        raise ValueError("steps and time both say how long to train: give one of them")
    settings: dict[str, Any] = {"tensorboard": False}
    settings |= {} if owner.steps is None else {"steps": check_count("steps", owner.steps, 1)}
    settings |= {"net": owner.net} if isinstance(owner.net, str) else {}
    settings |= {"class_weight": _weights(owner.class_weight, owner.classes_)}
    prior = _prior(owner.prior, len(owner.classes_))
    if isinstance(prior, str) and prior == AUTO:
        settings |= choice.settings
        why = f"{choice.why}; {SHARES}" if choice.settings else choice.why
    else:
        settings |= {"prior": None if prior == "estimate" else prior} if parse(choice.method).target is not None else {}
        why = choice.why
    config = preset(data, choice.method, own.get("preset", "quick"), _seed(owner.random_state))
    config = config.replace(method=config.parsed.name, **(settings | own))
    config.algorithm()  # refuses combinations that the method cannot have
    return config, why


def wanted_encoder(owner: Any) -> EncoderWanted:
    """Which encoder pictures and texts are seen through, with its settings."""
    _check_kinds(owner)
    told = {name: value for name, value in (owner.settings or {}).items() if name in OF_ENCODERS}
    encoder: Any = owner.encoder
    if not isinstance(encoder, str | Encoder):
        raise ValueError(  # noqa: TRY004 - as scikit-learn
            "encoder is the name of one (`halfsure encoders` lists them), 'auto', 'none', or one of your own, "
            f"halfsure.encoders.own(…), got {encoder!r:.60}"
        )
    if isinstance(encoder, Encoder):
        return EncoderWanted(**told)
    if encoder == AUTO and (owner.net is not None or owner.views is not None):
        encoder = NONE  # both are for samples as they are
    return EncoderWanted(encoder=encoder, **told)


def supervised(data: Data, config: Config, own: Iterable[str]) -> Config:
    """The same training without the unlabeled samples: network, length, seed and a person's own settings stay."""
    alone = preset(data, "supervised", config.run.preset, config.run.seed)
    kept = {"net", "views", "steps", "time", "batch", "evaluations", "tensorboard", "class_weight"}
    kept |= {"device", "precision", "threads", *(set(own) - _of_method(config))}
    kept |= {name for key in ("net", "views") for name in vars(config.sections.get(key, Settings()))}
    return alone.replace(**{name: value for name, value in config.flat.items() if name in kept})


def _of_method(config: Config) -> set[str]:
    """The flat names of settings that the method's parts have."""
    others = Config.of({key: part for key, part in config.sections.items() if key not in layout(config.parsed)})
    return config.flat.keys() - others.flat.keys()


def shared_time(time: str, models: int) -> str:
    """The share of a time that each of so many models gets."""
    return f"{max(parse_time(time) / models, 0.001):.3f}s"


def _check_kinds(owner: Any) -> None:
    """Refuse parameters that are something else altogether."""
    for name, kinds, wanted in (
        ("method", str, "the name of a method, such as 'fixmatch-ads', or 'auto'"),
        ("net", str | nn.Module | None, "the name of a network, an nn.Module or None"),
        ("time", str | None, "a string such as '5m', or None"),
        ("calibrate", bool | np.bool_, "True or False"),
        ("settings", Mapping | None, "a mapping of names to values, or None"),
    ):
        if not isinstance(getattr(owner, name), kinds):
            raise ValueError(f"{name} is {wanted}, got {getattr(owner, name)!r:.60}")  # noqa: TRY004 - as scikit-learn


def _check_settings(owner: Any) -> dict[str, Any]:
    """A person's own settings; those that no part has are refused once the parts are known."""
    own = {name: value for name, value in (owner.settings or {}).items() if name not in OF_ENCODERS}
    for name in own:
        if name in PARAMETERS:
            raise ValueError(f"{name} is not one of the settings: give it as {PARAMETERS[name]}= instead")
        if name in OF_NETWORKS and isinstance(owner.net, nn.Module):
            raise ValueError(f"{name} is for the networks of halfsure; with one of your own omit it")
    return own


def _seed(random_state: Any) -> int:
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return check_count("random_state", int(random_state), 0)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _weights(given: Any, classes: NDArray[Any]) -> Any:
    if isinstance(given, Mapping):
        if missing := [name for name in classes.tolist() if name not in given]:
            raise ValueError(f"class_weight has no weight for the class {missing[0]!r}")
        return tuple(float(given[name]) for name in classes.tolist())
    return tuple(map(float, given)) if _is_list(given) else given


def _prior(given: Any, classes: int) -> Any:
    """A prior as the config has it, or the word "estimate"."""
    if given is None or (isinstance(given, str) and given in PRIORS):
        return given
    if not _is_list(given):
        raise ValueError(f"prior is {', '.join(map(repr, PRIORS))} or a share for each class, got {given!r}")
    shares = np.array(given, dtype=np.float64)
    if shares.shape != (classes,) or not (np.isfinite(shares).all() and (shares >= 0).all() and shares.sum() > 0):
        raise ValueError(f"prior must be a share for each of {classes} classes, none of them negative, got {given!r}")
    return tuple(shares.tolist())


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
