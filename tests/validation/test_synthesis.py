"""Replays of drawn traces against those of the recorded ones, within stated bounds."""

import pytest
from check_synthesis import differences

from mcage.traces import bundled_trace

TECHNIQUES = ("baseline", "rc", "wc", "argo", "gr-guard", "rrcd", "rrcd+rc+rar")
BOUNDS = {
    "zero": 0.1,
    "one": 0.15,
    "dvth": 0.15,
    "spilled": 0.05,
    "redirected": 0.1,
    "regular": 0.1,
    "slowdown": 0.05,
}


@pytest.mark.parametrize("name", ["MatrixTranspose", "Reduction"])
def test_drawn_traces_replay_like_recorded_ones(name):
    for technique, apart in differences(bundled_trace(name), seed=0, techniques=TECHNIQUES):
        for key, bound in BOUNDS.items():
            assert abs(apart[key]) <= bound, (technique, key)
