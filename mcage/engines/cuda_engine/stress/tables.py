"""What all batches of a technique share on a device: compiled kernels, residencies, duty cycles."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.devices.device import Module
from mcage.engines.cuda_engine.programs import STRESS_SOURCES, stress_program
from mcage.engines.cuda_engine.runner import Runner
from mcage.engines.cuda_engine.stress.duties import DeviceDuties, DutiesOnDevice
from mcage.engines.cuda_engine.stress.residencies import DeviceResidencies, device_residencies
from mcage.engines.stress import FaultFreeDuties
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
    passes : int
        Passes of each kernel.
    cycles : uint64[kernels]
        Cycles of a pass of each kernel.
    duties : DeviceDuties
        Fault-free duty cycles.
    """

    epoch_log: Module
    most_stressed: Module
    tracked_cells: Module
    residencies: DeviceResidencies
    passes: int
    cycles: NDArray[np.uint64]
    duties: DeviceDuties


TablesOfDuties = Memo[FaultFreeDuties, StressTables]
"""Tables of the techniques that a device is asked for."""


def tables_on(runner: Runner, device_duties: DutiesOnDevice) -> TablesOfDuties:
    """Tables on a device, each made once."""
    return Memo(lambda duties: _tables(runner, duties, device_duties.of(duties)))


def _tables(runner: Runner, duties: FaultFreeDuties, on_device: DeviceDuties) -> StressTables:
    first, *_ = duties.replays
    passes = first.passes if isinstance(first, RedirectedReplay) else 1
    residencies = device_residencies(runner, duties.replays, passes)
    epoch_log, most_stressed, tracked_cells = (
        runner.module(stress_program(source, first.technique, first.geometry, residencies.wide))
        for source in STRESS_SOURCES
    )
    return StressTables(
        epoch_log=epoch_log,
        most_stressed=most_stressed,
        tracked_cells=tracked_cells,
        residencies=residencies,
        passes=passes,
        cycles=np.array([replay.schedule.cycles for replay in duties.replays], dtype=np.uint64),
        duties=on_device,
    )
