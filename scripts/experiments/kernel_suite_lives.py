"""How much do lives and Vmin depend on the suite of kernels and on the slice? Tables of a page.

    python scripts/experiments/kernel_suite_lives.py FOLDER [--instances 300] [--dies 200] [--page]

Computes what is not in the folder yet: for each suite on a slice `sweep-SUITE-SLICE.h5` by
`mcage sweep` and `vmin-SUITE-SLICE.h5` by `mcage vmin`, half a minute to two minutes each. Writes
`results/kernel-suites/lives.csv` and `vmin.csv`, which hold what `mcage show --csv` prints, and
with `--page` the tables of docs/kernels-today.md.
"""

import argparse
import csv
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

from doc_tables import bring_up_to_date, markdown
from kernel_suites import PAGE, ROOT, Rows, write_csv

CASES = (
    *(("sdk-2011", "gcn"), ("modern", "gcn"), ("all", "gcn")),
    *(("modern", "cdna2"), ("modern", "rdna3")),
)
TECHNIQUES = ("baseline", "rc+rar", "rrcd", "rrcd+rc+rar")


def computed(folder: Path, study: str, suite: str, geometry: str, instances: int) -> Rows:
    """The lines of a study, which is computed unless its file is there."""
    file = folder / f"{study}-{suite}-{geometry}.h5"
    mcage = [sys.executable, "-m", "mcage"]
    if not file.exists():
        options = ["--suite", suite, "--geometry", geometry, "--instances", str(instances)]
        options += [part for name in TECHNIQUES for part in ("--technique", name)]
        subprocess.run([*mcage, study, *options, "--out", str(file)], check=True)
    shown = subprocess.run(
        [*mcage, "show", str(file), "--csv"], check=True, capture_output=True, text=True
    )
    return [
        {"suite": suite, "slice": geometry} | row for row in csv.DictReader(shown.stdout.split("\n"))
    ]


def percent(row: dict[str, str], key: str, digits: int = 0) -> str:
    return f"{100 * float(row[key]):.{digits}f}"


def worked(row: dict[str, str], text: str) -> str:
    """A mean over slices that worked, in brackets where fewer than half of them did."""
    return text if float(row["dead_on_arrival"]) < 0.5 else f"({text})"


def lives_table(rows: Rows) -> str:
    """One line for each technique, environment, suite and slice."""
    lines = []
    for row in sorted(rows, key=_place):
        low = "" if row["environment"] == "turbo" else f" 0.8/{float(row['vdd_volts']):.3f} V"
        lines.append(
            [
                f"`{row['technique']}`",
                row["environment"] + low,
                row["suite"],
                row["slice"],
                percent(row, "censored_share"),
                _years(row["rmst_years"]),
                worked(row, f"{float(row['max_dvth_t0_mv']):.1f}"),
                worked(row, percent(row, "slowdown", 1)),
                percent(row, "dead_on_arrival"),
                percent(row, "ended_by_too_slow"),
            ]
        )
    return markdown(
        [
            *("technique", "environment", "suite", "slice", "reach ten years, %", "RMST, years"),
            *("ΔVth T0, mV", "slowdown, %", "dead on arrival, %", "end too slow, %"),
        ],
        lines,
    )


def _place(row: dict[str, str]) -> tuple[bool, float, int]:
    return (
        row["environment"] != "turbo",
        -float(row["vdd_volts"]),
        TECHNIQUES.index(row["technique"]),
    )


def _years(text: str) -> str:
    return "10" if float(text) > 10 else f"{float(text):.1f}"


def vmin_table(rows: Rows) -> str:
    raise NotImplementedError


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--instances", type=int, default=300)
    parser.add_argument("--dies", type=int, default=200)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "kernel-suites")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    lives, vmin = [], []
    for suite, geometry in CASES:
        lives += computed(options.folder, "sweep", suite, geometry, options.instances)
        vmin += computed(options.folder, "vmin", suite, geometry, options.dies)
    write_csv(options.out / "lives.csv", lives)
    write_csv(options.out / "vmin.csv", vmin)
    texts = {"lives": lives_table(lives), "vmin": vmin_table(vmin)}
    print("\n".join(texts.values()))
    if options.page:
        bring_up_to_date(PAGE, texts)


if __name__ == "__main__":
    main()
