"""What a study of both levels says of each policy and technique: every number, declared once."""

from collections.abc import Callable

import numpy as np

from mcage.results.measures import Case, Measure
from mcage.stats.estimates import Estimate, Floats, mean

OF_LASTING = (
    "of the GPUs whose register files last, which have not failed for faults by the horizon"
)


def _shift(case: Case) -> Floats:
    """Largest shift of a cell of each GPU at the horizon; NaN where its register files fail."""
    shift: Floats = case["max_dvth_mv"][..., -1]
    return shift


def _left(case: Case) -> Floats:
    """That shift over the one with the first policy and the first technique."""
    left: Floats = _shift(case) / _shift(case.at(policy=0, technique=0))
    return left


def _saved(case: Case) -> Estimate | None:
    """What is saved against these, on the GPUs that last with both."""
    is_first = not case.place["policy"] and not case.place["technique"]
    return None if is_first else mean(1 - _left(case))


def _saved_if_independent(case: Case) -> Estimate | None:
    """What would be if the savings of both levels were independent."""
    if not case.place["policy"] or not case.place["technique"]:
        return None
    return mean(1 - _left(case.at(technique=0)) * _left(case.at(policy=0)))


def _age(name: str) -> Callable[[Case], Floats]:
    """Age of each GPU by which something happens; infinite where it does not by the horizon."""
    return lambda case: np.where(case[name] < case.horizon_years, case[name], np.inf)


def _median(key: str, name: str, what: str, heading: str, also: str) -> Measure:
    return Measure(
        key,
        f"age at which half of the GPUs {what} [years]",
        (name,),
        _age(name),
        heading,
        "age",
        quantile=0.5,
        also=also,
        note="lives: medians, years",
    )


MEASURES = (
    Measure(
        "mean_share",
        "share of the time for which an SM is on [%]",
        heading="SM is on\n[%]",
        form="short",
        also="share",
    ),
    Measure(
        "lasting",
        "GPUs whose register files last",
        ("max_dvth_mv",),
        lambda case: np.isfinite(_shift(case)),
        "files last\n[GPUs]",
        kind="count",
        primary=True,
    ),
    Measure(
        "max_dvth_mv",
        "largest shift of a cell at the horizon [mV]",
        ("max_dvth_mv",),
        _shift,
        "max. dVth\n[mV]",
        primary=True,
        better="less",
    ),
    Measure(
        "saved",
        "less shift of a cell than with the first policy and technique [%]",
        ("max_dvth_mv",),
        lambda case: 1 - _left(case),
        "saved\n[%]",
        estimator=_saved,
        primary=True,
        note="saved: of the largest shift of a cell, against the first policy with the first "
        "technique",
    ),
    Measure(
        "saved_if_independent",
        "less shift of a cell if both levels were independent [%]",
        ("max_dvth_mv",),
        lambda case: 1 - _left(case.at(technique=0)) * _left(case.at(policy=0)),
        "if independent\n[%]",
        estimator=_saved_if_independent,
        also="independent",
    ),
    Measure(
        "cell_margin",
        "delay margin that cells need at the horizon [%]",
        ("cell_margin",),
        lambda case: case["cell_margin"][:, -1],
        "margin of\ncells [%]",
        better="less",
    ),
    Measure(
        "logic_margin",
        "delay margin that logic needs at the horizon [%]",
        ("logic_margin",),
        lambda case: case["logic_margin"][:, -1],
        "margin of\nlogic [%]",
        better="less",
    ),
    _median(
        "median_cell_life_years",
        "cell_life_years",
        "have cells that are too slow",
        "life: cells'\ndelay [years]",
        "cell_life",
    ),
    _median(
        "median_fault_life_years",
        "fault_life_years",
        "fail for faulty cells",
        "faults\n[years]",
        "fault_life",
    ),
    _median(
        "median_logic_life_years",
        "logic_life_years",
        "have logic that is too slow",
        "logic\n[years]",
        "logic_life",
    ),
    Measure(
        "median_life_years",
        "age at which half of the GPUs are dead [years]",
        ("life_years", "end_cause"),
        lambda case: case["life_years"],
        "life: GPU\n[years]",
        "age",
        quantile=0.5,
        primary=True,
        also="median_life",
    ),
)
"""The measures of a study of both levels, in the order of its table."""
