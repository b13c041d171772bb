"""Every setting of a run, with what it means. Presets choose values by data and method; a person may change any."""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from halfsure._checks import check_count, check_number
from halfsure.algorithms import Algorithm
from halfsure.algorithms.distances import DISTANCES
from halfsure.methods import method
from halfsure.nets import Norm
from halfsure.settings.typed import typed

__all__ = ["Config", "parse_time"]

METHOD_SETTINGS = (
    *("weight", "distill_weight", "distance", "r", "temperature", "threshold", "pl_threshold", "ns_threshold"),
    *("epsilon", "xi", "power_steps", "mixup", "copies", "weak_grad"),
)


@dataclass(frozen=True)
class Config:
    """How to train."""

    method: str = "fixmatch-ads"
    """The method, in the paper's notation; `halfsure methods` lists them."""
    preset: Literal["quick", "cpu", "paper"] = "quick"
    """Where settings that are not given come from: quick is a minute on one core, cpu some ten, paper needs GPUs."""
    seed: int = 0
    """Chooses the labels, the initial weights, the order of samples and their views."""
    steps: int = 600
    """How many updates."""
    time: str | None = None
    """A time such as 90s, 5m or 2h instead: the number of steps that fits is measured at the start and recorded."""

    net: str = "conv7-16"
    """wrn-DEPTH-WIDTH, cnn13[-WIDTH], conv7[-WIDTH] or mlp[-HIDDEN…]."""
    norm: Norm = "none"
    """Norm layers. With very few labels batch norm is what breaks VAT."""
    dropout: float | None = None
    """Dropout rate of networks that have it; the network's own if not given."""

    batch: int = 64
    """Labeled samples a step; where there are fewer labels, all of them."""
    unlabeled_batch: int = 64
    """Unlabeled samples a step."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    """sgd has Nesterov's momentum."""
    lr: float = 2e-3
    """Learning rate."""
    momentum: float = 0.9
    """Momentum of sgd."""
    weight_decay: float = 0.0
    """Weight decay, on kernels only: decoupled for adamw (and for adam, which then is adamw), else in the gradient."""
    schedule: Literal["cosine", "linear", "drop", "constant"] = "cosine"
    """Learning rate over the run: cosine is cos(7π/16 · progress), linear falls to 0, drop is a fifth after 80 %."""
    warmup: float = 0.0
    """Part of the run over which the learning rate rises from 0."""
    clip: float | None = None
    """Clip the gradient to this norm."""
    ema: float = 0.999
    """Decay of the averaged weights that are evaluated and saved; 0 takes the weights themselves."""
    ramp: float = 0.0
    """Part of the run over which the weights of unlabeled terms rise from 0."""
    ramp_shape: Literal["linear", "exp"] = "linear"
    """How they rise: linearly, or as exp(−5(1−t)²)."""

    weight: float | None = None
    """α, the weight of the consistency term."""
    distill_weight: float | None = None
    """β, the weight of the distillation term."""
    distance: Literal["fy", "l2", "kl"] | None = None
    """Between prediction and target: fy the map's own loss, l2 squared differences, kl clamped."""
    r: float | None = None
    """Power of ads and topM."""
    temperature: float | None = None
    """Temperature of sh."""
    threshold: float | None = None
    """Threshold of pl or ns."""
    pl_threshold: float | None = None
    """Threshold of pl, in a method that has ns too."""
    ns_threshold: float | None = None
    """Threshold of ns, in a method that has pl too."""
    epsilon: float | None = None
    """vat: how far samples are moved, in the L2 norm of the model's inputs."""
    xi: float | None = None
    """vat: step of the finite difference, in the same units."""
    power_steps: int | None = None
    """vat: power iterations."""
    mixup: float | None = None
    """mixmatch: both parameters of the Beta distribution."""
    copies: int | None = None
    """mixmatch: weak views a guess is made from."""
    weak_grad: bool | None = None
    """fixmatch: weak views take part in the joint pass. Without, they take one of their own that keeps no gradient:
    faster, and the same but for batch norm, which then sees them by themselves, and dropout. If not given: off for
    halfsure's own networks that have neither, on for all others."""
    class_weight: Literal["balanced"] | tuple[float, ...] | None = None
    """Weights of the classes in the supervised term: balanced is one over their share of the labels."""
    prior: Literal["labels", "uniform"] | tuple[float, ...] | None = None
    """Class shares of the unlabeled data that targets are held to: those of the labels, equal ones, or given ones."""

    flip: bool = False
    """Weak views of images: mirror at random."""
    shift: int = 2
    """Weak views of images: shift by up to so many pixels."""
    ops: int = 2
    """Strong views of images: how many random operations; 0 for no strong views."""
    cutout: int = 8
    """Strong views of images: side of the grey square."""
    weak_noise: float = 0.1
    """Weak views of rows: standard deviation of the noise, in that of the feature."""
    strong_noise: float = 0.3
    """Strong views of rows: the same."""
    strong_swap: float = 0.1
    """Strong views of rows: probability that a feature takes the value of another row."""
    weak_drop: float = 0.3
    """Weak views of texts: probability that a word is left out."""
    strong_drop: float = 0.7
    """Strong views of texts: the same."""
    normalise: Literal["half", "channels"] = "half"
    """Images: pixels to −1 … 1, or by mean and deviation of each channel. Rows are always standardised."""

    evaluations: int = 10
    """How many times to evaluate over the run; each also saves a checkpoint."""
    from_start: bool = False
    """Evaluate after the very first step too."""
    last: int = 5
    """Report the median over so many last evaluations, beside the last."""
    unlabeled_sample: int = 2000
    """Score so many unlabeled samples at an evaluation; 0 is all."""
    test_sample: int = 0
    """Score so many test samples at evaluations before the last; 0 is all."""
    eval_batch: int = 500
    """Samples a pass when evaluating."""
    save_minutes: float = 5.0
    """Save a checkpoint at least so often."""

    device: str = "cpu"
    """cpu, cuda, cuda:1 …; only cpu has been verified."""
    precision: Literal["float32", "float64", "bf16", "fp16"] = "float32"
    """Of the arithmetic; bf16 and fp16 are mixed precision."""
    compile: bool = False
    """Compile the network with torch.compile."""
    channels_last: bool = True
    """Keep images and kernels in the channels-last layout."""
    threads: int | None = None
    """Threads of torch; as it is if not given."""
    deterministic: bool = False
    """Refuse operations that may differ from run to run. On the CPU the bits are the same without, and a step takes
    about as long; on a GPU it takes longer, and $CUBLAS_WORKSPACE_CONFIG is set to :4096:8 if it is not yet."""
    tensorboard: bool = True
    """Write TensorBoard events where it is installed."""

    def check(self) -> None:
        """Refuse settings out of their range, in words."""
        for name in ("steps", "batch", "unlabeled_batch", "evaluations", "last", "eval_batch"):
            check_count(name, getattr(self, name), 1)
        for name in ("seed", "shift", "ops", "cutout", "unlabeled_sample", "test_sample"):
            check_count(name, getattr(self, name), 0)
        for name in ("lr", "momentum", "weight_decay", "weak_noise", "strong_noise", "save_minutes"):
            check_number(name, getattr(self, name), 0)
        for name in ("warmup", "ramp", "strong_swap", "weak_drop", "strong_drop"):
            check_number(name, getattr(self, name), 0, 1)
        check_number("ema", self.ema, 0, 0.9999999)
        for name, most in MOST.items():
            if getattr(self, name) is not None:
                at_least = 0 if name == "ops" else 1
                check_number(name, check_count(name, getattr(self, name), at_least), at_least, most)
        if self.clip is not None:
            check_number("clip", self.clip, 1e-12)
        for item in fields(self):
            _check_choice(item.name, getattr(self, item.name))
        for name, words in (("class_weight", ("balanced",)), ("prior", ("labels", "uniform"))):
            given = getattr(self, name)
            if isinstance(given, str) and given not in words:
                raise ValueError(f"{name} is {' or '.join(words)} or a number for each class, got {given!r}")
        if self.time is not None:
            parse_time(self.time)

    def algorithm(self, **more: Any) -> Algorithm:
        """Build the method with its settings."""
        given = {name: getattr(self, name) for name in METHOD_SETTINGS if getattr(self, name) is not None}
        return method(self.method, **given, **more)

    def as_json(self) -> dict[str, Any]:
        """Plain values, the inverse of `Config.from_json`."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, values: Any) -> "Config":
        """Read what `as_json` gave; settings this version does not know, or of another type, are refused."""
        return cls(**typed(cls, values))


LONGEST = 10_000 * 86_400.0
"""Seconds of a run."""
MOST = {"steps": 10**15, "evaluations": 10**6, "ops": 1000, "copies": 1000, "power_steps": 1000, "threads": 1024}
"""Larger numbers are slips: they would take all memory, or for ever."""
CHOICES = {
    "preset": ("quick", "cpu", "paper"),
    "norm": ("batch", "group", "none"),
    "optimizer": ("adam", "adamw", "sgd"),
    "schedule": ("cosine", "linear", "drop", "constant"),
    "ramp_shape": ("linear", "exp"),
    "distance": (None, *DISTANCES),
    "normalise": ("half", "channels"),
    "precision": ("float32", "float64", "bf16", "fp16"),
}


def parse_time(text: str) -> float:
    """`90s`, `5m`, `1.5h` → seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd])\s*", text)
    seconds = 0.0 if match is None else float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"a time is a number with s, m, h or d, such as 90s or 5m, up to 10000d, got {text!r:.60}")
    return seconds


def _check_choice(name: str, value: Any) -> None:
    if name in CHOICES and value not in CHOICES[name]:
        raise ValueError(f"{name} is one of {', '.join(str(c) for c in CHOICES[name] if c)}, got {value!r}")
