"""A run folder, or several → one HTML page that needs nothing but itself."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from halfsure._disk import write as disk_write
from halfsure.data import Data
from halfsure.training.errors import RunError

__all__ = ["write"]


def write(
    runs: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    baselines: Mapping[str, Mapping[Any, float]] | None = None,
    title: str | None = None,
    data: Data | None = None,
    source: str | None = None,
    samples: bool = True,
) -> Path:
    """Describe runs, or the comparison a folder with compare.json holds, on one page; a file at `out` is replaced.

    `baselines` gives the errors of other classifiers, name → seed → error, beside those compare.json has. `data` are
    the samples the runs were trained on, for runs that were begun from Python and so cannot open them again; `source`
    is where they are now, if they were moved. Without `samples` no picture, text or row of the data is on the page.

    Examples:
        >>> from halfsure import report
        >>> report.write(["runs/nothing"], "report.html")
        Traceback (most recent call last):
        halfsure.training.errors.RunError: there is no run in runs/nothing; name a folder that halfsure train or
        halfsure compare wrote
    """
    from halfsure.report.page import page  # noqa: PLC0415 - matplotlib is loaded when a report is written
    from halfsure.report.study import read  # noqa: PLC0415

    study = replace(read(runs, baselines=baselines, title=title, data=data), source=source, shows_samples=samples)
    file = Path(out)
    if file.is_dir():
        raise RunError(f"{file} is a folder; name a file, such as {file / 'report.html'}")
    text = page(study)
    file.parent.mkdir(parents=True, exist_ok=True)
    disk_write(file, text.encode())
    return file
