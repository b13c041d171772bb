"""Files of a run that were cut off, or of which a bit flipped: noticed, named, and made good where that is possible."""

import json
from pathlib import Path

from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder
from tests.faults.lives import live
from tests.faults.scene import Scene, attempt, check_end, contents, each, refused

__all__ = ["KINDS"]

CHECKSUM = 80
"""Letters of a file's checksum, with its name."""


def cut(scene: Scene, file: Path) -> None:
    """Cut a file off, now and then to nothing or by its last byte."""
    content = file.read_bytes()
    lengths = (0, 1, len(content) - 1, scene.dice.randrange(len(content)))
    file.write_bytes(content[: scene.dice.choice((*lengths, *lengths[-1:] * 4))])


def flip(scene: Scene, file: Path, checksum: bool = False) -> None:
    """Flip a bit of a file, if wanted of its checksum."""
    content = bytearray(file.read_bytes())
    first, count = (content.rindex(b"sha256"), CHECKSUM) if checksum else (0, len(content))
    place = first + scene.dice.randrange(count)
    content[place] ^= 1 << scene.dice.randrange(8)
    file.write_bytes(content)


def checkpoint_cut(scene: Scene) -> list[str]:
    out = scene.stopped()
    cut(scene, out / "resume.safetensors")
    return goes_on_from_previous(scene, out)


def checkpoint_flipped(scene: Scene) -> list[str]:
    out = scene.stopped()
    flip(scene, out / "resume.safetensors", checksum=scene.dice.random() < 0.3)
    return goes_on_from_previous(scene, out)


def goes_on_from_previous(scene: Scene, out: Path) -> list[str]:
    """What is wrong unless the checkpoint before is used and named."""
    step = read_state(out / "resume.previous.safetensors")["step"]
    state, _ = Folder(out).resume()
    wrong = [] if state is not None and state["step"] == step else ["the previous checkpoint is not used"]
    named = (f"{out / 'resume.safetensors'} is damaged", f"going on from resume.previous.safetensors, step {step}")
    return wrong + scene.goes_on(out, *named)


def both_checkpoints(scene: Scene) -> list[str]:
    out = scene.stopped()
    for name in ("resume.safetensors", "resume.previous.safetensors"):
        scene.dice.choice((cut, flip))(scene, out / name)
    return refused(scene.resume(out), out, "resume.previous.safetensors", "there is nothing whole to go on from")


def model(scene: Scene) -> list[str]:
    """A model file is refused by predict, and written anew by resume: from then on it is what it was."""
    out = scene.stopped()
    finished = scene.dice.random() < 0.5 and not live(scene.resume(out)).code
    file = out / "model.safetensors"
    before = file.read_bytes()
    scene.dice.choice((cut, flip, flip))(scene, file)
    predict = ["predict", str(out), str(scene.data), "-o", str(out.with_suffix(".csv"))]
    wrong = refused(predict, out, str(file))
    wrong += ["predictions were written all the same"] if out.with_suffix(".csv").exists() else []
    wrong += scene.goes_on(out, "it is written anew from the checkpoint")
    return wrong + (["the model is another one now"] if finished and file.read_bytes() != before else [])


def metrics(scene: Scene) -> list[str]:
    """Lines that are cut off, garbled or gone come back from the checkpoint."""
    out = scene.stopped()
    file = out / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    place = scene.dice.randrange(len(lines))
    kind = scene.dice.choice(("cut", "garbage", "gone", "flip"))
    if kind == "flip":
        flip(scene, file)
    elif kind == "cut":
        file.write_bytes(b"".join(lines)[: -scene.dice.randint(2, 200)])
    else:
        lines[place] = b"\xff\x00{]\n" if kind == "garbage" else b""
        file.write_bytes(b"".join(lines))
    words = ["metrics.jsonl was damaged; it is written anew"] if _other(out, scene) else []
    return scene.goes_on(out, *words)


def _other(out: Path, scene: Scene) -> bool:
    """Whether a file of metrics tells something else than the checkpoint; a flip of a blank tells the same."""
    state = read_state(out / "resume.safetensors")
    return bool(Folder(out).metrics(up_to=state["step"]) != state["metrics"])


def config(scene: Scene) -> list[str]:
    """A damaged config.json is refused and kept as it is; where the damage has no influence, the bits are the same."""
    out = scene.stopped()
    scene.dice.choice((cut, flip, flip, flip, changed))(scene, out / "config.json")
    return refused_or_same(scene, out)


def changed(scene: Scene, file: Path) -> None:
    """Another valid value for a setting that matters."""
    content = json.loads(file.read_text())
    settings: dict[str, dict[str, float]] = {
        "optimizer": {"lr": 0.5},
        "run": {"seed": 7},
        "training": {"ema": 0.1, "steps": 40, "batch": 3},
    }
    part, name, value = scene.dice.choice([(part, *item) for part, own in settings.items() for item in own.items()])
    assert name in content["config"][part]
    content["config"][part][name] = value
    file.write_text(json.dumps(content))


def split(scene: Scene) -> list[str]:
    out = scene.stopped()
    scene.dice.choice((cut, flip, flip))(scene, out / "split.json")
    return refused_or_same(scene, out)


def refused_or_same(scene: Scene, out: Path) -> list[str]:
    """What is wrong unless a run goes on to the same bits, or is refused in a sentence with nothing written."""
    before = contents(out)
    end = live(scene.resume(out))
    if end.code == 0:
        return attempt(check_end, out, scene.whole) + end.wrong(0, "the run is in")
    same = [] if contents(out) == before else ["it was refused, and changed files all the same"]
    return same + end.wrong(2, "halfsure: ")


KINDS = [
    each("checkpoint cut off", 25, checkpoint_cut),
    each("checkpoint with a flipped bit", 25, checkpoint_flipped),
    each("both checkpoints damaged", 4, both_checkpoints),
    each("model cut off or with a flipped bit", 14, model),
    each("metrics cut off, garbled or gone", 8, metrics),
    each("config damaged", 12, config),
    each("split damaged", 8, split),
]
