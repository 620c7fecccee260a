"""Which kernels are compiled under which constants, and what a device keeps of them."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.engines.cuda_engine.devices import Device, Module
from mcage.geometry import GCN, Integers, SliceGeometry
from mcage.replays.prepare import PreparedReplay
from mcage.techniques import TECHNIQUES, Technique

Program = tuple[str, dict[str, int]]
"""A source file of `kernels/` and its constants."""

PROBE: Program = ("probe.cu", {})
SHIFTS: Program = ("shifts.cu", {})

_MOST_NARROW_CYCLES = 0xFFFF_FFFF


def _slice(geometry: SliceGeometry) -> dict[str, int]:
    """The slice, as the kernels take it that look at cells."""
    return {
        "ENTRIES": geometry.entries,
        "ENTRY_COMPONENTS": geometry.components,
        "BLOCK_COMPONENTS": geometry.block_components,
    }


def fault_free_program(geometry: SliceGeometry) -> Program:
    """Stress times of slices without faults."""
    return "fault_free.cu", {"ENTRIES": geometry.entries}


def place_program(technique: Technique, geometry: SliceGeometry) -> Program:
    """The selectors of a redirecting technique, and the sorting of occupants by their entries."""
    return "place.cu", {
        "ENTRIES": geometry.entries,
        "BLOCKS": geometry.blocks,
        "RECORDS": int(technique.stores_in_blocks),
        "ROTATING": int(technique.rotating_selectors),
        "BORROWS": int(technique.borrows),
    }


def walk_program(replays: Sequence[PreparedReplay]) -> Program:
    """The walk through the entries of replays of a technique."""
    longest = max(replay.period for replay in replays)
    first = replays[0]
    return _walk_program(first.technique, first.geometry, is_wide(longest))


def _walk_program(technique: Technique, geometry: SliceGeometry, wide: bool) -> Program:
    return "walk.cu", {
        **_slice(geometry),
        "GATED": int(technique.gates_released),
        "RECORDS": int(technique.stores_in_blocks),
        "REGIONS": int(technique.stores_inline and technique.gates_released),
        "WIDE": int(wide),
    }


def is_wide(cycles: int) -> bool:
    """Whether sums of so many cycles at most exceed 32 bits."""
    return cycles > _MOST_NARROW_CYCLES


def residencies_program(geometry: SliceGeometry, wide: bool) -> Program:
    """Sums of residencies; `wide`: cycles of all passes exceed 32 bits."""
    return "residencies.cu", {**_slice(geometry), "GATED": 0, "RECORDS": 0, "WIDE": int(wide)}


STRESS_SOURCES = ("epoch_log.cu", "most_stressed.cu", "tracked_cells.cu")
"""Sources of the stress times of redirecting techniques."""


def stress_program(
    source: str, technique: Technique, geometry: SliceGeometry, wide: bool
) -> Program:
    """One of `STRESS_SOURCES`; `wide`: cycles of all passes exceed 32 bits."""
    return source, {
        **_slice(geometry),
        "GATED": int(technique.gates_released),
        "RECORDS": int(technique.stores_in_blocks),
        "WIDE": int(wide),
    }


def programs_of(
    techniques: Iterable[Technique], geometry: SliceGeometry, wide: bool
) -> Iterator[Program]:
    """Every program of lives under some techniques and `facelift`; `wide` as of `stress_program`.

    Those of `walk_program` are not among them: replays without faults ask for them, and what these
    tell is kept on disk.
    """
    yield SHIFTS
    yield fault_free_program(geometry)
    redirecting = [technique for technique in techniques if technique.redirects]
    if redirecting:
        yield residencies_program(geometry, wide)
    for technique in redirecting:
        yield place_program(technique, geometry)
        for source in STRESS_SOURCES:
            yield stress_program(source, technique, geometry, wide)


def compilations(geometry: SliceGeometry = GCN) -> Iterator[Program]:
    """The probe, and every program that the techniques of the catalogue ever ask for, once."""
    programs = [PROBE]
    for wide in (False, True):
        programs += programs_of(TECHNIQUES.values(), geometry, wide)
        programs += [_walk_program(technique, geometry, wide) for technique in TECHNIQUES.values()]
    for position, program in enumerate(programs):
        if program not in programs[:position]:
            yield program


# A device with what is made once for it: compiled programs, and tables that all threads use.

_MOST_SLICES = 1 << 20


class Runner:
    """A device for any number of threads of the host.

    Parameters
    ----------
    device : Device
        Device that computes.
    batches : int
        Batches that are meant to be at work on it at once, sharing its memory.
    sharers : int
        Processes that share its memory.

    Attributes
    ----------
    device : Device
        As given.
    at_work : int
        Batches that are at work.
    of_thread : local
        What a thread has made there last, for its next batch.
    """

    def __init__(self, device: Device, batches: int, sharers: int = 1) -> None:
        self.device = device
        self.at_work = 0
        self.of_thread = threading.local()
        self._batches = batches
        self._workspace_bytes = device.free_bytes() // (4 * sharers)
        self._lock = threading.Lock()
        self._modules: dict[tuple[object, ...], Future[Module]] = {}

    def module(self, program: Program) -> Module:
        """Compiled kernels: compiled once, while other threads may compile other programs."""
        source, constants = program
        key = source, *constants.items()
        module = self._modules.get(key)
        if module is not None:
            return module.result()
        with self._lock:
            waits = key in self._modules
            module = self._modules.setdefault(key, Future())
        if not waits:  # other programs may be compiled meanwhile
            try:
                module.set_result(self.device.module(source, constants))
            except BaseException as error:
                with self._lock:
                    del self._modules[key]  # whoever asks next tries again
                module.set_exception(error)
        return module.result()

    def launch(
        self,
        program: Program,
        kernel: str,
        blocks: int | tuple[int, int],
        threads: int,
        *arguments: Any,
        shared_bytes: int = 0,
    ) -> None:
        """Run a kernel of a program; its blocks lie in a row, or in rows.

        Parameters
        ----------
        program : Program
            The program.
        kernel, blocks, threads, arguments, shared_bytes
            As for `Module.launch`.
        """
        x, y = blocks if isinstance(blocks, tuple) else (blocks, 1)
        grid, block = (x, y, 1), (threads, 1, 1)
        self.module(program).launch(kernel, grid, block, arguments, shared_bytes)

    def shared(self, table: NDArray[Any]) -> Any:
        """A table on the device, there for the other threads of the host as well."""
        return self.device.upload_table(table)

    def chunks(self, bytes_each: Integers) -> Iterator[slice]:
        """Parts of a batch whose workspace fits into its part of the memory.

        A quarter of what was free in the beginning is for the workspace of all batches: of those
        that are meant to be at work, or that are if they are more.

        Parameters
        ----------
        bytes_each : int64[n]
            What each slice needs.
        """
        end = np.cumsum(bytes_each)
        workspace_bytes = self._workspace_bytes // max(self._batches, self.at_work)
        first = 0
        while first < len(end):
            before = end[first - 1] if first else 0
            fits = int(np.searchsorted(end, before + workspace_bytes, side="right"))
            last = min(max(first + 1, fits), first + _MOST_SLICES)
            yield slice(first, last)
            first = last
