"""`halfsure train` and `halfsure resume`."""

import os
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import torch
from rich.console import Console
from tyro.conf import Positional, arg

from halfsure.data import Data, DataError
from halfsure.engine import EXPECTED, PRESETS, Config, DataConfig, Run, go_on, open_data, preset, start
from halfsure.engine.classes import class_settings
from halfsure.engine.entry import default_folder, lasting, make_network, refuse_foreign
from halfsure.engine.ranks import launched

__all__ = ["Resume", "Train"]


@dataclass(frozen=True)
class Train:
    """Train a classifier on a few labels and many unlabeled samples.

    SOURCE is the name of an official set (`halfsure data list`), a folder of images, a table (.csv, .tsv, .parquet), an
    .npz file or a folder with X.npy. Settings that are not given come from the preset, which looks at data and method.
    The same command again goes on where it stopped.
    """

    source: Annotated[Positional[str], arg(metavar="SOURCE")]
    """What to train on."""
    out: Path | None = None
    """Run folder; runs/SOURCE-METHOD-LABELS-sSEED if not given."""
    data: DataConfig = field(default_factory=DataConfig)
    config: Config = field(default_factory=Config)

    def by_preset(self) -> "Train":
        """The same with every setting as the preset has it, for what was given to be laid over it."""
        return replace(self, config=preset(self.opened, self.config.method, self.config.preset, self.config.seed))

    @cached_property
    def opened(self) -> Data:
        """The data, with their labels chosen."""
        return open_data(self.source, self.data, self.config.seed)

    def with_data(self, opened: Data) -> "Train":
        """The same command with its data opened already."""
        self.__dict__["opened"] = opened
        return self

    def checked(self) -> "Train":
        """The same command, if every setting is in its range and the method and network have a meaning for the data."""
        self.config.check()
        preset = self.by_preset().config
        given = [item.name for item in fields(preset) if getattr(preset, item.name) != getattr(self.config, item.name)]
        refuse_foreign(given, self.opened)
        if {"time", "steps"} <= set(given):
            raise DataError("give either steps or a time, not both")
        self.config.algorithm(**class_settings(self.opened, self.config))
        with torch.device("meta"):
            make_network(self.opened, self.config)
        return self

    def run(self, console: Console) -> int:
        """Train, showing how it goes, and say where the result is."""
        data, config = self.opened, self.config
        out = self.out or default_folder(self.source, data, config)
        shown = console if _first() else Console(quiet=True)
        counts = f"{len(data.train):,} samples, {len(data.labeled):,} of them labeled, {len(data.classes)} classes"
        length = config.time or f"{config.steps:,} steps"
        for line in (
            f"{self.source}: {counts}, {len(data.test or ()):,} to test on",
            f"{config.method} with {config.net} for {length}; preset {config.preset}: {PRESETS[config.preset]}",
            f"seen with fixmatch-ads: {seen}" if (seen := EXPECTED.get((config.preset, self.source))) else "",
        ):
            if line:
                shown.print(line, highlight=False, soft_wrap=True)
        source, data_config = lasting(self.source, self.data)
        run = start(data, config, out=out, source=source, data_config=data_config, console=shown)
        _tell(run, shown)
        return 0


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped, to the same bits as if it had not been."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The run folder."""

    def run(self, console: Console) -> int:
        """Train on, and say where the result is."""
        shown = console if _first() else Console(quiet=True)
        _tell(go_on(self.run_folder, shown), shown)
        return 0


def _first() -> bool:
    return not launched() or os.environ["RANK"] == "0"


def _tell(run: Run, console: Console) -> None:
    readings = {name: value for name, value in run.readings().items() if value is not None}
    names = {
        "last": "at the end",
        "median": f"median of the last {run.config['config']['last']}",
        "validated": "where validation was best",
    }
    if readings:
        text = ", ".join(f"{100 * value:.2f} % {names[name]}" for name, value in readings.items())
        console.print(f"test error {text}", highlight=False, soft_wrap=True)
    elif (scored := run.metrics[-1:]) and scored[0].get("val") and scored[0]["val"]["error"] is not None:
        console.print(f"validation error {100 * scored[0]['val']['error']:.2f} % at the end", highlight=False)
    console.print(f"the run is in {run.path}", highlight=False, soft_wrap=True)
