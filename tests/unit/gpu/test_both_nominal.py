"""Cases without variation: which duty, which period, which refusals."""

import pytest

from mcage.aging.nbti import nbti_model
from mcage.errors import UserError
from mcage.gpu.both.register_files import with_slower_period
from mcage.gpu.nominal.both import combined_cases


def rows(tmp_path, text, model="facelift"):
    path = tmp_path / "cases.csv"
    path.write_text(text)
    return combined_cases(path, nbti_model(model))


def test_no_gating_saves_nothing(tmp_path):
    (row,) = rows(tmp_path, "active_share,duty,reference_duty\n1,0.9,0.9\n")
    assert row["saved_pct_gating"] == row["saved_pct_registers"] == row["saved_pct_both"] == 0
    assert row["dVth_mV_none"] > 0


def test_a_gpu_that_never_works_does_not_age(tmp_path):
    (row,) = rows(tmp_path, "active_share,duty\n0,0.5\n")
    assert row["dVth_mV_both"] == 0
    assert row["saved_pct_both"] == 100


def test_the_slower_period_counts():
    model = nbti_model("bhardwaj")
    assert with_slower_period(model, 0.0) is model
    assert with_slower_period(model, 604_800.0).period_seconds == 604_800.0
    facelift = nbti_model("facelift")
    assert with_slower_period(facelift, 604_800.0) is facelift


def test_a_slow_period_shifts_further_where_sms_are_gated(tmp_path):
    text = "active_share,duty,gating_period_s\n0.8,0.4,0\n0.8,0.4,604800\n"
    fast, slow = rows(tmp_path, text, "bhardwaj")
    assert slow["dVth_mV_both"] > fast["dVth_mV_both"]
    assert slow["dVth_mV_gating"] > fast["dVth_mV_gating"]
    assert slow["dVth_mV_registers"] == fast["dVth_mV_registers"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("active_share\n0.8\n", "the column duty is missing"),
        ("active_share,duty\n0.8,1.2\n", "duty = '1.2'"),
        ("active_share,duty,years\n0.8,0.4,x\n", "years = 'x'"),
    ],
)
def test_bad_cases_are_refused(tmp_path, text, words):
    with pytest.raises(UserError, match=words):
        rows(tmp_path, text)
