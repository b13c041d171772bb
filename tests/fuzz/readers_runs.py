"""Run folders and model files: everything that `resume`, `predict` and `report` read of what somebody else made."""

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from markupsafe import Markup

from halfsure.data import DataError
from halfsure.data.new import read
from halfsure.bank.opening import DataConfig
from halfsure.methods import method, parse
from halfsure.nets import build
from halfsure.report.elements import Plot
from halfsure.report.page import page
from halfsure.report.study import read as study
from halfsure.runs.folder import Folder, flat_settings
from halfsure.runs.run import load
from halfsure.runs.start import recorded, start
from halfsure.settings import parts
from halfsure.studies.comparison import FILE, Plan
from halfsure.training.config import Config, parse_time
from halfsure.training.errors import RunError
from halfsure.training.ranks import Ranks
from halfsure.training.state import Training
from halfsure.verdict.check import load_evidence, outcome
from halfsure.views.preprocessing import Preprocessing
from tests.fuzz.strategies import json_values, mutated, texts
from tests.fuzz.target import Target
from tests.report.helpers import comparison, made_up_run
from tests.runs.stored import about, signed, with_about
from tests.runs.test_model_file import changed, places
from tests.training.helpers import rows, tiny

__all__ = ["TARGETS"]

REFUSALS = (RunError, DataError)
SETTINGS = tiny(steps=4, evaluations=1)


@cache
def run_files() -> dict[str, bytes]:
    """Every file of a small run that was checked by two folds."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        for name in ("", "folds/1-of-2", "folds/2-of-2"):
            start(rows(), SETTINGS, out=folder / name, source="digits", data_config=DataConfig(labels=12))
        held = {"scores": [[0.5, 1.0], [2.0]], "labels": [[0, 1], [2]], "weights": None}
        evidence = {"temperature": 1.5, "conformal": held, "confidence": [0.5, 0.9, 1.0], "right": [True, False, True]}
        short = {"folds": 2, "labels": 3, "accuracy": 0.6, "interval": [0.2, 0.9]}
        (folder / "trust.json").write_text(json.dumps({"format": 1, **short, "evidence": evidence}))
        files = [file for file in folder.rglob("*") if file.is_file() and file.name != ".lock"]
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def lay(box: Path, files: dict[str, bytes], **other: bytes) -> Path:
    """Write files into a folder, some with another content, named with _ for the dot."""
    for name, content in (files | {name.replace("_", "."): content for name, content in other.items()}).items():
        (box / name).parent.mkdir(parents=True, exist_ok=True)
        (box / name).write_bytes(content)
    return box


@st.composite
def bent(draw: st.DrawFn, value: Any) -> Any:
    """JSON with other values in one to three places, or another name for one of its fields."""
    for _ in range(draw(st.integers(1, 3))):
        spots = places(value)
        spot = spots[draw(st.integers(0, len(spots) - 1))]
        value = changed(value, spot, draw(json_values() | st.just([]) | st.just({})))
    return value


def written(value: Any) -> bytes:
    return json.dumps(value).encode()


def json_file(name: str) -> SearchStrategy[bytes]:
    """A file of the small run: nearly valid JSON, and JSON that means something else."""
    content = run_files()[name]
    return mutated(content) | bent(json.loads(content)).map(written)


def use(file: Path) -> None:
    """Open a model and predict with it, as the command line does."""
    run = load(file)
    shape = run.preprocessing.shape
    np.save(file.with_name("x.npy"), np.zeros((2, *shape), np.uint8 if len(shape) == 3 else np.float32))
    run.predict_proba(read(file.with_name("x.npy"), run.encoding, shape=shape).samples)


def read_model_file(content: bytes, box: Path) -> None:
    (box / "model.safetensors").write_bytes(content)
    use(box / "model.safetensors")


MEANT = st.sampled_from(
    [
        *({"$tuple": [0.9, 0.999]}, {"$float": "nan"}, {"$float": "1"}, {"$dict": [[0, 1], [0, 2]]}, {"$dict": [0]}),
        {"$tensor": "model/hidden.0.weight", "strides": [1, 8]},
        {"$tensor": "model/hidden.0.weight", "strides": [10**12, 1]},
    ]
)


@st.composite
def states(draw: st.DrawFn) -> bytes:
    """A checkpoint with other values in some places, under a checksum that is right."""
    content = run_files()["resume.safetensors"]
    told = about(content)
    for _ in range(draw(st.integers(0, 3))):
        spots = places(told)
        told = changed(told, spots[draw(st.integers(0, len(spots) - 1))], draw(json_values() | MEANT))
    return signed(with_about(content, told))


def read_checkpoint(content: bytes, box: Path) -> None:
    """Go on from it, and take a step."""
    (box / "resume.safetensors").write_bytes(content)
    state, _ = Folder(box).resume()
    data = rows()
    algorithm = SETTINGS.algorithm(data)
    views = SETTINGS.make_views(data, Preprocessing.of(data))
    training = Training(SETTINGS.network(data), algorithm, data, views, SETTINGS, ranks=Ranks())
    training.restore(state or {})
    if training.done < SETTINGS.training.steps:
        training.update()


def read_config(content: bytes, box: Path) -> None:
    """What `resume` and `report` make of it before they open any data."""
    lay(box, {}, config_json=content, metrics_jsonl=run_files()["metrics.jsonl"])
    with patch("halfsure.runs.start.open_again", return_value=rows()):
        recorded(box)


def read_trust(content: bytes, box: Path) -> None:
    lay(box, run_files(), trust_json=content)
    outcome(box)
    evidence = load_evidence(load(box))
    assert evidence is not None
    evidence.sets(np.zeros((2, 5), np.float32), 0.9)
    evidence.threshold(0.9)
    evidence.guarantee(0.9)


def unpainted(name: str, paint: Callable[..., None], *, title: str, label: str, **_: Any) -> Plot:
    """A plot's words without its picture: matplotlib takes a hundred times as long as all the rest."""
    return Plot(title, label, "0 0 1 1", Markup())


