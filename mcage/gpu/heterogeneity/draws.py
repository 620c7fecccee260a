"""Uncertain inputs, drawn for each instance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.distributions import Distribution
from mcage.gpu.heterogeneity.benchmarks import MEAN_BASELINE_DELAY, Benchmark
from mcage.gpu.heterogeneity.scheduler import ipc_overhead
from mcage.gpu.heterogeneity.spec import BENCHMARK, MODEL, PRINTED, HeterogeneitySpec
from mcage.random import stream

PLACES = (
    *("years", "temperature_kelvin", "benchmark", "filter_rate", "baseline_delay", "base_duty"),
    *("theta_kelvin", "activation_ev", "miss_rate", "l2_baseline_delay", "l2_base_duty"),
    *("latency_cycles", "l2_ipc_loss", "proposal_delay", "proposal_power"),
    *("duplication_delay", "duplication_power", "fields", "fills"),
)
"""Which number of a stream each input is drawn by; new inputs come last, so that the draws of the
others stay as they are."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Draws:
    """Inputs of I instances, each float64[I].

    Parameters
    ----------
    years, temperature_kelvin
        Age, and temperature of the baseline.
    filter_rate, base_duty, theta_kelvin, activation_ev
        Of the scheduler.
    scheduler_delay, l2_delay
        Delay increase of the baseline after 7 years; NaN: that of the model.
    miss_rate, l2_base_duty
        Of the L2.
    proposal_delay, proposal_power, duplication_delay, duplication_power
        Relative to the baseline.
    common_field, fills : bool[I]
        Whether both kinds have the same field constant; whether fills count.
    """

    years: Floats
    temperature_kelvin: Floats
    filter_rate: Floats
    base_duty: Floats
    theta_kelvin: Floats
    activation_ev: Floats
    scheduler_delay: Floats
    l2_delay: Floats
    miss_rate: Floats
    l2_base_duty: Floats
    proposal_delay: Floats
    proposal_power: Floats
    duplication_delay: Floats
    duplication_power: Floats
    common_field: NDArray[np.bool_]
    fills: NDArray[np.bool_]


def draw(
    spec: HeterogeneitySpec, benchmarks: Sequence[Benchmark], instances: NDArray[np.int64]
) -> Draws:
    """Draw the inputs of some instances.

    Parameters
    ----------
    spec : HeterogeneitySpec
        Numbers and distributions.
    benchmarks : sequence of Benchmark
        Benchmarks of which each instance runs one.
    instances : int64[I]
        Their ids; the draws depend on these and the seed of the spec alone.
    """
    uniform = np.empty((len(instances), len(PLACES)))
    for row, instance in zip(uniform, instances.tolist(), strict=True):
        stream(spec.seed, "gpu.heterogeneity", instance).random(out=row)
    numbers = dict(zip(PLACES, uniform.T, strict=True))
    scheduler, l2, service = spec.scheduler, spec.l2, spec.service
    chosen = (numbers["benchmark"] * len(benchmarks)).astype(np.int64)

    def of(place: str, given: float | str) -> Floats:
        distribution = Distribution.of(given)
        if distribution.is_constant:
            return np.full(len(instances), distribution.numbers[0])
        return np.array([distribution.at(number) for number in numbers[place].tolist()])

    def of_model_or(place: str, given: float | str) -> Floats:
        return np.full(len(instances), np.nan) if given == MODEL else of(place, given)

    def of_benchmark(values: Sequence[float]) -> Floats:
        return np.array(values)[chosen]

    if scheduler.filter_rate == BENCHMARK:
        filter_rate = of_benchmark([benchmark.filter_rate for benchmark in benchmarks])
    else:
        filter_rate = of("filter_rate", scheduler.filter_rate)
    if scheduler.baseline_delay != PRINTED:
        scheduler_delay = of_model_or("baseline_delay", scheduler.baseline_delay)
    elif scheduler.filter_rate == BENCHMARK:
        scheduler_delay = of_benchmark([benchmark.scheduler_delay for benchmark in benchmarks])
    else:
        scheduler_delay = np.full(len(instances), MEAN_BASELINE_DELAY)
    costs = spec.proposal
    if costs.delay is None:
        overhead = ipc_overhead(of("latency_cycles", costs.latency_cycles))
        proposal_delay = (1 + overhead) / (1 - of("l2_ipc_loss", costs.l2_ipc_loss))
    else:
        proposal_delay = of("proposal_delay", costs.delay)
    return Draws(
        years=of("years", service.years),
        temperature_kelvin=of("temperature_kelvin", service.temperature_kelvin),
        filter_rate=filter_rate,
        base_duty=of("base_duty", scheduler.base_duty),
        theta_kelvin=of("theta_kelvin", scheduler.theta_kelvin),
        activation_ev=of("activation_ev", scheduler.activation_ev),
        scheduler_delay=scheduler_delay,
        l2_delay=of_model_or("l2_baseline_delay", l2.baseline_delay),
        miss_rate=of("miss_rate", l2.miss_rate),
        l2_base_duty=of("l2_base_duty", l2.base_duty),
        proposal_delay=proposal_delay,
        proposal_power=of("proposal_power", costs.power),
        duplication_delay=of("duplication_delay", spec.duplication.delay),
        duplication_power=of("duplication_power", spec.duplication.power),
        common_field=_either(spec.fields, "common", numbers["fields"]),
        fills=_either(spec.fills, "counted", numbers["fills"]),
    )


def _either(given: str, word: str, uniform: Floats) -> NDArray[np.bool_]:
    """Whether each instance has the state that a word names."""
    if given == "either":
        return uniform < 0.5
    return np.full(len(uniform), given == word)
