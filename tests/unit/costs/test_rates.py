"""The compiled loop over lives against the array formulas of costs: equal to the last bit."""

import dataclasses
import random

import numpy as np
import pytest
from engine_cases import possible_techniques
from trace_strategies import SPILLING, random_trace

from mcage.costs import load_costs
from mcage.costs.activity import KernelActivity
from mcage.costs.rates import Slices, add_up
from mcage.geometry import GCN
from mcage.replays.outcome import EVENTS, Event
from mcage.replays.prepare import prepare
from mcage.spec.cost_constants import Component, Penalties, Penalty
from mcage.techniques import TECHNIQUES

COSTS = load_costs()
LIVES, MOMENTS, TURNS, KERNELS = 7, 3, 3, 2


def slices_of(technique, rng):
    """Two kernels, after the second of which the slice holds for a while."""
    traces = [random_trace(random.Random(seed), **SPILLING) for seed in range(KERNELS)]
    activities = tuple(KernelActivity.of(prepare(trace, technique)) for trace in traces)
    idle, holding = np.array([0.0, 0.7]), np.array([0, 40])
    return Slices(technique, activities, idle, holding, drawn_penalties(rng))


def random_lives(slices, epochs, rng):
    """Seconds, events, kernels and shares of lives; half of the moments are without faults."""
    seconds = rng.random((LIVES, epochs, MOMENTS)) * 1e8
    seconds[0], seconds[1, epochs // 2 :] = 0, 0
    kernel = rng.integers(0, KERNELS, (LIVES, epochs, TURNS))
    weight = rng.random((LIVES, epochs, TURNS))
    weight /= weight.sum(axis=2, keepdims=True)
    fault_free = np.zeros((KERNELS, EVENTS))
    fault_free[:, [Event.REGULAR, Event.MOV]] = rng.random((KERNELS, 2))
    passes = [activity.undisturbed for activity in slices.activities]
    most = np.array([3 * of_pass.writes.registers[0] / of_pass.cycles for of_pass in passes])
    shape = (LIVES, epochs, MOMENTS, TURNS)
    of_turn = np.broadcast_to(kernel[:, :, None], shape)
    events = rng.random((*shape, EVENTS)) * most[of_turn][..., None]
    events[..., Event.SPILLED_ROW] *= 10
    for spilled, in_memory in (Event.LDS, Event.MEMORY), (Event.LDS_READ, Event.MEMORY_READ):
        events[..., in_memory] *= events[..., spilled] / (events[..., spilled].max() + 1)
    sound = rng.random(shape) < 0.5
    events[sound] = fault_free[of_turn[sound]]
    return seconds, events, kernel, weight, fault_free


def by_arrays(slices, technologies, lives, reference):
    """What `add_up` computes: rates of all moments, means over turns, and sums over lives."""
    seconds, events, kernel, weight, fault_free = lives

    def over_life(rate):
        mean = weight[:, :, None, 0] * rate[..., 0]
        for turn in range(1, TURNS):
            mean = mean + weight[:, :, None, turn] * rate[..., turn]
        return (mean * seconds).sum(axis=(1, 2))

    of_turn = np.broadcast_to(kernel[:, :, None], events.shape[:-1])
    rates = np.empty((len(technologies), 3, *events.shape[:-1]))
    for point, technology in enumerate(technologies):
        for number in range(KERNELS):
            runs_it = of_turn == number
            rates[point][:, runs_it] = slices.rates(number, events[runs_it], technology)
            without = slices.rates(number, fault_free[number, None], technology)
            same = runs_it & (events == fault_free[number]).all(axis=-1)
            assert (rates[point][:, same] == without).all() or np.isnan(without).any()
    busy, work, _ = rates[0]
    totals = [over_life(busy), over_life(work), over_life(work * reference[-1][of_turn])]
    for point, (_, done, power) in enumerate(rates):
        totals += [over_life(power), over_life(done * reference[point][of_turn])]
    return np.array(totals)


def added_up(slices, technologies, lives, reference):
    *_, fault_free = lives
    undisturbed = [
        np.hstack([slices.rates(k, fault_free[k, None], each) for k in range(KERNELS)])
        for each in technologies
    ]
    constants = np.stack([slices.constants(each) for each in technologies])
    products = np.full((3 + 2 * len(technologies), *lives[0].shape), -1.0)
    add_up(*lives, np.stack(undisturbed), reference, constants, products)
    return products.sum(axis=(2, 3))


def drawn(rng):
    """A technology in which each unit takes something, and passes are longer than a refresh."""
    technology = COSTS.technology("28nm")
    components = {
        field.name: Component(*rng.random(4))
        for field in dataclasses.fields(technology)
        if isinstance(getattr(technology, field.name), Component)
    }
    given = dict(zip(("clock_ghz", "decompression_units", "wakeup_pj"), rng.random(3), strict=True))
    refresh = 20 * technology.geometry.entries
    return dataclasses.replace(technology, retention_cycles=refresh, **components, **given)


def drawn_penalties(rng):
    return Penalties(*(Penalty(*rng.random(2)) for _ in dataclasses.fields(Penalties)))


@pytest.mark.parametrize("name", possible_techniques())
def test_the_loop_is_the_array_formulas(name):
    rng = np.random.default_rng(0)
    slices = slices_of(possible_techniques()[name], rng)
    for epochs, points in ((1, 1), (4, 1), (50, 2)):
        technologies = [drawn(rng) for _ in range(points)]
        lives = random_lives(slices, epochs, rng)
        reference = rng.random((len(technologies) + 1, KERNELS))
        expected = by_arrays(slices, technologies, lives, reference)
        computed = added_up(slices, technologies, lives, reference)
        assert not np.isnan(expected).any()
        np.testing.assert_array_equal(computed, expected)
        assert (computed[:, 0] == 0).all(), "a life of zero"


def test_power_of_another_slice_is_unknown_and_its_speed_known():
    rng = np.random.default_rng(1)
    slices = slices_of(TECHNIQUES["rrcd"], rng)
    other = dataclasses.replace(GCN, entries=2 * GCN.entries)
    technology = dataclasses.replace(COSTS.technology("28nm"), geometry=other)
    lives, reference = random_lives(slices, 3, rng), np.ones((2, KERNELS))
    busy, work, _, power, _ = added_up(slices, [technology], lives, reference)
    assert np.isnan(power[1:]).all()
    assert (work[1:] > 0).all()
    assert (work[1:] < busy[1:]).all()
