"""How far the mitigation of SM gating carries: from the 36 ms of Chen et al. to ten years.

Each of three kinds of model says something else. `bhardwaj` launch by launch is what the paper
has; it is computed for 100,000 launches at most. Its long-term form takes a GPU through any age,
and has too large shifts: by 0.4 % after 100 rounds, by 28 % after 100,000. Models whose state is
made of sums, such as `facelift`, know the duty only.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.environment import environment
from mcage.aging.nbti import SECONDS_PER_YEAR, Bhardwaj, Phases, nbti_model
from mcage.papers.whole_gpus import VDD_VOLTS, kernels, sms
from mcage.studies.gpu_gating.life import ROUND_SECONDS

ROUNDS_SHOWN = (100, 1_000, 10_000, 100_000)
"""Launches that are computed one by one; at most."""

AGES = {
    "36 ms": 100 * ROUND_SECONDS,
    "0.36 s": 1_000 * ROUND_SECONDS,
    "3.6 s": 10_000 * ROUND_SECONDS,
    "36 s": 100_000 * ROUND_SECONDS,
    "1 hour": 3_600.0,
    "1 day": 86_400.0,
    "30 days": 30 * 86_400.0,
    "1 year": SECONDS_PER_YEAR,
    "3 years": 3 * SECONDS_PER_YEAR,
    "10 years": 10 * SECONDS_PER_YEAR,
}
"""Ages in seconds; the first four are those of `ROUNDS_SHOWN`."""

SHOWN = (15, 12, 8)
"""Numbers of active SMs in a table, besides the mean over the kernels."""

LAUNCHES, LONG_TERM = "bhardwaj, launch by launch", "bhardwaj, long-term form"
ADDITIVE = ("facelift", "finfet", "planar")

Row = dict[str, Any]


def launch_by_launch(counts: Sequence[int], rounds: Sequence[int]) -> NDArray[np.float64]:
    """Mitigations after numbers of rounds: float64[rounds, counts], as fractions.

    Parameters
    ----------
    counts : sequence of int
        Active SMs, below the SMs of the GPU.
    rounds : sequence of int
        Numbers of rounds, rising.

    Notes
    -----
    SMs take turns by a counter: equal SMs do exactly the same under the policy of the paper. All
    numbers of active SMs are advanced together.
    """
    model = nbti_model("bhardwaj-unscaled")
    assert isinstance(model, Bhardwaj)
    phases, rates = Phases(model), model.rates(environment("turbo", VDD_VOLTS))
    active, number = np.array(counts), np.arange(sms())[:, np.newaxis]
    working = [(number - turn * active) % sms() < active for turn in range(sms())]
    state = phases.initial_state((sms(), len(counts)))
    mitigations = []
    for count in range(1, rounds[-1] + 1):
        state = phases.advance(state, rates, working[(count - 1) % sms()], ROUND_SECONDS)
        if count in rounds:
            always = (float(rates.stress) * count * ROUND_SECONDS) ** (1 / 6)
            mitigations.append(1 - phases.dvth_of(state).max(axis=0) / always)
    return np.array(mitigations)


def long_term(counts: ArrayLike, seconds: float) -> NDArray[np.float64]:
    """Mitigations by the long-term form of `bhardwaj`: duty n/N, a period of N/(N - n) rounds."""
    mitigations = []
    for active in np.asarray(counts).tolist():
        period = ROUND_SECONDS * sms() / (sms() - active)
        model = nbti_model("bhardwaj-unscaled", {"period_seconds": period})
        mitigations.append(_by_duty(model, active / sms(), seconds))
    return np.array(mitigations)


def by_duty(name: str, counts: ArrayLike, seconds: float) -> NDArray[np.float64]:
    """Mitigations by a model that knows the duty n/N only."""
    model = nbti_model(name)
    return np.array([_by_duty(model, n / sms(), seconds) for n in np.asarray(counts).tolist()])


def _by_duty(model: Any, duty: float, seconds: float) -> float:
    conditions = environment("turbo", VDD_VOLTS)
    gated, always = (model.dvth_at(conditions, d, seconds) for d in (duty, 1.0))
    return float(1 - gated / always)


def mitigation_by_age(rounds: Sequence[int] = ROUNDS_SHOWN) -> list[Row]:
    """Mitigation by age and model: the mean over the fourteen kernels, and some numbers of SMs.

    Parameters
    ----------
    rounds : sequence of int
        Numbers of launches that are computed one by one.

    Returns
    -------
    list of dict
        ``age``, ``seconds``, ``model``, ``mean``, and a key for each of `SHOWN`; in per cent.
    """
    of_kernels = [kernel.sms for kernel in kernels().values()]
    counts = sorted({*of_kernels, *SHOWN})
    rows = []
    labels = {round(seconds / ROUND_SECONDS): age for age, seconds in AGES.items()}
    for count, values in zip(rounds, launch_by_launch(counts, rounds), strict=True):
        rows.append(_row(labels[count], LAUNCHES, dict(zip(counts, values, strict=True))))
    for age, seconds in AGES.items():
        values = long_term(counts, seconds)
        rows.append(_row(age, LONG_TERM, dict(zip(counts, values, strict=True))))
    for name in ADDITIVE:
        for age, seconds in AGES.items():
            values = by_duty(name, counts, seconds)
            rows.append(_row(age, name, dict(zip(counts, values, strict=True))))
    return rows


@cache
def ages() -> tuple[Row, ...]:
    """Rows of `mitigation_by_age`, computed once."""
    return tuple(mitigation_by_age())


def _row(age: str, model: str, by_count: dict[int, float]) -> Row:
    mean = np.mean([by_count[kernel.sms] for kernel in kernels().values()])
    return {
        "age": age,
        "seconds": AGES[age],
        "model": model,
        "mean": 100 * float(mean),
        **{f"{count} SMs": 100 * float(by_count[count]) for count in SHOWN},
    }


AGE_HEADINGS = ("model", "age", "mean of 14 kernels", *(f"{count} SMs" for count in SHOWN))


def age_cells(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Lines of the table, in per cent; ages at which the numbers are the same share a line."""
    lines: list[list[str]] = []
    for row in rows:
        numbers = [f"{row[key]:.1f}" for key in ("mean", *AGE_HEADINGS[3:])]
        if lines and (lines[-1][0], lines[-1][2:]) == (row["model"], numbers):
            lines[-1][1] = f"{lines[-1][1].partition(' to ')[0]} to {row['age']}"
        else:
            lines.append([row["model"], row["age"], *numbers])
    return lines
