"""What the tests of rare events have in common: cases that are ready in a second."""

from functools import cache

import numpy as np

from mcage.engines.select import select_engine
from mcage.methods.rare_events.case import rare_case
from mcage.methods.rare_events.proposals import VminGaussian
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
from mcage.variation.scenarios import scenario

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


def ready_case(spec, age_years):
    """The case of a spec, whose technique has been replayed once for all cases."""
    (technique,) = spec.techniques
    return rare_case(spec, age_years, engine(), sweep_of(technique))


@cache
def case_of(technique="baseline", scenario_name="common", vdd_volts=0.5, age_years=0.0):
    return ready_case(spec_of(technique, scenario_name, vdd_volts), age_years)


@cache
def distribution_of(scenario_name="common"):
    return VminGaussian(scenario(scenario_name))


@cache
def fields(distribution, count, seed=1):
    """Mean Vmin at the nodes of slices."""
    return distribution.node_volts(
        np.random.default_rng(seed).standard_normal((count, distribution.normals))
    )
