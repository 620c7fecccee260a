"""The vendor's rule: from the ages of uncorrectable words to those of banks, SMs and GPUs.

A word is uncorrectable from the age at which its protection cannot give back what was written. A
bank may have a few of them. With the next one, its SM is given up; with more SMs given up than the
GPU can spare, the GPU is exchanged. Numbers and sources are in ``data/exchange.toml``.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.geometry import MOST_ENTRIES
from mcage.plain_text import shortened
from mcage.random import streams_of
from mcage.stats.survival import FIT_HOURS, HOURS_PER_YEAR

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_WORDS = 1000
"""Uncorrectable words that a rule may allow a bank."""


@cache
def _data() -> MappingProxyType[str, Any]:
    text = files("mcage").joinpath("data", "exchange.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def _number(name: str) -> int:
    return int(_data()["gpu"][name]["value"])


def words_allowed(rule: str | int) -> int:
    """Uncorrectable words that a bank may have.

    Parameters
    ----------
    rule : str or int
        ``secded`` or ``parity``: NVIDIA's rule for SRAM that is so protected. Or a number of words.

    Raises
    ------
    UserError
        It is neither.
    """
    known, rule = _data()["words"], str(rule)
    if rule in known:
        return int(known[rule]["value"])
    if not (rule.isascii() and rule.isdecimal() and int(rule) <= MOST_WORDS):
        raise UserError(
            f"rule = {shortened(rule)}: expected {' or '.join(known)}, or a number of words, "
            f"0 ... {MOST_WORDS}"
        )
    return int(rule)


class RuleKeys(TypedDict, total=False):
    """Fields of `ExchangeRule`; what is None has its default."""

    rule: str | int
    sms: int | None
    slices_per_sm: int | None
    banks_per_sm: int | None
    spare_sms: int


@dataclass(frozen=True)
class ExchangeRule:
    """When a GPU is exchanged.

    Parameters
    ----------
    rule : str or int
        As of `words_allowed`.
    sms : int
        SMs of a GPU, 1 ... 1000; by default those of an H100.
    slices_per_sm : int
        Slices of an SM, 1 ... 64.
    banks_per_sm : int, optional
        Address banks of the register files of an SM. By default each slice is a bank. A divisor of
        ``slices_per_sm``: so many successive slices make a bank. A multiple, up to `MOST_ENTRIES`
        times as many: a slice has several, among which its entries lie in turn.
    spare_sms : int
        SMs of a GPU that may be given up before it is exchanged.

    Raises
    ------
    UserError
        A number is out of range, or banks and slices do not fit.
    """

    rule: str | int = "secded"
    sms: int = field(default_factory=lambda: _number("sms"))
    slices_per_sm: int = field(default_factory=lambda: _number("slices_per_sm"))
    banks_per_sm: int | None = None
    spare_sms: int = 0

    def __post_init__(self) -> None:
        words_allowed(self.rule)
        most = {"sms": (1, 1000), "slices_per_sm": (1, 64)}
        for name, (low, high) in (most | {"spare_sms": (0, self.sms - 1)}).items():
            if not low <= getattr(self, name) <= high:
                raise UserError(f"{name} = {getattr(self, name)}: expected {low} ... {high}")
        banks, slices = self.banks, self.slices_per_sm
        most_banks = slices * MOST_ENTRIES
        if not 1 <= banks <= most_banks or (slices % banks and banks % slices):
            raise UserError(
                f"banks_per_sm = {banks}: an SM has {slices} slices; expected a divisor of that, "
                f"or a multiple of it up to {most_banks:,}, a bank for each entry"
            )

    @classmethod
    def of(cls, **fields: Unpack[RuleKeys]) -> "ExchangeRule":
        """Return the rule of the fields that are not None."""
        return cls(**{name: value for name, value in fields.items() if value is not None})  # type: ignore[arg-type]

    @property
    def words(self) -> int:
        """Uncorrectable words that a bank may have."""
        return words_allowed(self.rule)

    @property
    def banks(self) -> int:
        """Banks of an SM."""
        stated = self.banks_per_sm
        return self.slices_per_sm * _number("banks_per_slice") if stated is None else stated

    @property
    def banks_per_slice(self) -> int:
        """Banks of a slice; 1 where a bank has a slice or several."""
        return max(1, self.banks // self.slices_per_sm)

    @property
    def slices(self) -> int:
        """Slices of a GPU."""
        return self.sms * self.slices_per_sm


@dataclass(frozen=True, eq=False)
class UncorrectableWords:
    """The first K words of S slices that become uncorrectable.

    Parameters
    ----------
    years : float64[S, K]
        Ages at which they do, rising in each slice; NaN or infinite where it never happens.
    entries : int64[S, K], optional
        Entry of each word; without meaning where it never happens.
    known_until_years : float64[S], optional
        Age up to which all words of a slice are known. By default that of its last word if all K
        have an age, since another one may follow; otherwise for ever.

    Raises
    ------
    UserError
        Ages fall, or are negative.
    """

    years: Floats
    entries: Integers | None = None
    known_until_years: Floats | None = None

    def __post_init__(self) -> None:
        years = np.where(np.isnan(self.years), np.inf, self.years).astype(np.float64)
        if (years < 0).any() or (years[:, 1:] < years[:, :-1]).any():
            raise UserError(
                "the ages at which the words of a slice become uncorrectable must not fall, nor be "
                "below 0"
            )
        object.__setattr__(self, "years", years)
        if self.known_until_years is None:
            object.__setattr__(self, "known_until_years", years[:, -1:].max(axis=1, initial=0.0))

    def with_soft_errors(self, soft: "DetectedSoftErrors") -> "UncorrectableWords":
        """These words and those in which soft errors are detected, each address once.

        Addresses of soft errors are uniform, so that hard words may take any addresses: the r-th
        word has address r.

        Parameters
        ----------
        soft : DetectedSoftErrors
            Soft errors of the same slices.
        """
        ranks = self.years.shape[1]
        is_hard = soft.addresses < ranks
        years = self.years.copy()
        rows, columns = np.nonzero(is_hard & np.isfinite(soft.years))
        places = rows, soft.addresses[rows, columns]
        np.minimum.at(years, places, soft.years[rows, columns])
        merged = np.concatenate([years, np.where(is_hard, np.inf, soft.years)], axis=1)
        entries = None
        if self.entries is not None:
            entries = np.concatenate([self.entries, soft.entries], axis=1)
            # A hard word that never happens has no entry: then it is that of the soft error.
            unknown = ~np.isfinite(self.years[places])
            entries[rows[unknown], places[1][unknown]] = soft.entries[rows, columns][unknown]
        order = merged.argsort(axis=1, kind="stable")
        if entries is not None:
            entries = np.take_along_axis(entries, order, axis=1)
        merged = np.take_along_axis(merged, order, axis=1)
        return UncorrectableWords(merged, entries, self.known_until_years)


def sm_years(
    words: UncorrectableWords, rule: ExchangeRule, soft: "DetectedSoftErrors | None" = None
) -> Floats:
    """Age at which a bank of each SM has more uncorrectable words than it may.

    Parameters
    ----------
    words : UncorrectableWords
        Words of S slices, those of an SM one after the other; S is a multiple of
        ``rule.slices_per_sm``.
    rule : ExchangeRule
        What a bank is, and what it may have.
    soft : DetectedSoftErrors, optional
        Soft errors of the same slices, which count as well.

    Returns
    -------
    float64[S / slices_per_sm]
        Infinite where it never happens.

    Raises
    ------
    UserError
        More words of a slice would have to be known.
    """
    if rule.banks_per_slice > 1 and words.entries is None:
        raise ValueError("banks within a slice need the entries of the words")
    left = words if soft is None else words.with_soft_errors(soft)
    if rule.banks_per_slice > 1:
        years = _beyond_in_slices(left, rule)
    else:
        years = np.min([_beyond(of_bank, rule.words) for of_bank in _banks(left, rule)], axis=0)
    assert words.known_until_years is not None
    known = words.known_until_years.reshape(-1, rule.slices_per_sm).min(axis=1)
    if unknown := int((years > known).sum()):
        raise UserError(
            f"the first {words.years.shape[1]} uncorrectable words of a slice are not enough to "
            f"say when {unknown:,} SMs are given up (words a bank {rule.words}, "
            f"banks an SM {rule.banks}): more of them must be recorded"
        )
    return years


def _banks(words: UncorrectableWords, rule: ExchangeRule) -> Iterator[Floats]:
    """Ages of the words of each bank of all SMs: float64[SM, n], infinite where it has no word."""
    years = words.years.reshape(len(words.years) // rule.slices_per_sm, -1, words.years.shape[1])
    together = max(1, rule.slices_per_sm // rule.banks)
    for first in range(0, rule.slices_per_sm, together):
        yield years[:, first : first + together].reshape(len(years), -1)


def _beyond_in_slices(words: UncorrectableWords, rule: ExchangeRule) -> Floats:
    """Age at which a bank of each SM, whose slices have several, has too many: float64[SM]."""
    assert words.entries is not None
    bank = words.entries % rule.banks_per_slice
    earlier = np.zeros(bank.shape, dtype=np.int64)
    for rank in range(1, bank.shape[1]):
        earlier[:, rank] = (bank[:, :rank] == bank[:, rank : rank + 1]).sum(axis=1)
    years = np.where(earlier == rule.words, words.years, np.inf)
    of_sms: Floats = years.reshape(-1, rule.slices_per_sm * bank.shape[1]).min(1, initial=np.inf)
    return of_sms


def _beyond(years: Floats, words: int) -> Floats:
    """Age of the word after so many: float64[SM, n] to float64[SM]."""
    if years.shape[1] <= words:
        return np.full(len(years), np.inf)
    return np.partition(years, words, axis=1)[:, words]


def gpu_years(of_sms: Floats, spare_sms: int) -> Floats:
    """Age at which each GPU is exchanged: more of its SMs are given up than it can spare.

    Parameters
    ----------
    of_sms : float64[..., sms]
        Ages from which SMs are given up; infinite for those that never are.
    spare_sms : int
        SMs that a GPU can spare, fewer than it has.

    Returns
    -------
    float64[...]
        Infinite where it never happens.
    """
    years: Floats = np.sort(of_sms, axis=-1)[..., spare_sms]
    return years


# Soft errors: a Poisson process of each slice, at addresses that are all alike.


@dataclass(frozen=True, eq=False)
class DetectedSoftErrors:
    """Detected soft errors of S slices, the first at each address.

    Parameters
    ----------
    years : float64[S, M]
        Ages at which they are detected, rising; infinite where there are no more.
    addresses : int64[S, M]
        Words in which they are, different ones in each slice.
    entries : int64[S, M]
        Entries of these words.
    """

    years: Floats
    addresses: Integers
    entries: Integers


def soft_errors(
    seed: int,
    slices: Integers,
    per_year: Floats,
    horizon_years: float,
    shape: tuple[int, int],
    most: int,
) -> DetectedSoftErrors:
    """Detected soft errors of slices until a horizon.

    The k-th error of a slice comes when the expected number of errors reaches a number that seed
    and slice decide: rates that differ, as of cases, have errors in common.

    Parameters
    ----------
    seed : int
        Seed of the whole study.
    slices : int64[S]
        Instance ids.
    per_year : float64[S]
        Errors of each slice in a year, expected.
    horizon_years : float
        Last age of interest.
    shape : tuple of int
        Entries of a slice, and words of an entry.
    most : int
        Number of different addresses after which further errors of a slice change nothing.
    """
    entries, words = shape
    count = min(most, entries * words)
    expected = (per_year * horizon_years).tolist()
    streams = streams_of(seed, "gpu.exchange.soft", slices.tolist())
    of_slices = []
    for draws, last in zip(streams, expected, strict=True):
        met: dict[int, float] = {}
        at = float(draws.standard_exponential())
        while at <= last and len(met) < count:
            met.setdefault(int(draws.integers(entries * words)), at)
            at += float(draws.standard_exponential())
        of_slices.append(met)
    most_met = max(map(len, of_slices), default=0)
    years = np.full((len(slices), most_met), np.inf)
    addresses = np.tile(np.arange(most_met), (len(slices), 1)) + entries * words
    for place, met in enumerate(of_slices):
        years[place, : len(met)] = np.array(list(met.values())) / per_year[place]
        addresses[place, : len(met)] = list(met)
    return DetectedSoftErrors(years, addresses, addresses // words % entries)


def per_year_of_fit(fit: float) -> float:
    """Events in a year at a rate in FIT, events in 1e9 hours."""
    return fit * HOURS_PER_YEAR / FIT_HOURS
