"""Traces drawn from profiles: valid, the same for the same seed, and like the recorded ones."""

import dataclasses
import functools
import json

import numpy as np
import pytest
from profile_cases import SEED, SMALL_KERNELS, drawn_from, profile_of
from small_traces import small_trace
from tables import each

from mcage.errors import UserError
from mcage.geometry import NVIDIA
from mcage.traces import KERNELS, open_trace, validate_trace
from mcage.traces.library import PROFILES, open_profile, path_of_bundled
from mcage.traces.profiles.characterizing.characterize import characterize
from mcage.traces.profiles.levels import drawn, levels_of, spread
from mcage.traces.profiles.profile import parse_profile, profile_text
from mcage.traces.profiles.synthesizing.synthesize import synthesize


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
