"""Has every case of a sweep a distribution, and no calendar in its deaths?

    mcage sweep --out results/sweep.h5 && python scripts/validation/check_default_sweep.py [FILE]

Says what a case of the results file fails in:

- lives or shifts are all the same, or nearly all slices are dead on arrival: the case says nothing;
- more than 2 % of the deaths fall on one age later than the first hours, where physics puts none: a
  border between periods or epochs does.

Exit code 1: a case fails. docs/model.md says what decides when a slice dies.
"""

import argparse
import sys

import numpy as np

from mcage import open_results

MOST_AT_ONE_AGE = 0.02
"""Share of the deaths, those on arrival left out, that may fall on one age."""

FEWEST_DEATHS = 100
"""Fewer deaths than this say nothing of ages at which many die."""

MOST_DEAD_ON_ARRIVAL = 0.99
SAME_AGE_YEARS = 1e-4
"""Ages that differ by less, an hour, are one: 12 halvings of an epoch leave more between deaths."""

FIRST_HOURS_YEARS = 1e-3
"""Younger deaths count as those on arrival: shifts grow as the fourth root of time, so that a tenth
of the growth of ten years lies before this age, and there halvings of an epoch tell few moments."""

SAME_MV = 1e-6


def failures(years, died, max_dvth_mv):
    """What a case fails in: sentences, none if it has a distribution.

    Parameters
    ----------
    years : float[n]
        Lives.
    died : bool[n]
        Whether they ended before the horizon.
    max_dvth_mv : float[n]
        Largest shift of each slice; NaN where it never worked.
    """
    said = []
    dead = np.mean(years == 0)
    if dead > MOST_DEAD_ON_ARRIVAL:
        return [f"{dead:.1%} of the slices are dead on arrival"]
    if np.ptp(years) == 0 and np.nanmax(max_dvth_mv) - np.nanmin(max_dvth_mv) < SAME_MV:
        said.append(f"all slices live {years[0]:.2f} years, and all shift alike")
    if np.std(years) == 0 and died.all():
        said.append(f"all slices die at {years[0]:.2f} years")
    deaths = np.sort(years[died & (years > FIRST_HOURS_YEARS)])
    if len(deaths) >= FEWEST_DEATHS:
        ends = np.searchsorted(deaths, deaths + SAME_AGE_YEARS, side="right")
        together = ends - np.arange(len(deaths))
        share = together.max() / len(deaths)
        if share > MOST_AT_ONE_AGE:
            age = deaths[together.argmax()]
            said.append(f"{share:.1%} of {len(deaths)} deaths fall on the age of {age:.3f} years")
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default="results/sweep.h5")
    results = open_results(parser.parse_args().file)
    wrong = 0
    for label in results["case"].values:
        case = results.sel(case=label)
        shifts = case["max_dvth_mv"].values
        found = failures(
            case["life_years"].values,
            case["end_cause"].values != 0,
            shifts.max(axis=case["max_dvth_mv"].dims.index("transistor")),
        )
        wrong += bool(found)
        print(f"{label}: {'; '.join(found) or 'has a distribution'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
