"""The profile of a drawn trace against the profile that it was drawn from, key by key."""

import dataclasses
import functools
import json

import numpy as np
import pytest
from check_synthesis import key_of, numbers_of
from profile_cases import SEED, SMALL_KERNELS, drawn_from, profile_of
from small_traces import small_trace
from tables import each

from mcage.errors import UserError
from mcage.geometry import NVIDIA
from mcage.traces import KERNELS, open_trace, validate_trace
from mcage.traces.library import PROFILES, open_profile, path_of_bundled
from mcage.traces.profiles import (
    PATTERNS,
    REGULAR,
    drawn,
    levels_of,
    parse_profile,
    profile_text,
    spread,
)
from mcage.traces.profiles.characterize import characterize
from mcage.traces.profiles.drawn_contents import linked_lanes
from mcage.traces.profiles.measures import MOST_STEPS, bits_of, step_of_writes, steps_of
from mcage.traces.profiles.synthesize import synthesize

BOUNDS = {
    "cycles": 0.02,
    "windows.count": 0,
    "windows.work_groups": 0,
    "windows.sizes": 0,
    "windows.lifetime_cycles": 0.05,
    "windows.active_cycles": 0.05,
    "windows.allocation_interval_cycles": 0.12,
    "concurrency": 0.02,
    "rates": 0.005,
    "patterns": 0.02,
    "patterns.warped_compression": 0.03,
    "divergence": 0.01,
    "divergence.mean_lanes": 0.01,
    "bits.ones": 0.06,
    "bits.neighbours_differ": 0.06,
    "bits.value_before_differs": 0.03,
    "lifetimes.write_to_next_write_cycles": 0.12,
    "lifetimes.write_to_last_read_cycles": 0.2,
    "lifetimes.reads_per_value": 0.01,
    "lifetimes.mean_reads_per_value": 0.005,
    "lifetimes.reads_before_any_write": 0,
    "hot_registers": 0.005,
}
"""Largest difference of a share; of another number, relative to it; of levels, to their mean."""


@pytest.fixture(scope="module", params=SMALL_KERNELS)
def profiles(request):
    """Profiles of a recorded trace, and of one drawn from it."""
    return profile_of(request.param), characterize(drawn_from(request.param))


def test_statistics_agree(profiles):
    recorded, drawn = (dict(numbers_of(profile.statistics)) for profile in profiles)
    assert recorded.keys() == drawn.keys()
    for names, numbers in recorded.items():
        scale = max(np.abs(numbers).mean(), 1)
        apart = np.abs(drawn[names] - numbers).max() / scale
        assert apart <= BOUNDS[key_of(names, BOUNDS)], names


def test_parameters_of_windows_agree(profiles):
    recorded, drawn = profiles
    for before, after in zip(recorded.kernels, drawn.kernels, strict=True):
        for key in ("window_size", "wavefronts", "open_windows", "first", "following", "tail"):
            assert getattr(after, key) == getattr(before, key), key
    for before, after in zip(recorded.launches, drawn.launches, strict=True):
        assert (after.kernel, after.work_groups, after.gap) == (
            before.kernel,
            before.work_groups,
            before.gap,
        )
        for key in ("active", "tail", "apart"):
            means = [np.mean(getattr(each, key) or 0) for each in (before, after)]
            assert means[1] == pytest.approx(means[0], rel=0.02), key


def test_parameters_of_registers_agree(profiles):
    """Writes, their times, and how often values of a pattern occur and are read."""
    for before, after in zip(*(profile.kernels for profile in profiles), strict=True):
        for role, other_role in zip(before.roles, after.roles, strict=True):
            for register, other in zip(role.registers, other_role.registers, strict=True):
                assert np.mean(other.writes) == pytest.approx(np.mean(register.writes), rel=0.05)
                times = [np.mean(each.written, axis=0) for each in (register, other)]
                np.testing.assert_allclose(times[1], times[0], atol=0.02)
                for patterns in (*((one,) for one in PATTERNS[:REGULAR]), PATTERNS[REGULAR:]):
                    counts = [_values_and_reads(each, patterns) for each in (register, other)]
                    np.testing.assert_allclose(counts[1], counts[0], rtol=0.05, atol=4)


def _values_and_reads(register, patterns):
    """Values of some patterns, and reads of them."""
    values = [value for value in register.values if value.pattern in patterns]
    reads = [value.count * np.mean([reads for _, reads, _ in value.lives]) for value in values]
    return sum(value.count for value in values), sum(reads)


def test_loops_are_steps_that_repeat():
    """Two writes, a loop of three that runs six times, and one more write."""
    program = [0, 1, *[2, 3, 4] * 6, 5]
    number = np.tile(np.arange(1, len(program) + 1), 8)
    features = np.tile(np.eye(6)[program], (8, 1))
    noise = np.random.default_rng(0).normal(0, 0.05, features.shape)
    steps = steps_of(number, features + noise)
    assert steps == ((1, 1), (1, 1), (18, 3), (1, 1))
    of_writes = step_of_writes(steps, len(program) + 2)
    np.testing.assert_array_equal(of_writes, [0, *np.add(program, 1), 6, 6])


