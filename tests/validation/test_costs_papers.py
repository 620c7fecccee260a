"""Energy and slowdown of the ten kernels against what the papers print, with stated tolerances."""

import numpy as np
import pytest
from published_runs import replays

from mcage.costs import CONVENTIONAL, energy, load_costs, slowdown, suav
from mcage.techniques import TECHNIQUES
from mcage.traces import KERNELS
from mcage.traces.transforms import RELEASES, WAVEFRONT, WORK_GROUP

COSTS = load_costs()
OLD, NEW = COSTS.technology("32nm"), COSTS.technology("28nm")


def usual(kernel):
    return replays().conventional[kernel]


def activity(kernel, name, release=WAVEFRONT):
    return replays(release).runs(name)[kernel].activity


def lost(kernel, name, technology, release=WAVEFRONT):
    did = activity(kernel, name, release)
    return slowdown(did, TECHNIQUES[name], technology, COSTS.penalties).total[0]


def mean_percent(of_kernel):
    return 100 * np.mean([of_kernel(kernel) for kernel in KERNELS])


def saved(kernel, name, technology, idle_on=False, vdd_volts=None, release=WAVEFRONT):
    did = activity(kernel, name, release)
    did = did.with_idle_entries_on() if idle_on else did
    slower = lost(kernel, name, technology)
    one = energy(did, TECHNIQUES[name], technology, vdd_volts, slower).total[0]
    return 1 - one / energy(usual(kernel), CONVENTIONAL, technology).total[0]


@pytest.mark.parametrize(
    ("name", "printed", "found"), [("wc", 0.43, 0.43), ("rc+rar", 0.48, 0.366), ("argo", 0, 0)]
)
@pytest.mark.parametrize("release", RELEASES)
def test_slowdown_of_valero(name, printed, found, release):
    """The unhidden fraction of WC was fitted to its slowdown; the others follow from it.

    The fit is in scripts/experiments/fit_unhidden_fractions.py.

    What is fitted does not depend on how windows are released.
    """
    mean = mean_percent(lambda kernel: lost(kernel, name, OLD, release))
    assert mean == pytest.approx(found, abs=0.001)
    assert abs(mean - printed) < 0.15


@pytest.mark.parametrize("release", RELEASES)
def test_slowdown_of_toca_diaz(release):
    """Fitted: without accesses to the LDS, of which there are none on a sound slice."""
    mean = mean_percent(lambda kernel: lost(kernel, "rrcd", NEW, release))
    assert mean == pytest.approx(1.53, abs=0.002)


@pytest.mark.parametrize(
    ("name", "printed", "release", "idle_on", "as_replayed"),
    [
        ("argo", 13.1, WAVEFRONT, 13.57, 16.64),
        ("argo", 13.1, WORK_GROUP, 13.57, 15.86),
        ("wc", 20.2, WAVEFRONT, 22.34, 29.74),
        ("wc", 20.2, WORK_GROUP, 22.65, 29.30),
        ("rc+rar", 19.9, WAVEFRONT, 19.85, 27.30),
        ("rc+rar", 19.9, WORK_GROUP, 20.10, 26.80),
    ],
)
def test_energy_of_valero(name, printed, release, idle_on, as_replayed):
    """The paper's reading of what is switched off is within three points, mcage's is not."""
    literal = mean_percent(lambda kernel: saved(kernel, name, OLD, True, release=release))
    assert literal == pytest.approx(idle_on, abs=0.01)
    assert abs(literal - printed) < 3
    found = mean_percent(lambda kernel: saved(kernel, name, OLD, release=release))
    assert found == pytest.approx(as_replayed, abs=0.01)


def test_leakage_share_of_the_conventional_slice():
    """ARGO's 13.1 % with 33.7 % of the entries unused imply 39 %."""

    def share(kernel):
        one = energy(usual(kernel), CONVENTIONAL, OLD)
        return (one.static / one.total)[0]

    assert mean_percent(share) == pytest.approx(39.0, abs=0.1)


@pytest.mark.parametrize(
    ("vdd_volts", "printed", "found"), [(0.419, 43, 42.4), (0.497, 39, 39.4), (0.371, 47, 47.0)]
)
def test_energy_of_toca_diaz(vdd_volts, printed, found):
    """If every register finds a home, and with the savings of the first two interchanged."""
    mean = mean_percent(lambda kernel: saved(kernel, "rrcd", NEW, vdd_volts=vdd_volts))
    assert mean == pytest.approx(found, abs=0.05)
    assert abs(mean - printed) < 1


def test_smoothing():
    """Between the static law's 25 % and the dynamic one's 43.75 %."""

    def kept(kernel):
        full, smooth = energy(usual(kernel), CONVENTIONAL, NEW), suav(usual(kernel), NEW, COSTS)
        return (smooth.total / full.total)[0]

    assert mean_percent(kept) == pytest.approx(100 - 36.66, abs=0.01)
