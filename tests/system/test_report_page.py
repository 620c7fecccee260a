"""The page of a report in a real browser: what readers see, do and hear, and that none fetches."""

import csv
import shutil

import fake_campaign
import numpy as np
import pytest
from matplotlib.image import imread
from sweep_cases import small_spec

from mcage.lifetime import EndCause
from mcage.plain_text import visible
from mcage.report import folder as report_folder
from mcage.report.folder import PAGE, write_report
from mcage.report.page import StudySection, page_of
from mcage.report.presentation import Summary
from mcage.results.writer import conforming, write_results
from mcage.stats.estimates import Estimate
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.presentation import SweepPresentation
from mcage.studies.sweep.tables import table_of

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright to run a browser with")

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>\x1b"
"""A name that takes the page over if it is not escaped."""

SHOWN = visible(EVIL)

INSTANCES = 40
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 900}


def chromium_path():
    """Chromium of the system; empty where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or ""


pytestmark = pytest.mark.skipif(not chromium_path(), reason="no chromium to open pages with")


def write_sweep(path):
    """Three cases: one that never works, one that dies, one that outlives the horizon."""
    techniques = ("baseline", EVIL, "rrcd")
    cases = tuple(
        case
        | {"technique": technique, "case": case["case"].replace(case["technique"], technique, 1)}
        for case, technique in zip(fake_campaign.CAMPAIGN.cases, techniques, strict=True)
    )
    header = fake_campaign.campaign(
        instances=INSTANCES,
        cases=cases,
        spec_toml=small_spec(techniques=list(techniques)).to_toml(),
        caveats=(f"a trace of {EVIL}",),
        draws=(("life.temperature_kelvin", "K", (340.0, 350.0)),),
    )
    arrays = fake_campaign.compute(0, INSTANCES) | {"draw": np.arange(INSTANCES) % 2}
    arrays["life_years"][0], arrays["end_cause"][0] = 0.0, EndCause.FAULTY_ENTRY
    arrays["life_years"][2], arrays["end_cause"][2] = 10.0, EndCause.CENSORED
    for variable in header.variables:
        if variable.missing and variable.dims[:2] == ("case", "instance"):
            arrays[variable.name][0] = np.nan
    write_results(path, header, [conforming(header, arrays, INSTANCES)])


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The folder of a report, without figures as files, which take longest."""
    folder = tmp_path_factory.mktemp("report")
    write_sweep(folder / "r.h5")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_folder, "FORMATS", ())
        write_report([folder / "r.h5"], folder / "report")
    return folder / "report"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def desktop(browser):
    """A page that tests load anew, one after the other: another page takes longest to make."""
    page = browser.new_page(viewport=DESKTOP)
    yield page
    page.close()


@pytest.fixture
def opened(browser, desktop, report):
    """Opens the page; its console must stay silent, and it must ask for nothing."""
    pages, said, asked = [], [], []
    heard = {
        "console": lambda message: said.append(message.text),
        "pageerror": lambda error: said.append(str(error)),
        "dialog": lambda dialog: said.append(dialog.message),
        "request": lambda request: asked.append(request.url),
    }

    def open_page(viewport=DESKTOP, **options):
        special = options or viewport != DESKTOP
        page = browser.new_page(viewport=viewport, **options) if special else desktop
        pages.append(page)
        for event, hear in heard.items():
            page.on(event, hear)
        page.goto((report / PAGE).as_uri())
        return page

    yield open_page
    for page in pages:
        for event, hear in heard.items():
            page.remove_listener(event, hear)
        if page is not desktop:
            page.close()
    assert not said
    assert asked == [(report / PAGE).as_uri()] * len(pages)


def column(page, heading):
    """Texts of a column of the table, in the order of the page."""
    place = [name.split("\n")[0] for name in page.locator("#t1 thead button").all_inner_texts()]
    cells = page.locator(f"#t1 tbody tr:visible > :nth-child({place.index(heading) + 1})")
    return cells.all_inner_texts()


