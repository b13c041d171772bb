"""The configuration of a run: composed of the settings of the parts it uses."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from torch import nn

from halfsure.algorithms import Algorithm
from halfsure.data import Data, DataError
from halfsure.methods import Method, build, layout, parse
from halfsure.nets import build as build_network
from halfsure.nets import family
from halfsure.settings import (
    EVERYDAY,
    Between,
    Count,
    Form,
    Fraction,
    Positive,
    Settings,
    Size,
    declared,
    find,
)
from halfsure.settings.compose import Sections, fill, flat, nested, place, section_json
from halfsure.settings.registry import loaded_parts, take_over
from halfsure.training.class_shares import class_weights, prior_shares
from halfsure.training.optimisers import OptimiserSettings
from halfsure.views.batch import Views
from halfsure.views.maker import ViewMaker, maker_of
from halfsure.views.preprocessing import Preprocessing

__all__ = [
    "FIXED_SECTIONS",
    "Config",
    "EvaluationSettings",
    "MachineSettings",
    "RunSettings",
    "TrainingSettings",
    "parse_time",
]

LONGEST = 10_000 * 86_400.0
"""Seconds of a run."""


def parse_time(text: str) -> float:
    """`90s`, `5m`, `1.5h` → seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd])\s*", text)
    seconds = 0.0 if match is None else float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"a time is a number with s, m, h or d, such as 90s or 5m, up to 10000d, got {text!r:.60}")
    return seconds


@dataclass(frozen=True)
class RunSettings(Settings):
    """Which parts a run uses, and the seed. In the help, a role in braces becomes the parts that are registered."""

    method: Annotated[str, EVERYDAY] = "fixmatch-ads"
    """The method, in the paper's notation (`halfsure methods` lists them); chosen by the kind of data if not given."""
    preset: Annotated[Literal["quick", "cpu", "paper"], EVERYDAY] = "quick"
    """Where settings that are not given come from: quick is a minute on one core, cpu some ten, paper needs GPUs."""
    seed: Annotated[int, Between(0), EVERYDAY] = 0
    """Chooses the labels, the initial weights, the order of samples and their views."""
    net: Annotated[str | None, EVERYDAY] = None
    """The network: {network}; the preset's if not given."""
    optimizer: str = "adam"
    """The optimiser: {optimizer}."""
    views: str | None = None
    """The views: {views}; those for the kind of data if not given."""


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """How long to train, and on how much at a time."""

    steps: Annotated[int, Between(1, 10**15), EVERYDAY] = 600
    """How many updates."""
    time: Annotated[str | None, Form(parse_time), EVERYDAY] = None
    """A time such as 90s, 5m or 2h instead: the number of steps that fits is measured at the start and recorded."""
    batch: Positive = 64
    """Labeled samples per step; where there are fewer labels, all of them."""
    unlabeled_batch: Positive = 64
    """Unlabeled samples per step."""
    clip: Annotated[float, Between(1e-12)] | None = None
    """Clip the gradient to this norm."""
    ema: Annotated[float, Between(0, 0.9999999)] = 0.999
    """Decay of the averaged weights that are evaluated and saved; 0 takes the weights themselves."""
    ramp: Fraction = 0.0
    """Part of the run over which the weights of unlabeled terms rise from 0."""
    ramp_shape: Literal["linear", "exp"] = "linear"
    """How they rise: linearly, or as exp(−5(1−t)²)."""


@dataclass(frozen=True)
class EvaluationSettings(Settings):
    """How often to look, and at how much."""

    evaluations: Annotated[int, Between(1, 10**6)] = 10
    """How many times to evaluate over the run; each also saves a checkpoint."""
    from_start: bool = False
    """Evaluate after the very first step too."""
    last: Positive = 5
    """Report the median over so many last evaluations, beside the last."""
    unlabeled_sample: Count = 2000
    """Score so many unlabeled samples at an evaluation; 0 is all."""
    test_sample: Count = 0
    """Score so many test samples at evaluations before the last; 0 is all."""
    eval_batch: Positive = 500
    """Samples per pass when evaluating."""
    save_minutes: Size = 5.0
    """Save a checkpoint at least so often."""


