"""The page about hostile data: shown as it is, run by no browser, with a second wall should the first one fall."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, sync_playwright

from halfsure import report
from halfsure.report.plots import draw
from halfsure.report.render import environment, render
from tests.report.helpers import Page, comparison, made_up_run, read_page
from tests.report.test_browser import CHROMIUM, beyond, show

OWNED = "window.owned = 1"
CLASSES = (
    f"<script>{OWNED}</script>",
    f'"><img src=x onerror="{OWNED}">',
    f"'><svg onload='{OWNED}'>",
    f"javascript:{OWNED}",
    f"</script><script>{OWNED}</script>",
    f"<!--<script>{OWNED}",
    f"]]><script>{OWNED}</script>",
    f"\u2028{OWNED}//",
    "</style><style>body{display:none}",
    "<a href=https://example.com>x</a><base href=https://example.com>",
    "\u202etfel ot thgir\x00\x1b[2J",
    "\ud800",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page in which everything that can come from data is hostile."""
    folder = comparison(
        tmp_path_factory.mktemp("all") / CLASSES[1].replace("/", ""),
        ["supervised", "fixmatch-ads"],
        [0, 1],
        {CLASSES[0]: {"0": 0.2}},
        classes=CLASSES[:-1],
        source=CLASSES[3],
        changes={"device": CLASSES[0]},
        last={"dead": list(CLASSES)},
    )
    for file in folder.glob("*/config.json"):  # a device that there is not, but somebody may have written
        content = json.loads(file.read_text())
        content["config"]["machine"]["device"] = CLASSES[1]
        file.write_text(json.dumps(content))
    return report.write([folder], folder.parent / "page.html", title=CLASSES[4])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium or google-chrome in PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def test_nothing_from_data_is_an_element_or_an_attribute(hostile: Path) -> None:
    page = read_page(hostile)
    assert len(page.scripts) == 2
    assert not any(OWNED in script for script in page.scripts)
    for tag, attributes in page.elements:
        assert tag not in ("a", "base", "iframe", "object", "embed", "form") or attributes["href"].startswith("#")  # type: ignore[union-attr]
        assert not any(name.startswith("on") for name in attributes)
    assert f"<script>{OWNED}</script>" in page.text
    html = hostile.read_text(encoding="utf-8")
    assert not any(letter in html for letter in "\u202e\x00\x1b\u2028")


@pytest.mark.slow
def test_nothing_from_data_runs_or_is_fetched(hostile: Path, browser: Browser) -> None:
    page, heard = show(browser, hostile)
    page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    assert page.evaluate("window.owned") is None
    assert beyond(heard, hostile) == []
    assert page.locator("main").is_visible()
    page.locator("#summary thead th button").first.click()  # the page's own script does run
    assert page.locator("#summary thead th").first.get_attribute("aria-sort") == "ascending"
    page.context.close()


@pytest.mark.slow
def test_behind_the_escaping_there_is_a_second_wall(tmp_path: Path, browser: Browser) -> None:
    """With a hole cut into the first: scripts and handlers of others are in the page, and none runs."""
    run = made_up_run(tmp_path / "run", classes=CLASSES[:3])
    holed = tmp_path / "page.html"
    report.write([run], holed, title="TITLE")
    attacks = f"{CLASSES[0]}<img src=x onerror={OWNED!r}><svg onload={OWNED!r}></svg><img src=https://example.com/x>"
    holed.write_text(holed.read_text(encoding="utf-8").replace("<h1>TITLE", f"<h1>{attacks}"), encoding="utf-8")
    page, heard = show(browser, holed)
    assert page.locator("h1 script").count() == 1
    assert page.evaluate("window.owned") is None
    refused = [line for line in heard if line.startswith("console: ") and "Content Security Policy" in line]
    assert any("example.com/x" in line for line in refused)
    assert len(refused) >= 4
    page.context.close()
    html = holed.read_text(encoding="utf-8")
    holed.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html), encoding="utf-8")
    page, _ = show(browser, holed)
    assert page.evaluate("window.owned") == 1  # without the wall the attack is real
    page.context.close()


@given(st.text() | st.sampled_from(CLASSES))
def test_text_never_opens_or_ends_anything(value: str) -> None:
    shown = render(environment().from_string("{{ value }}"), value=value)
    assert not set(shown) & set("<>\"'")
    shown.encode()
    page = Page(f'<p title="{shown}">{shown}</p>')
    assert [tag for tag, _ in page.elements] == ["p"]
    assert page.elements[0][1]["title"] == page.text


@pytest.mark.parametrize("value", [name for name in CLASSES if name.isprintable()])
def test_text_in_a_plot_never_opens_or_ends_anything(value: str) -> None:
    def drawn(text: str) -> Page:
        plot = draw("p", lambda axes: axes.set_title(text), title="", x=text, y=text, label="")
        return Page(str(plot.shapes))

    plain, page = drawn("plain"), drawn(value)
    shape = [[(tag, set(attributes)) for tag, attributes in found.elements] for found in (plain, page)]
    assert shape[0] == shape[1]
    assert page.text.count(value) == plain.text.count("plain") == 3


def test_plots_alone_are_trusted_to_be_html() -> None:
    folder = Path(report.__file__).parent
    trust = re.compile(r"Markup\(|__html__|\|\s*safe\b|autoescape\s*=?\s*[Ff]alse")
    files = [file for file in folder.rglob("*.*") if file.suffix in (".py", ".html")]
    assert len(files) > 20
    assert [file.name for file in files if trust.search(file.read_text(encoding="utf-8"))] == ["svg.py"]


NUMBERS: list[Any] = [0, -1, 1e-320, 1e30, -1e30, 1e308, 2**62, None, "x", [], {}, True]


@settings(max_examples=settings().max_examples // 50, suppress_health_check=list(HealthCheck))  # takes long
@given(numbers=st.lists(st.sampled_from(NUMBERS), min_size=12, max_size=12))
def test_plots_of_any_numbers_are_drawn(numbers: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    names = ("error", "ece", "dominant", "softmax_dominant", "support", "sparse_support", "top_m_accuracy")
    scores = dict(zip(names, numbers, strict=False))
    bins = [{"lower": 0.0, "upper": 0.5, "count": n, "confidence": n, "accuracy": n} for n in numbers[7:9]]
    last = {
        "test": scores | {"reliability": bins, "histogram": numbers[:10], "class_error": numbers},
        "train": {"total": numbers[9], "supervised": numbers[10], "consistency": numbers[11]},
    }
    run = made_up_run(tmp_path_factory.mktemp("run") / "run", last=last, source=None)
    assert report.write([run], run / "report.html").stat().st_size > 1000


def test_settings_and_sizes_of_other_types_are_passed_over(tmp_path: Path) -> None:
    bins = [{"lower": 0.0, "upper": 1.0, "count": 3, "confidence": "x", "accuracy": None}]
    run = made_up_run(tmp_path / "run", source=None, steps=(10,))
    config = json.loads((run / "config.json").read_text())
    config["fingerprint"]["shape"] = []
    config["config"]["last"] = [1]
    (run / "config.json").write_text(json.dumps(config))
    line = json.loads((run / "metrics.jsonl").read_text())
    line["test"]["reliability"] = bins
    (run / "metrics.jsonl").write_text(json.dumps(line))
    page = read_page(report.write([run], run / "report.html"))
    assert "fixmatch-ads on digits with 10 labels, 10 classes" in page.text
    assert "Reliability bins" not in page.tables
