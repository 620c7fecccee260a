"""Energy, area and slowdown of a technique, from the events that a replay counts."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.costs.activity import CONVENTIONAL, Activity, KernelActivity
from mcage.errors import UserError
from mcage.geometry import SliceGeometry
from mcage.protection.codes import Code
from mcage.protection.policy import Protection
from mcage.replays.outcome import Event
from mcage.spec.cost_constants import Component, CostConstants, Penalties, Technology
from mcage.techniques import Storage, Technique, refuse_policy

# Which units a technique adds to a slice: a matter of its policies, never of its name.


@dataclass(frozen=True)
class Units:
    """Units beside the slice; None or False for those that the technique has no use for.

    Attributes
    ----------
    compression, decompression : Component or None
        One unit at the write port, and each of those at the read ports.
    table : bool
        Compression table (RC).
    redirection : bool
        Redirection table (TR) and redirection selection unit (USR).
    speculates : bool
        The first block decides where a register goes: a buffer (BRD) holds the register meanwhile,
        and compression and decompression have a pipeline stage each.
    power_gating : bool
        Sleep transistors for every entry.
    """

    compression: Component | None
    decompression: Component | None
    table: bool
    redirection: bool
    speculates: bool
    power_gating: bool


def units_of(technique: Technique, technology: Technology) -> Units:
    """Find the units that a technique needs.

    Parameters
    ----------
    technique : Technique
        Table and block storage compress by deltas, inline storage as Warped-Compression does.
    technology : Technology
        Whose components the units are.

    Notes
    -----
    Valero et al., IEEE TC 2019, section 5; Toca-Diaz et al. (RRCD), section IV.
    """
    compression = decompression = None
    match technique.storage:
        case Storage.PLAIN:
            pass
        case Storage.INLINE:
            compression = technology.wc_compression_unit
            decompression = technology.wc_decompression_unit
        case Storage.TABLE | Storage.BLOCK:
            compression = technology.compression_unit
            decompression = technology.decompression_unit
        case unknown:
            refuse_policy(unknown, "units_of")
    return Units(
        compression=compression,
        decompression=decompression,
        table=technique.stores_in_table,
        redirection=technique.redirects,
        speculates=technique.redirects and technique.compresses,
        power_gating=technique.gates_released,
    )


@dataclass(frozen=True, eq=False)
class Energy:
    """Energy of a slice in one steady pass, in pJ, by what takes it; float64[instances].

    Attributes
    ----------
    slice_leakage, slice_reads, slice_writes : float64[instances]
        The slice: leakage of what is on; accesses, decompressing MOVs and the blocks that wrong
        speculations write in vain among them.
    compression_leakage, compression_dynamic : float64[instances]
        One compression unit and all decompression units.
    table_leakage, table_dynamic : float64[instances]
        Compression table: reads, writes and refreshes.
    redirection_leakage, redirection_dynamic : float64[instances]
        Redirection table, selection unit, and buffer of the destination register.
    lds, memory : float64[instances]
        Accesses to spilled registers, in the LDS and in memory.
    wakeups : float64[instances]
        Switching entries on.
    """

    slice_leakage: NDArray[np.float64]
    slice_reads: NDArray[np.float64]
    slice_writes: NDArray[np.float64]
    compression_leakage: NDArray[np.float64]
    compression_dynamic: NDArray[np.float64]
    table_leakage: NDArray[np.float64]
    table_dynamic: NDArray[np.float64]
    redirection_leakage: NDArray[np.float64]
    redirection_dynamic: NDArray[np.float64]
    lds: NDArray[np.float64]
    memory: NDArray[np.float64]
    wakeups: NDArray[np.float64]

    @property
    def static(self) -> NDArray[np.float64]:
        """Leakage of everything."""
        return (
            self.slice_leakage
            + self.compression_leakage
            + self.table_leakage
            + self.redirection_leakage
        )

    @property
    def dynamic(self) -> NDArray[np.float64]:
        """Everything that is not leakage."""
        return (
            self.slice_reads
            + self.slice_writes
            + self.compression_dynamic
            + self.table_dynamic
            + self.redirection_dynamic
            + self.lds
            + self.memory
            + self.wakeups
        )

    @property
    def total(self) -> NDArray[np.float64]:
        """All of it."""
        return self.static + self.dynamic


def energy(
    activity: Activity,
    technique: Technique,
    technology: Technology,
    vdd_volts: float | None = None,
    slowdown: ArrayLike = 0.0,
) -> Energy:
    """Weigh what a slice does with the energies of its components.

    Parameters
    ----------
    activity : Activity
        Of a steady pass under ``technique``.
    technique : Technique
        Its policies say which units there are beside the slice.
    technology : Technology
        Constants of the components.
    vdd_volts : float, optional
        Supply voltage of the slice; None for the nominal one, at which all other units stay.
    slowdown : float or float64[instances]
        Extra execution time as a fraction of the pass, 0 or above: everything leaks, and the table
        is refreshed, for so much longer.

    Returns
    -------
    Energy
        All of it NaN for another slice than that of the constants; those of the papers are of GCN.

    Raises
    ------
    UserError
        If the Vdd or the slowdown cannot be meant.

    Notes
    -----
    Valero et al., IEEE TC 2019, sections 5.1.3 and 6.6; Toca-Diaz et al. (RRCD), sections IV.E and
    V.B.
    """
    longer = 1.0 + np.asarray(slowdown, dtype=np.float64)
    if not (np.isfinite(longer).all() and (longer >= 1).all()):
        raise UserError(f"slowdown {slowdown!r}: a fraction of 0 or above is needed")
    cells = technology.slice_at(vdd_volts)
    reads, writes, compression = activity.reads, activity.writes, activity.compression
    geometry, ones = activity.geometry, np.ones_like(writes.lds)
    if geometry.shape != technology.geometry.shape:
        return Energy(*(np.nan * ones for _ in fields(Energy)))
    cycles = activity.cycles * longer * ones
    nanoseconds = cycles / technology.clock_ghz

    on = activity.gating.powered_entry_cycles / (geometry.entries * activity.cycles)
    wasted_blocks = compression.mispredictions if technique.stores_in_blocks else 0
    written_blocks = (
        writes.slice_blocks(geometry) + geometry.blocks * compression.movs + wasted_blocks
    )
    switched_on = activity.gating.opened_entries + activity.gating.expanded_entries

    units = units_of(technique, technology)
    compressing = _compression(activity, units, technology, nanoseconds)
    table = _compression_table(activity, units, technology, nanoseconds, cycles)
    redirecting = _redirection(activity, units, technology, nanoseconds)
    return Energy(
        slice_leakage=nanoseconds * cells.leakage_mw * on,
        slice_reads=cells.read_pj * (reads.slice_blocks(geometry) + compression.mov_read_blocks),
        slice_writes=cells.write_pj * written_blocks,
        compression_leakage=compressing.leakage,
        compression_dynamic=compressing.dynamic,
        table_leakage=table.leakage,
        table_dynamic=table.dynamic,
        redirection_leakage=redirecting.leakage,
        redirection_dynamic=redirecting.dynamic,
        lds=geometry.blocks
        * (
            technology.lds.read_pj * (reads.lds - reads.memory)
            + technology.lds.write_pj * (writes.lds - writes.memory)
        ),
        memory=geometry.blocks
        * (technology.memory.read_pj * reads.memory + technology.memory.write_pj * writes.memory),
        wakeups=technology.wakeup_pj * switched_on * ones,
    )


class _UnitEnergy(NamedTuple):
    """Energy of units beside the slice, in pJ: float64[instances] each."""

    leakage: NDArray[np.float64]
    dynamic: NDArray[np.float64]


def _compression(
    activity: Activity, units: Units, technology: Technology, nanoseconds: NDArray[np.float64]
) -> _UnitEnergy:
    """Energy of one compression unit and of all decompression units."""
    none = 0.0 * nanoseconds
    if not (units.compression and units.decompression):
        return _UnitEnergy(none, none)
    return _UnitEnergy(
        leakage=nanoseconds
        * (
            units.compression.leakage_mw
            + technology.decompression_units * units.decompression.leakage_mw
        ),
        dynamic=(
            units.compression.write_pj * activity.compression.examined_blocks
            + units.decompression.read_pj * activity.decompressed_blocks
        ),
    )


def _compression_table(
    activity: Activity,
    units: Units,
    technology: Technology,
    nanoseconds: NDArray[np.float64],
    cycles: NDArray[np.float64],
) -> _UnitEnergy:
    """Energy of the table that holds compressed values, with its refreshes."""
    none = 0.0 * nanoseconds
    if not units.table:
        return _UnitEnergy(none, none)
    table = technology.compression_table
    refreshes = np.floor(cycles / technology.refresh_period_cycles)
    return _UnitEnergy(
        leakage=nanoseconds * table.leakage_mw,
        dynamic=table.read_pj * (activity.table_reads + refreshes)
        + table.write_pj * (activity.table_writes + refreshes),
    )


def _redirection(
    activity: Activity, units: Units, technology: Technology, nanoseconds: NDArray[np.float64]
) -> _UnitEnergy:
    """Energy of the redirection table, the selection unit and the destination buffer."""
    reads, writes, compression = activity.reads, activity.writes, activity.compression
    leakage = dynamic = 0.0 * nanoseconds
    if units.redirection:
        homes, selection = technology.redirection_table, technology.selection_unit
        leakage = nanoseconds * (homes.leakage_mw + selection.leakage_mw)
        dynamic = (
            homes.read_pj * (reads.registers + writes.registers + compression.movs)
            + homes.write_pj * activity.redirections
            # It looks for a home at every write, ahead of time, whether one is needed or not.
            + selection.write_pj * writes.registers
        )
    if units.speculates:
        buffer = technology.destination_buffer
        held = writes.compressed + compression.mispredictions
        leakage = leakage + nanoseconds * buffer.leakage_mw
        dynamic = dynamic + activity.geometry.blocks * (
            buffer.write_pj * held + buffer.read_pj * compression.mispredictions
        )
    return _UnitEnergy(leakage, dynamic)


def suav(activity: Activity, technology: Technology, costs: CostConstants) -> Energy:
    """Energy of a conventional slice whose voltage noise is smoothed, so that Vdd can be lower.

    Parameters
    ----------
    activity : Activity
        Of the conventional slice: `mcage.costs.conventional`.
    technology : Technology
        Constants of the components.
    costs : CostConstants
        Says at which Vdd it runs. What the smoothing itself takes is left out.

    Notes
    -----
    Suav of Toca-Diaz et al. (RRCD), section V.B.
    """
    return energy(activity, CONVENTIONAL, technology, vdd_volts=costs.smoothing_vdd_volts)


# Area that a technique adds to a slice.


@dataclass(frozen=True)
class Area:
    """Area of what a technique adds, in mm^2.

    Attributes
    ----------
    slice_mm2 : float
        The slice alone.
    added_mm2 : dict of str to float
        Each component beside it; several units of a kind together.
    """

    slice_mm2: float
    added_mm2: dict[str, float]

    @property
    def overhead(self) -> float:
        """Everything added, as a fraction of the slice."""
        return sum(self.added_mm2.values()) / self.slice_mm2


def area(
    technique: Technique, technology: Technology, decompression_units: int | None = None
) -> Area:
    """Add up the area of the units that a technique needs.

    Parameters
    ----------
    technique : Technique
        Its policies say which units there are.
    technology : Technology
        Constants of the components.
    decompression_units : int, optional
        Decompression units counted; by default as many as the slice has, two. Valero et al. count
        one: ``area(RC, ..., decompression_units=1)`` without the power gating is their 3.82 %.

    Notes
    -----
    Valero et al., IEEE TC 2019, section 5.1.3; Toca-Diaz et al. (RRCD), section IV.E. The
    destination buffer is printed in no table; its area is assumed to be 0.
    """
    units = units_of(technique, technology)
    count = technology.decompression_units if decompression_units is None else decompression_units
    added = {}
    if units.compression and units.decompression:
        added["compression unit"] = units.compression.area_mm2
        added["decompression units"] = count * units.decompression.area_mm2
    if units.table:
        added["compression table"] = technology.compression_table.area_mm2
    if units.redirection:
        added["redirection table"] = technology.redirection_table.area_mm2
        added["selection unit"] = technology.selection_unit.area_mm2
    if units.speculates:
        added["destination buffer"] = technology.destination_buffer.area_mm2
    if units.power_gating:
        added["power gating"] = technology.power_gating_area_mm2
    return Area(technology.slice.area_mm2, added)


# Slowdown: cycles that counted events add, as fractions of the cycles of the baseline.
#
# A cycle-level simulator would tell which of them other wavefronts hide. Here an unhidden fraction
# for each kind of event, the same for all kernels, stands for that.


@dataclass(frozen=True, eq=False)
class Slowdown:
    """Extra execution time as fractions of the baseline's, by cause; float64[instances].

    Attributes
    ----------
    wakeup : float64[instances]
        Writes that wait for an entry to be switched on.
    mov : float64[instances]
        Decompressing MOVs.
    refresh : float64[instances]
        Accesses to the compression table that wait for a refresh.
    pipeline : float64[instances]
        Stages that compression and decompression add to the pipeline for each instruction.
    misprediction : float64[instances]
        Wrong speculations about compressibility.
    lds, memory : float64[instances]
        Accesses to spilled registers, in the LDS and in memory.
    """

    wakeup: NDArray[np.float64]
    mov: NDArray[np.float64]
    refresh: NDArray[np.float64]
    pipeline: NDArray[np.float64]
    misprediction: NDArray[np.float64]
    lds: NDArray[np.float64]
    memory: NDArray[np.float64]

    @property
    def total(self) -> NDArray[np.float64]:
        """All causes together."""
        of_technique = self.wakeup + self.mov + self.refresh + self.pipeline + self.misprediction
        return of_technique + self.lds + self.memory


def slowdown(
    activity: Activity, technique: Technique, technology: Technology, penalties: Penalties
) -> Slowdown:
    """Weigh counted events with the cycles that they cost.

    Parameters
    ----------
    activity : Activity
        Of a steady pass under ``technique``.
    technique : Technique
        Its policies say which units there are, and so which events cost anything.
    technology : Technology
        Says how often the compression table is refreshed.
    penalties : Penalties
        Cycles and unhidden fraction of each kind of event.

    Notes
    -----
    Valero et al., IEEE TC 2019, section 6.5; Toca-Diaz et al. (RRCD), section V.A. A refresh
    disturbs as often as it finds the only port of the table busy.
    """
    units, cycles = units_of(technique, technology), activity.cycles
    ones = np.ones_like(activity.gating.wakeups)
    refreshes = cycles // technology.refresh_period_cycles if units.table else 0
    busy = np.minimum((activity.table_reads + activity.table_writes) / cycles, 1.0)
    instructions = activity.instructions if units.speculates else 0
    spilled = activity.reads.lds + activity.writes.lds
    in_memory = activity.reads.memory + activity.writes.memory
    return Slowdown(
        wakeup=penalties.wakeup.unhidden_cycles * activity.gating.wakeups / cycles,
        mov=penalties.mov.unhidden_cycles * activity.compression.movs / cycles * ones,
        refresh=penalties.refresh.unhidden_cycles * refreshes * busy / cycles,
        pipeline=penalties.pipeline.unhidden_cycles * instructions / cycles * ones,
        misprediction=penalties.misprediction.unhidden_cycles
        * activity.compression.mispredictions
        / cycles
        * ones,
        lds=penalties.lds.unhidden_cycles * (spilled - in_memory) / cycles,
        memory=penalties.memory.unhidden_cycles * in_memory / cycles,
    )


def savings_of_all(case: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Energy saving of each slice over a conventional one at the technology's nominal Vdd.

    A slice that is dead on arrival fails its first test at the low Vdd. It is taken to be used as a
    conventional slice at the nominal Vdd, which saves nothing.

    Parameters
    ----------
    case : mapping of str to ndarray [instance]
        With ``life_years`` and ``energy_saving_nominal``.

    Returns
    -------
    ndarray of float [instance]
        Fractions; NaN for all slices if the energy of any that worked is unknown.
    """
    saving = np.where(case["life_years"] > 0, case["energy_saving_nominal"], 0.0)
    return np.where(np.isnan(saving).any(), np.nan, saving)


