"""Coefficients of Vmin in the shifts of transistors that age, margin by margin, by ngspice.

    python scripts/spice/derive.py [--card FILE] [--out FILE] [--quick]

Writes ``coefficients.json`` beside this file (or FILE) and prints it as tables: of each margin of a
6T and of an 8T cell, and how the Vmin of both cells differ as manufactured. ``--card`` takes
another BSIM4 card with models ``nmos`` and ``pmos``; ``--quick`` computes the first variant of each
cell alone. See README.md for the method.
"""

import argparse
import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cells_compared import compared
from half_cell import CARD, Process, Widths, simulator_version
from margins import ACCESS, CELL, CELL_8T, KINDS, TRANSISTORS, vmins
from scipy.special import ndtr
from weak_cells import WeakCell, weak_cell

OUT = Path(__file__).with_name("coefficients.json")
AGING = {"6t": ("T0", "T1", "N0", "N1"), "8t": ("T0", "T1", "N0", "N1", "R0")}
FAR = (0.02, 0.04, 0.06)
"""Shifts in volts at which linearity is looked at."""

LEAST_SLOPE = 0.1
"""V/V above which a load is said to raise Vmin."""

PELGROM_MV_UM = 2.0
"""Mismatch of two transistors of 1 square micrometre, mV (assumed; 2 to 3 are usual at 45 nm)."""


FRACTION = 0.25
"""Read current for which the clock leaves time, as a fraction of that of the cell without mismatch
(assumed): a clock that leaves less time would show as more faults of 6T cells than are published.
"""

EVERY = (*KINDS, ACCESS)


@dataclass(frozen=True)
class Variant:
    """What is varied: the cell, the supply at which it just fails, temperature and clock."""

    name: str
    vdd: float = 0.419
    widths: Widths = CELL
    celsius: float = 80.0
    fraction: float = FRACTION
    kinds: Sequence[str] = EVERY


OF_SUPPLY = (
    Variant("reference"),
    Variant("0.371 V", vdd=0.371),
    Variant("0.497 V", vdd=0.497),
    Variant("0.6 V", vdd=0.6),
    Variant("27 C", celsius=27.0),
)

OF_CLOCK = (
    Variant("half of the current", fraction=0.5, kinds=(ACCESS,)),
    Variant("a tenth of the current", fraction=0.1, kinds=(ACCESS,)),
)

VARIANTS = (
    *OF_SUPPLY[:4],
    Variant("pull-down 120 nm", widths=Widths(pull_down=120.0)),
    Variant("pull-down 180 nm", widths=Widths(pull_down=180.0)),
    Variant("access 75 nm", widths=Widths(access=75.0)),
    Variant("access 110 nm", widths=Widths(access=110.0)),
    Variant("pull-up 90 nm", widths=Widths(pull_up=90.0)),
    OF_SUPPLY[4],
    *OF_CLOCK,
)

OF_CORE = ("write", "hold")