def test_more_steps_than_are_told_apart():
    number = np.arange(1, 301)
    different = np.random.default_rng(0).random((300, 4))
    steps = steps_of(number, different)
    assert sum(period for _, period in steps) <= MOST_STEPS
    assert sum(writes for writes, _ in steps) == 300
    assert steps_of(number[:0], different[:0]) == ()


@pytest.mark.parametrize("share", [0.25, 0.7])
def test_lanes_that_depend_on_their_neighbours(share):
    ones, neighbours = np.full((4000, 32), share), np.full((4000, 32), 0.1)
    drawn = bits_of(linked_lanes(ones, neighbours, 64, np.random.default_rng(2)))
    assert drawn.mean() == pytest.approx(share, abs=0.01)
    assert (drawn[:, 1:] != drawn[:, :-1]).mean() == pytest.approx(0.1, abs=0.01)
    assert drawn.mean(axis=(0, 2)) == pytest.approx(np.full(64, share), abs=0.02)


# Traces drawn from profiles: valid, the same for the same seed, and like the recorded ones.


def test_levels_keep_the_mean():
    samples = np.random.default_rng(0).exponential(size=1003)
    levels = levels_of(samples)
    assert np.mean(levels) == pytest.approx(samples.mean(), rel=1e-5)
    draws = drawn(levels, spread(np.random.default_rng(1), 160))
    np.testing.assert_allclose(np.sort(draws).reshape(16, 10).mean(axis=1), levels, rtol=1e-12)


@pytest.mark.parametrize("name", SMALL_KERNELS)
def test_equal_seeds_give_equal_valid_traces(name):
    profile, drawn = profile_of(name), drawn_from(name)
    read_again = parse_profile(profile_text(profile).encode(), "text")
    other = synthesize(profile, SEED + 1)
    for trace in (drawn, other):
        validate_trace(trace)
    digests = [trace.digest() for trace in (drawn, synthesize(read_again, SEED), other)]
    assert digests[0] == digests[1] != digests[2]
    assert drawn.caveat == f"synthesized from {name}"


@pytest.mark.parametrize("name", ["MatrixTranspose-32", "Reduct-32", "ScanLargeArrays-32"])
def test_the_trace_of_a_bundled_profile(name):
    trace = open_trace(name.lower())
    validate_trace(trace)
    assert trace.geometry == NVIDIA
    assert trace.concurrent_windows <= NVIDIA.max_windows
    assert trace.name in PROFILES
    assert trace.caveat == f"synthesized from {trace.name}, not recorded on NVIDIA hardware"


def test_all_profiles_are_bundled():
    for name in PROFILES:
        with path_of_bundled(name) as path:
            assert path.stat().st_size > 1000


def test_more_windows_and_longer_passes():
    profile = profile_of("Reduction")
    windows = profile.statistics["windows"]["count"]
    assert synthesize(profile, windows=3 * windows).windows == 3 * windows
    assert synthesize(profile, cycles=1_000_000).cycles == pytest.approx(1_000_000, rel=0.1)
    assert synthesize(profile, windows=1).windows == 4  # a whole work-group


def test_a_small_trace():
    validate_trace(synthesize(characterize(small_trace())))


def test_approximate_traces_stay_approximate():
    trace = small_trace()
    inferred = dataclasses.replace(trace, source={"approximate": {"time": "no cycles"}})
    assert synthesize(characterize(inferred)).caveat == (
        f"approximate in time; synthesized from {trace.name}"
    )


@functools.cache
def text_of_reduction():
    return profile_text(profile_of("Reduction"))


@each(
    ("change", "message"),
    [
        (lambda p: p.update(format="other"), "format = 'other'"),
        (lambda p: p.update(more=1), "more = 1"),
        (lambda p: p["kernels"][0].update(open_windows=1000), "has room for"),
        (lambda p: p["kernels"][0]["lane_masks"].append("xyz"), "'xyz'"),
        (lambda p: p["kernels"][0]["roles"][0]["registers"].pop(), "must have 13 registers"),
        (lambda p: p["launches"][0].update(kernel=3), "there are 1 kernels"),
        (lambda p: p["geometry"].update(entries=3), "entries is 3"),
        (lambda p: p["geometry"].update(lanes=3), "lanes"),
        (lambda p: p.update(rest=-1), "rest = -1"),
    ],
)
def test_wrong_profiles_are_refused(change, message):
    given = json.loads(text_of_reduction())
    change(given)
    with pytest.raises(UserError, match=message) as error:
        parse_profile(json.dumps(given).encode(), "my.json")
    assert str(error.value).startswith("my.json: ")


@pytest.mark.parametrize("content", [b"", b"[" * 10**5, b"\xff", b"{}", b"3", b"\xfd7zXZ"])
def test_what_is_no_profile_is_refused(content, tmp_path):
    (tmp_path / "my.json").write_bytes(content)
    with pytest.raises(UserError, match=r"my\.json: "):
        open_profile(str(tmp_path / "my.json"))


def test_unknown_profiles_are_named():
    with pytest.raises(UserError, match="no profile 'nobody'"):
        open_profile("nobody")
    assert len(PROFILES) == len(KERNELS)
