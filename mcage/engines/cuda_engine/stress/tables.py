"""What all batches of a technique share on a device: compiled kernels, residencies, duty cycles."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.devices.device import Module
from mcage.engines.cuda_engine.programs import STRESS_SOURCES, stress_program
from mcage.engines.cuda_engine.runner import Runner
from mcage.engines.cuda_engine.stress.residencies import DeviceResidencies, device_residencies
from mcage.engines.stress import FaultFreeDuties
from mcage.geometry import SLICE
from mcage.replays.prepare import RedirectedReplay


@dataclass(frozen=True, eq=False)
class StressTables:
    """Kernels and tables of a technique on a device.

    Attributes
    ----------
    epoch_log, most_stressed, tracked_cells : Module
        Compiled kernels of the files of these names in `kernels/`.
    residencies : DeviceResidencies
        Residencies of all kernels.
    kernels, passes : int
        How many kernels there are, and passes of each.
    cycles : uint64[kernels]
        Cycles of a pass of each kernel.
    duties : float64[2, kernels, 256, 32, 64] on the device
        Fault-free duty cycles at '0' and at '1': entry, bit, component.
    most_duties : float64[2, kernels, 256, 32] on the device
        Those of any component at most.
    """

    epoch_log: Module
    most_stressed: Module
    tracked_cells: Module
    residencies: DeviceResidencies
    kernels: int
    passes: int
    cycles: NDArray[np.uint64]
    duties: Any
    most_duties: Any


TablesOfDuties = Memo[FaultFreeDuties, StressTables]
"""Tables of the techniques that a device is asked for."""


def tables_on(runner: Runner) -> TablesOfDuties:
    """Tables on a device, each made once."""
    return Memo(lambda duties: _tables(runner, duties))


def _tables(runner: Runner, duties: FaultFreeDuties) -> StressTables:
    (first, *_), kernels = duties.replays, len(duties.replays)
    passes = first.passes if isinstance(first, RedirectedReplay) else 1
    residencies = device_residencies(runner, duties.replays, passes)
    shape = (2, kernels, SLICE.entries, SLICE.components, SLICE.component_bits)
    both = np.stack([duties.at_zero.duty, duties.at_one.duty]).reshape(shape)
    epoch_log, most_stressed, tracked_cells = (
        runner.module(stress_program(source, first.technique, residencies.wide))
        for source in STRESS_SOURCES
    )
    return StressTables(
        epoch_log=epoch_log,
        most_stressed=most_stressed,
        tracked_cells=tracked_cells,
        residencies=residencies,
        kernels=kernels,
        passes=passes,
        cycles=np.array([replay.schedule.cycles for replay in duties.replays], dtype=np.uint64),
        duties=runner.shared(np.ascontiguousarray(both.swapaxes(3, 4))),
        most_duties=runner.shared(both.max(axis=3)),
    )
