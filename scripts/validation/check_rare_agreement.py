"""Do plain samples and rare events agree where both can see, and what does the weighting gain?

Cases whose chance of death is 1e-2 to 1e-4, once from plain slices and once weighted, with other
random numbers. Plain slices live as in a sweep (`tests/validation/test_rare_case.py` holds
them against one, die by die), but only up to the age that is asked about.

For techniques that cannot move data, the chance to be dead on arrival is also computed from
fields alone, without drawing a cell.

    python scripts/validation/check_rare_agreement.py           # some minutes on two cores
    python scripts/validation/check_rare_agreement.py --fields  # the last only
    python scripts/validation/check_rare_agreement.py --quick   # a tenth of the slices

Exits with 1 if two estimates differ by more than four standard errors.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

import numpy as np
from numpy.typing import NDArray
from rare_cases import dead_at_start

from mcage.concurrency import usable_cores
from mcage.engines import select_engine
from mcage.lifetime import EndCause
from mcage.methods.rare_events import failure_probability
from mcage.methods.rare_events.case import RareCase, rare_case
from mcage.spec import SweepSpec
from mcage.stats.estimates import wilson
from mcage.variation.vmin_tail import sample_tail

SIGMAS = 4.0
PLAIN_SEED, WEIGHTED_SEED = 101, 1
BATCH = 128
FIELDS, FIELD_SEED = 64 * BATCH, 5

DIFFERENT = {
    "life": {"temperature_kelvin": "normal(353.15, 8)"},
    "aging": {"shift_factor": "normal(1, 0.2)"},
    "faults": {"sigma_die_volts": 0.02},
}
"""Instances and dies that differ."""

MARGINS = {"aging": {"vmin_model": "margins", "pbti": 0.5}}
"""Cells fail by margins of reading, writing and holding, which pull-downs change, too."""

LATE = {
    "life": {"temperature_kelvin": "normal(333.15, 8)"},
    "aging": {"shift_factor": "normal(1, 0.1)", "vt0_volts": "normal(0.2, 0.01)"},
}
"""Instances of which a few are late at 1.0 V."""

BOTH = LATE | {
    "operating_points": {"both": [{"vdd_volts": 1.0, "share": 0.7}, {"vdd_volts": 0.6}]},
}
"""A high voltage at which delay kills, and a low one at which faults do."""

Checked = tuple[str, str, float | None, float, int, int, dict[str, Any]]

CASES: tuple[Checked, ...] = (
    # technique, environment, low Vdd, age, plain slices, weighted slices, further fields
    ("baseline", "undervolted", 0.54, 0.0, 24_000, 4000, {}),
    ("baseline", "undervolted", 0.55, 0.0, 24_000, 4000, {}),
    ("rc+rar", "dvfs", 0.55, 3.0, 24_000, 4000, {}),
    ("baseline", "dvfs", 0.56, 6.0, 16_000, 4000, DIFFERENT),
    ("rrcd", "undervolted", 0.432, 0.0, 16_000, 4000, {}),
    ("rrcd", "dvfs", 0.439, 3.0, 4000, 2000, {}),
    ("baseline", "dvfs", 0.54, 3.0, 16_000, 4000, MARGINS),
    ("rrcd", "dvfs", 0.447, 3.0, 24_000, 8000, MARGINS),
    ("rrcd", "dvfs", 0.435, 3.0, 4000, 4000, MARGINS),
    ("baseline", "turbo", None, 2.0, 24_000, 4000, LATE),
    ("rar", "turbo", None, 2.0, 24_000, 4000, LATE),
    ("baseline", "both", None, 3.0, 24_000, 4000, BOTH),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the slices")
    parser.add_argument("--environment", default="", help="only cases of this environment")
    parser.add_argument("--fields", action="store_true", help="from fields only")
    options = parser.parse_args()
    for case in CASES:
        if case[0] == "baseline" and case[3] == 0.0 and options.environment in case[1]:
            print_from_fields(case)
    if options.fields:
        return 0
    share = 10 if options.quick else 1
    off = [check(case, share) for case in CASES if options.environment in case[1]]
    return 1 if max(off) > SIGMAS else 0


def spec_of(case: Checked) -> SweepSpec:
    technique, environment, vdd_volts, *_, fields = case
    given = {
        "seed": WEIGHTED_SEED,
        "techniques": [technique],
        "environments": [environment],
        "vdd_volts": [] if vdd_volts is None else [vdd_volts],
    }
    return SweepSpec.from_mapping(given | fields)


def print_from_fields(case: Checked) -> None:
    """Print the mean chance, over fields, to be dead on arrival."""
    rare = rare_case(spec_of(case), 0.0, select_engine("numba")[0])
    normals = np.random.default_rng(FIELD_SEED).standard_normal((FIELDS, rare.distribution.normals))
    chances = [
        dead_at_start(
            rare.distribution, rare.distribution.node_volts(part), case[2], rare.fault_free.needed
        )
        for part in np.split(normals, FIELDS // BATCH)
    ]
    given = np.concatenate(chances)
    error = given.std() / np.sqrt(len(given))
    print(f"{rare.label}: {given.mean():.3e} +- {error:.1e} from {FIELDS} fields", flush=True)


def check(case: Checked, share: int) -> float:
    """Print both estimates; return by how many standard errors they differ."""
    technique, environment, vdd_volts, age_years, plain, weighted, fields = case
    spec = spec_of(case)
    engine, _ = select_engine("numba")
    began = time.monotonic()
    dead, count = plain_deaths(rare_case(spec, age_years, engine), plain // share), plain // share
    between = time.monotonic()
    rare_estimate = failure_probability(spec, age_years, weighted // share, engine=engine)
    lower, upper = (
        float(bound) for bound in wilson(np.array(dead / count), np.array(float(count)))
    )
    # As if the weighted estimate were the truth: zero deaths have no error of their own.
    error = np.hypot(
        np.sqrt(rare_estimate.probability * (1 - rare_estimate.probability) / count),
        rare_estimate.probability * rare_estimate.relative_error,
    )
    off = abs(dead / count - rare_estimate.probability) / float(error)
    equal = (1 - rare_estimate.probability) / (
        rare_estimate.probability * rare_estimate.relative_error**2
    )
    print(
        f"| `{technique}` {environment}{f' {vdd_volts:g} V' if vdd_volts else ''}, "
        f"{age_years:g} years{_further(fields)} "
        f"| {dead} of {count} "
        f"| {dead / count:.2e} [{lower:.2e}, {upper:.2e}] "
        f"| {rare_estimate.probability:.3e} [{rare_estimate.lower:.3e}, {rare_estimate.upper:.3e}] "
        f"| {off:.1f} | {equal / rare_estimate.instances:.3g} "
        f"| {between - began:.0f} s, {time.monotonic() - between:.0f} s |",
        flush=True,
    )
    return off


def _further(fields: dict[str, Any]) -> str:
    """What a case has besides technique, environment and age, in words."""
    if fields is MARGINS:
        return ", margins and PBTI"
    return ", dies differ" if fields else ""


def plain_deaths(case: RareCase, count: int) -> int:
    """How many of so many plain slices are dead by the age of a case."""

    def deaths(ids: NDArray[np.int64]) -> int:
        tail = sample_tail(case.distribution.scenario, PLAIN_SEED, ids, case.floor_volts)
        cause = case.cause(case.lives.draw(PLAIN_SEED, ids), tail, case.luck(PLAIN_SEED, ids))
        return int((cause != EndCause.CENSORED).sum())

    batches = [np.arange(first, min(first + BATCH, count)) for first in range(0, count, BATCH)]
    with ThreadPoolExecutor(usable_cores()) as pool:
        return sum(pool.map(deaths, batches))


if __name__ == "__main__":
    sys.exit(main())