def test_names_of_a_file_stay_words_and_all_its_tables_are_there(opened, report):
    page = opened()
    assert page.title() == "r.h5 – mcage report"
    assert SHOWN in column(page, "technique")
    assert page.locator("img").count() == 0
    assert page.locator("script:not([type])").count() == 1
    assert f"a trace of {SHOWN}" in page.locator(".note").first.inner_text()
    assert "2 draws of constants" in page.locator("#t1-1 caption").inner_text()
    lines = (report / "table-2.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + page.locator("#t1-1 tbody tr").count() == 4


@pytest.mark.slow
def test_the_page_can_be_read_without_a_script(browser, report):
    page = browser.new_page(java_script_enabled=False)
    page.goto((report / PAGE).as_uri())
    assert page.locator("#t1 tbody tr").count() == 3
    assert page.locator("figure svg").first.is_visible()
    assert not page.locator("form").is_visible()
    assert not page.locator("#theme").is_visible()
    page.close()


@pytest.mark.slow
def test_the_summary_says_what_lives_and_on_what_it_rests(opened):
    page = opened()
    words = page.locator("#summary").inner_text()
    assert "The lives of 40 register-file slices in 3 cases" in words
    assert "turbo common 1 V:" in words
    assert "die of a faulty entry with baseline (100 %)" in words
    assert "rrcd" in words
    for term in ("Aging", "End of life", "Faults", "Workload", "Left out", "Intervals"):
        assert page.locator("#summary dt", has_text=term).count() == 1
    assert "mcage sweep --engine numba r.toml --out r.h5" in page.locator("#repeat").inner_text()
    assert "@software{mcage" in page.locator("#cite").inner_text()


@pytest.mark.slow
def test_columns_sort_by_their_numbers(opened):
    page = opened()
    head = page.locator("#t1 thead th", has_text="median life")
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").click()
    rising = column(page, "median life")
    assert rising[0].startswith("0.00")
    assert rising[-1] == "> 10"
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator("button").press("Enter")
    assert column(page, "median life") == rising[::-1]
    assert head.get_attribute("aria-sort") == "descending"
    of_dash = page.locator("#t1 thead th button", has_text="dVth T0")
    for _ in range(4):  # what nobody knows is last both ways, whatever the order before
        page.locator("#t1 thead th button", has_text="technique").click()
        of_dash.click()
        assert column(page, "dVth T0")[-1] == "–"
        of_dash.click()
        assert column(page, "dVth T0")[-1] == "–"
    assert page.locator("#t1 [aria-sort=ascending], #t1 [aria-sort=descending]").count() == 1


@pytest.mark.slow
def test_the_filter_hides_rows_and_curves(opened):
    page = opened()
    said = page.locator("#t1 output")
    assert said.inner_text() == "3 of 3 cases"
    curves = page.locator("#f0-survival-1-1, #f0-survival-2-1")
    before = curves.count()
    page.get_by_label("Filter by text").fill("RRCD dvfs")
    assert said.inner_text() == "1 of 3 cases"
    assert column(page, "technique") == ["rrcd"]
    page.locator("figure").first.scroll_into_view_if_needed()
    assert page.locator("figure .off").count() > 0
    page.get_by_role("button", name="Show all").click()
    sync_api.expect(said).to_have_text("3 of 3 cases")  # the form is emptied after the event
    assert page.locator("figure .off").count() == 0
    page.get_by_label("environment").select_option("turbo")
    assert said.inner_text() == "2 of 3 cases"
    page.get_by_label("technique").select_option("rrcd")
    assert said.inner_text() == "0 of 3 cases"
    assert before == curves.count()


def values_at(report, label, age):
    """What the CSV file of the survival curves says of a series at an age."""
    with (report / "survival.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["series"] == label]
    return [float(row["y"]) for row in rows if float(row["x"]) <= age][-1]


@pytest.mark.slow
def test_figures_answer_to_the_pointer(opened, report):
    page = opened()
    plot = page.locator("#figure-1-survival .plot")
    plot.scroll_into_view_if_needed()
    # What has not been seen yet is laid out when it is painted.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    box = plot.bounding_box()
    # A pointer comes from somewhere: browsers tell pages of it from its second move on.
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.35 * box["height"], steps=3)
    head = plot.locator(".readout strong").inner_text()
    age = float(head.split()[1])
    assert 0 < age < 10
    assert head.endswith("years")
    label, value = plot.locator(".readout .hot span, .readout .hot b").all_inner_texts()
    assert label == SHOWN
    assert float(value.split()[0]) == pytest.approx(values_at(report, SHOWN, age), rel=1e-3)
    assert plot.locator("svg .hot").count() > 0
    page.mouse.move(5, 5)
    assert not plot.locator(".readout").is_visible()
    assert plot.locator("svg .hot").count() == 0


@pytest.mark.slow
def test_figures_answer_to_the_keyboard(opened):
    page = opened()
    plot = page.locator("#figure-1-survival .plot")
    page.locator("#figures").scroll_into_view_if_needed()
    for _ in range(60):
        page.keyboard.press("Tab")
        if plot.evaluate("plot => plot === document.activeElement"):
            break
    voice = plot.locator("[aria-live]")
    first = voice.inner_text()
    assert SHOWN in first
    page.keyboard.press("ArrowRight")
    second = voice.inner_text()
    assert second != first
    page.keyboard.press("Home")
    assert " 0 years" in voice.inner_text()
    page.keyboard.press("PageDown")
    assert "rrcd 100" in voice.inner_text()
    page.keyboard.press("Escape")
    assert not plot.locator(".readout").is_visible()


@pytest.mark.slow
def test_figures_have_words_and_files(opened, report):
    assert (report / PAGE).stat().st_size < 1_000_000
    page = opened()
    figures = page.locator("figure")
    assert figures.count() >= 1
    for figure in figures.all():
        assert len(figure.locator("[role=img]").get_attribute("aria-label")) > 20
        assert len(figure.locator("figcaption").text_content()) > 40
    for link in page.locator("main a[href]:not([href^='#'])").all():
        assert (report / link.get_attribute("href")).is_file()
    details = page.locator("#figure-1-survival .numbers")
    details.locator("summary").click()
    details.locator("tbody tr").nth(5).wait_for()


@pytest.mark.slow
def test_a_phone_shows_all_without_scrolling_sideways(opened):
    page = opened(PHONE, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate(
        "[...document.querySelectorAll('main > section > *')]"
        ".every(part => part.getBoundingClientRect().right <= innerWidth + 1)"
    )
    box = page.locator("#t1 .box")
    box.evaluate("box => box.scrollLeft = 300")
    assert page.locator("#t1 tbody th").first.bounding_box()["x"] >= 0


@pytest.mark.slow
def test_every_number_of_the_table_is_seen_on_a_phone_and_on_a_desk(opened):
    for viewport in (DESKTOP, PHONE):
        page = opened(viewport)
        cells = page.locator("#t1 tbody td")
        edges = cells.evaluate_all("cells => cells.map(cell => cell.getBoundingClientRect().right)")
        assert max(edges) <= viewport["width"]
    # Where no heading stands above a number, its name stands beside it.
    names = "cells => cells.map(cell => getComputedStyle(cell, '::before').content)"
    assert cells.evaluate_all(names)[2:5] == ['"scenario"', '"Vdd"', '"B10 life [years]"']


def lightness(page, selector, style):
    """Mean of red, green and blue, 0 to 255, of a style of an element."""
    colour = page.locator(selector).first.evaluate(f"part => getComputedStyle(part).{style}")
    return np.mean([float(part) for part in colour.split("(")[1].split(")")[0].split(",")[:3]])


def shades(page, tmp_path):
    """Lightness, 0 to 255, of the background of a figure and of its ink, as they are seen."""
    picture = tmp_path / "figure.png"
    page.locator("#figure-1-survival svg").first.screenshot(path=picture)
    grey = 255 * imread(picture)[..., :3].mean(axis=-1)
    background = np.median(grey)
    return background, grey.ravel()[np.abs(grey - background).argmax()]


@pytest.mark.slow
def test_dark_pages_are_dark_and_figures_too(opened, tmp_path):
    page = opened(color_scheme="dark")
    assert lightness(page, "body", "backgroundColor") < 60
    assert lightness(page, "body", "color") > 180
    background, ink = shades(page, tmp_path)
    assert (background < 60, ink > 180) == (True, True)
    theme = page.locator("#theme")
    theme.click()
    assert lightness(page, "body", "backgroundColor") > 240
    background, ink = shades(page, tmp_path)
    assert (background > 240, ink < 60) == (True, True)


@pytest.mark.slow
def test_print_has_all_content_and_no_controls(opened):
    page = opened(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert lightness(page, "body", "backgroundColor") > 240
    for control in ("nav", "form", "#theme", ".numbers"):
        assert not page.locator(control).first.is_visible()
    assert page.locator("#t1 tbody tr").count() == 3
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".spec pre").is_visible()
    assert len(page.pdf()) > 10_000


@pytest.mark.slow
def test_no_barriers_that_axe_knows(opened):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = opened()
    for background in (255, 0):
        assert abs(lightness(page, "body", "backgroundColor") - background) < 60
        wrong = axe.run(page).response["violations"]
        assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in wrong] == []
        page.locator("#theme").click(click_count=2)


@pytest.mark.slow
def test_the_widest_table_of_a_sweep_fits_on_a_desk_or_shows_that_it_goes_on(
    browser, report, tmp_path
):
    known = SweepPresentation(SweepHeader).summarize_file(report.parent / "r.h5")[0]
    del known["by_draw"]  # whose table stands below
    wide = {n: Estimate(-0.1234, -0.14, -0.1) for n, of in known.items() if type(of) is Estimate}
    wide |= {name: Estimate(7.36, 6.45, 8.36) for name in ("b10_life_years", "median_life_years")}
    wide |= {"technique": "rrcd+rc+rar", "voltages": "0.8/0.45 V", "worked": 1}
    wide["end_cause_share"] = {
        cause: Estimate(share, share, share)
        for cause, share in zip(known["end_cause_share"], (0.25, 0.5, 0.05, 0, 0), strict=True)
    }
    lines = [
        Summary(known | wide | {"environment": of, "scenario": of, "file": f"{of[0]}.h5"})
        for of in ("undervolted", "dispersed")
    ]
    table = table_of(lines)
    assert len(table.shown) == 18
    study = StudySection("sweep", (), table, ("table.csv",), ("a", "b"), ())
    (tmp_path / "page.html").write_text(page_of([study]), encoding="utf-8")
    page = browser.new_page(viewport=DESKTOP)
    page.goto((tmp_path / "page.html").as_uri())
    box = page.locator("#t1 .box, .box").first
    assert box.evaluate("box => box.scrollWidth - box.clientWidth") == 0
    page.set_viewport_size({"width": 900, "height": 900})
    assert box.evaluate("box => box.scrollWidth - box.clientWidth") > 0
    assert "gradient" in box.evaluate("box => getComputedStyle(box).backgroundImage")
    page.close()
