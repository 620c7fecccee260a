"""Tracked cells on a device: their times, which of them fail, how many have shifted how far."""

from functools import cached_property
from typing import Any

import numpy as np

from mcage.aging.nbti.models import Facelift
from mcage.aging.transistors import LEAST_RECOVERY, AdditiveShift
from mcage.aging.vmin import CellFailure
from mcage.engines.compiled_cells import is_plain
from mcage.engines.cuda_engine.programs import SHIFTS, Program, Runner, fault_free_program
from mcage.engines.cuda_engine.stress_tables import DeviceDuties
from mcage.engines.stress import BINS_PER_VOLT, CellSeconds, Moments, TrackedCells, TrackedSeconds
from mcage.geometry import COMPONENT_BITS, MOST_COMPONENTS, Floats, Integers, SliceGeometry

_THREADS = 256

_WORDS = 5
"""Words of 64 bits of a cell that fails, as `kernels/shifts.cu` lists them."""

_AT_FIRST = 1024
"""Cells that fail which come back with their number; more are asked for."""

_MOST_BINS = 4096
"""Bins of which two rows fit into the shared memory of a block."""


class CudaTrackedSeconds(TrackedSeconds):
    """Seconds of tracked cells on a device: only those of cells that fail come back, and counts.

    Shifts of models other than `facelift`, of pull-downs and of margins are worked out on the host.

    Parameters
    ----------
    runner : Runner
        The device.
    geometry : SliceGeometry
        The slice.
    tracked, instances
        As for `TrackedSeconds`.
    """

    def __init__(
        self, runner: Runner, geometry: SliceGeometry, tracked: TrackedCells, instances: int
    ) -> None:
        super().__init__(tracked, instances)
        self._runner, self._geometry = runner, geometry
        self._shift: tuple[AdditiveShift, Any, tuple[Any, ...]] | None = None

    # Memory is taken with the first epoch.

    @cached_property
    def _cells(self) -> tuple[Any, Any]:
        """Instances and numbers of the cells, as if each entry had 64 components."""
        upload = self._runner.device.upload
        entry, bit = np.divmod(self._tracked.cell, self._geometry.entry_bits)
        cell = entry * (MOST_COMPONENTS * COMPONENT_BITS) + bit
        return upload(self._tracked.instance.astype(np.int32)), upload(cell.astype(np.int32))

    @cached_property
    def _seconds(self) -> tuple[Any, Any]:
        """Seconds at the starts and at the ends of the latest epochs: two times float64[2, n]."""
        shape = (2, len(self._tracked.cell))
        return self._runner.device.zeros(shape, np.float64), self._runner.device.zeros(
            shape, np.float64
        )

    @cached_property
    def _tail(self) -> tuple[Any, Any]:
        """Vmin of the cells of the tail for T0 and T1, and whether they are sound."""
        upload, vmin = self._runner.device.upload, np.ascontiguousarray(self._tracked.vmin_volts)
        return upload(vmin), upload(self._sound.astype(np.uint8))

    @property
    def now(self) -> Floats:
        """See `TrackedSeconds.now`; a copy."""
        return self._runner.device.download(self._seconds[1])

    def begin_epoch(self, instances: Integers) -> None:
        """See `TrackedSeconds.begin_epoch`; what adds the epoch keeps what was before."""

    def of(self, places: Integers) -> CellSeconds:
        """See `TrackedSeconds.of`."""
        self._fetch()
        return super().of(places)

    def _fetch(self) -> None:
        download = self._runner.device.download
        self._before, self._now = (download(seconds) for seconds in self._seconds)

    def cells_of(self, instances: Integers) -> tuple[Any, ...]:
        """What a kernel needs that adds an epoch of instances: its first and its last arguments.

        Returns
        -------
        tuple
            uint8[instances], who runs; instances and numbers of the cells; how many there are;
            seconds before and now.
        """
        runs = self._runner.device.upload(self._among(instances).view(np.uint8))
        return (runs, *self._cells, np.int32(len(self._tracked.cell)), *self._seconds)

    def add_duties(
        self, instances: Integers, kernel: Integers, duties: DeviceDuties, seconds: float
    ) -> None:
        """Let instances without faults run a kernel each: int64[m], int64[m]."""
        kernel_of = np.full(self._instances, -1, dtype=np.int32)
        kernel_of[instances] = kernel
        self._launch(
            fault_free_program(self._geometry),
            "add_duties",
            len(self._tracked.cell),
            self._runner.device.upload(kernel_of),
            *self._cells,
            np.int32(len(self._tracked.cell)),
            duties.duties,
            np.int32(duties.duties.shape[1]),
            np.float64(seconds),
            *self._seconds,
        )

    def failing(
        self, instances: Integers, age: Floats, shift: AdditiveShift, failure: CellFailure
    ) -> tuple[Integers, CellSeconds]:
        """See `TrackedSeconds.failing`."""
        if not is_plain(shift, failure):
            return super().failing(instances, age, shift, failure)
        device, tail = self._runner.device, self._tracked.tail
        ages = np.full(self._instances, -1.0)
        ages[instances] = age
        listed = device.zeros((1 + tail, _WORDS), np.uint64)
        self._launch(
            SHIFTS,
            "list_failing",
            tail,
            self._shift_on_device(shift),
            device.upload(ages),
            self._cells[0],
            *self._tail,
            np.int32(tail),
            np.int32(len(self._tracked.cell)),
            *self._seconds,
            device.upload(failure.coefficients),
            np.int64(len(failure.coefficients) > 1),
            np.float64(failure.lowest_vdd_volts),
            listed,
        )
        rows = device.download(listed[: 1 + _AT_FIRST])
        count = int(rows[0, 0])
        if count > _AT_FIRST:
            rows = device.download(listed[: 1 + count])
        rows = rows[1 : 1 + count]
        rows = rows[np.argsort(rows[:, 0])]
        seconds = rows[:, 1:].T.copy().view(np.float64)
        return rows[:, 0].astype(np.int64), CellSeconds(seconds[:2], seconds[2:])

    def mark_faulty(self, places: Integers) -> None:
        """See `TrackedSeconds.mark_faulty`."""
        super().mark_faulty(places)
        on_device = self._runner.device.upload(places.astype(np.int32))
        count = np.int32(len(places))
        self._launch(SHIFTS, "mark_faulty", len(places), on_device, count, self._tail[1])

    def sampled_dvth(self, instances: Integers, moments: Moments, shift: AdditiveShift) -> Floats:
        """See `TrackedSeconds.sampled_dvth`."""
        self._fetch()
        return super().sampled_dvth(instances, moments, shift)

    def histogram(
        self, instances: Integers, moments: Moments, shift: AdditiveShift, bins: int
    ) -> Integers:
        """See `TrackedSeconds.histogram`."""
        if type(shift.nbti) is not Facelift or bins > _MOST_BINS:
            return super().histogram(instances, moments, shift, bins)
        device, cells = self._runner.device, len(self._tracked.cell)
        counts = device.zeros((2, bins), np.uint64)
        moment = device.upload_together(instances.astype(np.int32), moments.part, moments.age)
        if len(instances):
            self._runner.launch(
                SHIFTS,
                "count_shifts",
                len(instances),
                _THREADS,
                self._shift_on_device(shift),
                *moment,
                np.int64(cells - self._instances * self._tracked.sampled),
                np.int32(self._tracked.sampled),
                np.int32(cells),
                *self._seconds,
                np.float64(BINS_PER_VOLT),
                np.int32(bins),
                counts,
                shared_bytes=2 * bins * 4,
            )
        return device.download(counts).astype(np.int64)

    def _launch(self, program: Program, kernel: str, threads: int, *arguments: Any) -> None:
        if threads:
            self._runner.launch(program, kernel, -(-threads // _THREADS), _THREADS, *arguments)

    def _shift_on_device(self, shift: AdditiveShift) -> Any:
        """`Shift` of `kernels/shifts.cu`."""
        if self._shift is None or self._shift[0] is not shift:
            device, nbti = self._runner.device, shift.nbti
            assert type(nbti) is Facelift
            eta = shift.of_model.get("eta", np.asarray(nbti.eta))
            given = (shift.rates.stress, shift.rates.diffusion, shift.activity, eta)
            values = [np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in given]
            arrays = tuple(device.upload(each) for each in values)
            words = np.zeros(9, dtype=np.uint64)
            words[:4] = [device.address(array) for array in arrays]
            words[4:8] = [np.ndim(each) for each in given]
            words[8:].view(np.float64)[:] = LEAST_RECOVERY
            self._shift = shift, device.upload(words), arrays
        return self._shift[1]
