"""Two cases die by die, in one dataset and in two."""

import numpy as np
import pytest
from fake_campaign import campaign, compute
from gpu_cases import gating
from tables import each

import mcage
from mcage.campaign.run import run_campaign
from mcage.report.comparison import compare
from mcage.results.conform import conforming
from mcage.results.writer import write_results
from mcage.stats.paired import compare_means

FIRST, SECOND = "rrcd dvfs", "rrcd nominal"


@pytest.fixture(scope="module")
def file_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")

    def written(instances, **fields):
        path = folder / f"{instances}-{len(list(folder.iterdir()))}.h5"
        header = campaign(instances=instances, **fields)
        write_results(path, header, [conforming(header, compute(0, instances), instances)])
        return path

    return written


@pytest.fixture(scope="module")
def results(file_of):
    with mcage.open_results(file_of(60)) as results:
        yield results


def test_differences_are_those_of_the_comparison(results):
    frame = results.mcage.paired(FIRST, SECOND).set_index("quantity")
    expected = compare(results, FIRST, SECOND)
    row, means = frame.loc["life_to_horizon_years"], expected.life_to_horizon_years
    assert row["dies"] == 60
    for name in ("first", "second", "difference", "ratio"):
        estimate = getattr(means, name)
        assert row[name] == estimate.value
        assert row[f"{name}_lower"] == estimate.lower
        assert row[f"{name}_upper"] == estimate.upper
    assert row["variance_reduction"] == means.variance_reduction
    assert frame.loc["spill_rate", "difference"] == expected.spill_rate.difference.value
    lives = results.mcage.outliving(FIRST, SECOND)
    assert lives["first"][0] == expected.outliving.first.value
    assert lives["p_value"][0] == expected.outliving.p_value


def test_datasets_of_two_files_are_compared_on_the_instances_that_both_have(results, file_of):
    with mcage.open_results(file_of(40)) as other:
        frame = results.mcage.paired(FIRST, SECOND, other.isel(instance=slice(10, None)))
    years = compute(10, 40)["life_years"]
    means = compare_means(years[2], years[1])
    assert frame["dies"][0] == 30
    assert frame["difference"][0] == pytest.approx(means.difference.value)
    assert frame["difference_lower"][0] == pytest.approx(means.difference.lower)


def test_the_same_case_of_two_files_may_be_compared(results, file_of):
    with mcage.open_results(file_of(60)) as other:
        assert results.mcage.paired(FIRST, FIRST, other)["difference"].tolist() == [0.0] * 7


@each(
    "fields, message",
    [
        ({"seed": 8}, "seeds 7 and 8: their dies differ"),
        (
            {"spec_toml": '[aging]\nmodel = "planar"\n'},
            r"the specs differ in .*aging.model.*: allow=\['technique', 'aging.model'\]",
        ),
    ],
)
def test_what_is_not_of_the_same_dies_is_refused(results, file_of, fields, message):
    with (
        mcage.open_results(file_of(20, **fields)) as other,
        pytest.raises(mcage.UserError, match=message),
    ):
        results.mcage.paired(FIRST, SECOND, other)


def test_what_is_meant_to_differ_is_allowed(results, file_of):
    with mcage.open_results(file_of(20, spec_toml='[aging]\nmodel = "planar"\n')) as other:
        allowed = ["technique", "aging"]
        assert results.mcage.paired(FIRST, FIRST, other, allowed)["dies"][0] == 20
        with pytest.raises(mcage.UserError, match=r"allow=\['agin'\]: neither spec has such a key"):
            results.mcage.outliving(FIRST, FIRST, other, ["agin"])


@each(
    "first, second, message",
    [
        (FIRST, "rrcd dvfs common", "are both 'rrcd dvfs common 0.8/0.419 V': two are needed"),
        (FIRST, "rrcd", "case 'rrcd' may be"),
        ("argo", FIRST, "no case 'argo'"),
    ],
)
def test_cases_that_are_no_two(results, first, second, message):
    with pytest.raises(mcage.UserError, match=message):
        results.mcage.paired(first, second)


def test_instances_that_nobody_shares(results):
    first, second = (results.isel(instance=part) for part in ([1, 2], [3]))
    with pytest.raises(mcage.UserError, match="no instance in common"):
        first.mcage.paired(FIRST, SECOND, second)


def test_policies_of_gpus_are_compared_in_all_that_depends_on_them(tmp_path):
    study = gating(instances=4, policies=["default", "round-robin"]).study
    with mcage.open_results(run_campaign(study, tmp_path / "g.h5")) as results:
        frame = results.mcage.paired("default", "round-robin").set_index("quantity")
        margins = results["margin_needed"].isel(age=-1).values
        means = compare_means(margins[0], margins[1])
        assert frame.loc["margin_needed", "difference"] == means.difference.value
        assert "surroundings_kelvin" not in frame.index
        assert results.mcage.outliving("default", "round-robin")["second"][0] == np.mean(
            results["end_cause"].values[0] != 0
        )
