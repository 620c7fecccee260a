"""Spills under RRCD, and how full the slice is, under assumptions that the papers leave open.

For ``scripts/experiments/explore_differences.py``.
"""

from dataclasses import astuple, dataclass, replace

import numpy as np
from explore_traces import (
    dispatched_by_wavefront,
    few_registers,
    out_of_step,
    released_at_last_access,
    some_windows,
)

from mcage.concurrency import Lazy
from mcage.engines import select_engine
from mcage.engines.numpy_engine.redirection import IN_LDS, count_writes, place_writes
from mcage.geometry import GCN
from mcage.replays.prepare import prepare
from mcage.replays.schedule import DEATH, Schedule, live_ranges, make_schedule
from mcage.techniques import technique
from mcage.traces import KERNELS, READ, Trace, open_trace
from mcage.traces.transforms import last_accesses, release_cycles, released_with_wavefronts
from mcage.variation.fault_models import FaultModel, fault_map
from mcage.variation.scenarios import PUBLISHED, scenario

DIES = 100
IN_FIGURE_2 = [name for name in KERNELS if name not in ("MatrixTranspose", "ScanLargeArrays")]
"""Kernels whose utilisation can lie in the range that Toca-Díaz et al. give."""


@dataclass(frozen=True)
class Spills:
    """How RRCD writes: % of all register writes, mean over dies.

    Attributes
    ----------
    lds, newly, regular : float
        Writes to the LDS; those of them that find their row elsewhere; writes to the home that
        the row has.
    lds_blocks : float
        Share of the LDS if blocks are counted, one for a compressed value and four for others.
    least, most : float
        Writes to the LDS of the best and of the worst die.
    rows : float
        Largest number of rows spilled at once.
    """

    lds: float
    newly: float
    regular: float
    lds_blocks: float
    least: float
    most: float
    rows: float


def fault_maps(name: str, mode: str, dies: int) -> np.ndarray:
    """Fault maps of the first dies of a scenario at its own Vdd: uint8[dies, 256]."""
    here = scenario(name)
    cells = FaultModel(here, mode).sample(1, np.arange(dies), here.vdd_volts)
    return fault_map(cells, cells.vmin_volts > here.vdd_volts)


def reliable_entries(count: int) -> np.ndarray:
    """A fault map with so many reliable entries and two usable blocks in each other one."""
    return np.where(np.arange(GCN.entries) < count, 0, 0b0011).astype(np.uint8)[None]


def dying(schedule: Schedule) -> Schedule:
    """The same schedule where a register gives up its home with the last read of its value."""
    trace = schedule.trace
    lives = live_ranges(trace, trace.window_of_event())
    number = np.arange(schedule.writes)
    first = np.flatnonzero(lives.first == number)
    event = np.concatenate([np.flatnonzero(trace.kind != READ), lives.death_event[first]])
    in_time = np.argsort(event, kind="stable")
    op_kind = np.append(schedule.op_kind, np.full(len(first), DEATH, schedule.op_kind.dtype))
    op = np.append(schedule.op, first.astype(schedule.op.dtype))

    order = np.argsort(schedule.window * GCN.entries + schedule.reg, kind="stable")
    begins = ((schedule.residency_first == number) | (lives.first == number))[order]
    residency_first = np.empty_like(schedule.residency_first)
    residency_first[order] = order[np.maximum.accumulate(np.where(begins, number, 0))]
    return replace(
        schedule, op_kind=op_kind[in_time], op=op[in_time], residency_first=residency_first
    )


def spills(schedule: Schedule, maps: np.ndarray) -> Spills:
    """Count what RRCD does with the writes of a schedule."""
    replay = replace(prepare(schedule.trace, technique("rrcd")), scheduled=Lazy(lambda: schedule))
    homes = place_writes(replay, maps)
    counted = count_writes(replay, maps, homes)
    register = schedule.window * GCN.entries + schedule.reg
    order = np.argsort(register, kind="stable")
    spilled = homes.entry[:, order] == IN_LDS
    again = spilled[:, :-1] & (register[order][1:] == register[order][:-1])
    newly = spilled.sum(axis=1) - (spilled[:, 1:] & again).sum(axis=1)
    blocks = np.where(schedule.compressed, 1, GCN.blocks)[order]
    lds = counted.lds / schedule.writes
    return Spills(
        lds=100 * lds.mean(),
        newly=100 * newly.mean() / schedule.writes,
        regular=100 * counted.regular.mean() / schedule.writes,
        lds_blocks=100 * (spilled @ blocks).mean() / blocks.sum(),
        least=100 * lds.min(),
        most=100 * lds.max(),
        rows=counted.peak_spilled_rows.mean(),
    )


@dataclass(frozen=True)
class Occupancy:
    """Entries that hold registers, mean over time, % of the slice.

    Attributes
    ----------
    allocated, written, live : float
        In open windows; of these, written before; of these, to be read again.
    compressed : float
        Of the written ones, those with a compressed value.
    """

    allocated: float
    written: float
    live: float
    compressed: float

    def figure_2(self, unwritten_is_compressed: bool) -> list[float]:
        """Reliable and compressed, reliable and not, faulty and not, faulty and compressed."""
        compressed = self.compressed
        if unwritten_is_compressed:
            compressed += self.allocated - self.written
        reliable, uncompressed = 0.67, self.written - self.compressed
        return [
            reliable * compressed,
            reliable * uncompressed,
            (1 - reliable) * uncompressed,
            (1 - reliable) * compressed,
        ]