def written_report(box: Path) -> None:
    with patch("halfsure.report.plots.draw", unpainted), patch("halfsure.report.calibration.draw", unpainted):
        html = page(study([box])).encode().decode()
    assert html.count("<script") == 1 + html.count('<script type="application/json"')


@cache
def told_run() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        folder = made_up_run(Path(place) / "run", parts=("test", "val", "unlabeled"), steps=(10, 20))
        return {file.name: file.read_bytes() for file in folder.iterdir()}


@st.composite
def told(draw: st.DrawFn) -> dict[str, bytes]:
    """The files that a report reads, of this version or of 0.1, some of them bent."""
    files = dict(told_run())
    if draw(st.booleans()):
        config = json.loads(files["config.json"])
        files["config.json"] = written(config | {"format": 1, "config": flat_settings(config)})
    for name in draw(st.sets(st.sampled_from(["config.json", "split.json"]))):
        files[name] = written(draw(bent(json.loads(files[name]))))
    first, last = files["metrics.jsonl"].splitlines()
    lines = [first, written(draw(bent(json.loads(last))))]
    files["metrics.jsonl"] = b"\n".join(draw(st.permutations(lines)))
    return files


def read_told(files: dict[str, bytes], box: Path) -> None:
    written_report(lay(box, files))


@cache
def compared() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        folder = comparison(
            Path(place) / "all", ["supervised", "vat"], [0, 1], {"1-NN": {"0": 0.2}}, source=None, steps=(10,)
        )
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*.json*")}


def read_comparison(content: bytes, box: Path) -> None:
    """What `report` and `compare` make of the folder of a comparison."""
    lay(box, compared(), compare_json=content)
    plan = Plan(box, "digits", DataConfig(), {"supervised": Config(method="supervised")}, {0: rows()}, "halfsure")
    try:
        plan.claim(False)
    except RunError:
        written_report(box)
    assert (box / FILE).is_file()


def meta_network(drawn: tuple[str, str | None], box: Path) -> None:
    name, norm = drawn
    with torch.device("meta"):
        build(name, (16, 16, 3), 4, norm=norm)  # type: ignore[arg-type]


NUMBERS = st.sampled_from(["0", "1", "2", "16", "28", "1000", "999999999", "9" * 20, "9" * 5000, "-1", "1.5", "٣"])
NETS = st.tuples(
    st.builds(
        lambda family, sizes: "-".join([family, *sizes]),
        st.sampled_from(["wrn", "cnn13", "conv7", "mlp", "WRN", "os.system"]) | texts(),
        st.lists(NUMBERS | texts(4), max_size=3),
    ),
    st.sampled_from([None, "batch", "group", "none", "layer"]),
)
PARTS = ["supervised", "vat", "mixmatch", "fixmatch", "@", "softmax", "sparsemax", "entmax1.5", "entmax", "+", "-"]
GATES = ["~", *(f"~{gate}" for gate in parts("gate"))]
METHODS = st.lists(
    st.sampled_from([*PARTS, *GATES, "me", "sh", "pl", "ns", "ads", "top", "top3", "9" * 30, "9" * 5000]) | texts(4),
    max_size=7,
).map("".join)
TIMES = st.lists(
    st.sampled_from(["s", "m", "h", "d", " ", ".", "0", "1", "9" * 400, "1e9", "٣", "inf"]) | texts(3), max_size=5
).map("".join)


def read_method(name: str, box: Path) -> None:
    parsed = parse(name)
    assert parse(parsed.name) == parsed
    method(name)


@cache
def unsigned_model() -> bytes:
    """A model without its checksum, as an older version wrote it: whatever it says is looked at."""
    content = run_files()["model.safetensors"]
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"].pop("sha256", None)
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + content[8 + size :]


MODELS = st.deferred(
    lambda: (
        mutated(run_files()["model.safetensors"])
        | bent(about(run_files()["model.safetensors"])).map(lambda told: with_about(unsigned_model(), told))
    )
)
CHECKPOINTS = st.deferred(
    lambda: (
        states() | mutated(run_files()["resume.safetensors"]) | mutated(run_files()["resume.safetensors"]).map(signed)
    )
)

TARGETS = [
    Target("model.safetensors", MODELS, read_model_file, REFUSALS, weight=2),
    Target("resume.safetensors", CHECKPOINTS, read_checkpoint, REFUSALS, weight=2),
    Target("config.json", st.deferred(lambda: json_file("config.json")), read_config, REFUSALS, weight=2),
    Target("trust.json", st.deferred(lambda: json_file("trust.json")), read_trust, REFUSALS),
    Target("report of a run", told(), read_told, REFUSALS),
    Target(
        "compare.json",
        st.deferred(lambda: mutated(compared()[FILE]) | bent(json.loads(compared()[FILE])).map(written)),
        read_comparison,
        REFUSALS,
    ),
    Target("names of networks", NETS, meta_network, (ValueError,), weight=2),
    Target("names of methods", METHODS, read_method, (ValueError,), weight=2),
    Target("times", TIMES, lambda drawn, _: parse_time(drawn), (ValueError,)),
]
