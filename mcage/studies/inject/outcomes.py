"""Fates of injections: the variables of their results files, and the measures."""

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.protection.policy import Protection
from mcage.results.measures import UNKNOWN, Case, Measure
from mcage.results.variable import Variable, flags_of
from mcage.spec.sections import tables_of
from mcage.stats.estimates import Bools, Estimate, Floats, mean, proportion
from mcage.studies.inject.spec import FLIP, INSTRUCTION, SINGLE, InjectSpec


class Fate(IntEnum):
    """Fate of a run, from the outside."""

    MASKED = 0
    """All memory holds what it holds without faults."""
    TOLERABLE = 1
    """Silent data corruption (SDC) within the tolerance."""
    SDC = 2
    """Silent data corruption beyond the tolerance."""
    ADDRESS = 3
    """Detected (DUE): an access to where no buffer lies."""
    LIMIT = 4
    """Detected: three times as many instructions, or waves that wait for ever."""
    CODE = 5
    """Detected: by the code of a word."""
    RETIRED = 6
    """The slice is not in use: a test has found that it cannot run the kernel, its technique finds
    no room or is slower than a life may be, or its delay has used up the guardband."""
    NOT_EMULATED = 7
    """The run comes to an instruction that is not emulated."""


SILENT = (Fate.TOLERABLE, Fate.SDC)
DETECTED = (Fate.ADDRESS, Fate.LIMIT, Fate.CODE)
NOT_RUN = (Fate.RETIRED, Fate.NOT_EMULATED)
"""Fates of runs that were not made; shares of flips leave them out."""


def are_known(fate: NDArray[Any]) -> NDArray[np.bool_]:
    """Which slices never come to an instruction that is not emulated: fates [..., age]."""
    return np.asarray((fate != Fate.NOT_EMULATED).all(axis=-1))


_EACH = ("case", "instance", "age")

VARIABLES = (
    Variable(
        "fate",
        _EACH,
        "int8",
        "1",
        "what becomes of the run",
        "tolerable: wrong within the tolerance, sdc: beyond it; address, limit, code: detected.",
        flags=flags_of(Fate),
    ),
    Variable("silent", _EACH, "int8", "1", "whether the run is silently wrong"),
    Variable("detected", _EACH, "int8", "1", "whether the run ends with a detected error"),
    Variable(
        "output_error",
        _EACH,
        "float64",
        "1",
        "largest error of an output, relative to its largest value",
        missing="where the run has not come to its end, a number has become infinite or no number, "
        "or memory beside the outputs has changed",
    ),
    Variable("wrong_elements", _EACH, "int32", "1", "elements of outputs that are wrong"),
    Variable("wrong_bits", _EACH, "int8", "1", "most wrong bits of an element"),
    Variable(
        "not_finite", _EACH, "int8", "1", "whether an element has become infinite or no number"
    ),
    Variable(
        "faulty_bits",
        _EACH,
        "int32",
        "1",
        "faulty cells of the slice that nothing repairs, in blocks that may be used",
        "Of flips: wrong bits of the word that is hit, of several the most; without a code, the "
        "cells that have changed.",
    ),
)
"""Variables of every kind of faults."""

OF_SLICES = (
    Variable(
        "silent_years",
        ("case", "instance"),
        "float64",
        "year",
        "age of the first silently wrong answer",
        missing="where there is none before something tells, or until the slice is not in use",
    ),
    Variable(
        "told_years",
        ("case", "instance"),
        "float64",
        "year",
        "age at which something tells for the first time: a detected error, or a test",
        "A test that finds that the slice cannot run the kernel, that of the new slice among them; "
        "or the technique finds no room, or is slower than a life may be.",
        missing="where nothing does until the slice is not in use",
    ),
    Variable(
        "silent_faults",
        ("case", "instance"),
        "int32",
        "1",
        "times that new faults have given a silently wrong answer before any detection",
    ),
    Variable(
        "exchange_years",
        ("case", "instance"),
        "float64",
        "year",
        "age at which the exchange rule acts: too many errors that a code has detected",
        "The slice is a bank, and each new detected error is a word.",
        missing="where it does not until the slice is not in use",
    ),
    Variable(
        "silent_before_exchange",
        ("case", "instance"),
        "int32",
        "1",
        "times that new faults have given a silently wrong answer before the exchange rule acts",
    ),
)
"""Further variables of slices with all their faults."""