def occupancy(schedule: Schedule) -> Occupancy:
    """Occupancy of the slice over a pass of a trace."""
    trace, windows = schedule.trace, schedule.windows
    held = schedule.end_cycle - schedule.cycle
    lived = trace.cycle[live_ranges(trace, trace.window_of_event()).end_event] - schedule.cycle
    allocated = (windows.release_cycle - windows.alloc_cycle) * windows.size
    share = 100 / (GCN.entries * schedule.cycles)
    return Occupancy(
        allocated=share * int(allocated.sum()),
        written=share * int(held.sum()),
        live=share * int(lived.sum()),
        compressed=share * int(held[schedule.compressed].sum()),
    )


def explore_spills() -> None:
    """Print everything about the spills of BlackScholes."""
    trace = open_trace("BlackScholes")

    def rrcd(changed: Trace, delta_limit: int | None = 64) -> Schedule:
        return make_schedule(changed, technique("rrcd"), delta_limit)

    hypotheses = {
        "as recorded": rrcd(trace),
        "no delta limit": rrcd(trace, None),
        "homes of dead registers are free": dying(rrcd(trace)),
        "wavefronts release": rrcd(released_with_wavefronts(trace)),
        "wavefronts release at last access": rrcd(released_at_last_access(trace)),
        "wavefronts are dispatched singly": rrcd(dispatched_by_wavefront(trace)),
        "the same, dead registers' homes are free": dying(rrcd(dispatched_by_wavefront(trace))),
        "windows out of step": rrcd(out_of_step(trace)),
    }
    for slots in (3, 2):
        fewer = some_windows(trace, trace.slot[trace.alloc_event] < slots)
        hypotheses[f"{slots} windows"] = rrcd(fewer)
    for registers in (56, 50, 44, 38):
        hypotheses[f"N = {registers}"] = rrcd(few_registers(trace, registers))

    print(
        "BlackScholes under RRCD, writes to the LDS in % (the paper: 1 to 2), rows spilled at once"
    )
    print(f"{'':40s}" + "".join(f"{name:>16s}" for name in PUBLISHED) + "  common, varius")
    exact = {name: fault_maps(name, "table-exact", 5) for name in PUBLISHED}
    sampled = fault_maps("common", "varius", DIES)
    for name, schedule in hypotheses.items():
        results = [spills(schedule, exact[scenario]) for scenario in PUBLISHED]
        varied = spills(schedule, sampled)
        print(
            f"{name:40s}"
            + "".join(f"{result.lds:8.2f}{result.rows:4.0f} rows" for result in results[:3])
            + f"{varied.lds:8.2f} ({varied.least:.1f} to {varied.most:.1f})"
            + f"; regular {results[0].regular:.0f}, newly "
            + " ".join(f"{result.newly:.1f}" for result in [*results, varied])
            + f", blocks {results[0].lds_blocks:.1f}"
        )
    print(
        "with so many reliable entries: "
        + ", ".join(
            f"{count}: {spills(hypotheses['as recorded'], reliable_entries(count)).lds:.1f}"
            for count in (172, 192, 208, 224, 232, 240, 244)
        )
    )
    life = release_cycles(trace) - trace.cycle[trace.alloc_event]
    busy = last_accesses(trace) - trace.cycle[trace.alloc_event]
    by_slot = [(busy / life)[trace.slot[trace.alloc_event] == slot].mean() for slot in range(4)]
    ends = ", ".join(f"{100 * share:.0f}" for share in by_slot)
    print(f"wavefronts end after {ends} % of their windows' lives")
    _all_kernels()


def _all_kernels() -> None:
    engine, maps = select_engine()[0], fault_maps("common", "table-exact", 5)
    bundled = {name: open_trace(name) for name in KERNELS}
    changes = {
        "as recorded": lambda trace: trace,
        "wavefronts release": released_with_wavefronts,
        "wavefronts are dispatched singly": dispatched_by_wavefront,
    }
    for delta_limit in (64, None):
        for label, change in changes.items():
            print(f"\nOccupied entries in %, {label}, delta limit {delta_limit or 'none'}")
            print(f"{'':22s}allocated  written     live  compressed  regular writes  LDS writes")
            rows = {}
            for name, trace in bundled.items():
                replay = prepare(change(trace), technique("rrcd"), delta_limit)
                counted = engine.count(replay, maps)
                writes = np.array([counted.regular.mean(), counted.lds.mean()])
                shares = 100 * writes / replay.schedule.writes
                rows[name] = [*astuple(occupancy(replay.schedule)), *shares]
                _row(name, rows[name])
            mean = np.mean([rows[name] for name in IN_FIGURE_2], axis=0)
            _row("mean of eight", mean)
            for unwritten in (False, True):
                four = Occupancy(*mean[:4]).figure_2(unwritten)
                print(
                    "  Fig. 2 (30, 22, 10, 14): "
                    + ", ".join(f"{share:.0f}" for share in four)
                    + (", the unwritten taken as compressed" if unwritten else "")
                )


def _row(name: str, cells: list[float]) -> None:
    numbers = "".join(f"{share:9.1f}" for share in cells[:4])
    print(f"{name:22s}{numbers}{cells[4]:16.1f}{cells[5]:12.2f}")
