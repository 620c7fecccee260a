"""Does ``--preset papers`` still give the results of the sweeps that it stands for?"""

from pathlib import Path

import h5py
import numpy as np
import pytest

from mcage import SweepSpec, run_sweep

SAMPLES = Path(__file__).parent.parent / "samples"
TECHNIQUES = ("baseline", "rc+rar", "rrcd", "rrcd+rc+rar")


@pytest.mark.parametrize(
    "techniques", [("baseline",), pytest.param(TECHNIQUES, marks=pytest.mark.slow)], ids=len
)
def test_the_preset_of_the_papers_is_equal_to_the_last_bit(techniques, tmp_path):
    recorded = np.load(SAMPLES / "papers" / "lives.npz")
    spec = SweepSpec(preset="papers", instances=recorded["instance"].size, techniques=techniques)
    places = np.isin([*TECHNIQUES] * len(spec.environments), techniques)
    with h5py.File(run_sweep(spec, tmp_path / "lives.h5")) as file:
        for name, values in recorded.items():
            of_cases = values[places] if len(values) == len(places) else values
            np.testing.assert_array_equal(file[name][()], of_cases, err_msg=name, strict=True)
