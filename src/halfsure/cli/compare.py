"""`halfsure compare`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import joblib
import torch
from rich.console import Console
from tyro.conf import Positional, arg

from halfsure.bank.encoded import ready
from halfsure.bank.opening import DataConfig, lasting, open_seeds
from halfsure.cli.options import read_settings, unless_trained
from halfsure.cli.terminal import print_json, screen
from halfsure.cli.using import grid
from halfsure.data import Data, DataError
from halfsure.learners.classic import SETTINGS
from halfsure.methods import parse
from halfsure.runs.parallel import run_many
from halfsure.runs.tensorboard import require_events
from halfsure.settings.compose import places
from halfsure.studies.comparison import FILE, PARTS, Plan, scored_part, summary
from halfsure.training import Config, preset
from halfsure.training.class_shares import listed

__all__ = ["Compare", "carry_out", "show"]

MOST_SEEDS = 10_000


@dataclass(frozen=True)
class Compare:
    """Train several methods on the same labels, seeds and steps, and put them side by side.

    Each run has a folder of its own, METHOD-sSEED, in the folder of the comparison. What is not given comes from each
    method's preset. The same command again goes on where it stopped, or shows what is there.

        halfsure compare digits --methods supervised,fixmatch,fixmatch-sh,fixmatch-ads --seeds 5 --baselines
        halfsure compare orders.csv --label-column kind --labels 60 --methods supervised,vat+ads --seeds 0,1,2
    """

    source: Annotated[Positional[str], arg(metavar="SOURCE")]
    """An official set, a folder of images or texts, a table or an .npz file, as for train."""
    methods: Annotated[str, arg(metavar="A,B,…")] = "supervised,fixmatch,fixmatch-sh,fixmatch-ads"
    """The methods, with commas between them; the others are compared with supervised, else with the first."""
    seeds: Annotated[str, arg(metavar="N|LIST")] = "3"
    """How many seeds, from 0 on, or a list such as 0,1,5."""
    out: Annotated[Path | None, arg(aliases=("-o",), metavar="FOLDER")] = None
    """Folder of the comparison; compare/SOURCE-LABELS if not given."""
    jobs: Annotated[int | None, arg(metavar="INT")] = None
    """How many runs at once, each on one core; as many as there are cores if not given."""
    baselines: bool = False
    """Add logistic regression and 1-nearest-neighbour on the same labels."""
    samples: bool = True
    """Whether the report shows samples: pictures, texts or rows of the data."""
    json: bool = False
    """Print JSON."""

    @classmethod
    def read(cls, arguments: Sequence[str], command: str) -> "_Ready":
        """Read the options, open the data and settle every setting of each method."""
        if any(word.partition("=")[0] == "--time" for word in arguments):
            raise DataError("a comparison gives every method the same steps: choose them with --steps, not --time")
        options, given = read_settings(cls, arguments, "compare", without=("method", "seed", "time"))
        require_events(given.config)
        names = [parse(name.strip()).name for name in options.methods.split(",")]
        if len(set(names)) < len(names):
            raise DataError(f"--methods names a method twice: {', '.join(names)}")
        if options.jobs is not None and options.jobs < 1:
            raise DataError(f"--jobs must be at least 1, got {options.jobs}")
        seeds = _seeds(options.seeds)
        data_config = unless_trained(DataConfig.of(options.source, **given.data), given)
        opened = dict(zip(seeds, open_seeds(options.source, data_config, seeds, screen(stderr=True)), strict=True))
        first = next(iter(opened.values()))
        configs = _configs(names, first, dict(given.config))
        source, lasting_config = lasting(options.source, data_config)
        out = options.out or Path("compare") / f"{Path(options.source).stem or 'data'}-{len(first.labeled)}"
        return _Ready(options, Plan(out, source, lasting_config, configs, opened, command))


@dataclass(frozen=True)
class _Ready:
    """A comparison with every setting settled."""

    options: Compare
    plan: Plan

    def run(self, console: Console) -> int:
        """Train what is not trained yet, then show the table and write the report."""
        options = self.options
        wanted = [view for config in self.plan.configs.values() for view in config.algorithm().views]
        for data in self.plan.data.values():  # which share their bank, unless its encoder was tuned
            ready(data, wanted, screen(stderr=True))  # once, before many processes want them
        how = {"workers": options.jobs, "baselines": options.baselines, "samples": options.samples}
        return carry_out(self.plan, console, as_json=options.json, **how)  # type: ignore[arg-type]  # as `Compare` has it


def _configs(names: Sequence[str], data: Data, given: dict[str, Any]) -> dict[str, Config]:
    """Every setting of each method: its preset's, and given ones for the methods that have them. Steps are the same."""
    preset_name = given.pop("preset", "quick")
    whole: dict[str, Any] = {"unlabeled_sample": 0} if scored_part(data) == "unlabeled" else {}
    found: dict[str, Config] = {}
    refusals: dict[str, ValueError] = {}
    used: set[str] = set()
    for name in names:
        config = preset(data, name, preset_name).replace(
            **{key: value for key, value in given.items() if key in ("net", "optimizer", "views")}
        )
        for key, value in given.items():
            try:
                config = config.replace(**{key: value})
                used.add(key)
            except ValueError as error:
                if _has(config, key):  # it has the setting and refuses the value, or has it in two parts
                    raise
                refusals.setdefault(key, error)
        steps = next(iter(found.values()), config).training.steps
        found[name] = config.replace(method=name, steps=steps, **whole)
        found[name].algorithm(data)
        with torch.device("meta"):
            found[name].network(data)
    if unused := given.keys() - used:
        raise refusals[sorted(unused)[0]]
    return found


