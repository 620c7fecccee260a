"""Do slices live as the documentation says, by an oracle that was written from it?

Kernels are of a few hundred events, so that event by event takes seconds. The same comparison with
the bundled kernels, and of any number of lives, is `scripts/validation/check_lives.py`.
"""

import numpy as np
import pytest
from engine_cases import NUMBA
from life_oracle import (
    DELAY,
    FAULTY_ENTRY,
    NO_HOME,
    SPILL_LIMIT,
    TOO_SLOW,
    SweepInputs,
    differences,
)
from short_kernels import short_kernels

from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
from mcage.techniques import TECHNIQUES

CROWDED = ((8, 31), (12, 21), (16, 15), (31, 8))
"""Registers of a window and slots: kernels that nearly fill the slice."""

SPARSE = ((6, 3), (8, 2), (12, 2), (16, 1))
"""Kernels that leave room, of which a rotation has few states."""

DIES = 40
AT_LOW_VDD = {"environments": ["dvfs"]}
OF_TWO = {"workload": {"mix_size": 2}}
TWO_STATES = {"selector_offsets": 2}


def at(vdd_volts, lds_rows=None, overflow="end", slowdown_limit="none", **more):
    """Fields of a spec of a low Vdd, with rules of spilling: a row too many ends a life."""
    registers = more.pop("registers", {})
    if lds_rows is not None:
        registers = registers | {"lds_rows": lds_rows, "overflow": overflow}
    life = {"epochs": 2, "slowdown_limit": slowdown_limit} | more.pop("life", {})
    return AT_LOW_VDD | {"vdd_volts": [vdd_volts], "registers": registers, "life": life} | more


CASES = {
    "fixed": (SPARSE, ("baseline", "rar", "rc", "rc+rar", "wc", "argo"), at(0.46), {FAULTY_ENTRY}),
    "turbo": (SPARSE, ("baseline", "rc", "wc"), {"environments": ["turbo"]}, {DELAY}),
    "moving": (CROWDED, ("rrcd", "rrcd+pg"), at(0.41, 16, **OF_TWO), {NO_HOME}),
    "rotating": (CROWDED, ("rrcd+rc+rar",), at(0.41, 16, registers=TWO_STATES), {NO_HOME}),
    "borrowing": (CROWDED, ("gr-guard",), at(0.405, 12), {NO_HOME}),
    "packing": (CROWDED, ("disable",), at(0.45), {NO_HOME}),
    "limited": (
        CROWDED,
        ("rrcd+pg",),
        at(0.41, 32, life={"spill_limit": 0.02}, **OF_TWO),
        {SPILL_LIMIT},
    ),
    "changing": (
        CROWDED,
        ("rrcd",),
        at(
            0.41,
            16,
            workload={"periods": 2, "mix_size": 2},
            life={"temperature_swing_kelvin": "normal(0, 10)"},
        ),
        {NO_HOME},
    ),
    "to memory": (CROWDED, ("rrcd", "gr-guard"), at(0.405, 6, "memory", 0.15), {TOO_SLOW}),
    "rotating to memory": (
        CROWDED,
        ("rrcd+rc+rar",),
        at(0.405, 6, "memory", 0.15, registers=TWO_STATES, **OF_TWO),
        {TOO_SLOW},
    ),
    "waiting too long": (CROWDED, ("disable",), at(0.45, slowdown_limit=0.1), {TOO_SLOW}),
}
DAILY = ("fixed", "turbo", "borrowing", "limited", "rotating to memory", "waiting too long")


def sweep_of(folder, shapes, techniques, fields):
    workload = {"kernels": short_kernels(folder, shapes)} | fields.get("workload", {})
    life = {"epochs": 2} | fields.get("life", {})
    given = {"instances": DIES, "techniques": list(techniques), "workload": workload, "life": life}
    return Sweep(SweepSpec.from_mapping(fields | given), NUMBA)


def telling(years):
    """Dies that were dead on arrival, that died later, and that live on: the first of each."""
    groups = (years == 0, (years > 0) & (years < 10), years == 10)
    return sorted({int(np.flatnonzero(group)[0]) for group in groups if group.any()})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in DAILY else [pytest.mark.slow], id=name)
        for name in CASES
    ],
)
def test_lives_are_those_of_the_oracle(name, tmp_path):
    shapes, techniques, fields, causes = CASES[name]
    sweep = sweep_of(tmp_path, shapes, techniques, fields)
    arrays = sweep.compute(0, DIES)
    seen, said, beyond = set(), [], 0.0
    for number, case in enumerate(sweep.plan.cases):
        places = telling(arrays["life_years"][number])
        lives = SweepInputs(sweep, places).lives(case)
        for place, told in zip(places, lives, strict=True):
            seen.add(told.cause)
            beyond = max(beyond, told.memory_rate) if told.years else beyond
            found = differences(told, arrays, number, place, sweep.plan.spec.epoch_edges_years)
            said += [f"{case.technique.name}, die {place}: {line}" for line in found]
    assert not said, "\n".join(said)
    assert causes <= seen
    assert (beyond > 0) == ("to memory" in name)


def test_all_techniques_are_held_against_the_oracle():
    assert {technique for _, named, _, _ in CASES.values() for technique in named} == set(
        TECHNIQUES
    )
