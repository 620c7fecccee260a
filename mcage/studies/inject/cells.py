"""Faulty cells under the registers of running waves: what a write leaves there, and a read sees.

A faulty cell gives one value for ever (stuck), or keeps what is written until it is read, gives
that once, and has lost it afterwards (read). The latter is the deceptive read destructive fault of
van de Goor and Al-Ars ("Functional memory faults: a formal notation and a taxonomy", VTS 2000); one
that gives the wrong value with the very first read does not differ from a stuck cell for whoever
reads. A word line opens a whole entry: a read disturbs the cells of all its lanes.

With a code, what a word gives is decided when it is written, since nothing changes afterwards: a
single wrong bit is corrected, and a word whose error is detected ends the run with the first read
of one of its lanes.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mcage.geometry import COMPONENT_BITS, Booleans, Integers
from mcage.protection.codes import Code, Outcome
from mcage.studies.inject.kernel import Form, PlacedKernel, Storing, Words
from mcage.studies.inject.slices import FaultsAtAge
from mcage.tracing.emulation.arithmetic import Array
from mcage.tracing.emulation.faults import FaultyMachine, FaultyRegisters, Ran, RunFaults
from mcage.tracing.emulation.waves import Reached as Instruction


@dataclass(frozen=True, eq=False)
class CellRules:
    """How cells keep values, the same for all runs of a case.

    Parameters
    ----------
    storing : Storing
        Forms of values.
    code : Code or None
        Code of each word.
    on_read : bool
        Whether faulty cells lose their values with a read; otherwise they are stuck.
    preloaded : int
        Registers that hold something before the first instruction, from 0.
    """

    storing: Storing
    code: Code | None
    on_read: bool
    preloaded: int


@dataclass(frozen=True, eq=False)
class EntryFaults:
    """Faulty entries of a slice.

    Attributes
    ----------
    mask, value : uint32[n, components]
        Faulty cells of each, and what they give.
    check : uint8[n, words]
        Faulty check cells of each word; no words without a code.
    check_value : uint8[n, words]
        What they give.
    """

    mask: Words
    value: Words
    check: NDArray[np.uint8]
    check_value: NDArray[np.uint8]

    @classmethod
    def of(cls, faults: FaultsAtAge, code: Code | None) -> tuple[Integers, "EntryFaults"]:
        """Entries with faults, rising, and their cells."""
        geometry = faults.geometry
        entries, place = np.unique(faults.entry, return_inverse=True)
        bit, is_check = faults.bit, faults.is_check
        mask, value = (np.zeros((len(entries), geometry.components), np.uint32) for _ in range(2))
        words = geometry.entry_bits // code.data_bits if code else 0
        check, check_value = (np.zeros((len(entries), words), np.uint8) for _ in range(2))
        component, within = np.divmod(bit, COMPONENT_BITS)
        bit_mask = (np.uint32(1) << within.astype(np.uint32)).astype(np.uint32)
        for sets, chosen in ((mask, ~is_check), (value, ~is_check & faults.at_one)):
            np.bitwise_or.at(sets, (place[chosen], component[chosen]), bit_mask[chosen])
        if code:
            word, number = np.divmod(bit, code.data_bits)
            of_check = (1 << np.minimum(number, 7)).astype(np.uint8)
            for of_words, chosen in ((check, is_check), (check_value, is_check & faults.at_one)):
                np.bitwise_or.at(of_words, (place[chosen], word[chosen]), of_check[chosen])
        return entries, cls(mask, value, check, check_value)


@dataclass(frozen=True, eq=False)
class UnderWave:
    """Faulty cells under the registers of a wave.

    Attributes
    ----------
    rules : CellRules
        How they keep values.
    entries : EntryFaults
        The faulty entries of the slice.
    registers : mapping of int to int64[writes, 3]
        By register, for each of its writes: row of `entries`, or -1 of an entry without faults;
        whether the value is compressed; the block of its record. Later writes lie as the last.
    """

    rules: CellRules
    entries: EntryFaults
    registers: Mapping[int, Integers]


def wrong_cells(
    cells: Words, used: Words, rows: Integers, entries: EntryFaults, code: Code | None
) -> tuple[Words, Booleans]:
    """Cells that give something else than they should, behind the decoder.

    Parameters
    ----------
    cells : uint32[n, components]
        What each entry should hold.
    used : uint32[n, components]
        Cells that hold something; the coder takes the others as zeros.
    rows : int64[n]
        Rows of `entries`.
    entries : EntryFaults
        Faulty entries.
    code : Code or None
        Code of each word.

    Returns
    -------
    uint32[n, components], bool[n, components]
        Cells that are wrong, and components of words whose errors the code detects.
    """
    wrong = ((cells ^ entries.value[rows]) & entries.mask[rows] & used).astype(np.uint32)
    detected = np.zeros(wrong.shape, np.bool_)
    if code is None:
        return wrong, detected
    size = code.data_bits // COMPONENT_BITS
    is_used = (used != 0).reshape(len(used), -1, size).any(axis=2)
    check = (code.check(cells) ^ entries.check_value[rows]) & entries.check[rows] * is_used
    of_words = wrong.reshape(len(wrong), -1, size)
    count = np.bitwise_count(of_words).sum(axis=2) + np.bitwise_count(check)
    of_words[count == 1] = 0  # which the code corrects
    for row, word in np.argwhere(count > 1).tolist():
        errors = code.word_bits(of_words[row, word], int(check[row, word]))
        outcome = Outcome(int(code.decode(errors)))
        if outcome == Outcome.DETECTED:
            detected[row, word * size : (word + 1) * size] = True
        left = code.left_by(errors) if outcome >= Outcome.MISCORRECTED else errors & False
        of_words[row, word] = code.data_of(left)
    return wrong, detected


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the values of a register lie, of the waves that meet faulty entries with it.

    Attributes
    ----------
    index : int64[waves of the machine]
        Place of each wave in the other arrays; -1 of those that meet none.
    places : int64[n, writes, 3]
        As of `UnderWave.registers`; the last one is repeated.
    count : int64[n]
        Writes so far.
    first_row : int64[n]
        First row of each wave's slice in the arrays below.
    mask, value : uint32[rows, components]
        As of `EntryFaults`, of all slices.
    sticks : bool
        Whether no value is ever compressed.
    """

    index: Integers
    places: Integers
    count: Integers
    first_row: Integers
    mask: Words
    value: Words
    sticks: bool

    @classmethod
    def of(cls, register: int, cells: Mapping[int, UnderWave], waves: int) -> "_Places":
        """Return the places of a register in a machine of so many waves."""
        here = [(wave, under) for wave, under in cells.items() if register in under.registers]
        most = max(len(under.registers[register]) for _, under in here)
        index = np.full(waves, -1)
        index[[wave for wave, _ in here]] = np.arange(len(here))
        places = np.zeros((len(here), most, 3), np.int64)
        slices = {id(under.entries): under.entries for _, under in here}
        first = dict(
            zip(slices, np.cumsum([0, *(len(of.mask) for of in slices.values())]), strict=False)
        )
        for place, (_, under) in enumerate(here):
            known = under.registers[register]
            places[place, : len(known)], places[place, len(known) :] = known, known[-1]
        return cls(
            index,
            places,
            np.zeros(len(here), np.int64),
            np.array([first[id(under.entries)] for _, under in here]),
            np.concatenate([of.mask for of in slices.values()]),
            np.concatenate([of.value for of in slices.values()]),
            not places[..., 1].any(),
        )

    def next(self, waves: Integers) -> Integers:
        """Return where the next writes of waves land, and count them: int64[n, 3]."""
        which = self.index[waves]
        last = self.places.shape[1] - 1
        places = self.places[which, np.minimum(self.count[which], last)]
        self.count[which] += 1
        return np.asarray(places)


