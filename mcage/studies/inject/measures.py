"""What injections say of each case at each age: every number, declared once."""

import tomllib
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from mcage.protection.policy import Protection
from mcage.results.measures import UNKNOWN, Case, Measure
from mcage.stats.estimates import Bools, Estimate, Floats, mean, proportion
from mcage.studies.inject.outcomes import DETECTED, NOT_RUN, SILENT, Fate, are_known
from mcage.studies.inject.spec import SINGLE, InjectSpec

FLIPS = ("fate", "drawn_fit")
"""What files of flips have, and those of slices with their faulty cells lack in part."""


@cache
def asked(spec_toml: str) -> InjectSpec:
    """The spec of a results file."""
    return InjectSpec.from_mapping(tomllib.loads(spec_toml))


def _counted(case: Case) -> Bools:
    """Injections of which something is known; of flips, those of slices that are in use."""
    left_out = NOT_RUN if "drawn_fit" in case else (Fate.NOT_EMULATED,)
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


MEASURES = (
    _share(
        "silent_until",
        "ever silently wrong by this age, before anything has told",
        ("silent_years", "fate"),
        _until("silent_years"),
        "SDC so far",
        primary=True,
    ),
    _share(
        "told_until",
        "something has told by this age",
        ("told_years", "fate"),
        _until("told_years"),
        "told so far",
        primary=True,
    ),
    _times(
        "silent_faults",
        "times that new faults are silent over a life, before anything tells",
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
        for key, name, fates, heading, primary, stops in (
            ("masked", "masked", (Fate.MASKED,), "masked", False, False),
            ("sdc", "silently wrong", SILENT, "SDC", True, True),
            ("sdc_beyond", "wrong beyond the tolerance", (Fate.SDC,), "beyond", False, True),
            ("due", "detected", DETECTED, "DUE", True, True),
            ("address", "detected by an address", (Fate.ADDRESS,), "address", False, False),
            ("limit", "detected by the limit", (Fate.LIMIT,), "limit", False, False),
            ("code", "detected by a code", (Fate.CODE,), "code", False, False),
        )
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