OF_FLIPS = (
    Variable("flip_work_group", ("case", "instance"), "int32", "1", "work-group that was hit"),
    Variable("flip_wave", ("case", "instance"), "int16", "1", "wave of the work-group"),
    Variable(
        "flip_step",
        ("case", "instance"),
        "int64",
        "1",
        "instructions that the wave had executed before",
    ),
    Variable(
        "flip_instruction",
        ("case", "instance"),
        "int32",
        "1",
        "instruction that has left the value that was hit",
        "The number of its line in `instruction`.",
        within="instruction",
    ),
    Variable("flip_register", ("case", "instance"), "int16", "1", "register that was hit"),
    Variable(
        "flip_bit",
        ("case", "instance"),
        "int16",
        "1",
        "bit of the register, 0 ... 31",
        "-1 where a compressed value was hit, of which many lanes depend on one cell, or a check "
        "bit, or all bits. Of several cells: of the one that was drawn, or the lowest.",
    ),
    Variable(
        "flip_lane",
        ("case", "instance"),
        "int16",
        "1",
        "lane that was hit",
        "-1 where a check bit was hit.",
    ),
    Variable("flip_cells", ("case", "instance"), "int8", "1", "neighbouring cells that change"),
    Variable(
        "flip_attempts",
        ("case", "instance"),
        "int32",
        "1",
        "upsets that were drawn until this one",
        "An upset of several needed cells is drawn more often than it happens, and drawn anew; "
        "drawn_fit over the mean of this is the rate of the flips.",
    ),
    Variable(
        "flip_entry",
        ("case", "instance"),
        "int16",
        "1",
        "entry that was hit",
        "-1 of a register that has never been written. Of a register as programs see it, that of "
        "the first pass.",
    ),
    Variable(
        "flip_moment",
        ("case", "instance"),
        "float64",
        "1",
        "when it was hit, as a share of the kernel's time",
    ),
)
"""Further variables of flips."""


# Measures of each case at each age, declared once.

FLIPS = ("fate", "drawn_fit")
"""Variables of flips of cells, of which other files lack a part: nobody knows how often registers
change, as programs see them."""


@cache
def asked(spec_toml: str) -> InjectSpec:
    """The spec of a results file."""
    return InjectSpec.from_mapping(tables_of(spec_toml))


BITS, CELLS, LANES = "needed bits", "cells of needed words", "needed registers of lanes"
RESULTS, PLACES, SLICES = "results of instructions", "chosen places", "slices"


def population(spec: InjectSpec) -> str:
    """What injections are drawn from: shares of one population are not those of another."""
    inject = spec.inject
    if inject.fault != FLIP:
        return SLICES
    if inject.at is not None:
        return PLACES
    if inject.weight == INSTRUCTION:
        return RESULTS
    if inject.of_registers:
        return LANES
    return BITS if inject.upset == SINGLE else CELLS


def _counted(case: Case) -> Bools:
    """Injections of which something is known; of flips, those of slices that are in use."""
    is_flip = asked(case.spec_toml).inject.fault == FLIP
    left_out = NOT_RUN if is_flip else (Fate.NOT_EMULATED,)
    return np.asarray(~np.isin(case["fate"], left_out))


def _fate(*fates: Fate) -> Callable[[Case], Floats]:
    """Whether each injection has one of some fates; NaN where nothing is known."""
    return lambda case: np.where(_counted(case), np.isin(case["fate"], fates), np.nan)


def _of_silent(variable: str, happens: Callable[[Floats], Bools]) -> Callable[[Case], Floats]:
    """Whether something holds of each silently wrong run; NaN of others."""
    return lambda case: np.where(np.isin(case["fate"], SILENT), happens(case[variable]), np.nan)


def _of_known(case: Case, values: Floats) -> Floats:
    """Values of slices whose fates are all known; NaN of others."""
    return np.where(are_known(case.along("age")["fate"]), values, np.nan)


def _until(variable: str) -> Callable[[Case], Floats]:
    """Whether something has happened to each slice by an age."""
    return lambda case: _of_known(case, case[variable] <= case["age"])


def _over_life(variable: str) -> Callable[[Case], Floats]:
    """How often something happens to each slice over its life."""
    return lambda case: _of_known(case, case[variable])


def _at_last_age(variable: str) -> Callable[[Case], Estimate | None]:
    """Its mean, beside the last age, until which a life is counted."""

    def estimate(case: Case) -> Estimate | None:
        is_last = case.place["age"] == len(case.along("age")["age"]) - 1
        return mean(_over_life(variable)(case)) if is_last else None

    return estimate


def _injected(case: Case) -> Estimate:
    """AVF as injected: that by ACE, times the share of single flips that is not masked."""
    counted = int(_counted(case).sum())
    if asked(case.spec_toml).inject.upset != SINGLE or not counted:
        return UNKNOWN
    masked = proportion(int((case["fate"] == Fate.MASKED).sum()), counted)
    needed = float(case["needed_share"])
    return Estimate(*(needed * (1 - of) for of in (masked.value, masked.upper, masked.lower)))


