"""The page as a document: it stands alone, it is well formed, nothing in the data can break out, and it is small."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from halfsure import report
from halfsure.data import from_arrays
from halfsure.report.plots import look
from halfsure.report.render import environment
from halfsure.report.wording import listed, percent, signed
from halfsure.runs.start import start
from tests.report.helpers import comparison, made_up_run, read_page
from tests.training.helpers import tiny

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"quoted\" & 'single'",
    "$x^2$ ${title}",
)


def test_the_page_is_well_formed_and_needs_nothing_else(whole: Path) -> None:
    html, page = whole.read_text(encoding="utf-8"), read_page(whole)
    assert html.startswith("<!doctype html>")
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv"))
    [script] = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    without_pictures = re.sub(r"base64,[\w+/=]+", "", html)
    assert not re.search(r"https?:|@import|//\w", without_pictures)
    for _, attributes in page.elements:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert str(attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))
    assert not page.all("link")
    assert all(not name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_ids_are_unique_and_every_reference_finds_one(whole: Path) -> None:
    html, page = whole.read_text(encoding="utf-8"), read_page(whole)
    ids = Counter(str(attributes["id"]) for _, attributes in page.elements if "id" in attributes)
    assert max(ids.values()) == 1
    used = set(re.findall(r"url\(#([^)]*)\)", html)) | {
        str(a["href"])[1:] for _, a in page.elements if str(a.get("href", "")).startswith("#")
    }
    assert used
    assert used <= set(ids)


def test_every_plot_has_a_name_for_those_who_do_not_see_it(whole: Path) -> None:
    html = whole.read_text(encoding="utf-8")
    plots = re.findall(r'<svg class="plot[^"]*"[^>]*>', html)
    assert len(plots) >= 15
    for plot in plots:
        assert 'role="img"' in plot
        assert re.search(r'aria-label="[^"]{20,}"', plot)
        assert "viewBox" in plot
    for figure in re.findall(r"<figure.*?</figure>", html, flags=re.DOTALL):
        assert re.search(r"<h3>[^<]+</h3>", figure)
        assert re.search(r"<figcaption>[^<]{40,}</figcaption>", figure)


def test_plots_take_their_colours_from_the_style_sheet(whole: Path) -> None:
    html = whole.read_text(encoding="utf-8")
    for plot in re.findall(r'<svg class="plot.*?</svg>', html, flags=re.DOTALL):
        assert "var(--" in plot
        assert not re.search(r"(?<!href=\")#[0-9a-f]{6}\b", re.sub(r"url\(#[^)]*\)", "", plot))
        assert "DejaVu" not in plot
    light, dark = re.findall(r"--c\d: (#[0-9a-f]{6})", html)[:8], re.findall(r"--c\d: (#[0-9a-f]{6})", html)[8:]
    assert len(set(light)) == len(set(dark)) == 8


def test_lines_differ_by_more_than_colour() -> None:
    looks = [look(place) for place in range(56)]
    assert len({(one.colour, one.marker) for one in looks}) == 56
    assert len({(one.dash, one.marker) for one in looks[:8]}) == 8


def test_names_from_the_data_stay_text(whole: Path, tmp_path: Path) -> None:
    source = "/a \"b\" 'c'/<b>d<b>.csv"
    paths = [
        made_up_run(tmp_path / f"<i>{method}", method, classes=HOSTILE, source=source, last={"dead": list(HOSTILE[:2])})
        for method in ("fixmatch-ads", "supervised")
    ]
    baselines = {HOSTILE[1]: {0: 0.5}}
    file = report.write(paths, tmp_path / "report.html", baselines=baselines, title=HOSTILE[0])
    html, page = file.read_text(encoding="utf-8"), read_page(file)
    plain = read_page(whole)
    assert len(page.scripts) == len(plain.scripts) == 2
    assert page.scripts[-1] == plain.scripts[-1]
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in plain.elements}
    assert "<script>alert" not in html
    for name in HOSTILE:
        assert name in page.text
    assert "<b>d<b>.csv" in page.text


def test_json_in_a_script_cannot_end_it() -> None:
    written = environment().from_string("{{ value|tojson }}")
    text = written.render(value={"a": "</script><!--", "b": "&"})
    assert "<" not in text
    assert "&" not in text
    assert json.loads(text) == {"a": "</script><!--", "b": "&"}


def test_four_methods_by_five_seeds_stay_under_500_kb(tmp_path: Path) -> None:
    """With noise for pictures, which no PNG can make small."""
    random = np.random.default_rng(0)
    labels = np.arange(200) % 10
    pictures = random.integers(0, 256, (200, 32, 32, 3)).astype(np.uint8)
    data = from_arrays(pictures, np.where(np.arange(200) < 40, labels, -1), test=(pictures[:100], labels[:100]))
    steps = tuple(range(100, 1001, 100))
    folder = comparison(tmp_path / "c", ["supervised", "fixmatch", "fixmatch-sh", "vat+ads"], [*range(5)], steps=steps)
    run = start(data, tiny(method="fixmatch-ads", steps=2, evaluations=1), out=tmp_path / "pictures")
    assert run.metrics
    file = report.write([folder], tmp_path / "five.html")
    alone = report.write([tmp_path / "pictures"], tmp_path / "alone.html", data=data)
    shown = sum(len(str(image["src"])) for image in read_page(alone).all("img"))
    assert shown > 24 * 3000
    assert file.stat().st_size + shown < 500_000


@pytest.mark.slow
def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    folder = comparison(tmp_path / "c", ["supervised", "fixmatch-ads"], [0, 1])
    mine = report.write([folder], tmp_path / "mine.html").read_bytes()
    code = (
        "import sys; from halfsure import report; report.write([sys.argv[1]], sys.argv[2]);"
        "assert 'matplotlib.pyplot' not in sys.modules, 'pyplot has a state of its own'"
    )
    style = tmp_path / "matplotlibrc"
    style.write_text("lines.linewidth: 9\naxes.linewidth: 4\nfont.weight: bold\nlines.markeredgewidth: 5\n")
    environment = os.environ | {"PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(style), "TZ": "Asia/Tokyo"}
    command = [sys.executable, "-c", code, str(folder), str(tmp_path / "other.html")]
    subprocess.run(command, check=True, env=environment, timeout=100)
    assert (tmp_path / "other.html").read_bytes() == mine


@pytest.mark.slow
def test_what_draws_and_writes_is_loaded_when_a_report_is_written() -> None:
    code = "import sys, halfsure.report, halfsure.cli; print({'matplotlib', 'jinja2', 'markupsafe'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=100)
    assert shown.stdout.strip() == "set()"


def test_writing_leaves_the_readers_matplotlib_alone(tmp_path: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415

    before = dict(mpl.rcParams)
    report.write([made_up_run(tmp_path / "run")], tmp_path / "report.html")
    assert dict(mpl.rcParams) == before


def test_numbers_as_they_are_printed() -> None:
    assert percent(0.13333) == "13.33 %"
    assert percent(0.5, 0.0123) == "50.00 ± 1.23 %"
    assert percent(None) == "–"
    assert [signed(x) for x in (1.5, -1.5, 0.001, -0.001)] == ["+1.50", "−1.50", "0.00", "0.00"]
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
