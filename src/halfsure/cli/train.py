"""`halfsure train` and `halfsure resume`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import joblib
import numpy as np
import torch
from rich.console import Console
from tyro.conf import Positional, arg

from halfsure._checks import check_count
from halfsure.bank.opening import DataConfig, lasting, open_data
from halfsure.cli.options import RARE, read_settings, unless_trained
from halfsure.cli.terminal import print_json, screen
from halfsure.data import Data, DataError
from halfsure.data.reader import reader_of
from halfsure.learners.automatic import AUTO, SHARES, Choice, choose
from halfsure.runs import Run, load, start
from halfsure.runs.encoder_file import kept_encoder
from halfsure.runs.folder import flat_settings
from halfsure.runs.run import error_on
from halfsure.runs.start import default_folder, recorded
from halfsure.runs.tensorboard import require_events
from halfsure.training import EXPECTED, PRESETS, Config, preset
from halfsure.training.config import RunSettings
from halfsure.training.ranks import launched
from halfsure.trust import temperature_note
from halfsure.verdict.check import assess, outcome
from halfsure.verdict.folds import deal, how_many

__all__ = ["Resume", "Train"]


@dataclass(frozen=True)
class Train:
    """Train a classifier on a few labels and many unlabeled samples.

    SOURCE is the name of an official set (`halfsure data list`), a folder of images or .txt files, a table (.csv, .tsv,
    .parquet, .xlsx), an .npz file or a folder with X.npy. Settings that are not given come from the preset, which looks
    at data and method. The same command again goes on where it stopped.
    """

    source: Annotated[Positional[str], arg(metavar="SOURCE")]
    """What to train on."""
    out: Path | None = None
    """Run folder; runs/SOURCE-METHOD-LABELS-sSEED if not given."""
    folds: int | None = None
    """Models that check this one, each trained without a part of the labels. If there is nothing to test on 5 (one from
    500 labels on), else none."""
    jobs: Annotated[int | None, RARE] = None
    """How many of them are trained at once, each on one core; as many as there are cores if not given."""
    report: Annotated[bool, RARE] = True
    """Whether to write report.html into the run folder."""
    samples: Annotated[bool, RARE] = True
    """Whether the report shows samples: pictures, texts or rows of the data."""
    json: bool = False
    """Print the result as JSON; other messages go to stderr."""

    @classmethod
    def read(cls, arguments: Sequence[str], command: str) -> "_Ready":
        """Read the options, open the data and settle every setting."""
        options, given = read_settings(cls, arguments, "train")
        if options.jobs is not None:
            check_count("jobs", options.jobs, 1)
        if options.folds is not None:
            check_count("folds", options.folds, 0)
        if {"time", "steps"} <= given.config.keys():
            raise DataError("give either steps or a time, not both")
        require_events(given.config)
        settings = dict(given.config)
        asked, name, seed = (settings.pop(key, None) for key in ("method", "preset", "seed"))
        data_config = unless_trained(DataConfig.of(options.source, **given.data), given)
        seed = RunSettings(seed=seed or 0).seed
        if data_config.tune == AUTO and launched():
            raise DataError("whether tuning pays is decided by one process: take --tune pairs or none under torchrun")
        kept = None if options.out is None else kept_encoder(options.out)
        data = open_data(options.source, data_config, seed, screen(stderr=True), kept)
        choice = choose(data) if asked in (None, AUTO) else Choice(str(asked), "", {})
        config = preset(data, choice.method, name or "quick", seed)
        # Labels that were drawn, the same number of each class, say nothing of the shares of the data.
        drawn = data_config.labels is not None or reader_of(options.source).usual_labels is not None
        added = {} if drawn else choice.settings
        config = config.replace(**added | settings)
        config.algorithm(data)
        with torch.device("meta"):
            config.network(data)
        why = f"{choice.why}; {SHARES}" if added.keys() - settings.keys() else choice.why
        return _Ready(options, data_config, data, config, why)


@dataclass(frozen=True)
class _Ready:
    """A training with every setting settled."""

    options: Train
    data_config: DataConfig
    opened: Data
    config: Config
    why: str
    """Why this method, if it was chosen here."""

    def run(self, console: Console) -> int:
        """Train, showing how it goes, check it, write its report, and say where the result is."""
        options, data, config = self.options, self.opened, self.config
        out = options.out or default_folder(options.source, data, config)
        shown = _shown(console, options.json)
        folds = self._folds()
        self._announce(shown, folds)
        source, data_config = lasting(options.source, self.data_config)
        about: dict[str, Any] = {"source": source, "data_config": data_config, "folds": folds}
        run = start(data, config, out=out, console=shown, **about)
        _finish(run, data, folds, shown, options)
        _print_json(run, console, options.json)
        return 0

    def _folds(self) -> int:
        """How many models check the run: as asked for; else none if there are samples to test on, or it cannot be."""
        if self.options.folds:
            if launched():
                raise DataError("the folds are trained by one process; leave --folds away under torchrun")
            deal(self.opened, self.options.folds, self.config.run.seed)  # refuses what cannot be held out
        if self.options.folds is not None or launched() or self.opened.test is not None or self.opened.val is not None:
            return self.options.folds or 0
        return 0 if self._uncheckable else how_many(self.opened)

    @property
    def _uncheckable(self) -> str:
        """Why a check that would be made, though it was not asked for, cannot be; else nothing."""
        data, nothing = self.opened, self.options.folds is None and not launched()
        if not nothing or data.test is not None or data.val is not None:
            return ""
        if int(np.bincount(data.train.labels[data.labeled]).min()) < 2:
            return "a class has a single label"
        try:
            deal(data, how_many(data), self.config.run.seed)
        except DataError as error:
            return str(error)
        return ""

    def _announce(self, console: Console, folds: int) -> None:
        data, config, chosen = self.opened, self.config, self.config.run
        length = config.training.time or f"{config.training.steps:,} steps"
        seen = EXPECTED.get((config.run.preset, self.options.source)) if config.run.method == "fixmatch-ads" else None
        for line in (
            f"{self.options.source}: {data.counts}, {len(data.test or ()):,} to test on",
            *data.notes,
            f"{chosen.method} with {chosen.net} for {length}; preset {chosen.preset}: {PRESETS[chosen.preset]}",
            f"{chosen.method}: {self.why}" if self.why else "",
            f"seen with fixmatch-ads, without --prior: {seen}" if seen else "",
            f"not checked: {self._uncheckable}" if self._uncheckable else "",
            f"then {folds} more, each without a part of the labels and as long, to check it (--folds 0: no check)"
            if folds
            else "",
        ):
            if line:
                console.print(line, highlight=False, soft_wrap=True, markup=False)


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped, to the same bits as if it had not been."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The run folder."""
    source: Annotated[str | None, arg(metavar="PATH")] = None
    """Where its data are now, if they were moved."""
    jobs: int | None = None
    """How many models that check the run are trained at once; as many as there are cores if not given."""
    report: bool = True
    """Whether to write report.html into the run folder."""
    samples: bool = True
    """Whether the report shows samples: pictures, texts or rows of the data."""
    json: bool = False
    """Print the result as JSON; other messages go to stderr."""

    def run(self, console: Console) -> int:
        """Train on, and say where the result is."""
        shown = _shown(console, self.json)

        def told(source: str) -> None:  # the folder may come from somebody else, and names what is read
            shown.print(f"opening {source}", highlight=False, soft_wrap=True)

        was = recorded(self.run_folder, told, self.source)
        run = was.go_on(shown)
        _finish(run, was.data, was.folds, shown, self)
        _print_json(run, console, self.json)
        return 0


