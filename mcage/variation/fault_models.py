"""The fault model of a sweep: which scenario, and how its maps come about."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mcage.compiled import compiled
from mcage.errors import UserError
from mcage.geometry import GCN, Integers, SliceGeometry
from mcage.protection.policy import ECP, Protection, unusable_blocks
from mcage.random import stream
from mcage.variation.field import die_of
from mcage.variation.scenarios import CLASSES, MODES, ArraySize, Scenario, scenario
from mcage.variation.vmin_tail import TailCells, check_vdd, in_words, sample_tail

# From faulty cells to fault maps: what the protection of entries leaves to be avoided.


@dataclass(frozen=True, eq=False)
class EntryFaults:
    """Hard faults of all entries of I instances.

    Attributes
    ----------
    bits : int16[I, entries]
        Number of faulty bits of each entry; not counted where words have a code.
    blocks : uint8[I, entries]
        Bit b is set if block b has a faulty bit; not counted where words have a code.
    words : uint8[I, entries, words]
        Number of faulty bits of each word with its check bits; no words without a code.
    unspared : uint8[I, entries]
        Fault maps before spare entries take the places of faulty ones.
    protection : Protection
        What protects the entries.
    """

    bits: NDArray[np.int16]
    blocks: NDArray[np.uint8]
    words: NDArray[np.uint8]
    unspared: NDArray[np.uint8]
    protection: Protection

    @classmethod
    def none(cls, instances: int, protection: Protection, geometry: SliceGeometry = GCN) -> Self:
        """Instances without faults."""
        shape = (instances, geometry.entries)
        blocks, maps = (np.zeros(shape, dtype=np.uint8) for _ in range(2))
        words = np.zeros((*shape, protection.words(geometry)), dtype=np.uint8)
        return cls(np.zeros(shape, dtype=np.int16), blocks, words, maps, protection)

    @property
    def maps(self) -> NDArray[np.uint8]:
        """Fault maps that follow: see `fault_map`."""
        return self.protection.without_spares(self.unspared)

    def of(self, instances: NDArray[np.int64]) -> "EntryFaults":
        """Faults of selected instances, in rising order; all of them share these arrays."""
        if len(instances) == len(self.bits):
            return self
        bits, blocks, words, unspared = (faults[instances] for faults in self._arrays)
        return EntryFaults(bits, blocks, words, unspared, self.protection)

    def copy(self) -> "EntryFaults":
        """The same in arrays of its own."""
        bits, blocks, words, unspared = (faults.copy() for faults in self._arrays)
        return EntryFaults(bits, blocks, words, unspared, self.protection)

    def keep(self, instances: NDArray[np.int64], others: "EntryFaults") -> None:
        """Replace the faults of selected instances."""
        for faults, of_others in zip(self._arrays, others._arrays, strict=True):
            faults[instances] = of_others

    @property
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.bits, self.blocks, self.words, self.unspared

    def more(self, cells: TailCells, faulty: NDArray[np.bool_]) -> "EntryFaults":
        """The same with more faults: cells of the I instances, and which are faulty, bool[n]."""
        counts = self.bits.copy(), self.blocks.copy(), self.words.copy()
        return EntryFaults(*counts, self._more(cells, faulty, *counts, True), self.protection)

    def maps_with(self, cells: TailCells, faulty: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Fault maps with more faults, as `more` has them: uint8[I, entries]."""
        if self.protection.code is not None:
            return self.more(cells, faulty).maps
        maps = self._more(cells, faulty, self.bits, self.blocks, self.words, False)
        return self.protection.without_spares(maps)

    def _more(
        self,
        cells: TailCells,
        faulty: NDArray[np.bool_],
        bits: NDArray[np.int16],
        blocks: NDArray[np.uint8],
        words: NDArray[np.uint8],
        counted: bool,
    ) -> NDArray[np.uint8]:
        geometry, maps = cells.geometry, self.unspared.copy()
        faulty_cells = cells.offsets, cells.cell, faulty
        unusable = unusable_blocks(geometry.blocks, self.protection)
        sizes = geometry.entry_bits, geometry.block_bits
        if self.protection.code is None:
            add_faults(*faulty_cells, bits, blocks, maps, unusable, counted, *sizes)
        else:
            touched = np.zeros(geometry.entries, dtype=np.bool_)
            word_bits = self.protection.word_bits
            add_faults_of_words(*faulty_cells, words, maps, unusable, touched, word_bits, *sizes)
        return maps

    def uncovered(self) -> "UncoveredFaults":
        """Words that hard faults have left without cover."""
        maps, pointers = self.maps, self.protection.pointers
        if self.protection.code is None:
            beyond, none = (np.zeros(len(maps), dtype=np.int64) for _ in range(2))
            _count_beyond(self.bits, maps, pointers, beyond)
            return UncoveredFaults(beyond, none)
        lost = maps != 0
        harmed = np.where((self.words > 1) & lost[..., None], self.words, 0)
        of_entries = np.where(self.unspared == 0, self.words.sum(axis=2, dtype=np.int64), 0)
        spent = np.maximum(of_entries - pointers, 0)
        return UncoveredFaults(harmed.sum(axis=(1, 2), dtype=np.int64), spent.sum(axis=1))