class CellsUnderWaves(FaultyRegisters):
    """Registers of a machine with faulty cells under some of its waves.

    Parameters
    ----------
    machine : FaultyMachine
        The machine.
    cells : mapping of int to UnderWave
        By number of the wave in the machine; all have the same rules.
    """

    def __init__(self, machine: FaultyMachine, cells: Mapping[int, UnderWave]) -> None:
        self._cells = cells
        self._rules = next(iter(cells.values())).rules
        registers = dict.fromkeys(name for under in cells.values() for name in under.registers)
        self._places = {name: _Places.of(name, cells, machine.waves) for name in registers}
        self._row: dict[tuple[int, int], int] = {}
        # By register, then wave: lanes whose errors are detected with the next read, and what a
        # read changes once it has been.
        self._detected: dict[int, dict[int, Booleans]] = {}
        self._pending: dict[int, dict[int, tuple[Words, Booleans]]] = {}
        self._was_read: set[tuple[int, int]] = set()

    @override
    def begin(self, machine: FaultyMachine) -> None:
        for register in range(self._rules.preloaded):
            self.wrote(machine, register, machine.lanes_on)

    @override
    def before(self, machine: FaultyMachine, code: Instruction, waves: Array) -> Array | None:
        if not (self._detected or self._pending):
            return None
        ended = [
            place
            for register in code.reads
            if (of_register := self._detected.get(register))
            for place, wave in enumerate(waves.tolist())
            if wave in of_register and (of_register[wave] & machine.lanes_on[place]).any()
        ]
        if ended:
            return waves[ended]
        for register in code.reads:
            pending = self._pending.get(register, {})
            for wave in waves.tolist() if pending else ():
                if wave in pending:
                    self._disturb(machine, register, wave)
        return None

    def _disturb(self, machine: FaultyMachine, register: int, wave: int) -> None:
        """Note a read of cells that lose what they hold, and let it be lost by an earlier one."""
        if (register, wave) not in self._was_read:
            self._was_read.add((register, wave))
            return
        wrong, detected = self._pending[register].pop(wave)
        machine.vector[register, wave] ^= wrong
        if detected.any():
            self._detected.setdefault(register, {})[wave] = detected

    @override
    def wrote(self, machine: FaultyMachine, register: int, lanes: Array) -> None:
        places = self._places.get(register)
        if places is None:
            return
        numbers = machine.numbers
        at = np.flatnonzero((places.index[numbers] >= 0) & lanes.any(axis=1))
        if not len(at):
            return
        where_next = places.next(numbers[at])
        if places.sticks and self._rules.code is None and not self._rules.on_read:
            faulty = where_next[:, 0] >= 0
            self._stick(machine, register, places, numbers[at[faulty]], where_next[faulty, 0])
            return
        for place, wave, where in zip(at.tolist(), numbers[at].tolist(), where_next, strict=True):
            self._write(machine, (register, wave), lanes[place], where)

    @staticmethod
    def _stick(
        machine: FaultyMachine, register: int, places: "_Places", waves: Integers, rows: Integers
    ) -> None:
        """Let stuck cells give their values, of values that are not compressed."""
        if len(waves):
            rows = places.first_row[places.index[waves]] + rows
            content = machine.vector[register, waves]
            wrong = (content ^ places.value[rows]) & places.mask[rows]
            machine.vector[register, waves] = content ^ wrong

    def _write(
        self, machine: FaultyMachine, key: tuple[int, int], lanes: Booleans, where: Integers
    ) -> None:
        register, wave = key
        under, (row, compressed, block) = self._cells[wave], where.tolist()
        moved = row != self._row.get(key)  # the first write takes its entry whole
        self._row[key] = row
        content = machine.vector[register, wave]
        self._lose(register, wave, content, lanes)
        if moved or compressed:
            lanes = np.ones(len(lanes), np.bool_)
        elif self._rules.code is not None:  # a word is written and decoded whole
            size = self._rules.code.data_bits // COMPONENT_BITS
            lanes = np.repeat(lanes.reshape(-1, size).any(axis=1), size)
        detected = self._detected.get(register, {}).pop(wave, np.zeros(len(lanes), np.bool_))
        detected = detected & ~lanes
        if row >= 0:
            wrong, at_fault = self._wrong(under, content, row, compressed, block)
            wrong, at_fault = np.where(lanes, wrong, 0).astype(np.uint32), at_fault & lanes
            if self._rules.on_read:
                if wrong.any() or at_fault.any():
                    self._pending.setdefault(register, {})[wave] = wrong, at_fault
            else:
                content ^= wrong
                detected = detected | at_fault
        if detected.any():
            self._detected.setdefault(register, {})[wave] = detected

    def _lose(self, register: int, wave: int, content: Words, lanes: Booleans) -> None:
        """Let lanes that a write leaves alone lose what an earlier read has cost them."""
        pending = self._pending.get(register, {}).pop(wave, None)
        if pending is not None and (register, wave) in self._was_read:
            content ^= np.where(lanes, 0, pending[0]).astype(np.uint32)
        self._was_read.discard((register, wave))

    def _wrong(
        self, under: UnderWave, content: Words, row: int, compressed: int, block: int
    ) -> tuple[Words, Booleans]:
        """Bits of a value that are read wrong, and lanes whose errors are detected."""
        storing, code = self._rules.storing, self._rules.code
        value, rows, where = content[None], np.array([row]), np.array([block])
        if not compressed:
            differs = (content ^ under.entries.value[row]) & under.entries.mask[row]
            if code is None or not (differs.any() or under.entries.check[row].any()):
                return differs, np.zeros(len(content), np.bool_)
        form = storing.forms(value) if compressed else np.array([Form.PLAIN])
        wrong, detected = _read(value, form, rows, where, under.entries, self._rules)
        if form[0] != Form.PLAIN:
            detected[:] = detected.any()
        return wrong[0], detected[0]


