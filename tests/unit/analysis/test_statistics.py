"""What `results.mcage` computes, against statistics of the arrays themselves and `mcage show`."""

import lifelines
import numpy as np
import pandas as pd
import pytest
import xarray
from fake_campaign import HORIZON_YEARS, campaign, compute, opened, write
from gpu_cases import gating
from tables import each

import mcage
from mcage.analysis.grid import DependentSlicesWarning
from mcage.campaign.run import run_campaign
from mcage.report.tables import csv_of
from mcage.stats.estimates import mean
from mcage.stats.survival import cumulative_incidence, life_quantile
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.presentation import SweepPresentation
from mcage.studies.sweep.tables import summarize_rates, table_of

INSTANCES = 120
LABELS = [case["case"] for case in campaign().cases]


results = opened(INSTANCES)


def test_failure_rates_are_those_of_mcage_show(results):
    frame = results.mcage.rate_at([1, HORIZON_YEARS])
    shown = [rate for case in summarize_rates(results, [1, HORIZON_YEARS]) for rate in case.rates]
    assert list(frame["case"]) == [label for label in LABELS for _ in range(2)]
    for (_, row), rate in zip(frame.iterrows(), shown, strict=True):
        assert row["age_years"] == rate.age_years
        for name in ("failed_ppm", "dead_on_arrival_ppm", "mean_rate_fit"):
            estimate = getattr(rate, name)
            told = [row[name], row[f"{name}_lower"], row[f"{name}_upper"]]
            np.testing.assert_equal(told, [estimate.value, estimate.lower, estimate.upper])
    assert results.mcage.rate_at(1).equals(frame[frame["age_years"] == 1].reset_index(drop=True))
    for age in (0, -1, HORIZON_YEARS + 1):
        with pytest.raises(mcage.UserError, match=f"age {age:g} years"):
            results.mcage.rate_at(age)


def lives(case):
    years = compute(0, INSTANCES)["life_years"][case]
    return years, years < HORIZON_YEARS


def test_the_summary_has_the_keys_and_numbers_of_csv(results, tmp_path):
    frame = results.mcage.summary()
    assert frame["case"].tolist() == LABELS
    path, table = results.encoding["source"], tmp_path / "table.csv"
    table.write_text(csv_of(table_of(SweepPresentation(SweepHeader).summarize_file(path))))
    pd.testing.assert_frame_equal(frame, pd.read_csv(table))


def test_survival_is_that_of_lifelines(results):
    frame = results.mcage.survival()
    for place, label in enumerate(LABELS):
        years, died = lives(place)
        curve = frame[frame["case"] == label]
        fit = lifelines.KaplanMeierFitter().fit(years, died)
        assert np.allclose(fit.predict(curve["age_years"]), curve["survival"])
        at_risk = [np.count_nonzero(years >= age) for age in curve["age_years"]]
        assert curve["at_risk"].tolist() == at_risk
        assert curve["age_years"].iloc[[0, -1]].tolist() == [0, HORIZON_YEARS]
        inner = curve[(curve["survival"] < 1) & (curve["survival"] > 0)]
        assert (inner["survival_lower"] < inner["survival"]).all()
        assert (inner["survival_upper"] > inner["survival"]).all()
    at = results.mcage.survival([2.5, 0])
    assert at["age_years"].tolist() == [2.5, 0] * len(LABELS)
    assert at["survival"][0] == pytest.approx(np.mean(lives(0)[0] > 2.5))


def test_ages_means_and_causes_are_those_of_the_statistics(results):
    b10, median, rmst = results.mcage.b10(), results.mcage.life_quantile(), results.mcage.rmst(4)
    causes, summary = results.mcage.causes([1, 5]), results.mcage.summary().set_index("case")
    for place, label in enumerate(LABELS):
        years, died = lives(place)
        for frame, name, expected in (
            (b10, "b10_life_years", life_quantile(years, died, 0.1)),
            (median, "life_years", life_quantile(years, died)),
            (rmst, "rmst_years", mean(np.minimum(years, 4), within=(0, 4))),
        ):
            row = frame.set_index("case").loc[label]
            found = [row[name], row[f"{name}_lower"], row[f"{name}_upper"]]
            assert np.allclose(found, [expected.value, expected.lower, expected.upper])
            assert row["instances"] == INSTANCES
        delay = causes[(causes["case"] == label) & (causes["cause"] == "delay")]
        curve = cumulative_incidence(years, died, died, np.array([1.0, 5.0]))
        assert np.array_equal(delay["share"], curve.share)
        assert np.array_equal(delay["share_upper"], curve.upper)
        whole, said = mean(years, within=(0.0, HORIZON_YEARS)), summary.loc[label]
        assert [said["rmst_years_lower"], said["rmst_years_upper"]] == [whole.lower, whole.upper]
    shares = causes.groupby(["case", "age_years"])["share"].sum()
    assert np.allclose(shares, 1)


