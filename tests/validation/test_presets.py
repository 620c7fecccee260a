"""Does ``--preset papers`` still give the results of the sweeps that it stands for?"""

from pathlib import Path

import h5py
import numpy as np

from mcage import SweepSpec, run_sweep

SAMPLES = Path(__file__).parent.parent / "samples"


def test_the_preset_of_the_papers_is_equal_to_the_last_bit(tmp_path):
    recorded = np.load(SAMPLES / "papers" / "lives.npz")
    instances = recorded["instance"].size
    path = run_sweep(SweepSpec(preset="papers", instances=instances), tmp_path / "lives.h5")
    with h5py.File(path) as file:
        computed = {name: values[()] for name, values in file.items()}
        for name, values in recorded.items():
            np.testing.assert_array_equal(computed[name], values, err_msg=name, strict=True)
