"""The page of a report in a real browser: what readers see, do and hear, and that none fetches."""

import shutil

import fake_campaign
import numpy as np
import pytest
from sweep_cases import small_spec

from mcage.lifetime import EndCause
from mcage.plain_text import visible
from mcage.report import folder as report_folder
from mcage.report.folder import PAGE, write_report

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright to run a browser with")

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>\x1b"
"""A name that takes the page over if it is not escaped."""

SHOWN = visible(EVIL)

INSTANCES = 40
DESKTOP = {"width": 1280, "height": 900}


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium to open pages with")


def write_sweep(path):
    """Three cases: one that never works, one that dies, one that outlives the horizon."""
    techniques = ("baseline", EVIL, "rrcd")
    cases = tuple(
        case
        | {"technique": technique, "case": case["case"].replace(case["technique"], technique, 1)}
        for case, technique in zip(fake_campaign.CAMPAIGN.cases, techniques, strict=True)
    )

    def lived(arrays):
        arrays["life_years"][0], arrays["end_cause"][0] = 0.0, EndCause.FAULTY_ENTRY
        arrays["life_years"][2], arrays["end_cause"][2] = 10.0, EndCause.CENSORED
        for variable in fake_campaign.CAMPAIGN.variables:
            if variable.missing and variable.dims[:2] == ("case", "instance"):
                arrays[variable.name][0] = np.nan
        return arrays | {"draw": np.arange(INSTANCES) % 2}

    fake_campaign.write(
        path,
        (INSTANCES,),
        change=lived,
        cases=cases,
        spec_toml=small_spec(techniques=list(techniques)).to_toml(),
        caveats=(f"a trace of {EVIL}",),
        draws=(("life.temperature_kelvin", "K", (340.0, 350.0)),),
    )


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
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
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

    def open_page(**options):
        page = browser.new_page(viewport=DESKTOP, **options) if options else desktop
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
    assert "mcage sweep --engine numba r.toml --out r.h5" in page.locator("#repeat").inner_text()
    assert "@software{mcage" in page.locator("#cite").inner_text()
    assert "2 draws of constants" in page.locator("#t1-1 caption").inner_text()
    lines = (report / "table-2.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + page.locator("#t1-1 tbody tr").count() == 4


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


def lightness(page, selector, style):
    """Mean of red, green and blue, 0 to 255, of a style of an element."""
    colour = page.locator(selector).first.evaluate(f"part => getComputedStyle(part).{style}")
    return np.mean([float(part) for part in colour.split("(")[1].split(")")[0].split(",")[:3]])


@pytest.mark.slow
def test_print_has_all_content_and_no_controls(opened):
    page = opened(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert lightness(page, "body", "backgroundColor") > 240
    for control in ("nav", "form", "#theme", ".numbers"):
        assert not page.locator(control).first.is_visible()
    assert page.locator("#t1 tbody tr").count() == 3
    closed = page.locator("details:not([open]):not(.numbers)")
    assert closed.count() > 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert closed.count() == 0
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
