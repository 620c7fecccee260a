"""Sweeps that tell apart by which margin cells fail."""

import numpy as np
import pytest
from sweep_cases import small_sweep

from mcage.campaign.run import run_campaign
from mcage.errors import UserError
from mcage.results.reader import open_results, read_header
from mcage.sweep.unused_keys import refuse_unused

MARGINS = {"vmin_model": "margins", "pbti": 0.5}
CASE = {"environments": ["dvfs"], "techniques": ["rrcd"], "instances": 6}


def test_new_faults_are_counted_whatever_the_engine_and_the_batch():
    aging = MARGINS | {"nbti_spread_mv": 0.5}
    of_one_kernel = {"kernels": ["MatrixTranspose"], "periods": 3, "generations": 2}
    fields = CASE | {"aging": aging, "workload": of_one_kernel}
    sweep = small_sweep(**fields)
    whole = sweep.compute(0, 6)
    parts = [sweep.compute(*part) for part in ((0, 2), (2, 6))]
    other = small_sweep("numpy", **fields).compute(0, 6)
    for name, array in whole.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
    joined = np.concatenate([part["new_faults"] for part in parts], axis=1)
    assert np.array_equal(whole["new_faults"], joined)
    reading = whole["new_faults"][0, :, 0]
    assert reading.min() >= 0
    assert reading.sum() > 50
    # No cell ages by its write margin, and none is limited by holding.
    assert not whole["new_faults"][..., 1:].any()


def test_results_name_the_margins(tmp_path):
    sweep = small_sweep(**CASE, aging=MARGINS)
    out = run_campaign(sweep.study, tmp_path / "r.h5", 3)
    assert read_header(out) == sweep.header
    with open_results(out) as results:
        assert results["margin"].values.tolist() == ["read", "write", "hold"]
        assert results["new_faults"].dims == ("case", "instance", "margin")
    plain = small_sweep(**CASE)
    assert "new_faults" not in {variable.name for variable in plain.header.variables}
    assert plain.header.margins == ()
    digests = {
        small_sweep(**CASE, aging=aging).header.spec_digest
        for aging in ({}, {"pbti": 0.5}, MARGINS, MARGINS | {"pbti": "planar"})
    }
    assert len(digests) == 4


def test_tables_of_faults_know_no_margins():
    table = small_sweep(**CASE, faults={"mode": "table"}, aging=MARGINS)
    with pytest.raises(UserError, match=r"aging\.pbti = 0\.5: faults of mode 'table' do not grow"):
        refuse_unused(table.spec)
