"""`halfsure demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from rich.console import Console
from tyro.conf import arg

from halfsure.bank.encoded import ready
from halfsure.bank.opening import DataConfig, open_seeds
from halfsure.bank.seeing import NONE
from halfsure.cli.compare import carry_out
from halfsure.cli.terminal import screen
from halfsure.data import DataError, official
from halfsure.data.fetch import get
from halfsure.encoders.choosing import choose
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
PICTURES, TEST_PICTURES = 2_000, 500
SIDE, WEAK, STRONG = 128, 1, 2
"""At which the encoder sees pictures, and how many views of each it is shown: few, for the time it takes."""
PICTURE_METHODS = ("supervised", "fixmatch-ads")
PICTURES_READ = (
    "\nHow to read it: the same on colour pictures, 40 of 2,000 with a label. All rows, the baselines too, stand on "
    "the features of a network that others have trained on a million photographs; from the pixels alone most answers "
    "would be wrong. Where a baseline is ahead, the unlabeled pictures did not pay."
)


@dataclass(frozen=True)
class Demo:
    """See what unlabeled samples add: on 8 × 8 digits, then on colour pictures through a pretrained network.

    Methods and two simple baselines on the same 40 labels, over three seeds, then a table and a report. The settings
    are those of the preset quick, with fewer steps. The pictures are a part of CIFAR-10, fetched if it is not here (170
    MB); without it, or without an encoder of pictures, that part is left out, which is said.
    """

    out: Annotated[Path, arg(aliases=("-o",), metavar="FOLDER")] = Path("halfsure-demo")
    """Folder of the runs and the report."""
    jobs: Annotated[int | None, arg(metavar="INT")] = None
    """How many runs at once, each on one core; as many as there are cores if not given."""
    pictures: bool = True
    """Whether the colour pictures follow."""
    json: bool = False
    """Print JSON, of the digits alone."""

    def run(self, console: Console) -> int:
        """Train, print the table, write the report."""
        data_config = DataConfig(encoder=NONE, labels=LABELS)
        data = dict(zip(SEEDS, open_seeds("digits", data_config, SEEDS), strict=True))
        configs = {
            name: preset(data[0], name).replace(steps=STEPS, evaluations=EVALUATIONS, tensorboard=False)
            for name in METHODS
        }
        plan = Plan(self.out, "digits", data_config, configs, data, "halfsure demo")
        code = carry_out(plan, console, workers=self.jobs, baselines=True, as_json=self.json, note=HOW_TO_READ)
        return self._pictures(console) if self.pictures and not self.json and not code else code

    def _pictures(self, console: Console) -> int:
        """The second part, or why it is left out."""
        encoder, why = choose("image", shape=(32, 32, 3))
        if encoder is None:
            console.print(f"\nThe part on colour pictures is left out: {why}", highlight=False, soft_wrap=True)
            return 0
        console.print("\nNow colour pictures, a part of CIFAR-10", highlight=False)
        folder = self.out / "pictures"
        try:
            source = str(_some_pictures(self.out))
        except (DataError, OSError) as error:
            console.print(f"They are left out: {error!s:.300}", highlight=False, soft_wrap=True, markup=False)
            return 0
        data_config = DataConfig.of(
            source, labels=LABELS, encoder=encoder, encoder_side=SIDE, weak_views=WEAK, strong_views=STRONG
        )
        shown = screen(stderr=True)
        data = dict(zip(SEEDS, open_seeds(source, data_config, SEEDS, shown), strict=True))
        ready(data[0], ("strong",), shown)
        configs = {
            name: preset(data[0], name).replace(steps=STEPS, evaluations=EVALUATIONS, tensorboard=False)
            for name in PICTURE_METHODS
        }
        plan = Plan(folder, source, data_config, configs, data, "halfsure demo")
        return carry_out(plan, console, workers=self.jobs, baselines=True, as_json=False, note=PICTURES_READ)


def _some_pictures(folder: Path) -> Path:
    """A part of CIFAR-10 as a file of arrays, the same each time."""
    file = folder / "cifar10-part.npz"
    if not file.is_file():
        try:
            found = official.read("cifar10")
        except DataError:
            get("cifar10")
            found = official.read("cifar10")
        if found.test is None:
            raise DataError("the test files of CIFAR-10 are not here")
        train, test = found.train, found.test
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(
            file,
            X=train.images[:PICTURES],
            y=train.labels[:PICTURES],
            X_test=test.images[:TEST_PICTURES],
            y_test=test.labels[:TEST_PICTURES],
            classes=np.array(found.classes),
        )
    return file
