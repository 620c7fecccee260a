"""Are techniques told apart in grey, and do curves keep their shape when points are left out?"""

from itertools import combinations

import numpy as np
from matplotlib.colors import to_rgb

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


def as_seen(colour):
    """Lightness and colour in CIELAB as people with and without colour blindness see them.

    Of Machado, Oliveira and Fernandes, IEEE TVCG 2009: none, protanopia, deuteranopia.
    """
    linear = np.array([((c + 0.055) / 1.055) ** 2.4 if c > 0.04045 else c / 12.92 for c in colour])
    blind = [
        np.eye(3),
        [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
        [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    ]
    to_xyz = [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]]
    x, y, z = np.cbrt(np.clip(np.array(to_xyz) @ (np.array(blind) @ linear).T, 1e-4, 1))
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def test_a_technique_of_a_user_looks_like_no_other_of_the_figure():
    of_user = [f"module:T{number}" for number in range(4)]
    for shipped in ([*TECHNIQUES], ["baseline", "rrcd"]):
        looks = looks_of([*shipped, *of_user])
        for name in of_user:
            others = [look for other, look in looks.items() if other != name]
            assert looks[name].marker not in [other.marker for other in others]
            ours = as_seen(to_rgb(looks[name].colour))
            for other in others:
                difference = np.linalg.norm(ours - as_seen(to_rgb(other.colour)), axis=-1)
                assert difference.min() > 15, (name, other)
    beside_few = looks_of(["baseline", "rrcd", "module:T0"])["module:T0"]
    assert beside_few == looks_of([*TECHNIQUES, "module:T0"])["module:T0"]


def test_a_label_leaves_the_look_of_a_technique():
    looks = looks_of({"RRCD (theirs)": "rrcd", "rrcd": "module:MINE"})
    assert looks["RRCD (theirs)"] == LOOKS["rrcd"]
    assert looks["rrcd"] not in LOOKS.values()


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
