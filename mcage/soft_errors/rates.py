"""Soft errors of a register file in FIT: corrected, detected (DUE) and silent (SDC).

**Upsets.** A particle changes one cell or several neighbours of a row. The rate of changed bits at
a Vdd follows the law of Hazucha and Svensson (IEEE TNS 47(6), 2000): exponential in the critical
charge, which is proportional to Vdd. Constants: ``mcage/data/soft_errors.toml``.

**Words.** What counts is what falls into a word: of I interleaved words, every I-th cell of a row.
A word is needed for a share of the time (its AVF); a change at another time does nothing. Without a
code, a change of a needed word is silent. With a code, the changed cells and those stuck cells that
differ from the stored bit are wrong together: one is corrected, two are detected; whether more are,
depends on which they are. All places of an upset in a row and of stuck cells in a word are counted,
each as likely as any other.

**Words that are wrong by themselves.** A word with two or more stuck cells that differ is wrong at
every read, without any upset: that is no rate in FIT but a share of reads, and soft errors add
nothing to it. It has its own numbers below.

**What is counted.** Each word that an upset reaches counts for itself, as counters of errors do. A
check bit is a cell as any other. Error-correcting pointers repair stuck cells, which the caller
leaves out of the counts; they see no soft error.
"""

import math
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.geometry import Booleans, Floats
from mcage.protection.codes import Code, Outcome

MBIT = 1 << 20
"""Bits of a Mbit (assumed: documents do not say whether theirs have 10**6)."""

INTERLEAVES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Upsets:
    """Rate of upsets of SRAM cells, and how many neighbours they change.

    Parameters
    ----------
    fit_per_mbit : float
        Changed bits in 10**9 hours of 2**20 cells.
    sizes : tuple of float
        Share of the upsets that change 1, 2, 3, ... neighbours of a row.

    Raises
    ------
    UserError
        A rate is negative or not finite, or shares do not add up to 1.
    """

    fit_per_mbit: float
    sizes: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (0 <= self.fit_per_mbit < math.inf):
            raise UserError(f"fit_per_mbit = {self.fit_per_mbit:g}: must be 0 or more, and finite")
        if not self.sizes or min(self.sizes) < 0 or abs(sum(self.sizes) - 1) > 1e-9:
            raise UserError(
                f"sizes = {self.sizes}: shares of 0 or more, whose sum is 1, are needed"
            )

    @property
    def events_per_cell(self) -> float:
        """Upsets that begin in a cell, in FIT."""
        cells = sum(size * share for size, share in enumerate(self.sizes, start=1))
        return self.fit_per_mbit / MBIT / cells


@cache
def constants(node: str) -> dict[str, Any]:
    """Values of a technology node in ``mcage/data/soft_errors.toml``, by name.

    Raises
    ------
    UserError
        There is no such node.
    """
    tables = _tables()
    if node not in tables or node == "faults":
        nodes = ", ".join(name for name in tables if name != "faults")
        raise UserError(f"soft errors: node {node!r:.40} is unknown; choose from {nodes}")
    return {name: entry["value"] for name, entry in tables[node].items()}


@cache
def ranges(node: str) -> dict[str, Distribution]:
    """Distributions of those constants of a node that are uncertain, by name."""
    constants(node)
    return {
        name: Distribution.of(entry["range"])
        for name, entry in _tables()[node].items()
        if "range" in entry
    }


