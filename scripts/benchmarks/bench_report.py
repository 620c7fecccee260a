"""How long a report takes to write, how large its page is, and how soon a browser has opened it.

    python scripts/benchmarks/bench_report.py RESULTS.h5 [--runs 5] [--json FILE]

Times are of `mcage report` as a process (wall-clock and processor time), and of its page in a
headless Chromium, each time in a new context, as the browser's own clock tells them: until all is
parsed and the script has run (`interactive`), until everything is loaded (`loaded`), until the
second frame after loading (`rendered`), and, each by itself, what sorting the table, choosing one
of its techniques and pointing at the first figure take until the next frame. Medians over the
runs.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2]))

FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
OPENED = f"""async () => {{
    await {FRAME};
    const rendered = performance.now();
    const [times] = performance.getEntriesByType("navigation");
    return {{
        interactive: times.domInteractive,
        loaded: times.loadEventEnd,
        rendered,
        elements: document.querySelectorAll("*").length,
    }};
}}"""
ACTS = {
    "sorted": "document.querySelectorAll('thead button')[3].click()",
    "filtered": """(() => {
        const select = document.querySelector("form.filters select");
        if (!select) return;
        select.selectedIndex = 1;
        select.dispatchEvent(new Event("input", { bubbles: true }));
    })()""",
    "pointed": """(() => {
        const plot = document.querySelector("figure .plot");
        const svg = plot.querySelector("svg").getBoundingClientRect();
        const at = { clientX: svg.x + svg.width / 4, clientY: svg.y + svg.height / 4 };
        plot.dispatchEvent(new PointerEvent("pointermove", { ...at, bubbles: true }));
    })()""",
}


def written(results, folder):
    """Wall-clock and processor time of writing a report, s."""
    began, before = time.perf_counter(), os.times()
    command = [sys.executable, "-m", "mcage", "report", str(results), "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    return {"wall_s": time.perf_counter() - began, "processor_s": spent}


def opened(browser, page_path):
    """Times until the page is open and has answered, ms."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(page_path.as_uri())
    times = page.evaluate(OPENED)
    for name, act in ACTS.items():
        took = f"async () => {{ const t = performance.now(); {act}; await {FRAME};"
        times[f"{name}_ms"] = page.evaluate(f"{took} return performance.now() - t; }}")
    context.close()
    return times


def medians(runs):
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place) / "report"
        report = written(given.results.resolve(), folder)
        page = folder / "index.html"
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        times = medians([opened(browser, page) for _ in range(given.runs)])
        browser.close()
        measured = {"report": report, "page_bytes": page.stat().st_size, "page_ms": times}
    print(json.dumps(measured, indent=2))
    if given.json:
        given.json.write_text(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