def _has(config: Config, name: str) -> bool:
    """Whether a configuration has a setting of this name, in one part or in several."""
    return hasattr(config, name) or name in places({key: type(section) for key, section in config.sections.items()})


def carry_out(
    plan: Plan,
    console: Console,
    *,
    workers: int | None,
    baselines: bool,
    as_json: bool,
    note: str = "",
    samples: bool = True,
) -> int:
    """Do a comparison, show it and write its report; 1 if a run failed."""
    progress = screen(stderr=True) if as_json else console
    errors = plan.claim(baselines)
    data, config = next(iter(plan.data.values())), next(iter(plan.configs.values()))
    counts = f"{len(data.train):,} samples, {len(data.labeled):,} of them labeled, {len(data.classes)} classes"
    runs = f"{len(plan.configs)} methods × {len(plan.data)} seeds, {config.training.steps:,} steps each"
    _say(progress, "\n".join([f"{plan.source}: {counts}; {runs}", *data.notes]))
    outcomes = run_many(plan.jobs(), workers=workers or joblib.cpu_count(), console=progress)
    result = summary(plan, outcomes, errors)
    if any(outcome.finished for outcome in outcomes):
        result["report"] = str(_report(plan.out, any(outcome.seconds for outcome in outcomes), samples))
    if as_json:
        print_json(console, result)
    else:
        show(result, console, note)
    for name, error in result["failed"].items():
        _say(screen(stderr=True), f"halfsure: {name} failed: {error}")
    return int(bool(result["failed"]))


def _report(folder: Path, new: bool, samples: bool) -> Path:
    """Write the report of a comparison, unless it is there and nothing has been added since."""
    file = folder / "report.html"
    if new or not file.is_file() or file.stat().st_mtime < (folder / FILE).stat().st_mtime:
        from halfsure import report  # noqa: PLC0415 - draws, and is slow to import

        report.write([folder], file, samples=samples)
    return file


def show(result: dict[str, Any], console: Console, note: str = "") -> None:
    """Print the table of a comparison, and how to read it."""
    columns = ["", "error, %", "by seed", f"against {result['against']}", "ECE", "candidates"]
    rows = [[name, *_cells(row, result["seeds"])] for name, row in (result["methods"] | result["baselines"]).items()]
    console.print()
    console.print(grid(columns, rows))
    seeds = ", ".join(map(str, result["seeds"]))
    _say(
        console,
        f"\nError {PARTS[result['part']]} at the end, mean ± standard deviation over the seeds {seeds}; against "
        f"{result['against']}: mean of the paired differences in points, with its 95 % interval. ECE is that of each "
        "model's own map, in %; candidates are the classes that sparsemax leaves of a sample, on average.",
    )
    if result["baselines"]:
        _say(console, f"{' and '.join(result['baselines'])}: {SETTINGS}.")
    for name, row in result["methods"].items():
        alike = {seed: f"predicts {only} for every sample" for seed, only in row["constant"].items()}
        given_up = {seed: f"hardly predicts {listed(dead)}" for seed, dead in row["dead"].items()}
        for seed, what in (given_up | alike).items():
            _say(console, f"* {name}, seed {seed}, {what}: its error is no result", "yellow")
    if note:
        _say(console, note)
    if "report" in result:
        _say(console, f"the report is {result['report']}")


def _cells(row: dict[str, Any], seeds: list[int]) -> list[str]:
    def percent(value: float | None, form: str = ".1f") -> str:
        return "–" if value is None else f"{100 * value:{form}}"

    marked = row.get("dead", {}) | row.get("constant", {})
    each = " ".join(percent(row["by_seed"].get(str(s))) + "*" * (str(s) in marked) for s in seeds)
    spread = percent(row["mean"], ".2f") + ("" if row["sd"] is None else f" ± {percent(row['sd'], '.2f')}")
    gap = row["difference"]
    against = "" if gap is None else percent(gap["mean"], "+.2f")
    if gap is not None and gap["low"] is not None:
        against += f" [{percent(gap['low'], '+.1f')}, {percent(gap['high'], '+.1f')}]"
    more = ["", ""]
    if row.get("ece") is not None:
        more = [percent(row["ece"]), f"{row['candidates']:.2f}"]
    return [spread, each, against, *more]


def _seeds(text: str) -> list[int]:
    """`3` → 0, 1, 2; `4,7` → 4, 7."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise DataError(f"--seeds is a number such as 5 or a list such as 0,1,5, got {text!r}")
    if len(parts) > MOST_SEEDS or any(len(part) > 18 for part in parts) or (len(parts) == 1 and int(text) > MOST_SEEDS):
        raise DataError(f"--seeds are {MOST_SEEDS:,} at most, each of 18 digits at most, got {text!r:.40}")
    seeds = [int(part) for part in parts] if len(parts) > 1 else list(range(int(text)))
    if not seeds or len(set(seeds)) < len(seeds):
        raise DataError(f"--seeds must name one seed or more, each once, got {text!r}")
    return seeds


def _say(console: Console, text: str, style: str | None = None) -> None:
    console.print(text, style=style, highlight=False, soft_wrap=True, markup=False)
