"""Are techniques told apart in grey, and do curves keep their shape when points are left out?"""

from itertools import combinations

import numpy as np

from mcage.report.figures.figure import FINENESS, Series
from mcage.report.figures.style import LOOKS, looks_of
from mcage.techniques.catalogue import TECHNIQUES


def test_techniques_differ_in_line_or_marker_whatever_the_user_adds():
    assert set(LOOKS) == set(TECHNIQUES)
    looks = looks_of([*TECHNIQUES, *(f"module:T{number}" for number in range(150))])
    assert all(a.in_grey != b.in_grey for a, b in combinations(looks.values(), 2))
    few = looks_of(["module:A", "rrcd", "module:B"])
    assert few["rrcd"] == LOOKS["rrcd"]
    for name in ("module:A", "module:B"):
        assert few[name].in_grey not in {look.in_grey for look in LOOKS.values()}
    assert few["module:A"].marker != few["module:B"].marker
    assert few["module:A"].dashes != few["module:B"].dashes


def test_thinning_leaves_out_what_nobody_sees():
    x = np.linspace(0, 10, 20_001)
    y = 100 * np.exp(-x)
    lower = np.where(x < 9, 0.9 * y, np.nan)
    whole = Series("a", "a", "", x, y, "step", lower, 1.1 * y)
    seen = whole.thinned()
    assert 200 < seen.x.size < 800
    assert {0.0, 10.0} <= set(seen.x)
    held = seen.y[np.searchsorted(seen.x, x, side="right") - 1]
    assert np.abs(held - y).max() <= 100 * FINENESS
    assert np.isnan(seen.lower).sum() == np.isnan(seen.lower[seen.x >= 9]).sum() >= 1
    assert whole.x.size == 20_001
