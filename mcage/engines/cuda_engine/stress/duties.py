"""Fault-free duty cycles on a device."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.runner import Runner
from mcage.engines.stress import FaultFreeDuties
from mcage.geometry import COMPONENT_BITS, repeated_components


@dataclass(frozen=True, eq=False)
class DeviceDuties:
    """Fault-free duty cycles of a technique on k kernels, on a device.

    Attributes
    ----------
    duties : float64[2, k, entries, 32, 64]
        At '0' and at '1': entry, bit, component; components are repeated until there are 64.
    most : float64[2, k, entries, 32]
        Those of any component at most.
    skylines : tuple of float64[k, n]
        Of the cells of which one is the most stressed, at '0' and at '1'.
    """

    duties: Any
    most: Any
    skylines: tuple[Any, Any]


DutiesOnDevice = Memo[FaultFreeDuties, DeviceDuties]
"""Duty cycles of the techniques that a device is asked for."""


def duties_on(runner: Runner) -> DutiesOnDevice:
    """Duty cycles on a device, uploaded once."""

    def upload(duties: FaultFreeDuties) -> DeviceDuties:
        geometry = duties.replays[0].geometry
        shape = (2, -1, geometry.entries, geometry.components, COMPONENT_BITS)
        both = np.stack(
            [each.cycles / each.period[:, None] for each in (duties.at_zero, duties.at_one)]
        ).reshape(shape)
        of_components = repeated_components(both, axis=3)
        return DeviceDuties(
            duties=runner.shared(np.ascontiguousarray(of_components.swapaxes(3, 4))),
            most=runner.shared(both.max(axis=3)),
            skylines=(
                runner.shared(duties.at_zero.skyline.duty),
                runner.shared(duties.at_one.skyline.duty),
            ),
        )

    return Memo(upload)
