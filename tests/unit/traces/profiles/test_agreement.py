"""The profile of a drawn trace against the profile that it was drawn from, key by key."""

import numpy as np
import pytest

from mcage.traces import bundled_trace
from mcage.traces.profiles.characterizing.characterize import characterize
from mcage.traces.profiles.synthesizing.synthesize import synthesize

BOUNDS = {
    "cycles": 0.05,
    "windows.count": 0,
    "windows.work_groups": 0,
    "windows.sizes": 0,
    "windows.lifetime_cycles": 0.15,
    "windows.active_cycles": 0.15,
    "windows.allocation_interval_cycles": 0.6,
    "concurrency": 0.05,
    "rates": 0.01,
    "patterns": 0.07,
    "patterns.warped_compression": 0.2,
    "divergence": 0.08,
    "divergence.mean_lanes": 0.15,
    "bits.ones": 0.2,
    "bits.neighbours_differ": 0.12,
    "bits.value_before_differs": 0.3,
    "lifetimes.write_to_next_write_cycles": 0.2,
    "lifetimes.write_to_last_read_cycles": 0.25,
    "lifetimes.reads_per_value": 0.03,
    "lifetimes.mean_reads_per_value": 0.01,
    "lifetimes.reads_before_any_write": 0,
    "hot_registers": 0.005,
}
"""Largest difference of a share; of another number, relative to it; of levels, to their mean."""


def numbers_of(statistics, before=()):
    """Every list of numbers of the statistics, by the names that lead to it."""
    for key, value in statistics.items():
        if isinstance(value, dict):
            yield from numbers_of(value, (*before, key))
        else:
            yield (*before, key), np.atleast_1d(np.asarray(value, float))


def bound_of(names):
    """The bound of the longest name that leads to a number; patterns are left out for bits."""
    names = ("bits", names[2]) if names[0] == "bits" else names
    return next(BOUNDS[key] for key in (".".join(names[:2]), names[0]) if key in BOUNDS)


@pytest.fixture(scope="module", params=["MatrixTranspose", "Reduction", "ScanLargeArrays"])
def profiles(request):
    """Profiles of a recorded trace, and of one drawn from it."""
    recorded = characterize(bundled_trace(request.param))
    return recorded, characterize(synthesize(recorded, seed=5))


def test_statistics_agree(profiles):
    recorded, drawn = (dict(numbers_of(profile.statistics)) for profile in profiles)
    assert recorded.keys() == drawn.keys()
    for names, numbers in recorded.items():
        scale = max(np.abs(numbers).mean(), 1)
        apart = np.abs(drawn[names] - numbers).max() / scale
        assert apart <= bound_of(names), names


def test_parameters_of_windows_agree(profiles):
    recorded, drawn = profiles
    for before, after in zip(recorded.kernels, drawn.kernels, strict=True):
        exact = ("window_size", "wavefronts", "open_windows", "together", "first", "following")
        for key in exact:
            assert getattr(after, key) == getattr(before, key), key
        assert np.mean(after.tail) == pytest.approx(np.mean(before.tail), rel=0.2)
    for before, after in zip(recorded.launches, drawn.launches, strict=True):
        assert (after.kernel, after.work_groups, after.gap) == (
            before.kernel,
            before.work_groups,
            before.gap,
        )
        assert np.mean(after.active) == pytest.approx(np.mean(before.active), rel=0.02)


def test_parameters_of_registers_agree(profiles):
    """Writes, the kinds of values, what follows what, and how often it is read."""
    for before, after in zip(*(profile.kernels for profile in profiles), strict=True):
        for role, drawn in zip(before.roles, after.roles, strict=True):
            for register, other in zip(role.registers, drawn.registers, strict=True):
                assert np.mean(other.writes) == pytest.approx(np.mean(register.writes), rel=0.05)
                for time in ("first_write", "last_write"):
                    means = [np.mean(getattr(each, time)) for each in (register, other)]
                    assert means[1] == pytest.approx(means[0], abs=0.05)
                steps = [
                    {step: _sum(each, step) for step in range(13)} for each in (register, other)
                ]
                for step, (count, reads) in steps[0].items():
                    assert steps[1][step][0] == pytest.approx(count, rel=0.05, abs=2)
                    assert steps[1][step][1] == pytest.approx(reads, rel=0.05, abs=4)


def _sum(register, step):
    """Values and reads of a step."""
    values = [value for value in register.values if value.step == step]
    return sum(v.count for v in values), sum(v.count * np.mean(v.reads) for v in values)
