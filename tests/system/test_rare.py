"""The command line of rare events: what it prints, and what it refuses."""

from functools import partial

import pytest
from command_line import from_json, invoke, run_mcage

QUICK = ("--kernel", "MatrixTranspose", "--generations", "1", "--instances", "300")
CASE = ("--technique", "baseline", "--scenario", "dispersed", "--vdd", "0.6")


rare, rare_json = partial(run_mcage, "rare"), partial(from_json, "rare")


def test_words_and_numbers_agree():
    words, estimate = rare(*CASE, *QUICK), rare_json(*CASE, *QUICK)
    assert estimate["case"]["vdd_volts"] == [0.6]
    assert estimate["lower"] < estimate["probability"] < estimate["upper"] < 1e-5
    assert f"dead on arrival: {estimate['probability']:.3g} " in words
    assert f"{estimate['failures']} of 300 slices" in words
    assert f"of a million slices: {1e6 * estimate['probability']:.3g} ppm (" in words
    assert estimate["failed_ppm"]["upper"] == pytest.approx(1e6 * estimate["upper"])
    assert "FIT" not in words, "there is no rate without an age"
    assert estimate["mean_rate_fit"] is None
    aged = rare_json(*CASE, *QUICK, "--age", 0.5)
    rate = aged["mean_rate_fit"]["value"]
    assert rate == pytest.approx(aged["probability"] * 1e9 / 4380, rel=1e-3)


def test_few_failures_are_warned_of():
    assert "warning: only" in invoke("rare", *CASE, *QUICK[:4], "--instances", 30).stderr


def test_a_probability_asks_for_the_vdd():
    arguments = (*CASE[:4], *QUICK, "--probability", "1e-3")
    words, found = rare(*arguments), rare_json(*arguments)
    vdd = found["vdd_volts"]
    assert vdd["lower"] < vdd["value"] < vdd["upper"]
    assert f"Vdd at which 0.001 are dead on arrival: {vdd['value']:.4f} V (95% " in words
    assert len(words.splitlines()) == len(found["tried"]) + 1
    assert found["tried"][-1]["instances"] == 300
    assert found["probability"] == 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--vdd", "0.6"), "4 cases"),
        ((*CASE, "--age", "11"), "age = 11 years, expected 0 ... 10"),
        (("spec.toml", *CASE), "faults.mode = 'table'"),
        ((*CASE, "--set", "aging.nbti_spread_mv=1"), "aging.nbti_spread_mv = 1: the proposals"),
        (("stopping.toml", *CASE), "stopping: an estimate of rare events computes as"),
    ],
)
def test_mistakes_take_one_line_and_exit_with_2(refusal, arguments, message, tmp_path):
    (tmp_path / "spec.toml").write_text('[faults]\nmode = "table"\n')
    (tmp_path / "stopping.toml").write_text("[stopping]\nrel_ci = 0.1\n")
    (line,) = refusal("rare", *QUICK[:4], *arguments).strip().splitlines()
    assert line.startswith("error: ")
    assert message in line
