"""What a study of Vmin says of each case at each age: every number, declared once."""

import math
import tomllib
from dataclasses import replace
from functools import cache

import numpy as np

from mcage.results.measures import UNKNOWN, Case, Measure
from mcage.stats.estimates import Estimate, Floats, mean_of_all
from mcage.stats.survival import life_quantile
from mcage.studies.vmin.spec import VminSpec, VminTarget

SHARES = {"median": 0.5, "most": 0.99}
"""Shares of the slices that work at a Vdd, beside that of the target."""


@cache
def asked(spec_toml: str) -> VminTarget:
    """What was asked, as the spec of a results file says."""
    return VminSpec.from_mapping(tomllib.loads(spec_toml)).vmin


def quantile(vmin_volts: Floats, share: float) -> Estimate:
    """Vdd at which a share of the slices works, by order statistics; Vmin NaN where none does.

    The value is NaN where so few slices cannot say: all of them are a smaller share than that of
    so many that one is left.
    """
    estimate = life_quantile(vmin_volts, np.isfinite(vmin_volts), share)
    known = len(vmin_volts) * (1 - share) > 1 - 1e-9
    return estimate if known else replace(estimate, value=math.nan)


def saved_at(vdd_volts: float, vmin_volts: Floats, vdds: Floats, saved: Floats) -> Estimate:
    """Mean saving of all slices at a Vdd, those that do not work there saving nothing.

    Parameters
    ----------
    vdd_volts : float
        The Vdd; between two of those below, the saving of each slice is interpolated.
    vmin_volts : float[n]
        Vmin of the slices.
    vdds : float[m]
        Voltages, rising, at which savings are known.
    saved : float[n, m]
        Fractions; NaN where a slice does not work.
    """
    above = int(np.searchsorted(vdds, vdd_volts))
    if not np.isfinite(vdd_volts) or above == len(vdds) or vdd_volts < vdds[0]:
        return UNKNOWN
    below, works = max(above - 1, 0), vmin_volts <= vdd_volts
    part = (vdd_volts - vdds[below]) / (vdds[above] - vdds[below]) if above else 0.0
    there = saved[:, above]
    nearer = np.where(np.isnan(saved[:, below]), there, saved[:, below])
    of_each = np.where(works, nearer + part * (there - nearer), 0.0)
    return mean_of_all(of_each)


def _vmin(case: Case) -> Floats:
    vmin: Floats = case["vmin_volts"]
    return vmin


def _needed(case: Case) -> Floats:
    """Vmin of slices that need more than the lowest Vdd that is tried, V."""
    return np.where(_vmin(case) > case["lowest_volts"], _vmin(case), np.nan)


def _of_target(case: Case) -> Estimate:
    return quantile(_vmin(case), asked(case.spec_toml).share)


def _energy_saved(case: Case) -> Estimate:
    """At the Vdd at which the share of the target works until its age."""
    target = asked(case.spec_toml)
    of_age = case.further(age=case["age"].tolist().index(target.target_years))
    return saved_at(
        _of_target(of_age).value, _vmin(of_age), case["vdd"], case["energy_saving_nominal"]
    )


VMIN = ("vmin_volts",)

MEASURES = (
    *(
        Measure(
            key,
            f"Vdd at which {100 * share:g} % of the slices work [V]",
            VMIN,
            _vmin,
            f"{100 * share:g} %",
            "bounds",
            estimator=lambda case, share=share: quantile(_vmin(case), share),  # type: ignore[misc]
            axis="age",
        )
        for key, share in SHARES.items()
    ),
    Measure(
        "of_target",
        "Vdd at which the share of the target works [V]",
        VMIN,
        _vmin,
        "target",
        "bounds",
        estimator=_of_target,
        axis="age",
    ),
    Measure(
        "drift_mv",
        "growth of the Vmin of a slice since the first age [mV]",
        ("vmin_volts", "lowest_volts"),
        lambda case: 1e3 * (_needed(case) - _needed(case.further(age=0))),
        "drift\n[mV]",
        axis="age",
        primary=True,
        better="less",
    ),
    Measure(
        "gain_mv",
        "how far Vmin lies below that of the same slice in the first case [mV]",
        ("vmin_volts", "lowest_volts"),
        lambda case: 1e3 * (_needed(case.at(case=0)) - _needed(case)),
        "gain\n[mV]",
        axis="age",
        primary=True,
        better="more",
    ),
    Measure(
        "energy_saved",
        "energy saved at the Vdd at which the share of the target works [%]",
        ("vmin_volts", "energy_saving_nominal", "vdd"),
        lambda case: case["energy_saving_nominal"],
        "energy\n[%]",
        estimator=_energy_saved,
        scale_in_csv=100.0,
        primary=True,
    ),
)
"""The measures of a study of Vmin: those of an age, and the energy that a Vdd saves."""