# Costs of the protection of entries: its cells, encoders, decoders and pointers.

FEMTOJOULE_PJ, SQUARE_MICROMETRE_MM2 = 1e-3, 1e-6


@cache
def constants() -> Mapping[str, float]:
    """Values of ``protection.toml`` by table and name, such as ``gate.xor_fj``."""
    text = files("mcage").joinpath("data", "protection.toml").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            f"{table}.{name}": float(entry["value"])
            for table, entries in tomllib.loads(text).items()
            for name, entry in entries.items()
        }
    )


def gates(code: Code) -> tuple[int, int]:
    """Two-input gates of an encoder and of a decoder of a word.

    A check bit is a tree over the data bits of its row. A decoder computes all of them, compares
    them with those that it has read, finds the column that is the syndrome, a gate for each bit of
    it, and corrects: a gate for each data bit.

    Notes
    -----
    Hsiao, IBM J. R&D 14(4), 1970, section 4; the comparison with columns is counted without shared
    terms, which is an upper bound.
    """
    ones = sum(column.bit_count() for column in code.columns)
    encoder = ones - code.check_bits
    return encoder, ones + code.data_bits * (code.check_bits - 1) + code.data_bits


def protected_slice(cells: Component, protection: Protection, geometry: SliceGeometry) -> Component:
    """Constants of a slice with what protects its entries.

    Parameters
    ----------
    cells : Component
        Constants of the slice without a code: energies of a block, leakage, area.
    protection : Protection
        What protects the entries. Pointers cost no energy and no leakage, as in the papers, whose
        constants those of the slice are.
    geometry : SliceGeometry
        The slice.

    Returns
    -------
    Component
        Check bits are read and written with the data, and leak as these do. Encoders and decoders
        switch with every word, at their nominal Vdd. Spare entries leak.
    """
    code, share = protection.code, protection.check_share
    spares = protection.spares / geometry.entries
    if code is None:
        return replace(cells, leakage_mw=cells.leakage_mw * (1 + spares)) if spares else cells
    words, gate_pj = geometry.block_bits / code.data_bits, constants()["gate.xor_fj"]
    encoder, decoder = (words * count * gate_pj * FEMTOJOULE_PJ for count in gates(code))
    return replace(
        cells,
        read_pj=cells.read_pj * (1 + share) + decoder,
        write_pj=cells.write_pj * (1 + share) + encoder,
        leakage_mw=cells.leakage_mw * (1 + share) * (1 + spares),
    )


