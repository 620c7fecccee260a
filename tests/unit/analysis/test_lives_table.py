"""Lives as rows of a table of pandas."""

import numpy as np
import pandas as pd
import pytest
from fake_campaign import compute
from result_files import write
from tables import each

import mcage
from mcage.lifetime.end_cause import EndCause

INSTANCES = 30


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "r.h5"
    write(path, (INSTANCES,))
    with mcage.open_results(path) as results:
        yield results


def test_there_is_a_row_for_each_case_and_instance(results):
    frame = results.mcage.to_pandas()
    arrays = compute(0, INSTANCES)
    assert len(frame) == 3 * INSTANCES
    assert frame["case"].tolist() == results["case"].values.repeat(INSTANCES).tolist()
    assert frame["instance"].tolist() == [*range(INSTANCES)] * 3
    assert frame["vdd_volts"].tolist() == results["vdd_volts"].values.repeat(INSTANCES).tolist()
    assert np.array_equal(frame["life_years"], arrays["life_years"].ravel())
    assert np.allclose(frame["max_dvth_mv_T1"], arrays["max_dvth_mv"][..., 1].ravel())
    assert np.array_equal(frame["write_share_lds"], arrays["write_share"][..., 3].ravel())
    assert np.array_equal(frame["activity"], np.tile(arrays["activity"], 3))
    assert np.array_equal(frame["workload_3"], np.tile(arrays["workload"][:, 3], 3))
    assert frame["peak_spilled_rows"].dtype == np.int32
    assert not [name for name in frame if name.startswith("epoch_")]


def test_labels_and_flags_are_categories(results):
    frame = results.mcage.to_pandas(["end_cause"])
    assert frame["technique"].cat.categories.tolist() == ["baseline", "rrcd"]
    names = {cause.name.lower() for cause in EndCause}
    assert set(frame["end_cause"].cat.categories) == names
    causes = compute(0, INSTANCES)["end_cause"].ravel()
    assert [EndCause[name.upper()] for name in frame["end_cause"]] == causes.tolist()


def test_moments_are_columns_where_they_are_asked_for(results):
    frame = results.mcage.to_pandas("epoch_max_dvth_mv")
    values = results["epoch_max_dvth_mv"].values
    names = [f"epoch_max_dvth_mv_{epoch}_{t}" for epoch in range(5) for t in ("T0", "T1")]
    assert [name for name in frame if name.startswith("epoch")] == names
    assert np.array_equal(
        frame[names], values.reshape(3 * INSTANCES, 10).astype("float32"), equal_nan=True
    )


def test_a_single_case_has_its_rows(results):
    frame = results.mcage.case("rrcd dvfs").mcage.to_pandas(["life_years"])
    whole = results.mcage.to_pandas(["life_years"])
    expected = whole[whole["case"] == "rrcd dvfs common 0.8/0.419 V"].reset_index(drop=True)
    for name in expected:
        assert frame[name].tolist() == expected[name].tolist(), name


def test_a_table_that_is_too_large_is_refused_with_numbers_and_remedies(results):
    size = results.mcage.to_pandas().memory_usage(index=False, deep=False).sum()
    with pytest.raises(mcage.UserError) as refused:
        results.mcage.to_pandas(most_bytes=10_000)
    message = str(refused.value)
    assert "90 rows (3 cases of 30 instances) of 33 columns" in message
    assert "take 22.2 KiB, and most_bytes allows 9.8 KiB" in message
    for remedy in ("variables=['life_years']", "iter_pandas()", "most_bytes="):
        assert remedy in message
    allowed = int(message.rpartition("=")[2])
    assert size <= allowed <= 2 * size
    assert len(results.mcage.to_pandas(most_bytes=allowed)) == 90


def test_parts_are_the_same_rows(results):
    parts = list(results.mcage.iter_pandas(instances=8, variables=["life_years", "end_cause"]))
    assert [len(part) for part in parts] == [24, 24, 24, 18]
    whole = results.mcage.to_pandas(["life_years", "end_cause"])
    together = pd.concat(parts).sort_values(["case", "instance"], ignore_index=True)
    pd.testing.assert_frame_equal(together, whole)


@each(
    "ask, message",
    [
        (lambda r: r.mcage.to_pandas(["life"]), "'life' is no variable of each instance"),
        (lambda r: r.mcage.to_pandas(["dvth_histogram"]), "'dvth_histogram' is no variable of"),
        (lambda r: list(r.mcage.iter_pandas(0)), "instances = 0: a part needs at least 1"),
    ],
)
def test_what_makes_no_table_is_refused(results, ask, message):
    with pytest.raises(mcage.UserError, match=message):
        ask(results)