def faults_of(
    where: PlacedKernel, faults: FaultsAtAge, rules: CellRules, which: int = 0
) -> RunFaults | None:
    """Wrong bits of a run on a slice; None if no needed value differs from its cells.

    Parameters
    ----------
    where : PlacedKernel
        Where values lie, on the known faults of the slice.
    faults : FaultsAtAge
        Its faulty cells.
    rules : CellRules
        How they keep values.
    which : int
        Pass of the placement.
    """
    faulty, entries = EntryFaults.of(faults, rules.code)
    kernel, placed, form = where.kernel, where.placed, where.form
    entry, block = (np.asarray(of[which][placed.home]) for of in (placed.entry, placed.block))
    row_of_entry = np.full(faults.geometry.entries, -1)
    row_of_entry[faulty] = np.arange(len(faulty))
    row = np.where(entry >= 0, row_of_entry[entry], -1)
    lanes = np.bitwise_or.reduce(kernel.needs.lanes, axis=1)
    met = np.flatnonzero((row >= 0) & (lanes != 0))
    if not len(met):
        return None
    # Values of the run without faults that somebody reads wrong, or finds wrong.
    values = where.values[where.value[met]]
    wrong, detected = _read(values, form[met], row[met], block[met], entries, rules)
    components = np.arange(wrong.shape[1], dtype=np.uint64)
    needed = (lanes[met, None] >> components & np.uint64(1)).astype(np.bool_)
    is_plain = (form[met] == Form.PLAIN)[:, None]
    noticed = np.where(is_plain, detected & needed, detected.any(axis=1, keepdims=True))
    harmed = met[((wrong != 0) & needed | noticed).any(axis=1)]
    windows = np.unique(kernel.writes.window[harmed]).tolist()
    groups = {kernel.waves[window].work_group for window in windows}
    if not groups:
        return None
    table = np.stack([row, (form != Form.PLAIN).astype(np.int64), block], axis=1)
    cells = {}
    for window, wave in enumerate(kernel.waves):
        if wave.work_group in groups:
            writes = kernel.writes_of_window(window)
            registers = kernel.writes.reg[writes]
            places = {
                register: table[writes[registers == register]]
                for register in np.unique(registers[row[writes] >= 0]).tolist()
            }
            if places:
                cells[wave.work_group, wave.number] = UnderWave(rules, entries, places)
    return RunFaults(cells=cells)


