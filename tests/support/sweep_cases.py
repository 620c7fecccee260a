"""What the tests of sweeps have in common: specs that take a second, and arrays to compare."""

from functools import cache

import numpy as np

from mcage.engines import select_engine
from mcage.spec import SweepSpec
from mcage.studies.sweep.header import MIX, VARIABLES, WORKLOAD
from mcage.studies.sweep.plan import workloads_of
from mcage.studies.sweep.study import Sweep

SMALL_KERNELS = ("MatrixTranspose", "QuasiRandomSequence", "ScanLargeArrays")


def small_spec(**fields):
    """Three short kernels, three techniques, two environments, a few instances."""
    given = {
        "instances": 20,
        "seed": 5,
        "spread": False,
        "low_vdd": "printed",
        "techniques": ["baseline", "rrcd", "rrcd+rc+rar"],
        "workload": {
            "kernels": list(SMALL_KERNELS),
            "schedule": "sequential",
            "periods": 3,
            "generations": 2,
        },
        "life": {"epochs": 4},
    }
    return SweepSpec.from_mapping(given | fields)


def undervolted_spec(techniques, kernels=("MatrixTranspose",), epochs=2):
    """A sweep of a few epochs in which cells are faulty from the start, and others fail."""
    return SweepSpec(
        instances=4,
        techniques=tuple(techniques),
        scenarios=("clustered",),
        environments=("undervolted",),
        workload={"kernels": kernels, "periods": 2, "generations": 1},
        life={"epochs": epochs},
    )


@cache
def _first_sweep():
    return Sweep(small_spec(), *select_engine("numba"))


def small_sweep(engine="numba", **fields):
    """A sweep of its own; under numba, it takes over what it would replay as the first one did."""
    if engine != "numba":
        return Sweep(small_spec(**fields), *select_engine(engine))
    first = _first_sweep()
    return Sweep(small_spec(**fields), first.plan.engine, "asked for", like=first)


def joined(parts):
    """Arrays of several ranges of instances as those of one."""
    parts = list(parts)
    together = {}
    for variable in (*(MIX if "mix_kernel" in parts[0] else (WORKLOAD,)), *VARIABLES):
        arrays = [part[variable.name] for part in parts]
        if variable.per_instance:
            axis = variable.dims.index("instance")
            together[variable.name] = np.concatenate(arrays, axis)
        else:
            together[variable.name] = np.sum(arrays, axis=0)
    return together


def assert_same_arrays(one, other):
    assert set(one) == set(other)
    for name, array in one.items():
        assert np.array_equal(array, other[name], equal_nan=array.dtype.kind == "f"), name


def kernels_of_periods(spec, instances):
    """Kernel of every period of a sequential workload: int64[instances, periods]."""
    periods = workloads_of(spec, instances).periods
    return np.stack([turns.kernel[:, 0] for turns in periods], axis=1)