def test_confidence_is_that_which_is_asked_for(results):
    narrow, wide = (results.mcage.b10(confidence=c) for c in (0.5, 0.99))
    width = [f["b10_life_years_upper"] - f["b10_life_years_lower"] for f in (narrow, wide)]
    assert (width[0] < width[1]).all()


def test_selections_are_what_is_computed(results):
    case = results.mcage.case("rrcd dvfs")
    assert case["case"].item() == LABELS[2]
    assert case.mcage.b10()["case"].tolist() == LABELS[2:]
    assert results.sel(technique="rrcd").mcage.summary()["case"].tolist() == LABELS[1:]
    some = results.isel(instance=slice(0, 50)).mcage.rmst()
    assert some["instances"].tolist() == [50] * 3
    assert some["rmst_years"][0] == pytest.approx(lives(0)[0][:50].mean())


def test_the_order_of_dimensions_changes_nothing(results):
    turned = results.transpose("transistor", "instance", ...)
    pd.testing.assert_frame_equal(turned.mcage.summary(), results.mcage.summary())
    frames = (r.mcage.paired("rrcd dvfs", "rrcd turbo") for r in (turned, results))
    pd.testing.assert_frame_equal(*frames)
    pd.testing.assert_frame_equal(turned.mcage.to_pandas(), results.mcage.to_pandas())


@each(
    "ask, message",
    [
        (lambda r: r.mcage.survival([11]), "age 11 years: lives are simulated from 0 to 10"),
        (lambda r: r.mcage.rmst(-1), "age -1 years"),
        (lambda r: r.mcage.life_quantile(1), "share = 1: must lie between 0 and 1"),
        (lambda r: r.mcage.b10(confidence=95), "confidence = 95: must lie between 0 and 1"),
        (lambda r: r.mcage.case("rrcd"), "case 'rrcd' may be 'rrcd turbo common 1 V', 'rrcd d"),
        (lambda r: r.mcage.summary(1), "table 1: this study has the tables 0 ... 0"),
        (lambda r: r.isel(epoch=[0]).mcage.summary(), "1 of 5 of the dimension 'epoch' are left"),
        (lambda r: r.isel(instance=slice(0, 0)).mcage.b10(), "there is no instance"),
        (lambda r: r.where(r.instance < 9).mcage.b10(), "life_years is NaN in .* without drop"),
        (lambda r: r.where(r.life_years > 1).mcage.summary(), "life_years is NaN in"),
        (lambda r: r.mcage.cube().mcage.b10(), "the dimension 'case' is gone, as in a cube"),
        (lambda r: r[["spill_rate"]].mcage.b10(), "there is no end_cause in these results"),
        (lambda r: r.drop_attrs().mcage.b10(), "the attributes of the file are gone"),
    ],
)
def test_what_cannot_be_computed_is_said(results, ask, message):
    with pytest.raises(mcage.UserError, match=message.replace("(", r"\(")):
        ask(results)


def test_slices_that_share_dies_give_a_warning(tmp_path):
    write(tmp_path / "r.h5", spec_toml="faults = {slices_per_chip = 5, sigma_die_volts = 0.01}")
    with mcage.open_results(tmp_path / "r.h5") as results:
        for ask in (results.mcage.summary, results.mcage.rmst, results.mcage.survival):
            with pytest.warns(DependentSlicesWarning, match="5 slices share each die"):
                ask()
        assert "5 slices share each die" in " ".join(results.mcage.notes())


def test_copies_of_results_are_analysed(results, tmp_path):
    results.to_netcdf(tmp_path / "copy.nc")
    with xarray.open_dataset(tmp_path / "copy.nc") as copy:
        pd.testing.assert_frame_equal(copy.mcage.summary(), results.mcage.summary())
        pd.testing.assert_frame_equal(copy.mcage.survival(), results.mcage.survival())


# ---- whole GPUs --------------------------------------------------------------------------------


def test_lives_of_gpus_are_told_by_policy(tmp_path):
    study = gating(instances=6, policies=["default", "round-robin"]).study
    with mcage.open_results(run_campaign(study, tmp_path / "g.h5")) as of_gpus:
        summary = of_gpus.mcage.summary()
        assert summary["policy"].tolist() == ["default", "round-robin"]
        years, died = of_gpus["life_years"].values, of_gpus["end_cause"].values != 0
        median = of_gpus.mcage.life_quantile()
        for place, policy in enumerate(summary["policy"]):
            expected = life_quantile(years[place], died[place])
            assert (
                median["life_years"][place] == summary["median_life_years"][place] == expected.value
            )
            assert of_gpus.mcage.case(policy)["policy"].item() == policy
        assert set(of_gpus.mcage.causes()["cause"]) == {"delay", "alive"}
        assert of_gpus.mcage.survival()["age_years"].max() == 10
        assert of_gpus.sel(policy="default").mcage.rmst()["policy"].tolist() == ["default"]
        with pytest.raises(mcage.UserError, match="these results have none"):
            of_gpus.mcage.cube()
