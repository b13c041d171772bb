"""The page in a real browser: it draws, it reacts, it is readable, and it asks the network for nothing."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from halfsure import report
from halfsure.runs.start import start
from tests.report.helpers import comparison
from tests.training.helpers import rows, tiny

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = ("<script>document.title = 'broken'</script>", "</script><b>bold</b>", "<img src=x onerror=alert(1)>", "d")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome in PATH: apt-get install chromium"),
]

# Every element that holds text of its own, with its colour and the colour behind it.
TEXTS = """() => {
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].filter((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own.length || !element.getClientRects().length || element.closest("script")) continue;
    const style = getComputedStyle(element);
    let behind = element, paper;
    do { paper = getComputedStyle(behind).backgroundColor; behind = behind.parentElement; }
    while (behind && /, 0\\)|transparent/.test(paper));
    const ink = element.closest("svg") ? style.fill : style.color;
    found.push({ text: own[0].textContent.trim().slice(0, 30), ink, paper });
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield opened
        opened.close()


def show(browser: Browser, file: Path, **context: Any) -> tuple[Page, list[str]]:
    """Open a page; the list hears of every message, error and request."""
    page = browser.new_context(**context).new_page()
    heard: list[str] = []
    page.on("console", lambda message: heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("dialog", lambda dialog: heard.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: heard.append(request.url[:60]))
    page.goto(file.as_uri())
    return page, heard


def beyond(heard: list[str], file: Path) -> list[str]:
    """What was heard beside the file itself and the pictures inside it."""
    return [line for line in heard if not line.startswith(("data:image/png", file.as_uri()[:60]))]


@pytest.fixture
def page(browser: Browser, whole: Path) -> Iterator[Page]:
    opened, heard = show(browser, whole, viewport={"width": 1200, "height": 900})
    yield opened
    assert beyond(heard, whole) == []
    opened.context.close()


def test_every_plot_is_drawn(page: Page) -> None:
    plots = page.locator("svg.plot")
    assert plots.count() >= 15
    for k in range(plots.count()):
        plot = plots.nth(k)
        box = plot.bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 100
        inked = plot.evaluate(
            """svg => [...svg.querySelectorAll("path, use, rect")].filter((drawn) => {
                 const box = drawn.getBBox();
                 return !drawn.closest("defs") && box.width + box.height > 0;
               }).length"""
        )
        assert inked >= 10
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert page.locator("img").count() == 24


def heights(page: Page) -> list[float]:
    found: list[float] = page.evaluate(
        "[...document.querySelectorAll('svg.histogram .bar')].map((bar) => Number(bar.getAttribute('height')))"
    )
    return found


def test_the_slider_moves_the_histogram_and_its_label(page: Page) -> None:
    slider, label = page.locator("input[type=range]"), page.locator("output")
    assert label.inner_text() == "step 60"
    end = heights(page)
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert label.inner_text() == "step 45"
    assert slider.get_attribute("aria-valuetext") == "step 45"
    middle = heights(page)
    assert middle != end
    slider.fill("0")
    assert label.inner_text() == "step 15"
    assert heights(page) not in (middle, end)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert label.inner_text() == "step 60"
    assert heights(page) == pytest.approx(end, abs=0.3)  # drawn to a tenth by Python, from shares of five digits here
    # By the definition: the root of the share is the height.
    data = page.evaluate("JSON.parse(document.getElementById('histograms').textContent)")
    wanted = [150 * share**0.5 for rows in data["shares"] for share in rows[-1]]
    assert heights(page) == pytest.approx(wanted, abs=1e-6)


def column(page: Page, place: int) -> list[str]:
    cells = page.locator("#summary tbody tr").all()
    return [row.locator("th, td").nth(place).inner_text() for row in cells]


def test_tables_sort_both_ways_by_click_and_by_key(page: Page) -> None:
    head = page.locator("#summary thead th").nth(1)
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    up = [float(text.split()[0]) for text in column(page, 1)]
    assert up == sorted(up)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(text.split()[0]) for text in column(page, 1)] == sorted(up, reverse=True)

    candidates = page.locator("#summary thead th").nth(4)
    for _ in range(2):  # a row without a value stays last, whichever way
        candidates.locator("button").click()
        assert column(page, 4)[-1] == "–"
    assert head.get_attribute("aria-sort") == "none"

    names = page.locator("#summary thead th").nth(0)
    names.locator("button").click()
    assert [text.split()[0] for text in column(page, 0)] == ["1-NN", "fixmatch-ads", "supervised"]
    page.keyboard.press("Space")
    assert [text.split()[0] for text in column(page, 0)] == ["supervised", "fixmatch-ads", "1-NN"]


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it, of `rgb(r, g, b)`."""
    parts = [int(float(part)) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_by_day_and_by_night(scheme: str, browser: Browser, whole: Path) -> None:
    page, heard = show(browser, whole, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    texts = page.evaluate(TEXTS)
    assert len(texts) > 300
    for found in texts:
        ink, paper = luminance(found["ink"]), luminance(found["paper"])
        contrast = (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
        assert contrast >= 4.5, f"{found} has a contrast of {contrast:.2f}"
    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert paper > 0.9 if scheme == "light" else paper < 0.05
    # Lines need 3 to 1 against the page, and take other colours by night.
    lines = page.evaluate("[...document.querySelectorAll('svg.swatch')].map((drawn) => getComputedStyle(drawn).color)")
    for colour in lines:
        ink = luminance(colour)
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 3
    assert beyond(heard, whole) == []
    page.context.close()


def test_dark_mode_changes_the_plots(browser: Browser, whole: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        page, _ = show(browser, whole, color_scheme=scheme)
        stroke = "[...document.querySelectorAll('svg.plot path')].map((path) => getComputedStyle(path).stroke)"
        colours.append(set(page.evaluate(stroke)) - {"none"})
        page.context.close()
    assert len(colours[0]) >= 3
    assert not colours[0] & colours[1]


@pytest.mark.parametrize("which", ["whole", "single"])
def test_a_phone_shows_it_without_scrolling_sideways(
    which: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    page, _ = show(browser, request.getfixturevalue(which), viewport={"width": 360, "height": 740}, is_mobile=True)
    page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate(
        "[...document.querySelectorAll('.plot, .cards img')].every((e) => e.getClientRects()[0].right <= 360)"
    )
    page.context.close()


def test_paper_cuts_nothing_off_and_is_white(browser: Browser, whole: Path) -> None:
    page, _ = show(browser, whole, viewport={"width": 720, "height": 1000}, color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") == 720  # A4 less its margins
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 0.9
    page.context.close()


def test_hostile_names_show_as_text(browser: Browser, tmp_path: Path) -> None:
    names = {"dead": list(HOSTILE[:3])}
    folder = comparison(tmp_path / "c", ["supervised", "fixmatch-ads"], [0], classes=HOSTILE, last=names)
    file = report.write([folder], tmp_path / "report.html", baselines={HOSTILE[2]: {0: 0.5}})
    page, heard = show(browser, file)
    assert page.title() == "2 methods on digits"
    page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    shown = page.locator("body").inner_text()
    for name in HOSTILE:
        assert name in shown
    assert page.locator("b, img").count() == 0
    assert beyond(heard, file) == []
    page.context.close()


def test_a_long_id_does_not_widen_a_phone(browser: Browser, tmp_path: Path) -> None:
    data = rows()
    ids = np.array([f"{'scan_2024_of_a_patient_' * 9}{k}.png" for k in range(len(data.train))], dtype=object)
    named = replace(data, train=replace(data.train, ids=ids))
    start(named, tiny(steps=2), out=tmp_path / "run")
    file = report.write([tmp_path / "run"], tmp_path / "report.html", data=named)
    page, _ = show(browser, file, viewport={"width": 360, "height": 740}, is_mobile=True)
    assert page.locator(".where").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.context.close()