@cache
def _tables() -> dict[str, Any]:
    text = (files("mcage") / "data" / "soft_errors.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def upsets(node: str = "28nm", vdd_volts: float | None = None, **changed: float) -> Upsets:
    """Upsets of cells of a technology node at a supply voltage.

    Parameters
    ----------
    node : str
        ``28nm`` or ``16nm``.
    vdd_volts : float, optional
        Supply voltage in V; by default that at which the rate was measured. The law extrapolates
        below `measured_volts` of the constants.
    **changed : float
        Other values of constants, such as a draw from `ranges`.

    Raises
    ------
    UserError
        There is no such node or constant, or a Vdd is not above 0.
    """
    values = constants(node) | changed
    if unknown := changed.keys() - constants(node).keys():
        raise UserError(f"soft errors: constant {min(unknown)!r:.40} is unknown")
    volts = values["reference_volts"] if vdd_volts is None else vdd_volts
    if not 0 < volts < math.inf:
        raise UserError(f"vdd_volts = {volts:g}: must be above 0, and finite")
    more = math.exp(-values["slope_per_volt"] * (volts - values["reference_volts"]))
    decay = values["multi_cell_decay"] ** np.arange(values["most_cells"] - 1)
    several = values["multi_cell_share"] * decay / decay.sum()
    sizes = (1 - values["multi_cell_share"], *several.tolist())
    return Upsets(values["fit_per_mbit"] * more, sizes)


# Upsets of a word, and their fates.


@lru_cache(maxsize=256)
def runs(size: int, bits: int, interleave: int) -> dict[tuple[int, int], float]:
    """Words in which an upset changes each run of bits, on the mean over its place in a row.

    Parameters
    ----------
    size : int
        Neighbouring cells that the upset changes.
    bits : int
        Cells of a word.
    interleave : int
        Words whose cells take turns.

    Returns
    -------
    dict of (int, int) to float
        Number of words by the first bit that changes, and by how many neighbours of it do. A run
        that ends where its word does may be a part of what the upset changes.
    """
    cells = interleave * bits
    counts: dict[tuple[int, int], float] = {}
    for start in range(1 - size, cells):
        changed = range(max(start, 0), min(start + size, cells))
        for place, first in enumerate(changed[:interleave]):  # each of another word
            run = first // interleave, len(changed[place::interleave])
            counts[run] = counts.get(run, 0.0) + 1.0 / cells
    return counts


@dataclass(frozen=True)
class SoftErrors:
    """Soft errors of the words of a slice, in FIT; all arrays float64[...].

    Attributes
    ----------
    corrected, due, sdc : float64[...]
        Words whose wrong bits are corrected, are detected and cannot be corrected, or leave the
        register file in silence.
    wrong_due, wrong_sdc : float64[...]
        Words that are wrong by their stuck cells alone, on the mean over time while they are
        needed: detected, and in silence. A number of words, no rate.
    bits : float64[...]
        Cells of all words, check bits included.
    """

    corrected: Floats
    due: Floats
    sdc: Floats
    wrong_due: Floats
    wrong_sdc: Floats
    bits: Floats


def soft_errors(
    words_by_hard_faults: ArrayLike,
    avf: ArrayLike,
    cells: Upsets,
    code: Code | None = None,
    interleave: int = 1,
    differing: ArrayLike | None = None,
    data_bits: int = 32,
) -> SoftErrors:
    """Soft errors of words, by their hard faults.

    Parameters
    ----------
    words_by_hard_faults : int[..., 3]
        Words with 0, 1, 2 or more hard faults that no repair covers and that are in use. The last
        column stands for words of exactly as many faults as it has the number; more columns may be
        given.
    avf : float[...]
        Share of the time for which a word is needed, 0 ... 1: a figure of a trace and a technique,
        such as `mcage.soft_errors.ace.TechniqueAce.avf`. All bits of a word are taken to be needed
        together.
    cells : Upsets
        Upsets of cells.
    code : Code, optional
        Code of each word. None: words have no check bits, and nothing is corrected or detected.
    interleave : int
        Words whose cells take turns in a row: 1, 2, 4, ... 64.
    differing : float[...], optional
        Share of the time in which a stuck cell differs from the stored bit, 0 ... 1: of a trace,
        `mcage.soft_errors.stuck.WrongReads`; by default 1/2.
    data_bits : int
        Bits of a word without a code.

    Returns
    -------
    SoftErrors
        Arrays of the shape to which words (without their last axis), AVF and share broadcast.

    Raises
    ------
    UserError
        A number is out of its range.
    """
    words = np.asarray(words_by_hard_faults, dtype=np.float64)
    needed = np.asarray(avf, dtype=np.float64)
    share = differing_by_default() if differing is None else differing
    differs = np.asarray(share, dtype=np.float64)
    bits = code.bits if code else data_bits
    _check(words, needed, differs, interleave, bits)
    shape = np.broadcast_shapes(words.shape[:-1], needed.shape, differs.shape)
    sums = {name: np.zeros(shape) for name in ("corrected", "due", "sdc", "wrong_due", "wrong_sdc")}
    for fate in fates_of_words(cells, code, interleave, data_bits, words.shape[-1]):
        affected = words[..., fate.hard] * needed * fate.chance(differs)
        if fate.corrected is None:
            sums["wrong_due"] += affected * fate.due
            sums["wrong_sdc"] += affected * fate.sdc
        else:
            sums["corrected"] += affected * fate.corrected
            sums["due"] += affected * fate.due
            sums["sdc"] += affected * fate.sdc
    every_word = np.broadcast_to(words.sum(axis=-1) * bits, shape)
    return SoftErrors(**sums, bits=np.asarray(every_word, dtype=np.float64))


def differing_by_default() -> float:
    """Share of the time in which a stuck cell differs from the stored bit (`soft_errors.toml`)."""
    return float(_tables()["faults"]["differing"]["value"])


class FateOfWords(NamedTuple):
    """Fates of words by the number of their hard faults and by how many of these differ.

    Attributes
    ----------
    hard, wrong : int
        Stuck cells of a word, and those of them that differ from the stored bits.
    corrected : float or None
        Rate of a needed word, in FIT; None where the word is wrong without any upset.
    due, sdc : float
        Rates, too; of words that are wrong by themselves, shares.
    """

    hard: int
    wrong: int
    corrected: float | None
    due: float
    sdc: float

    def chance(self, differs: Floats) -> Floats:
        """Share of the time in which so many differ, if each does for a share: float64[...]."""
        ways = math.comb(self.hard, self.wrong)
        chance: Floats = ways * differs**self.wrong * (1 - differs) ** (self.hard - self.wrong)
        return chance


@lru_cache(maxsize=256)
def fates_of_words(
    cells: Upsets, code: Code | None, interleave: int, data_bits: int, columns: int
) -> tuple[FateOfWords, ...]:
    """Fates of words with 0 ... `columns` - 1 hard faults; arguments as of `soft_errors`."""
    bits = code.bits if code else data_bits
    fates = []
    for hard in range(columns):
        for wrong in range(hard + 1):
            corrected, due, sdc = _alone(code, wrong)
            if wrong and corrected < 1:
                fates.append(FateOfWords(hard, wrong, None, due, sdc))
                continue
            rates = np.zeros(3)
            for size, share in enumerate(cells.sizes, start=1):
                if share:
                    rates += share * _changed(code, size, interleave, bits, hard, wrong)
            fates.append(FateOfWords(hard, wrong, *(cells.events_per_cell * bits * rates).tolist()))
    return tuple(fates)


def _check(words: Floats, needed: Floats, differs: Floats, interleave: int, bits: int) -> None:
    for name, values in (("avf", needed), ("differing", differs)):
        if not ((values >= 0) & (values <= 1)).all():
            raise UserError(f"{name}: must be a share, 0 ... 1")
    if words.ndim == 0 or words.shape[-1] < 3 or (words < 0).any():
        raise UserError(
            "words_by_hard_faults: the last axis must have counts of words with 0, 1, 2 or more "
            "hard faults"
        )
    if words.shape[-1] > bits + 1:
        raise UserError(
            f"words_by_hard_faults: the last axis has {words.shape[-1]} counts; words of {bits} "
            f"bits have 0 ... {bits} hard faults"
        )
    if interleave not in INTERLEAVES:
        raise UserError(
            f"interleave = {interleave}: must be one of {', '.join(map(str, INTERLEAVES))}"
        )


@lru_cache(maxsize=256)
def _changed(
    code: Code | None, size: int, interleave: int, bits: int, hard: int, wrong: int
) -> Floats:
    """Words with so many stuck cells in which an upset leaves a wrong bit: float64[3].

    They are corrected, detected and silent, on the mean over the place of the upset in a row and
    over those of the stuck cells, which lie anywhere in the word; at most one of these differs.
    """
    fates = np.zeros(3)
    for (first, length), words in runs(size, bits, interleave).items():
        fates += words * _fates_of_run(code, bits, range(first, first + length), hard, wrong)
    return fates


@cache
def _fates_of_run(code: Code | None, bits: int, run: range, hard: int, wrong: int) -> Floats:
    """Shares of corrected, detected and silent words after a change of a run of their bits.

    All places of stuck cells are as likely; a cell that is stuck does not change. Places in which
    no cell changes are left out of the shares.
    """
    outside = np.setdiff1d(np.arange(bits), run)
    cell = np.eye(bits, dtype=np.bool_)
    patterns, ways = [], []
    for stuck in range(min(hard, len(run) - 1) + 1):
        beyond = hard - stuck
        for among in combinations(run, stuck):
            errors = cell[[place for place in run if place not in among]].any(axis=0)
            if not wrong:
                patterns.append(np.reshape(errors, (1, bits)))
                ways.append(math.comb(len(outside), beyond))
                continue
            # The cell that differs is one of those in the run, or one of the others.
            rest = math.comb(len(outside) - 1, beyond - 1) if beyond and len(outside) else 0
            patterns.append(errors | cell[[*among, *outside]])
            ways += [math.comb(len(outside), beyond)] * stuck + [rest] * len(outside)
    places = math.comb(bits, hard) * (hard if wrong else 1)
    return np.array(ways) @ _fates(code, np.concatenate(patterns)) / places


def _fates(code: Code | None, errors: Booleans) -> Floats:
    """Whether error patterns are corrected, detected, silent: bool[n, bits] to float64[n, 3]."""
    if code is None:
        silent = np.any(errors, axis=-1)
        return np.stack([np.zeros_like(silent), np.zeros_like(silent), silent], -1).astype(float)
    outcome = np.minimum(code.decode(errors), Outcome.MISCORRECTED)
    return np.asarray(np.reshape(outcome, (-1, 1)) == np.arange(1, 4), dtype=np.float64)


def _alone(code: Code | None, wrong: int) -> tuple[float, float, float]:
    """Shares of words with so many wrong bits, anywhere, that are corrected, detected, silent."""
    if code is None or not wrong:
        return 0.0, 0.0, float(wrong > 0)
    shares = code.shares(wrong)
    silent = float(shares[Outcome.MISCORRECTED :].sum())
    return float(shares[Outcome.CORRECTED]), float(shares[Outcome.DETECTED]), silent
