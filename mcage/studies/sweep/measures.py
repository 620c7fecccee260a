"""Measures of each case of a sweep, declared once.

Lives and shares are those of all slices. What only a working slice has is a mean over the slices
that worked at all, which are not dead on arrival.
"""

from collections.abc import Mapping

import numpy as np

from mcage.lifetime import TRANSISTORS
from mcage.results.measures import Measure
from mcage.stats.estimates import Floats

LIVES = ("life_years", "end_cause")


def last_slowdown(case: Mapping[str, Floats]) -> Floats:
    """Slowdown of each slice at the end of the last epoch in which it lived: float64[instance].

    Parameters
    ----------
    case : mapping of str to ndarray
        With ``slowdown_new`` [instance], and ``epoch_slowdown`` [instance, epoch], which is NaN
        after death.

    Returns
    -------
    ndarray of float [instance]
        Fractions; NaN of slices that are dead on arrival.
    """
    by_age = np.concatenate([case["slowdown_new"][:, None], case["epoch_slowdown"]], axis=1)
    last = np.maximum(np.count_nonzero(~np.isnan(by_age), axis=1) - 1, 0)
    slower: Floats = by_age[np.arange(len(by_age)), last]
    return slower


MEASURES = (
    Measure(
        "b10_life_years",
        "B10 life [years]",
        LIVES,
        lambda case: case["life_years"],
        "B10 life\n[years]",
        "age",
        quantile=0.1,
        stops="b10_life",
    ),
    Measure(
        "median_life_years",
        "median life [years]",
        LIVES,
        lambda case: case["life_years"],
        "median life\n[years]",
        "age",
        quantile=0.5,
        primary=True,
        stops="median_life",
    ),
    Measure(
        "rmst_years",
        "RMST up to the horizon [years]",
        ("life_years",),
        form="age",
        compared=True,
        stops="rmst",
        better="more",
    ),
    Measure(
        "censored_share",
        "reach the horizon [%]",
        ("end_cause",),
        lambda case: 1.0 - (case["end_cause"] != 0),
        "reach the\nhorizon",
        "percent",
        kind="share",
        better="more",
    ),
    Measure(
        "dead_on_arrival",
        "dead on arrival [%]",
        ("life_years",),
        lambda case: 1.0 - (case["life_years"] > 0),
        "dead on\narrival",
        "percent",
        kind="share",
        primary=True,
        better="less",
    ),
    *(
        Measure(
            f"max_dvth_{transistor.lower()}_mv",
            f"dVth {transistor} at the end of life [mV]",
            ("max_dvth_mv",),
            lambda case, place=place: case["max_dvth_mv"][:, place],  # type: ignore[misc]
            f"dVth {transistor}\n[mV]",
            primary=not place,
            of_working=True,
            compared=True,
            by_epoch=("epoch_max_dvth_mv", place),
            better="less",
            stops="max_dvth",
            part=transistor,
        )
        for place, transistor in enumerate(TRANSISTORS)
    ),
    Measure(
        "spill_rate",
        "spill rate [%]",
        heading="spill rate\n[%]",
        of_working=True,
        compared=True,
        stops="spill_rate",
        better="less",
    ),
    Measure("slowdown", "slowdown [%]", heading="slowdown\n[%]", of_working=True, better="less"),
    Measure("slowdown_new", "slowdown when new [%]", of_working=True),
    Measure(
        "slowdown_last",
        "slowdown when last in use [%]",
        ("slowdown_new", "epoch_slowdown"),
        last_slowdown,
        of_working=True,
    ),
    *(
        Measure(
            f"{name}_fit",
            f"{words} [FIT of a slice]",
            (f"{name}_fit",),
            lambda case, name=name: case[f"{name}_fit"],  # type: ignore[misc]
            of_working=True,
            better="less",
        )
        for name, words in (
            ("due", "detected soft errors (DUE)"),
            ("sdc", "silent soft errors (SDC)"),
        )
    ),
    Measure(
        "energy_saving",
        "energy saving vs. a slice at the same Vdd [%]",
        heading="energy saving\nvs. slice at\nsame Vdd [%]",
        of_working=True,
        better="more",
    ),
    Measure(
        "energy_saving_nominal",
        "energy saving vs. the technology's nominal Vdd [%]",
        heading="energy saving\nvs. slice at\n{nominal} [%]",
        of_working=True,
        compared=True,
        better="more",
    ),
    Measure(
        "energy_saving_of_all",
        "energy saving of all slices [%]",
        ("energy_saving_nominal", "life_years"),
        lambda case: case["energy_saving_nominal"],
        "energy saving\nof all slices\nvs. {nominal} [%]",
        works=lambda case: case["life_years"] > 0,
        not_working=0.0,  # used as a conventional slice at the nominal Vdd
        unknown="decides",
        primary=True,
        better="more",
    ),
)
"""The measures of a sweep, in the order of its table."""
