"""How many entries codes bring back on the maps of all scenarios, against an independent count."""

import numpy as np
from tables import each

from mcage.geometry import GCN
from mcage.protection.policy import protection
from mcage.variation.fault_models import EntryFaults, FaultModel
from mcage.variation.scenarios import scenario

SLICES = 200

COUNTED = {
    ("common", 0.419): (33, 1.5, 1.2, 1.8),
    ("clustered", 0.497): (38, 12.3, 6.0, 2.5),
    ("dispersed", 0.371): (40, 1.3, 1.5, 2.1),
    ("measured", 0.515): (34, 9.1, 1.9, 1.8),
}
"""By scenario and Vdd, in percent, on 200 new slices whose check bits have no faults: entries lost
under a pointer, under a code of one bit a word of 32, under the same with all words of an entry
interleaved; words with a single hard fault. Counted by another program, with other slices."""


@each(("place", "counted"), COUNTED.items())
def test_lost_entries_are_those_of_another_count(place, counted):
    """Within four standard errors of the difference, and half a unit of the last digit."""
    name, vdd_volts = place
    model, instances = FaultModel(scenario(name)), np.arange(SLICES)
    for given, percent, digit in zip(
        ("ecp1", "secded32", "secded32x64"), counted[:3], (1, 0.1, 0.1), strict=True
    ):
        guard = protection(given)
        cells = model.sample(1, instances, vdd_volts, guard).of_data()
        none = EntryFaults.none(SLICES, guard)
        faults = none.more(cells, cells.vmin_volts > vdd_volts)
        lost = 100 * (faults.maps != 0).mean(axis=1)
        error = 4 * lost.std() * np.sqrt(2 / SLICES) + digit / 2
        assert abs(lost.mean() - percent) < error, given
    single = 100 * (faults.words == 1).mean(axis=(1, 2))
    assert faults.words.shape == (SLICES, GCN.entries, 64)
    assert abs(single.mean() - counted[3]) < 4 * single.std() * np.sqrt(2 / SLICES) + 0.05
