"""Rates of all lives together against those of each moment: equal to the last bit."""

import dataclasses
import random

import numpy as np
import pytest
from engine_cases import daily, daily_policies, possible_techniques
from trace_strategies import SPILLING, random_trace

from mcage.costs.activity import KernelActivity
from mcage.costs.energy import CostedSlices
from mcage.geometry import GCN
from mcage.replays.outcome import EVENTS, Event
from mcage.replays.prepare import prepare
from mcage.spec.cost_constants import Component, Penalties, Penalty, load_costs
from mcage.techniques import TECHNIQUES

COSTS = load_costs()
LIVES, MOMENTS, TURNS, KERNELS = 5, 3, 3, 2


def slices_of(technique, rng):
    """Two kernels, after the second of which the slice holds for a while."""
    traces = [random_trace(random.Random(seed), **SPILLING) for seed in range(KERNELS)]
    activities = tuple(KernelActivity.of(prepare(trace, technique)) for trace in traces)
    idle, holding = np.array([0.0, 0.7]), np.array([0, 40])
    nothing = np.zeros((KERNELS, EVENTS))
    return CostedSlices(technique, activities, idle, holding, drawn_penalties(rng), (), nothing)


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


def one_by_one(slices, technologies, lives, reference):
    """What `CostedSlices.add_up` computes, a turn of a moment of a life after the other."""
    seconds, events, kernel, weight, _ = lives
    products = np.zeros((3 + 2 * len(technologies), *seconds.shape))
    for place in zip(*np.nonzero(seconds), strict=True):
        for turn, share in enumerate(weight[place[:2]]):
            number, happens = kernel[place[:2]][turn], events[place][turn, None]
            of_points = []
            for technology, conventional in zip(technologies, reference[:-1], strict=True):
                (busy,), (work,), (power,) = slices.rates(number, happens, technology)
                of_points += [power, work * conventional[number]]
            at_nominal = work * reference[-1, number]
            products[(slice(None), *place)] += share * np.array(
                [busy, work, at_nominal, *of_points]
            )
    return (products * seconds).sum(axis=(2, 3))


def added_up(slices, technologies, lives, reference):
    *of_lives, fault_free = lives
    known = dataclasses.replace(slices, technologies=tuple(technologies), fault_free=fault_free)
    return known.add_up(*of_lives, reference).sum(axis=(2, 3))


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


@pytest.mark.parametrize("name", daily(possible_techniques(), daily_policies()))
def test_lives_are_the_sums_of_their_moments(name):
    rng = np.random.default_rng(0)
    slices = slices_of(possible_techniques()[name], rng)
    for epochs, points in ((1, 1), (3, 2)):
        technologies = [drawn(rng) for _ in range(points)]
        lives = random_lives(slices, epochs, rng)
        reference = rng.random((len(technologies) + 1, KERNELS))
        expected = one_by_one(slices, technologies, lives, reference)
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
