"""Replays of drawn traces against those of the recorded ones, within stated bounds."""

import pytest
from check_synthesis import differences

from mcage.traces import bundled_trace

TECHNIQUES = ("baseline", "rc", "wc", "argo", "gr-guard", "rrcd", "rrcd+rc+rar")
BOUNDS = {
    "zero": 0.06,
    "one": 0.1,
    "dvth": 0.08,
    "spilled": 0.02,
    "redirected": 0.02,
    "regular": 0.02,
    "slowdown": 0.02,
}


@pytest.mark.parametrize("name", ["MatrixTranspose", "Reduction"])
def test_drawn_traces_replay_like_recorded_ones(name):
    for technique, apart in differences(bundled_trace(name), seed=0, techniques=TECHNIQUES):
        for key, bound in BOUNDS.items():
            assert abs(apart[key]) <= bound, (technique, key)
