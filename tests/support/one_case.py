"""Sweeps of one case of two kernels, cut short: for lives, and for rare events."""

from functools import cache

from mcage.engines import select_engine
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep

KERNELS = ("BlackScholes", "MatrixTranspose")


@cache
def engine():
    return select_engine("numba")[0]


def spec_of(technique="baseline", scenario_name="common", vdd_volts=0.5, **fields):
    """One case of two kernels, cut short; without a voltage where the environment has its own.

    Windows are released as recorded: one of the kernels then all but fills the slice. A register
    without room in the LDS ends a life, and no slowdown does, unless the fields say so.
    """
    given = {
        "seed": 7,
        "spread": False,
        "techniques": [technique],
        "environments": ["undervolted"],
        "scenarios": [scenario_name],
        "vdd_volts": [] if vdd_volts is None else [vdd_volts],
        "workload": {
            "kernels": list(KERNELS),
            "schedule": "sequential",
            "periods": 2,
            "generations": 2,
            "release": "work-group",
        },
        "life": {"epochs": 3, "slowdown_limit": "none"},
        "registers": {"overflow": "end"},
    }
    for section in ("life", "registers"):
        fields[section] = given[section] | fields.get(section, {})
    return SweepSpec.from_mapping(given | fields)


@cache
def sweep_of(technique):
    """A sweep whose replays all cases of a technique take over."""
    return Sweep(spec_of(technique), engine())
