"""`halfsure demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import arg

from halfsure.bank.opening import DataConfig, open_seeds
from halfsure.bank.seeing import NONE
from halfsure.cli.compare import carry_out
from halfsure.studies.comparison import Plan
from halfsure.training.presets import preset

__all__ = ["Demo"]

# Steps: of 150, 200 and 300 the most that take about a minute on two cores. On 400 validation samples held out of
# training, at seeds 100 to 102, more were better for every fixmatch (fixmatch-ads 12.9, 11.2 and 9.5 % error, fixmatch
# 18.6, 18.6 and 14.9 %) and made no difference to supervised (20.0, 19.3 and 20.0 %). Test samples were not looked at.
STEPS, EVALUATIONS = 300, 6
METHODS = ("supervised", "fixmatch", "fixmatch-sh", "fixmatch-ads")
SEEDS = (0, 1, 2)
LABELS = 40

HOW_TO_READ = (
    "\nHow to read it: all rows learn from the same 40 labels. supervised and the baselines see nothing else; the "
    "fixmatch rows also learn from 1,397 digits without a label. A difference whose interval holds zero may be chance, "
    "and with three seeds intervals are wide."
)


@dataclass(frozen=True)
class Demo:
    """See in about a minute what unlabeled samples add, on 8 × 8 digits of which 40 are labeled.

    Four methods and two simple baselines on the same labels, over three seeds, then a table and a report. The settings
    are those of the preset quick, with fewer steps.
    """

    out: Annotated[Path, arg(aliases=("-o",), metavar="FOLDER")] = Path("halfsure-demo")
    """Folder of the runs and the report."""
    jobs: Annotated[int | None, arg(metavar="INT")] = None
    """How many runs at once, each on one core; as many as there are cores if not given."""
    json: bool = False
    """Print JSON."""

    def run(self, console: Console) -> int:
        """Train, print the table, write the report."""
        data_config = DataConfig(NONE, labels=LABELS)
        data = dict(zip(SEEDS, open_seeds("digits", data_config, SEEDS), strict=True))
        configs = {
            name: preset(data[0], name).replace(steps=STEPS, evaluations=EVALUATIONS, tensorboard=False)
            for name in METHODS
        }
        plan = Plan(self.out, "digits", data_config, configs, data, "halfsure demo")
        return carry_out(plan, console, workers=self.jobs, baselines=True, as_json=self.json, note=HOW_TO_READ)
