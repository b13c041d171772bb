"""Run folders that were never trained, with the measures of logits a test knows; and a second reader of the page."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfsure import ADS
from halfsure.data import Split
from halfsure.methods import parse
from halfsure.metrics import pseudo_labels, score
from halfsure.runs.folder import FORMAT, Folder
from halfsure.simplex import Map
from halfsure.training.config import Config

VOID = {"meta", "img", "input", "br"}
DIGITS = tuple("0123456789")


def logits_and_labels(seed: int, step: int, classes: int, samples: int = 60) -> tuple[Tensor, Tensor]:
    """Predictions that get better with the steps."""
    random = np.random.default_rng((seed, step))
    labels = np.arange(samples) % classes
    logits = random.normal(size=(samples, classes))
    logits[np.arange(samples), labels] += 0.1 * step
    return torch.from_numpy(logits), torch.from_numpy(labels)


def evaluation(seed: int, step: int, map: Map, classes: int, parts: tuple[str, ...]) -> dict[str, Any]:
    """A line of metrics.jsonl."""
    logits, labels = logits_and_labels(seed, step, classes)
    line: dict[str, Any] = {part: score(logits, labels, map) for part in parts}
    losses = {"total": 0.9 / step, "supervised": 0.5 / step, "consistency": 0.4 / step, "distillation": 0.0}
    if "unlabeled" in parts:
        line |= {"pseudo_labels": pseudo_labels(ADS().target(logits), labels), "dead": []}
    return {"step": step, "seconds": 0.1 * step, "train": losses, **line}


def made_up_run(
    path: Path,
    method: str = "fixmatch-ads",
    seed: int = 0,
    *,
    classes: tuple[str, ...] = DIGITS,
    parts: tuple[str, ...] = ("test", "unlabeled"),
    steps: tuple[int, ...] = (10, 20, 30),
    source: str | None = "digits",
    changes: dict[str, Any] | None = None,
    last: dict[str, Any] | None = None,
) -> Path:
    """Write the folder of a run without its model; `changes` are of the config, `last` of the last evaluation."""
    path.mkdir(parents=True)
    usual = {"method": method, "seed": seed, "steps": steps[-1], "net": "conv7-16", "views": "images"}
    config = Config(**usual | (changes or {}))
    labels = np.arange(10 * len(classes)) % len(classes)
    Split.of("digits", labels, np.arange(len(classes)), classes, seed).save(path / "split.json")
    about = {
        "name": "digits",
        "shape": [1437, 8, 8, 1],
        "labeled": len(classes),
        "test": 60,
        "sha256": f"{seed}",
    }
    net = {"name": config.run.net, **vars(config.sections["net"])}
    versions = {"halfsure": "0.1.0", "torch": "2", "numpy": "2", "python": "3"}
    folder = Folder(path)
    folder.write_config(
        {
            "format": FORMAT,
            "versions": versions,
            "git": "0123456789abcdef",
            "created": "2026-01-02T03:04:05+00:00",
            "source": source,
            "data": {"labels": len(classes)},
            "net": net,
            "fingerprint": about,
            "config": config.as_json(),
        }
    )
    lines = [evaluation(seed, step, parse(method).map, len(classes), parts) for step in steps]
    lines[-1] |= last or {}
    folder.keep_metrics(lines)
    return path


def comparison(path: Path, methods: list[str], seeds: list[int], baselines: Any = None, **more: Any) -> Path:
    """A comparison folder of made-up runs."""
    for method in methods:
        for seed in seeds:
            made_up_run(path / f"{method}-s{seed}", method, seed, **more)
    about = {"format": 1, "source": "digits", "methods": methods, "seeds": seeds, "command": "halfsure compare digits"}
    (path / "compare.json").write_text(json.dumps(about | ({"baselines": baselines} if baselines else {})))
    return path


class Page(HTMLParser):
    """Reads a page back: tables as text, elements with their attributes, all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self.scripts: list[str] = []
        self._open: list[str] = []
        self._rows: list[list[str]] = []
        self._caption = ""
        self.feed(html)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
        elif tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes something else"
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            self.scripts[-1] += data
            return
        if "style" in self._open:
            return
        self.text += data
        if "caption" in self._open:
            self._caption += data
        elif "td" in self._open or "th" in self._open:
            self._rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read_page(file: Path) -> Page:
    return Page(file.read_text(encoding="utf-8"))