def protection_area(
    protection: Protection, technology: Technology, geometry: SliceGeometry
) -> dict[str, float]:
    """Area that protection adds to a slice, in mm^2, by what takes it.

    Parameters
    ----------
    protection : Protection
        What protects the entries.
    technology : Technology
        Constants of the slice.
    geometry : SliceGeometry
        The slice.
    """
    units, slice_mm2, added = constants(), technology.slice.area_mm2, {}
    cells = 1.0
    if protection.code is not None:
        added["check bits"] = slice_mm2 * protection.check_share
        cells += protection.check_share
        words = geometry.block_bits / protection.code.data_bits
        encoder, decoder = gates(protection.code)
        count = words * (units["slice.encoders"] * encoder + units["slice.decoders"] * decoder)
        added["encoders and decoders"] = count * units["gate.xor_um2"] * SQUARE_MICROMETRE_MM2
    if protection.pointers:
        pointer_cells = units["pointer.bits"] / geometry.entry_bits
        added["pointers"] = slice_mm2 * pointer_cells
        cells += pointer_cells
    if protection.spares:
        added["spare entries"] = slice_mm2 * cells * protection.spares / geometry.entries
    return added


# Rates of a technique over busy and idle time, of all lives of a batch at once.
#
# On most fault maps events differ from kernel to kernel and from life to life, so that a batch has
# up to 100,000 activities. All of a kernel are weighed together by `energy` and `slowdown`.