class UncoveredFaults(NamedTuple):
    """Words that hard faults of I instances have left without cover.

    Attributes
    ----------
    bits : int64[I]
        Faulty bits of faulty entries: all of them without a code, where they are more than
        pointers replace; with a code, all those of words with two or more. Entries that a spare
        replaces have none.
    words : int64[I]
        Words whose code corrects a hard fault, so that it can only detect a soft error. Words of
        faulty entries do not count, also where a technique still uses some of their blocks.
    """

    bits: Integers
    words: Integers


@dataclass(frozen=True, eq=False)
class NewSlices:
    """I slices as manufactured, at a Vdd: their faults, and the cells that may become faulty.

    Attributes
    ----------
    faults : EntryFaults
        Their faults; a cell that is faulty from the start stays faulty.
    tail : TailCells
        The weakest of the other cells.
    """

    faults: EntryFaults
    tail: TailCells

    def cells_with(self, others: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cells of the tail, and after them as many others of each instance.

        Parameters
        ----------
        others : int64[I, k]
            Cells of each instance; the same array may be asked for again.

        Returns
        -------
        int64[n], int64[n]
            Instance of each cell, and its number in the slice.
        """
        if self._with.get("others") is not others:
            size = len(self.tail.cell) + others.size
            instance, cell = np.empty(size, np.int64), np.empty(size, np.int64)
            _list_cells(self.tail.offsets, self.tail.cell, others, instance, cell)
            self._with.update(others=others, instance=instance, cell=cell)
        return self._with["instance"], self._with["cell"]

    @cached_property
    def _with(self) -> dict[str, NDArray[np.int64]]:
        return {}

    @classmethod
    def at(cls, vdd_volts: float, cells: TailCells, protection: Protection = ECP) -> Self:
        """Slices with these weak cells.

        Parameters
        ----------
        vdd_volts : float
            Vdd at which cells must work.
        cells : TailCells
            All cells that are faulty at this Vdd, or may become so.
        protection : Protection
            What protects their entries; the weak cells have its check cells.
        """
        faulty, count = cells.vmin_volts > vdd_volts, cells.instances
        faults = EntryFaults.none(count, protection, cells.geometry).more(cells, faulty)
        return cls(faults, cells.where(~faulty))

    def __len__(self) -> int:
        return self.tail.instances


def faulty_bits(cells: TailCells, faulty: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Faulty bits of each entry.

    Parameters
    ----------
    cells : TailCells
        Cells of I instances.
    faulty : bool[n]
        Which of them are faulty.

    Returns
    -------
    int16[I, entries]
    """
    return EntryFaults.none(cells.instances, ECP, cells.geometry).more(cells, faulty).bits


def fault_map(
    cells: TailCells, faulty: NDArray[np.bool_], protection: Protection = ECP
) -> NDArray[np.uint8]:
    """Blocks that cannot be used, whatever protects their entries.

    Parameters
    ----------
    cells : TailCells
        Cells of I instances, those of check bits included.
    faulty : bool[n]
        Which of them are faulty.
    protection : Protection
        What protects the entries; by default, error-correcting pointers repair a bit of each. By
        the paper's conservative rule (`Protection.spread_blocks`) an entry with i >= 2 faulty bits
        loses i blocks, or all, also where two of its bits lie in the same block. Blocks with faulty
        bits go first, then the lowest others.

    Returns
    -------
    uint8[I, entries]
        Bit b set: block b of that entry is unusable. 0: the entry is reliable.

    Notes
    -----
    Toca-Díaz et al. (RRCD), section II.B; Schechter et al. (ECP), ISCA 2010. With a code, a word
    with a single faulty bit is usable, since its code corrects that.
    """
    return EntryFaults.none(cells.instances, protection, cells.geometry).more(cells, faulty).maps


def class_shares(bits: NDArray[np.int16]) -> NDArray[np.float64]:
    """Fractions of entries with 0, 1, 2, 3, and 4 or more faulty bits.

    Parameters
    ----------
    bits : int16[I, entries]
        Faulty bits of each entry.

    Returns
    -------
    float64[I, 5]
    """
    last = len(CLASSES) - 1
    classes = np.minimum(bits, last)
    shares: NDArray[np.float64] = (classes[:, :, None] == np.arange(len(CLASSES))).mean(axis=1)
    return shares


# Further faulty cells in the fault maps of slices; compiled.


@compiled
def _count_beyond(
    bits: NDArray[np.int16], maps: NDArray[np.uint8], pointers: int, beyond: NDArray[np.int64]
) -> None:
    """Count the faulty bits of unusable entries that have more of them than pointers."""
    for instance in range(len(beyond)):
        for entry in range(maps.shape[1]):
            number = bits[instance, entry]
            lost = maps[instance, entry] != 0 and number > pointers
            beyond[instance] += number if lost else 0


@compiled
def _list_cells(
    offsets: NDArray[np.int64],
    tail: NDArray[np.int32],
    others: NDArray[np.int64],
    instances: NDArray[np.int64],
    cells: NDArray[np.int64],
) -> None:
    """Fill in what `NewSlices.cells_with` returns."""
    count, each = others.shape
    for instance in range(count):
        for place in range(offsets[instance], offsets[instance + 1]):
            instances[place], cells[place] = instance, tail[place]
        first = len(tail) + instance * each
        for number in range(each):
            instances[first + number], cells[first + number] = instance, others[instance, number]


@compiled
def add_faults(
    offsets: NDArray[np.int64],
    cell: NDArray[np.int32],
    faulty: NDArray[np.bool_],
    bits: NDArray[np.int16],
    blocks: NDArray[np.uint8],
    maps: NDArray[np.uint8],
    unusable: NDArray[np.uint8],
    counted: bool,
    entry_bits: int,
    block_bits: int,
) -> None:
    """Add faulty cells to fault maps.

    Parameters
    ----------
    offsets, cell : int64[I+1], int32[n]
        Cells of I slices, as of `mcage.variation.vmin_tail.TailCells`.
    faulty : bool[n]
        Which of them are faulty from now on.
    bits, blocks : int16[I, entries], uint8[I, entries]
        Faulty bits of entries, and blocks with faulty bits, so far.
    maps : uint8[I, entries]
        Fault maps, which are brought up to date.
    unusable : uint8[n, 2 ** blocks]
        Unusable blocks by faulty bits, 0 ... n - 1 or more, and blocks that hold them.
    counted : bool
        Whether ``bits`` and ``blocks`` are brought up to date, too.
    entry_bits, block_bits : int
        Cells of an entry and of a block.
    """
    for instance in range(len(offsets) - 1):
        place, last = offsets[instance], offsets[instance + 1]
        while place < last:
            entry = cell[place] // entry_bits
            begin = entry * entry_bits
            number = held = np.int64(0)
            while place < last and cell[place] < begin + entry_bits:  # cells are in rising order
                is_faulty = np.int64(faulty[place])  # without a branch, often a surprise
                number += is_faulty
                held |= is_faulty << ((cell[place] - begin) // block_bits)
                place += 1
            if number == 0:
                continue
            number += bits[instance, entry]
            held |= blocks[instance, entry]
            maps[instance, entry] = unusable[min(number, len(unusable) - 1), held]
            if counted:
                bits[instance, entry], blocks[instance, entry] = number, held


@compiled
def add_faults_of_words(
    offsets: NDArray[np.int64],
    cell: NDArray[np.int32],
    faulty: NDArray[np.bool_],
    words: NDArray[np.uint8],
    maps: NDArray[np.uint8],
    unusable: NDArray[np.uint8],
    touched: NDArray[np.bool_],
    word_bits: int,
    entry_bits: int,
    block_bits: int,
) -> None:
    """Add faulty cells to words, and bring fault maps up to date.

    Parameters
    ----------
    offsets, cell : int64[I+1], int32[n]
        Cells of I slices, as of `mcage.variation.vmin_tail.TailCells`, check cells included.
    faulty : bool[n]
        Which of them are faulty from now on.
    words : uint8[I, entries, words]
        Faulty bits of each word so far, check bits included, which are counted up.
    maps : uint8[I, entries]
        Fault maps, which are brought up to date.
    unusable : uint8[n, 2 ** blocks]
        Unusable blocks by the faulty bits that are too many for their words, 0 ... n - 1 or more,
        and the blocks that hold such words.
    touched : bool[entries]
        Workspace.
    word_bits, entry_bits, block_bits : int
        Data bits of a word, an entry and a block.
    """
    entries, words_of_entry = words.shape[1:]
    for instance in range(len(offsets) - 1):
        touched[:] = False
        for place in range(offsets[instance], offsets[instance + 1]):
            if faulty[place]:
                within = cell[place] % (entries * entry_bits)
                entry = within // entry_bits
                word = within % entry_bits // word_bits
                words[instance, entry, word] = min(words[instance, entry, word] + 1, 255)
                touched[entry] = True
        for entry in range(entries):
            if not touched[entry]:
                continue
            excess, held = 0, 0
            for word in range(words_of_entry):
                bits = words[instance, entry, word]
                if bits > 1:
                    excess += bits - 1
                    held |= 1 << (word * word_bits // block_bits)
            maps[instance, entry] = unusable[min(excess, len(unusable) - 1), held]


# Fault maps drawn from Table I of RRCD.


def exact_counts(shares: tuple[float, ...], total: int) -> NDArray[np.int64]:
    """Whole numbers that sum to ``total`` and come closest to the fractions (largest remainder)."""
    ideal = np.asarray(shares) * total
    # A fraction such as 0.29 * 100 = 28.999999999999996 is meant to be whole.
    counts = np.floor(ideal + 1e-9).astype(np.int64)
    missing = total - int(counts.sum())
    counts[np.argsort(counts - ideal, kind="stable")[:missing]] += 1
    return counts


def sample_table(
    scenario: Scenario, seed: int, instances: NDArray[np.int64], exact: bool
) -> TailCells:
    """Faulty cells of each instance at the Vdd of the scenario.

    An entry of class i has i faulty bits in i different blocks; the last class, "4 or more", has
    four. Their Vmin is infinite: the table knows one Vdd only, and its faults do not grow.

    Parameters
    ----------
    scenario : Scenario
        Only its table is used.
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids.
    exact : bool
        Whether each map has the fractions of the table, rounded to whole entries, in random order.
        If not, the class of each entry is drawn, and the fractions hold on the average.

    Notes
    -----
    Toca-Díaz et al. (RRCD), section II.B and Table I: "entries with i faulty bits, i >= 2, have
    i faulty blocks", conservatively.
    """
    ladder = np.cumsum(scenario.table_shares)[:-1]
    ranked = np.repeat(np.arange(len(CLASSES)), exact_counts(scenario.table_shares, GCN.entries))
    parts = []
    for instance in instances.tolist():
        generator = stream(seed, "variation.table", instance)
        uniform = generator.random(GCN.entries)
        block_order = np.argsort(generator.random((GCN.entries, GCN.blocks)), axis=1)
        place = (generator.random((GCN.entries, GCN.blocks)) * GCN.block_bits).astype(int)
        bits = (
            ranked[np.argsort(np.argsort(uniform))]
            if exact
            else np.searchsorted(ladder, uniform, side="right")
        )
        entry, nth = np.nonzero(np.arange(GCN.blocks) < bits[:, None])
        cell = entry * GCN.entry_bits + block_order[entry, nth] * GCN.block_bits
        cell += place[entry, nth]
        parts.append((cell.astype(np.int32), np.full(len(cell), np.inf)))
    return TailCells.join(parts)


@dataclass(frozen=True)
class FaultModel:
    """Where the faults of an instance come from.

    Parameters
    ----------
    scenario : Scenario
        Of `mcage.variation.scenarios.scenario`, or changed by `dataclasses.replace`.
    mode : str
        ``varius``: Vmin of each cell from the spatial model; any Vdd, faults grow with age.
        ``table``: the class of each entry is drawn from the scenario's table; only the Vdd of the
        table, and faults never grow. ``table-exact``: the same with exactly the fractions of the
        table in each map.
    spread_blocks : bool
        Whether fault maps follow the conservative rule of `mcage.variation.fault_models`.
    slices_per_chip : int
        Slices with successive ids that share a die; see `mcage.variation.field.die_of`.

    Raises
    ------
    UserError
        If ``mode`` is not one of `MODES`, a value is impossible, or the mode cannot take a die
        part into account, or needs a table that the scenario does not have.
    """

    scenario: Scenario
    mode: str = "varius"
    spread_blocks: bool = False
    slices_per_chip: int = 1

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UserError(f"unknown fault mode {self.mode!r}; choose one of {', '.join(MODES)}")
        if self.slices_per_chip < 1:
            raise UserError(f"slices_per_chip = {self.slices_per_chip}, expected 1 or more")
        if not self.grows and not self.scenario.table_shares:
            raise UserError(
                f"mode {self.mode}: no table is published for scenario {self.scenario.name}; use "
                "mode varius"
            )
        if not self.grows and self.scenario.sigma_die_volts > 0:
            raise UserError(
                f"sigma_die_volts = {self.scenario.sigma_die_volts:g}: mode {self.mode} holds "
                "slices to one table, whatever their die; use 0, or mode varius"
            )

        if not self.grows and self.scenario.geometry.shape != GCN.shape:
            raise UserError(
                f"mode {self.mode}: the published table counts faulty bits of entries of a "
                f"{GCN.name} slice, not of {self.scenario.geometry.name}; use mode varius"
            )

    @property
    def grows(self) -> bool:
        """Whether each cell has a Vmin, so that aging can add faults."""
        return self.mode == "varius"

    def check_vdd(self, vdd_volts: float) -> None:
        """Refuse a Vdd at which this model has nothing to say.

        Raises
        ------
        UserError
            If the Vdd cannot be meant, leaves no reliable entry, or is not the table's.
        """
        check_vdd(self.scenario, vdd_volts)
        if not self.grows and abs(vdd_volts - self.scenario.vdd_volts) > 1e-9:
            raise UserError(
                f"vdd = {vdd_volts:g} V: mode {self.mode} knows scenario {self.scenario.name} "
                f"at {self.scenario.vdd_volts:g} V only; use that, or mode varius"
            )

    def dies(self, instances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Die of each instance."""
        return die_of(instances, self.slices_per_chip)

    def sample(
        self,
        seed: int,
        instances: NDArray[np.int64],
        floor_volts: float,
        protection: Protection = ECP,
    ) -> TailCells:
        """Cells of each instance that are faulty at some Vdd above the floor.

        Parameters
        ----------
        seed : int
            Seed of the whole sweep.
        instances : int64[I]
            Instance ids.
        floor_volts : float
            Lowest Vdd to be asked about, less the largest shift by aging.
        protection : Protection
            What protects the entries: where words have a code, their check cells are drawn, too.

        Raises
        ------
        UserError
            If the floor is too low for ``varius``, or above the Vdd that a table speaks of; if
            words do not fit, see `check_protection`.
        """
        self.check_protection(protection)
        if self.grows:
            drawn_by = self.scenario, seed, instances, floor_volts, self.slices_per_chip
            data = sample_tail(*drawn_by)
            if protection.code is None:
                return data
            return in_words(data, sample_tail(*drawn_by, protection.code), protection)
        if not floor_volts <= self.scenario.vdd_volts:
            self.check_vdd(floor_volts)
        return sample_table(self.scenario, seed, instances, exact=self.mode == "table-exact")

    def check_protection(self, protection: Protection) -> None:
        """Refuse a protection of whose check cells this model says nothing.

        Raises
        ------
        UserError
            As `Protection.check`; or a table says nothing of check bits.
        """
        protection.check(self.scenario.geometry, self.scenario.segment_bits)
        if protection.code is not None and not self.grows:
            raise UserError(
                f"protection {protection.name}: mode {self.mode} takes faulty bits from a table, "
                "which has none of check bits; use mode varius"
            )


def fault_model(
    name: str | Scenario,
    mode: str = "varius",
    *,
    spread_blocks: bool = False,
    slices_per_chip: int = 1,
    geometry: SliceGeometry = GCN,
    arrays: str | None = None,
    **changes: float | None,
) -> FaultModel:
    """Fault model of a scenario, whose parameters may be changed.

    Parameters
    ----------
    name : str or Scenario
        Name of a shipped scenario, or a scenario.
    mode, spread_blocks, slices_per_chip
        See `FaultModel`.
    geometry : SliceGeometry
        The slice.
    arrays : str, optional
        Size of the arrays, see `mcage.variation.scenarios.ArraySize.of`; None: the scenario's.
        On a slice with fewer entries than these have, they are as many bits wider.
    **changes : float, optional
        Parameters of the scenario, such as ``sigma_die_volts``, ``sigma_systematic_volts``,
        ``sigma_random_volts`` or ``phi``; None leaves that of the scenario.

    Raises
    ------
    UserError
        As `FaultModel` and `mcage.variation.scenarios.Scenario`; and if an option is given that
        the mode would not use.
    """
    changed = {key: value for key, value in changes.items() if value is not None}
    base = scenario(name) if isinstance(name, str) else name
    size = _that_fits(base.arrays, geometry) if arrays is None else ArraySize.of(arrays)
    if size and "phi" in changed:
        raise UserError(
            f"phi = {changed['phi']:g}: arrays ({size} in scenario {base.name}) have no "
            'correlation over a distance; leave it out, or give arrays = "none"'
        )
    smooth = replace(base.in_arrays(None), geometry=geometry, **changed)  # type: ignore[arg-type]
    chosen = FaultModel(smooth.in_arrays(size), mode, spread_blocks, slices_per_chip)
    arguments = changed if arrays is None else changed | {"arrays": arrays}
    if arguments and not chosen.grows:
        key, value = next(iter(arguments.items()))
        shown = value if isinstance(value, str) else f"{value:g}"
        raise UserError(
            f"{key} = {shown}: mode {mode} takes classes from a table and would not use it; "
            "leave it out, or use mode varius"
        )
    return chosen


def _that_fits(size: ArraySize | None, geometry: SliceGeometry) -> ArraySize | None:
    """Arrays of as many cells that are not higher than the slice."""
    if size is None or size.entries <= geometry.entries:
        return size
    return ArraySize(geometry.entries, size.bits * size.entries // geometry.entries)