VARIANTS_8T = (
    Variant("reference", widths=CELL_8T),
    *(replace(variant, widths=CELL_8T, kinds=(*OF_CORE, ACCESS)) for variant in OF_SUPPLY[1:]),
    *(replace(variant, widths=CELL_8T) for variant in OF_CLOCK),
    Variant("core of the 6T cell", widths=replace(CELL, port=CELL_8T.port), kinds=OF_CORE),
    Variant("port 100 nm", widths=replace(CELL_8T, port=100.0), kinds=(ACCESS,)),
    Variant("port 200 nm", widths=replace(CELL_8T, port=200.0), kinds=(ACCESS,)),
)
"""A read port and a clock leave the margins of the core as they are. The margin ``read`` of the
reference is that of a core whose write word line is on while its column is not written."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--card", type=Path, default=CARD)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    variants = [
        variant
        for of_cell in (VARIANTS, VARIANTS_8T)
        for variant in (of_cell[:1] if given.quick else of_cell)
    ]
    jobs = [(variant, kind) for variant in variants for kind in variant.kinds]
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda job: row(*job, given.card), jobs))
    result = {
        "simulator": simulator_version(),
        "card": given.card.name,
        "card_sha256": hashlib.sha256(given.card.read_bytes()).hexdigest(),
        "pelgrom_mv_um": PELGROM_MV_UM,
        "unit": "V/V",
        "rows": rows,
        "compared": compared(rows),
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    columns = AGING["8t"]
    print(f"| cell | variant | margin | {' | '.join(columns)} | beta | sigma, mV |")
    print("|---|---|---|" + "---|" * (len(columns) + 2))
    for each in rows:
        numbers = [each["coefficients"].get(name) for name in columns]
        shown = " | ".join("" if number is None else f"{number:.2f}" for number in numbers)
        name = f"{each['cell']} | {each['variant']} | {each['margin']}"
        print(f"| {name} | {shown} | {each['beta']:.2f} | {each['sigma_mv']:.0f} |")
    for each in rows:
        if errors := each["linearity_error_mv"]:
            print(f"{each['margin']}: largest deviation from the line, mV: {errors}")
    for each in result["compared"]:
        print(each)


def row(variant: Variant, kind: str, card: Path) -> dict[str, Any]:
    """One margin of one variant, as it stands in the file."""
    process = Process(card, variant.celsius)
    fraction, cell = variant.fraction, variant.widths.cell
    weak = weak_cell(kind, variant.vdd, variant.widths, PELGROM_MV_UM, process, fraction)
    slopes = dict(zip(TRANSISTORS, weak.slopes, strict=False))
    first = variant in (VARIANTS[0], VARIANTS_8T[0])
    errors = linearity_errors(weak, slopes, process) if first else {}
    # The port of an 8T cell reads one of the values.
    values = 1 if kind == ACCESS and cell == "8t" else 2
    widths = {name: width for name, width in vars(variant.widths).items() if width}
    return {
        "cell": cell,
        "variant": variant.name,
        "margin": kind,
        "vdd_volts": variant.vdd,
        "widths_nm": widths,
        "celsius": variant.celsius,
        **({"fraction_of_current": fraction} if kind == ACCESS else {}),
        "coefficients": {name: round(float(slopes[name]), 3) for name in AGING[cell]},
        "linearity_error_mv": {name: round(error, 2) for name, error in errors.items()},
        "beta": round(weak.beta, 3),
        "sigma_mv": round(1e3 * weak.sigma_volts, 2),
        "share_of_cells": float(f"{values * ndtr(-weak.beta):.3g}"),
        "mismatch_mv": [round(1e3 * float(shift), 1) for shift in weak.shifts],
    }


def linearity_errors(
    weak: WeakCell, slopes: dict[str, float], process: Process
) -> dict[str, float]:
    """Largest deviation of Vmin from the line in mV, up to 60 mV: of a shift, and of two together.

    Only loads that raise Vmin are looked at: a margin that aging improves decides nothing.
    """
    aging = AGING[weak.widths.cell]
    loads = {**{name: (name,) for name in aging}, "T0+N0": ("T0", "N0"), "all": aging}
    loads = {
        load: names
        for load, names in loads.items()
        if sum(slopes[name] for name in names) > LEAST_SLOPE
    }
    jobs = [(load, names, far) for load, names in loads.items() for far in FAR]
    if not jobs:
        return {}
    cells = [weak.aged(dict.fromkeys(names, far)) for _, names, far in jobs]
    lines = np.array([weak.vdd + far * sum(slopes[n] for n in names) for _, names, far in jobs])
    found = vmins(cells, lines, 0.04, process)
    errors = dict.fromkeys(loads, 0.0)
    for (load, _, _), vmin, line in zip(jobs, found, lines, strict=True):
        errors[load] = max(errors[load], 1e3 * abs(float(vmin - line)))
    return errors


if __name__ == "__main__":
    main()
