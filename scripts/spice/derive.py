"""Coefficients of read, write and hold Vmin in the shifts of four transistors, by ngspice.

    python scripts/spice/derive.py [--card FILE] [--out FILE] [--quick]

Writes ``coefficients.json`` beside this file (or FILE) and prints it as a table. ``--card`` takes
another BSIM4 card with models ``nmos`` and ``pmos``; ``--quick`` computes the first row of each
margin alone. See README.md for the method.
"""

import argparse
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from half_cell import CARD, Process, Widths, simulator_version
from margins import CELL, KINDS, TRANSISTORS, vmins
from scipy.special import ndtr
from weak_cells import WeakCell, weak_cell

OUT = Path(__file__).with_name("coefficients.json")
AGING = ("T0", "T1", "N0", "N1")
FAR = (0.02, 0.04, 0.06)
"""Shifts in volts at which linearity is looked at."""

LEAST_SLOPE = 0.1
"""V/V above which a load is said to raise Vmin."""

PELGROM_MV_UM = 2.0
"""Mismatch of two transistors of 1 square micrometre, mV (assumed; 2 to 3 are usual at 45 nm)."""


@dataclass(frozen=True)
class Variant:
    """What is varied: the cell, the supply at which it just fails, and the temperature."""

    name: str
    vdd: float = 0.419
    widths: Widths = CELL
    celsius: float = 80.0


VARIANTS = (
    Variant("reference"),
    Variant("0.371 V", vdd=0.371),
    Variant("0.497 V", vdd=0.497),
    Variant("0.6 V", vdd=0.6),
    Variant("pull-down 120 nm", widths=Widths(pull_down=120.0)),
    Variant("pull-down 180 nm", widths=Widths(pull_down=180.0)),
    Variant("access 75 nm", widths=Widths(access=75.0)),
    Variant("access 110 nm", widths=Widths(access=110.0)),
    Variant("pull-up 90 nm", widths=Widths(pull_up=90.0)),
    Variant("27 C", celsius=27.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--card", type=Path, default=CARD)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    variants = VARIANTS[:1] if given.quick else VARIANTS
    jobs = [(variant, kind) for variant in variants for kind in KINDS]
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda job: row(*job, given.card), jobs))
    result = {
        "simulator": simulator_version(),
        "card": given.card.name,
        "card_sha256": hashlib.sha256(given.card.read_bytes()).hexdigest(),
        "pelgrom_mv_um": PELGROM_MV_UM,
        "unit": "V/V",
        "rows": rows,
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print("| variant | margin | T0 | T1 | N0 | N1 | beta |\n|---|---|" + "---|" * 5)
    for each in rows:
        numbers = " | ".join(f"{each['coefficients'][name]:.2f}" for name in AGING)
        print(f"| {each['variant']} | {each['margin']} | {numbers} | {each['beta']:.2f} |")
    for each in rows:
        if errors := each["linearity_error_mv"]:
            print(f"{each['margin']}: largest deviation from the line, mV: {errors}")


def row(variant: Variant, kind: str, card: Path) -> dict[str, Any]:
    """One margin of one variant, as it stands in the file."""
    process = Process(card, variant.celsius)
    weak = weak_cell(kind, variant.vdd, variant.widths, PELGROM_MV_UM, process)
    slopes = dict(zip(TRANSISTORS, weak.slopes, strict=True))
    errors = linearity_errors(weak, slopes, process) if variant == VARIANTS[0] else {}
    return {
        "variant": variant.name,
        "margin": kind,
        "vdd_volts": variant.vdd,
        "widths_nm": asdict(variant.widths),
        "celsius": variant.celsius,
        "coefficients": {name: round(float(slopes[name]), 3) for name in AGING},
        "linearity_error_mv": {name: round(error, 2) for name, error in errors.items()},
        "beta": round(weak.beta, 3),
        "share_of_cells": float(f"{2 * ndtr(-weak.beta):.3g}"),
        "mismatch_mv": [round(1e3 * float(shift), 1) for shift in weak.shifts],
    }


def linearity_errors(
    weak: WeakCell, slopes: dict[str, float], process: Process
) -> dict[str, float]:
    """Largest deviation of Vmin from the line in mV, up to 60 mV: of a shift, and of two together.

    Only loads that raise Vmin are looked at: a margin that aging improves decides nothing.
    """
    loads = {**{name: (name,) for name in AGING}, "T0+N0": ("T0", "N0"), "all": AGING}
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