@dataclass(frozen=True, eq=False)
class CostedSlices:
    """Slices under a technique, on each kernel of a sweep.

    Attributes
    ----------
    technique : Technique
        The technique.
    activity : KernelActivity
        What a slice does in a busy pass, of all kernels (`of_all`).
    idle : float64[kernels]
        Idle time after a pass in which the slice holds, over its busy time.
    holding : int64[kernels]
        Entries that stay on meanwhile.
    penalties : Penalties
        Cycles that events cost.
    technologies : tuple of Technology
        Constants of the components at each operating point, those of the slice at its Vdd.
    fault_free : float64[kernels, EVENTS]
        Events per cycle on a fault-free slice.
    """

    technique: Technique
    activity: KernelActivity
    idle: NDArray[np.float64]
    holding: NDArray[np.int64]
    penalties: Penalties
    technologies: tuple[Technology, ...]
    fault_free: NDArray[np.float64]

    def rates(
        self, kernel: NDArray[np.int64] | slice, events: NDArray[np.float64], technology: Technology
    ) -> NDArray[np.float64]:
        """Rates on fault maps, over busy and idle time: float64[3, n].

        The rows are the busy fraction of the time; the work, in busy time of the conventional
        slice; and the power in mW, NaN for another slice than that of the technology.

        Parameters
        ----------
        kernel, events : int64[n] or slice, float64[n, EVENTS]
            Numbers of kernels, or the slice of all, and events per cycle.
        technology : Technology
            Constants of the components, those of the slice at its Vdd.
        """
        known, idle = self.activity, self.idle[kernel]
        activity = (known if isinstance(kernel, slice) else known.at(kernel)).under(events)
        lost = slowdown(activity, self.technique, technology, self.penalties)
        slower, waits = 1 + lost.total, 1 + events[:, Event.WAIT]
        longer = slower * waits
        spent = energy(activity, self.technique, technology, slowdown=longer - 1)
        whole = waits + idle
        held = self.holding[kernel] / activity.geometry.entries * technology.slice.leakage_mw
        nanoseconds = activity.cycles / technology.clock_ghz
        power = spent.total / (nanoseconds * (slower * whole)) + held * idle / whole
        return np.stack([waits / whole, 1 / (slower * whole), power])

    @cached_property
    def undisturbed(self) -> NDArray[np.float64]:
        """Rates on a fault-free slice: float64[points, 3, kernels]."""
        of_points = [self.rates(slice(None), self.fault_free, each) for each in self.technologies]
        return np.stack(of_points)

    def add_up(
        self,
        seconds: NDArray[np.float64],
        events: NDArray[np.float64],
        kernel: NDArray[np.int64],
        weight: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Rates of the mix at each moment of each of I lives, times the seconds of the moment.

        Parameters
        ----------
        seconds : float64[I, epochs, moments]
            Weights of the moments. Where it is 0, so are the products.
        events : float64[I, epochs, moments, turns, EVENTS]
            Events per cycle of each kernel.
        kernel, weight : int64[I, epochs, turns], float64[I, epochs, turns]
            Kernels that take turns, and their shares.
        reference : float64[points + 1, kernels]
            Energy of a conventional slice per busy time by operating point, and at the nominal Vdd.

        Returns
        -------
        float64[3 + 2 x points, I, epochs, moments]
            Busy time, work, and the energy that a conventional slice takes for the work at the
            nominal Vdd; then at each point the energy of the slice, and that of a conventional one.
        """
        of_turn = np.broadcast_to(kernel[:, :, None], events.shape[:-1])
        differs = (events != self.fault_free[of_turn]).any(axis=-1) & (seconds != 0)[..., None]
        rates = self.undisturbed[:, :, of_turn]
        places = np.nonzero(differs)
        if len(places[0]):
            for of_point, technology in zip(rates, self.technologies, strict=True):
                of_point[:, *places] = self.rates(of_turn[places], events[places], technology)
        products = np.zeros((3 + 2 * len(self.technologies), *seconds.shape))
        busy, work, _ = rates[-1]  # the same at all points
        *by_point, nominal = reference
        for turn in range(of_turn.shape[-1]):
            share, runs = weight[:, :, None, turn], of_turn[..., turn]
            products[0] += share * busy[..., turn]
            products[1] += share * work[..., turn]
            products[2] += share * (work[..., turn] * nominal[runs])
            for point, conventional in enumerate(by_point):
                products[3 + 2 * point] += share * rates[point, 2, ..., turn]
                products[4 + 2 * point] += share * (work[..., turn] * conventional[runs])
        return np.where(seconds != 0, products * seconds, 0.0)
