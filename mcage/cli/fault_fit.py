"""``mcage faults --fit``: the constants of Vmin that counts of faulty bits make likely."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mcage.cli.fault_options import MapOptions, ModelOptions
from mcage.errors import UserError

if TYPE_CHECKING:
    from mcage.geometry import SliceGeometry
    from mcage.stats.estimates import Estimate
    from mcage.variation.fitting import FaultCounts, FittedVmin, Prediction
    from mcage.variation.scenarios import Scenario

SHIPPED = "shipped"
"""In place of a file: the counts to which scenario measured is fitted."""

THIRD = 1 / 3
"""Share of faulty entries at which the scenarios run."""

NAMES = {
    "mu": "mu, mean of Vmin",
    "between": "sigma between arrays",
    "within": "sigma inside an array",
    "total": "sigma of a cell, in all",
}


def fit_counts(
    path: str, left_out: list[float], options: ModelOptions, which: MapOptions, as_json: bool
) -> None:
    """Fit the constants to the counts of a file, and print them.

    Raises
    ------
    UserError
        The counts cannot be read or fitted, or options are given that a fit has no use for.
    """
    from mcage.geometry import preset
    from mcage.variation.fitting import fit_vmin, read_counts, shipped_counts

    _refuse_others(options, which)
    counts = shipped_counts() if path == SHIPPED else read_counts(Path(path))
    fitted = fit_vmin(counts, tuple(left_out), seed=which.seed)
    usage = _usage(counts, fitted, preset(options.geometry))
    if as_json:
        typer.echo(json.dumps(_facts(counts, fitted) | usage))
    else:
        _print(counts, fitted, usage)


def _refuse_others(options: ModelOptions, which: MapOptions) -> None:
    """Refuse options of a map: a fit draws none."""
    plain = vars(ModelOptions()) | vars(MapOptions())
    for key, value in (vars(options) | vars(which)).items():
        if key not in ("geometry", "seed") and value != plain[key]:
            raise UserError(
                f"--{key.replace('_', '-')}: a fit draws no map and has no use for it; leave it out"
            )


def _usage(
    counts: "FaultCounts", fitted: "FittedVmin", geometry: "SliceGeometry"
) -> dict[str, Any]:
    """Options and keys that make slices of the fitted constants."""
    between = fitted.between.value if fitted.between else 0.0
    within = fitted.within.value if fitted.within else fitted.total.value
    arrays = _arrays(counts, geometry) if fitted.between else "none"
    values: dict[str, Any] = {
        "mu_volts": round(fitted.mu.value, 4),
        "sigma_systematic_volts": round(between, 4),
        "sigma_random_volts": round(within, 4),
    }
    options = {
        "--mu": "mu_volts",
        "--sigma-systematic": "sigma_systematic_volts",
        "--sigma-random": "sigma_random_volts",
    }
    vdd_volts = _third_volts(values, arrays, geometry)
    words = [f"{option} {values[key]:g}" for option, key in options.items()]
    keys = [f"{key} = {value:g}" for key, value in values.items()]
    return {
        "options": " ".join(
            ["--scenario measured", *words, f"--arrays {arrays}", f"--vdd {vdd_volts:g}"]
        ),
        "keys": ", ".join([*keys, f'arrays = "{arrays}"']),
        "third_faulty_volts": vdd_volts,
    }


def _arrays(counts: "FaultCounts", geometry: "SliceGeometry") -> str:
    """Size of arrays of about as many bits as were counted in each, as square as can be."""
    bits = counts.bits / counts.arrays
    sizes = [
        (entries, columns)
        for entries in _divisors(geometry.entries)
        for columns in _divisors(geometry.entry_bits)
    ]

    def distance(size: tuple[int, int]) -> tuple[float, float, int]:
        entries, columns = size
        off = abs(math.log(entries * columns / bits))
        return round(off, 9), abs(math.log(entries / columns)), entries

    entries, columns = min(sizes, key=distance)
    return f"{entries}x{columns}"


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def _third_volts(values: dict[str, Any], arrays: str, geometry: "SliceGeometry") -> float:
    """Vdd at which a third of the entries of a slice is faulty, to the millivolt."""
    from bisect import bisect_left

    from mcage.variation.expected import expected_classes
    from mcage.variation.fault_models import fault_model

    scenario: Scenario = fault_model(
        "measured", geometry=geometry, arrays=arrays, **values
    ).scenario
    millivolts = range(1, 2001)
    place = bisect_left(
        millivolts,
        -THIRD,
        key=lambda mv: -float(expected_classes(scenario, mv / 1000)[2:].sum()),
    )
    return millivolts[min(place, len(millivolts) - 1)] / 1000


def _facts(counts: "FaultCounts", fitted: "FittedVmin") -> dict[str, Any]:
    """The fit as plain values; a number that is unknown is None."""
    return {
        "counts": counts.name,
        "arrays": counts.arrays or None,
        "bits": counts.bits,
        "mended_counts": counts.mended,
        "likelihood": "exact" if fitted.exact else "composite",
        **{
            f"{key}_volts": _numbers(getattr(fitted, key))
            for key in NAMES
            if getattr(fitted, key) is not None
        },
        "predictions": [
            {
                "volts": prediction.volts,
                "left_out": prediction.left_out,
                "counted": int(faulty),
                "faulty_bits": _numbers(prediction.faulty),
                "faultless_arrays": _numbers(prediction.faultless),
            }
            for prediction, faulty in zip(fitted.predictions, counts.faulty, strict=True)
        ],
    }


def _numbers(estimate: "Estimate") -> dict[str, float] | None:
    return None if math.isnan(estimate.value) else vars(estimate)


def _print(counts: "FaultCounts", fitted: "FittedVmin", usage: dict[str, Any]) -> None:
    from mcage.report.console import PlainConsole

    console = PlainConsole()
    arrays = f", {counts.arrays:,} arrays" if counts.arrays else ""
    console.print(
        f"{counts.name}: {len(counts.volts)} voltages, {counts.bits:,} bits{arrays}\n",
        *(f"{line}\n" for line in _caveats(counts, fitted)),
        sep="",
        soft_wrap=True,
    )
    console.print(_constants_table(fitted))
    console.print(_counts_table(counts, fitted.predictions))
    console.print(
        f"to use it: {usage['options']} (of mcage sweep and mcage faults), or in a spec "
        f"[faults] {usage['keys']}; at {usage['third_faulty_volts']:g} V a third of the entries "
        "is faulty",
        soft_wrap=True,
    )


def _caveats(counts: "FaultCounts", fitted: "FittedVmin") -> list[str]:
    """What the counts can tell, how intervals are made, and how far the tail is extrapolated."""
    if fitted.between is None:
        lines = [
            "only mu and the deviation of a cell can be told from these counts: counts of ten "
            "arrays or more (column array), or of arrays without a fault (faultless_arrays), would "
            "tell arrays from cells; without, intervals are too narrow if faults lie in patches"
        ]
    elif fitted.exact:
        lines = ["counts of each array: all three constants can be told; exact likelihood"]
    else:
        lines = [
            "totals, and arrays without a fault: all three constants can be told; composite "
            "likelihood"
        ]
    lines.append("95 % intervals: percentiles of a parametric bootstrap of 200 samples")
    if counts.mended:
        lines.append(
            f"{counts.mended} counts fall with the voltage; the largest so far stands for them"
        )
    share = counts.faulty[-1] / counts.bits
    lines.append(
        f"at most {share:.1e} of the bits are faulty: what follows for more is extrapolated"
    )
    return lines


def _constants_table(fitted: "FittedVmin") -> Any:
    from mcage.report.console import plain_table

    table = plain_table("constant, mV")
    for name in ("value", "95 % interval"):
        table.add_column(name, justify="right")
    for key, label in NAMES.items():
        estimate = getattr(fitted, key)
        if estimate is not None:
            lower, upper = 1000 * estimate.lower, 1000 * estimate.upper
            table.add_row(label, f"{1000 * estimate.value:.1f}", f"{lower:.1f}–{upper:.1f}")
    return table


def _counts_table(counts: "FaultCounts", predictions: "tuple[Prediction, ...]") -> Any:
    from mcage.report.console import plain_table

    table = plain_table("V")
    headings = ["faulty", "expected", "95 %"]
    with_arrays = not math.isnan(predictions[0].faultless.value)
    if with_arrays:
        headings += ["without a fault", "expected", "95 %"]
    for name in headings:
        table.add_column(name, justify="right")
    for place, prediction in enumerate(predictions):
        mark = " (left out)" if prediction.left_out else ""
        cells = [str(counts.faulty[place]), *_expected(prediction.faulty)]
        if with_arrays:
            known = counts.faultless[place]
            cells += [str(known) if known >= 0 else "", *_expected(prediction.faultless)]
        table.add_row(f"{prediction.volts:g}{mark}", *cells)
    return table


def _expected(estimate: "Estimate") -> tuple[str, str]:
    return f"{estimate.value:.1f}", f"{estimate.lower:.0f}–{estimate.upper:.0f}"
