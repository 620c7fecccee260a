"""How much do lives and Vmin depend on the suite of kernels and on the slice? Tables of a page.

Also which values RRCD takes for compressible by their first block, and which are not.

    python scripts/experiments/kernel_suite_lives.py FOLDER [--instances 300] [--dies 200] [--page]

Computes what is not in the folder yet: for each suite on a slice `sweep-SUITE-SLICE.h5` by
`mcage sweep`, `unlimited-SUITE-SLICE.h5` by the same without a limit of the slowdown, and
`vmin-SUITE-SLICE.h5` by `mcage vmin`, a few minutes each. Writes
`results/kernel-suites/lives.csv`, `unlimited.csv` and `vmin.csv`, which hold what `mcage show
--csv` prints, `guesses.csv`, and with `--page` the tables of results/kernel-suites/tables.md.
"""

import argparse
import csv
import subprocess
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import numpy as np
from doc_tables import bring_up_to_date, markdown
from kernel_suites import LIMIT, ROOT, SLOWED, TABLES, Rows, subjects_of, write_csv

import mcage
from mcage.replays.schedule import writes_of
from mcage.single_runs.replay import prepare
from mcage.traces.library import ApproximateTraceWarning

CASES = (
    *(("sdk-2011", "gcn"), ("modern", "gcn"), ("all", "gcn")),
    *(("modern", "cdna2"), ("modern", "rdna3")),
)
TECHNIQUES = ("baseline", "rc+rar", "rrcd", "rrcd+rc+rar")
REDIRECTING = ("rrcd", "rrcd+rc+rar")


def computed(
    folder: Path, name: str, suite: str, geometry: str, instances: int, *further: str
) -> Rows:
    """The lines of a study, which is computed unless its file is there."""
    file = folder / f"{name}-{suite}-{geometry}.h5"
    command = [sys.executable, "-m", "mcage"]
    study = "vmin" if name == "vmin" else "sweep"
    if not file.exists():
        options = ["--suite", suite, "--geometry", geometry, "--instances", str(instances)]
        used = REDIRECTING if name == "unlimited" else TECHNIQUES
        options += [part for technique in used for part in ("--technique", technique)]
        subprocess.run([*command, study, *options, *further, "--out", str(file)], check=True)
    shown = subprocess.run(
        [*command, "show", str(file), "--csv"], check=True, capture_output=True, text=True
    )
    return [
        {"suite": suite, "slice": geometry} | row
        for row in csv.DictReader(shown.stdout.split("\n"))
    ]


BETWEEN_VOLTS = 0.5
"""Between the low voltages of techniques that redirect and of others."""


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
                _energy(row.get("energy_saving_of_all")),
            ]
        )
    return markdown(
        [
            *("technique", "environment", "suite", "slice", "reach ten years, %", "RMST, years"),
            *("ΔVth T0, mV", "slowdown, %", "dead on arrival, %", "end too slow, %"),
            "energy saved by all, %",
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


def unlimited_table(rows: Rows) -> str:
    """The same slices, however slow they are."""
    lines = [
        [
            f"`{row['technique']}`",
            f"0.8/{float(row['vdd_volts']):.3f} V",
            *(row["suite"], row["slice"]),
            *(percent(row, "censored_share"), _years(row["rmst_years"])),
            *(percent(row, "slowdown", 1), percent(row, "dead_on_arrival")),
        ]
        for row in sorted(rows, key=_place)
        if row["environment"] != "turbo" and float(row["vdd_volts"]) < BETWEEN_VOLTS
    ]
    return markdown(
        [
            *("technique", "Vdd", "suite", "slice", "reach ten years, %", "RMST, years"),
            *("slowdown, %", "dead on arrival, %"),
        ],
        lines,
    )


def guesses() -> Rows:
    """Of kernels that are too slow by themselves: what RRCD takes for compressible and is not."""
    lines = []
    for subject in subjects_of(["modern@gcn", "modern@cdna2"]):
        if mcage.replay(subject.trace, SLOWED)["slowdown"]["total"][0] <= LIMIT:
            continue
        schedule = prepare(subject.played, mcage.technique("rrcd"), 64).schedule
        wrong = schedule.mispredicted
        used = subject.played.values[writes_of(subject.played).value[wrong]]
        lanes = used.view(np.uint32).reshape(len(used), -1)
        blocks = lanes.reshape(len(used), -1, subject.trace.geometry.block_components)
        equal = (blocks == blocks[:, :, :1]).all(axis=2)
        lines.append(
            {
                "suite": subject.suite,
                "kernel": subject.kernel,
                "wrong_share": wrong.mean(),
                "first_block_equal": equal[:, 0].mean(),
                "every_block_equal": equal.all(axis=1).mean(),
            }
        )
    return lines


def guesses_table(rows: Rows) -> str:
    keys = ("wrong_share", "first_block_equal", "every_block_equal")
    return markdown(
        [
            *("suite", "kernel", "writes that are taken for compressible and are not, %"),
            "of them: all lanes of the first block equal, %",
            "all lanes of a block equal, in every block, %",
        ],
        [[row["suite"], row["kernel"], *(percent(row, key) for key in keys)] for row in rows],
    )


def vmin_table(rows: Rows) -> str:
    """The Vdd at which half of the slices work, new and after ten years; where most do."""
    lines = []
    for row in sorted(rows, key=lambda row: TECHNIQUES.index(row["case"].split()[0])):
        lines.append(
            [
                f"`{row['case'].split()[0]}`",
                *(row["suite"], row["slice"]),
                *(_volts(row[name]) for name in ("median_new", "median_old", "most_old")),
                _known(row["drift_mv"]),
                _known(row["gain_mv"], 0),
                _known(row.get("energy_saved"), 0),
            ]
        )
    return markdown(
        [
            *("technique", "suite", "slice", "half work at, new, V", "after ten years, V"),
            *("99 % work at, after ten years, V", "drift, mV", "gain over `baseline`, mV"),
            "energy saved where 99 % work, %",
        ],
        lines,
    )


def _volts(text: str) -> str:
    return f"{float(text):.3f}" if text and np.isfinite(float(text)) else "none"


def _known(text: str | None, digits: int = 1) -> str:
    return f"{float(text):.{digits}f}" if text and np.isfinite(float(text)) else "–"


def _energy(text: str | None) -> str:
    known = text and np.isfinite(float(text))
    return f"{100 * float(text):.0f}" if known else "–"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--instances", type=int, default=300)
    parser.add_argument("--dies", type=int, default=200)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "kernel-suites")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ApproximateTraceWarning)
    lives, vmin, unlimited = [], [], []
    for suite, geometry in CASES:
        without = ("--slowdown-limit", "none")
        unlimited += computed(
            options.folder, "unlimited", suite, geometry, options.instances, *without
        )
        lives += computed(options.folder, "sweep", suite, geometry, options.instances)
        share = "--share", "0.99"
        vmin += computed(options.folder, "vmin", suite, geometry, options.dies, *share)
    write_csv(options.out / "lives.csv", lives)
    write_csv(options.out / "vmin.csv", vmin)
    write_csv(options.out / "unlimited.csv", unlimited)
    wrong = guesses()
    write_csv(options.out / "guesses.csv", wrong)
    texts = {
        "lives": lives_table(lives),
        "unlimited": unlimited_table(unlimited),
        "guesses": guesses_table(wrong),
        "vmin": vmin_table(vmin),
    }
    print("\n".join(texts.values()))
    if options.page:
        bring_up_to_date(TABLES, texts)


if __name__ == "__main__":
    main()