def _finish(run: Run, data: Data, folds: int, console: Console, options: Train | Resume) -> None:
    """Tell how it went, train the folds, write the report."""
    assert run.path is not None
    if not _first():
        return
    _tell(run, console)
    if folds:
        config = Config.from_json(run.config["config"])
        workers = options.jobs or joblib.cpu_count()
        found = assess(run.path, data, config, folds=folds, workers=workers, console=console)
        low, high = (f"{100 * end:.1f}" for end in found["interval"])
        console.print(
            f"accuracy on held-out labels {100 * found['accuracy']:.1f} % [{low}, {high}] "
            f"({found['labels']} labels, in {found['folds']} {'parts' if found['folds'] > 1 else 'part'})",
            highlight=False,
            soft_wrap=True,
        )
        if note := temperature_note(load(run.path).temperature):
            console.print(note, style="yellow", highlight=False, soft_wrap=True)
    if options.report:
        from halfsure.report import write  # noqa: PLC0415 - matplotlib is slow to import

        file = write([run.path], run.path / "report.html", data=data, samples=options.samples)
        console.print(f"the report is {file}", highlight=False, soft_wrap=True)


def _shown(console: Console, as_json: bool) -> Console:
    """Where progress and notes go."""
    if not _first():
        return screen(quiet=True)
    return screen(stderr=True) if as_json else console


def _print_json(run: Run, console: Console, wanted: bool) -> None:
    """What a script wants to know of a run."""
    if not wanted or not _first() or run.path is None:
        return
    report, checked = run.path / "report.html", outcome(run.path)
    found = {
        "run": str(run.path),
        "method": flat_settings(run.config)["method"],
        "steps": flat_settings(run.config)["steps"],
        "test_error": run.readings(),
        "dead": run.metrics[-1].get("dead", []) if run.metrics else [],
        "constant": run.metrics[-1].get("constant") if run.metrics else None,
        "check": checked,
        "report": str(report) if report.is_file() else None,
    }
    print_json(console, found)


def _first() -> bool:
    return not launched() or os.environ["RANK"] == "0"


def _tell(run: Run, console: Console) -> None:
    readings = {name: value for name, value in run.readings().items() if value is not None}
    names = {
        "last": "at the end",
        "median": f"median of the last {flat_settings(run.config)['last']}",
        "validated": "where validation was best",
    }
    if readings:
        text = ", ".join(f"{100 * value:.2f} % {names[name]}" for name, value in readings.items())
        console.print(f"test error {text}", highlight=False, soft_wrap=True)
    elif run.metrics and (error := error_on(run.metrics[-1], "val")) is not None:
        console.print(f"validation error {100 * error:.2f} % at the end", highlight=False)
    console.print(f"the run is in {run.path}", highlight=False, soft_wrap=True)