def _read(
    values: Words,
    form: Integers,
    rows: Integers,
    block: Integers,
    entries: EntryFaults,
    rules: CellRules,
) -> tuple[Words, Booleans]:
    """Bits of values that are read wrong, and components of words whose errors are detected."""
    storing = rules.storing
    cells, used = storing.cells(values, form, block), storing.used(form, block)
    wrong, detected = wrong_cells(cells, used, rows, entries, rules.code)
    if (form == Form.PLAIN).all():
        return wrong, detected
    return storing.values(cells ^ wrong, form, block) ^ storing.values(cells, form, block), detected


Key = TypeVar("Key", bound=Hashable)


def ran_with(
    states: Mapping[Key, tuple[int, FaultsAtAge]], where: PlacedKernel, rules: CellRules
) -> dict[Key, Ran]:
    """Run the kernel on slices; those of which nobody notices a fault are left out.

    Parameters
    ----------
    states : mapping of key to (int, FaultsAtAge)
        Instance and faults.
    where : PlacedKernel
        Where the technique keeps values on a slice without faults.
    rules : CellRules
        How cells keep values.
    """
    alike: dict[tuple[int, bytes], tuple[FaultsAtAge, list[Key]]] = {}
    for key, (instance, faults) in states.items():
        harmful = faults.harmful(rules.code)
        if len(harmful.cell):
            state = harmful.cell.tobytes() + harmful.fault_map.tobytes()
            alike.setdefault((instance, state), (harmful, []))[1].append(key)
    if not alike:
        return {}
    on_maps = where.on_maps(np.array([faults.fault_map for faults, _ in alike.values()]))
    runs = []
    for on_map, ((instance, _), (faults, keys)) in zip(on_maps, alike.items(), strict=True):
        which = instance % len(on_map.placed.entry)  # the pass of a placement that rotates
        wrong = faults_of(on_map, faults, rules, which)
        if wrong is not None:
            runs.append((wrong, keys))
    ran = where.kernel.reruns.run([wrong for wrong, _ in runs])
    return {key: of for (_, keys), of in zip(runs, ran, strict=True) for key in keys}