@dataclass(frozen=True)
class MachineSettings(Settings):
    """Where and how to compute."""

    device: str = "cpu"
    """cpu, cuda, cuda:1 …; only cpu has been verified."""
    precision: Literal["float32", "float64", "bf16", "fp16"] = "float32"
    """Of the arithmetic; bf16 and fp16 are mixed precision."""
    compile: bool = False
    """Compile the network with torch.compile."""
    channels_last: bool = True
    """Keep images and kernels in the channels-last layout."""
    threads: Annotated[int, Between(1, 1024)] | None = None
    """Threads of torch; as it is if not given."""
    deterministic: bool = False
    """Refuse operations that may differ from run to run. On the CPU the bits are the same without, and a step takes
    about as long; on a GPU it takes longer, and $CUBLAS_WORKSPACE_CONFIG is set to :4096:8 if it is not yet."""
    tensorboard: bool = True
    """Write TensorBoard events where it is installed."""


FIXED_SECTIONS: dict[str, type[Settings]] = {
    "run": RunSettings,
    "training": TrainingSettings,
    "evaluation": EvaluationSettings,
    "machine": MachineSettings,
}
"""What every run has, whatever its parts."""


class Config:
    """Every setting of a run, one section per part. Flat names reach into sections: `config.lr`, `config.steps`.

    Examples:
        >>> from halfsure.training import Config
        >>> config = Config(method="fixmatch", threshold=0.9)
        >>> config.threshold, config.replace(steps=50, optimizer="sgd").momentum
        (0.9, 0.9)
        >>> config.replace(temperature=0.5)
        Traceback (most recent call last):
        ValueError: fixmatch (adam) has no setting 'temperature', which belongs to the strategy sh; it has
        class_weight, distance, prior, threshold, weak_grad, weight
    """

    sections: Sections

    def __init__(self, **settings: Any) -> None:
        self._set(_compose({}, settings))

    @classmethod
    def of(cls, sections: Sections) -> "Config":
        """A configuration of given sections."""
        made = cls.__new__(cls)
        made._set(sections)
        return made

    def _set(self, sections: Sections) -> None:
        self.__dict__["sections"] = dict(sections)

    @property
    def run(self) -> RunSettings:
        """Which parts it uses, and the seed."""
        return cast("RunSettings", self.sections["run"])

    @property
    def training(self) -> TrainingSettings:
        """How long to train, and on how much at a time."""
        return cast("TrainingSettings", self.sections["training"])

    @property
    def evaluation(self) -> EvaluationSettings:
        """How often to look, and at how much."""
        return cast("EvaluationSettings", self.sections["evaluation"])

    @property
    def machine(self) -> MachineSettings:
        """Where and how to compute."""
        return cast("MachineSettings", self.sections["machine"])

    @property
    def optimiser(self) -> OptimiserSettings:
        """What the optimiser is told."""
        return cast("OptimiserSettings", self.sections["optimizer"])

    @property
    def parsed(self) -> Method:
        """The method, taken apart."""
        return parse(self.run.method)

    @property
    def flat(self) -> dict[str, Any]:
        """Every setting by its flat name."""
        return flat(self.sections)

    @property
    def plain(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self.flat.items()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            key, setting = place({key: type(section) for key, section in self.sections.items()}, name, "it")
        except ValueError as error:
            raise AttributeError(str(error)) from None
        return getattr(self.sections[key], setting.name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a configuration does not change; replace() gives another one")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.sections == other.sections

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self.flat.items())})"

    def __reduce__(self) -> Any:
        # Whoever unpickles it, in another process, has to know its parts first.
        return _unpickled, (loaded_parts(), self.as_json())

    def replace(self, **changes: Any) -> "Config":
        """The same with other values; a new method, network, optimiser or views bring their own settings."""
        return Config.of(_compose(self.flat, changes))

    def as_json(self) -> dict[str, Any]:
        """Plain values nested by part, the inverse of `Config.from_json`."""
        return section_json(self.sections)

    @classmethod
    def from_json(cls, values: Any) -> "Config":
        """Read what `as_json` gave; settings this version does not know, or of another type, are refused."""
        if not isinstance(values, dict):
            raise ValueError(f"settings are an object, got {values!r:.60}")  # noqa: TRY004 - one kind of error
        run = nested({"run": RunSettings}, {"run": values.get("run", {})})["run"]
        return cls.of(nested(_layout(cast("RunSettings", run)), values))

    @classmethod
    def from_flat(cls, values: Any) -> "Config":
        """Read the settings of version 0.1, which had one list of them for every method and kind of data."""
        if not isinstance(values, dict):
            raise ValueError(f"settings are an object, got {values!r:.60}")  # noqa: TRY004 - one kind of error
        return cls.of(_compose({name: value for name, value in values.items() if value is not None}, {}))

    def suited(self, data: Data) -> "Config":
        """The same with the views for these data; views for other data are refused."""
        if self.run.views is None:
            maker = maker_of(data)
            own = {setting.name for setting in declared(maker.Settings)}
            usual = maker.preset(self.run.preset, data)
            return self.replace(views=maker.name, **{name: value for name, value in usual.items() if name in own})
        if not self.maker.takes(data) and self.maker.kind != data.kind:
            raise DataError(
                f"the views {self.run.views} are not for {data.name}: omit them, or say {maker_of(data).name}"
            )
        return self

    @property
    def maker(self) -> type[ViewMaker]:
        """The part that makes its views."""
        found: type[ViewMaker] = find("views", self.run.views or "")
        return found

    def preprocessing(self, data: Data) -> Preprocessing:
        """How these data become numbers of about unit size."""
        return Preprocessing.of(data, self.sections.get("views"))

    def make_views(self, data: Data, preprocessing: Preprocessing) -> Views:
        """The weak view of these data, and the strong one where there is such."""
        suited = self.suited(data)
        return suited.maker.make(data, preprocessing, suited.sections["views"], self.run.seed)

    def algorithm(self, data: Data | None = None) -> Algorithm:
        """Build the method with its settings; what they say of classes takes data to know."""
        resolved: dict[str, Any] = {}
        for name, shares in (("class_weight", class_weights), ("prior", prior_shares)):
            if hasattr(self.sections["algorithm"], name):
                resolved[name] = None if data is None else shares(data, getattr(self.sections["algorithm"], name))
        return build(self.parsed, self.sections, **resolved)

    def network(self, data: Data) -> nn.Module:
        """The network, for the samples and classes of data."""
        if self.run.net is None:
            raise ValueError("the configuration names no network")
        shape = tuple(data.train.samples.shape[1:])
        return build_network(self.run.net, shape, len(data.classes), **vars(self.sections["net"]))


