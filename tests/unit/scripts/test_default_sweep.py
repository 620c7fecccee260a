"""The check of the default sweep finds cases that say nothing, and calendars."""

import numpy as np
import pytest
from check_default_sweep import failures

RNG = np.random.default_rng(1)
SPREAD = RNG.uniform(0, 10, 1000)
SHIFTS = RNG.uniform(5, 50, 1000)


def with_deaths_at(age, number):
    years = SPREAD.copy()
    years[:number] = age
    return years


@pytest.mark.parametrize(
    ("years", "died", "shifts", "said"),
    [
        (SPREAD, True, SHIFTS, ""),
        (np.full(1000, 10.0), False, SHIFTS, ""),
        (with_deaths_at(0.0, 600), True, SHIFTS, ""),
        (with_deaths_at(5e-5, 100), True, SHIFTS, ""),
        (with_deaths_at(2.0, 15), True, SHIFTS, ""),
        (with_deaths_at(2.0, 40), True, SHIFTS, "4.0% of 1000 deaths fall on the age of 2.000 y"),
        (np.zeros(1000), True, np.full(1000, np.nan), "100.0% of the slices are dead on arrival"),
        (np.full(1000, 3.0), True, SHIFTS, "all slices die at 3.00 years; 100.0% of 1000 deaths"),
        (np.full(1000, 10.0), False, np.full(1000, 9.0), "all slices live 10.00 years, and all"),
    ],
)
def test_what_a_case_fails_in(years, died, shifts, said):
    found = "; ".join(failures(years, np.full(1000, died), shifts))
    assert found.startswith(said)
    assert bool(found) == bool(said)
