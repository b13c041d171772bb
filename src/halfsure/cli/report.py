"""`halfsure report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from halfsure.training.errors import RunError

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Describe a run, or several side by side, on one HTML page that needs no network.

    RUN is a run folder, or the folder of a comparison. The page goes into it, for several into the current folder.
    """

    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN [RUN …]")]
    """Run folders, or a folder that holds compare.json."""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """Where to write the page; report.html in the folder if not given."""
    title: str | None = None
    """Heading of the page; methods and data if not given."""
    force: bool = False
    """Write over a file that is there already."""
    source: Annotated[str | None, arg(metavar="PATH")] = None
    """Where the data are now, if they were moved."""
    samples: bool = True
    """Whether to show samples: pictures, texts or rows of the data."""

    def run(self, console: Console) -> int:
        """Write the page and say where it is."""
        from halfsure.report import write  # noqa: PLC0415 - matplotlib is loaded when a report is written

        if not self.runs:
            raise RunError("name a run folder: halfsure report RUN")
        file = self.out or (self.runs[0] if len(self.runs) == 1 else Path()) / "report.html"
        self._spare(file)
        written = write(self.runs, file, title=self.title, source=self.source, samples=self.samples)
        size = written.stat().st_size / 1000
        console.print(f"the report is in {written} ({size:,.0f} KB)", highlight=False, soft_wrap=True, markup=False)
        return 0

    def _spare(self, file: Path) -> None:
        """Refuse to write over a file that was named, or is none of ours."""
        if self.force or not file.is_file():
            return
        if self.out is not None:
            raise RunError(f"{file} is there already; choose another -o, or write over it with --force")
        from halfsure.report.page import GENERATOR  # noqa: PLC0415

        if GENERATOR.encode() not in file.read_bytes()[:5000]:
            raise RunError(f"{file} is not a report of halfsure; choose another -o, or write over it with --force")