def _unpickled(known: Any, values: Any) -> Config:
    take_over(known)
    return Config.from_json(values)


def _layout(run: RunSettings) -> dict[str, type[Settings]]:
    """Which settings a run has, part by part."""
    sections: dict[str, type[Settings]] = {"run": RunSettings, "training": TrainingSettings}
    sections["optimizer"] = find("optimizer", run.optimizer).Settings
    if run.net is not None:
        sections["net"] = family(run.net)[0].Settings
    sections |= layout(parse(run.method))
    if run.views is not None:
        sections["views"] = find("views", run.views).Settings
    return sections | {"evaluation": EvaluationSettings, "machine": MachineSettings}


def _compose(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Settings]:
    """Sections with given values, and others where a section has them."""
    names = RunSettings.__dataclass_fields__
    run = RunSettings(**{name: value for name, value in {**values, **given}.items() if name in names})
    parts = _layout(run)
    whose = f"{parse(run.method).name} ({', '.join(part for part in (run.net, run.views, run.optimizer) if part)})"
    kept = {}
    for name, value in values.items():
        try:
            key, setting = place(parts, name, whose)
        except ValueError:  # it was a setting of a part that is there no more
            continue
        kept[key, setting.name] = name, value
    for name in given:
        key, setting = place(parts, name, whose)
        kept.pop((key, setting.name), None)
    return fill(parts, {**dict(kept.values()), **given}, whose)