def _rate(fates: Sequence[Fate]) -> Callable[[Case], Estimate]:
    """Rate in FIT: a share of all upsets that were drawn.

    Unknown of single cells with a code: upsets of check bits, and of bits that are not needed,
    which are detected beside a stuck cell, are not drawn.
    """

    def rate(case: Case) -> Estimate:
        counted = _counted(case)
        is_coded = Protection.of(str(case["protection"])).code is not None
        is_single = asked(case.spec_toml).inject.upset == SINGLE
        if (is_single and is_coded) or not counted.any():
            return UNKNOWN
        drawn = int(case["flip_attempts"][counted].sum())
        of = proportion(int(np.isin(case["fate"], fates).sum()), drawn)
        return Estimate(*(float(case["drawn_fit"]) * bound for bound in vars(of).values()))

    return rate


def _share(
    key: str,
    name: str,
    variables: tuple[str, ...],
    values: Callable[[Case], Floats],
    heading: str,
    *,
    primary: bool = False,
    stops: bool = False,
) -> Measure:
    return Measure(
        key,
        f"{name} [%]",
        variables,
        values,
        f"{heading}\n[%]" if "[" not in heading else heading,
        "bounds",
        kind="share",
        axis="age",
        primary=primary,
        stops=key * stops,
        better="less" * stops,  # type: ignore[arg-type]
    )


def _times(key: str, name: str, variable: str, heading: str) -> Measure:
    return Measure(
        key,
        name,
        (variable, "fate"),
        _over_life(variable),
        heading,
        estimator=_at_last_age(variable),
        axis="age",
    )


SHARES = (
    ("masked", "masked", (Fate.MASKED,), "masked", False, False),
    ("sdc", "silently wrong", SILENT, "SDC", True, True),
    ("sdc_beyond", "wrong beyond the tolerance", (Fate.SDC,), "beyond", False, True),
    ("due", "detected", DETECTED, "DUE", True, True),
    ("address", "detected by an address", (Fate.ADDRESS,), "address", False, False),
    ("limit", "detected by the limit", (Fate.LIMIT,), "limit", False, False),
    ("code", "detected by a code", (Fate.CODE,), "code", False, False),
)
"""Shares of fates: key, name, fates, heading, whether narrow tables have it, and may stop."""

MEASURES = (
    _share(
        "silent_until",
        "ever silently wrong by this age, before any detection",
        ("silent_years", "fate"),
        _until("silent_years"),
        "SDC so far",
        primary=True,
    ),
    _share(
        "told_until",
        "a fault was detected by this age",
        ("told_years", "fate"),
        _until("told_years"),
        "detected so far",
        primary=True,
    ),
    _times(
        "silent_faults",
        "times that new faults are silent over a life, before any detection",
        "silent_faults",
        "",
    ),
    _times(
        "before_exchange",
        "times that new faults are silent over a life, before the exchange rule acts",
        "silent_before_exchange",
        "SDC before\nexchange",
    ),
    *(
        _share(key, name, ("fate",), _fate(*fates), heading, primary=primary, stops=stops)
        for key, name, fates, heading, primary, stops in SHARES
    ),
    Measure(
        "needed",
        "AVF by ACE [%]",
        (*FLIPS, "needed_share"),
        lambda case: case["needed_share"],
        "AVF by ACE\n[%]",
        kind="number",
        scale_in_csv=100.0,
    ),
    Measure(
        "injected",
        "AVF injected [%]",
        (*FLIPS, "needed_share"),
        lambda case: case["needed_share"] * (1 - _fate(Fate.MASKED)(case)),
        "AVF injected\n[%]",
        "bounds",
        estimator=_injected,
        axis="age",
        primary=True,
    ),
    *(
        Measure(
            f"{key}_fit",
            f"{name} runs [FIT of a slice]",
            (*FLIPS, "flip_attempts"),
            _fate(*fates),
            f"{key.upper()}\n[FIT]",
            "bounds",
            estimator=_rate(fates),
            axis="age",
        )
        for key, name, fates in (
            ("sdc", "silently wrong", SILENT),
            ("due", "detected", DETECTED),
        )
    ),
    Measure(
        "allocated",
        "share of the register file in allocated windows [%]",
        ("allocated_share",),
        kind="number",
    ),
    _share(
        "retired",
        "slices not in use any more",
        ("fate",),
        lambda case: case["fate"] == Fate.RETIRED,
        "retired",
    ),
    Measure(
        "not_emulated",
        "runs that come to an instruction that is not emulated",
        ("fate",),
        lambda case: case["fate"] == Fate.NOT_EMULATED,
        "not\nemulated",
        kind="count",
        axis="age",
        primary=True,
    ),
    _share(
        "single_bit",
        "silently wrong in one bit of each element",
        ("fate", "wrong_bits"),
        _of_silent("wrong_bits", lambda bits: bits == 1),
        "one bit\n[% of SDC]",
    ),
    _share(
        "not_finite",
        "silently wrong with an infinite number or none",
        ("fate", "not_finite"),
        _of_silent("not_finite", lambda lost: lost > 0),
        "inf, NaN\n[% of SDC]",
    ),
)
"""The measures of injections, in the order of their table."""
