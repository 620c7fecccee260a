"""The command line of rare events: what it prints, and what it refuses."""

import json
from functools import partial

import pytest

QUICK = ("--kernel", "MatrixTranspose", "--generations", "1", "--instances", "300")
CASE = ("--technique", "baseline", "--scenario", "dispersed", "--vdd", "0.6")


@pytest.fixture
def rare(command):
    """`mcage rare` with arguments: exit code, text on stdout, text on stderr."""
    return partial(command, "rare")


def test_words_and_numbers_agree(rare):
    code, words, _ = rare(*CASE, *QUICK)
    assert code == 0
    code, text, _ = rare(*CASE, *QUICK, "--json")
    assert code == 0
    estimate = json.loads(text)
    assert estimate["case"]["vdd_volts"] == [0.6]
    assert estimate["lower"] < estimate["probability"] < estimate["upper"] < 1e-5
    assert f"dead on arrival: {estimate['probability']:.3g} " in words
    assert f"{estimate['failures']} of 300 slices" in words
    assert f"of a million slices: {1e6 * estimate['probability']:.3g} ppm (" in words
    assert estimate["failed_ppm"]["upper"] == pytest.approx(1e6 * estimate["upper"])
    assert "FIT" not in words, "there is no rate without an age"
    assert estimate["mean_rate_fit"] is None
    code, words, _ = rare(*CASE, *QUICK, "--age", 0.5, "--json")
    rate, share = json.loads(words)["mean_rate_fit"]["value"], json.loads(words)["probability"]
    assert rate == pytest.approx(share * 1e9 / 4380, rel=1e-3)


def test_a_probability_asks_for_the_vdd(rare):
    arguments = (*CASE[:4], *QUICK, "--probability", "1e-3")
    code, words, _ = rare(*arguments)
    assert code == 0
    code, text, _ = rare(*arguments, "--json")
    assert code == 0
    found = json.loads(text)
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
        (("stopping.toml", *CASE), "stopping.rel_ci = 0.1: an estimate of rare events computes as"),
    ],
)
def test_mistakes_take_one_line_and_exit_with_2(rare, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text('[faults]\nmode = "table"\n')
    (tmp_path / "stopping.toml").write_text("[stopping]\nrel_ci = 0.1\n")
    code, out, errors = rare(*QUICK[:4], *arguments)
    assert (code, out) == (2, "")
    (line,) = errors.strip().splitlines()
    assert line.startswith("error: ")
    assert message in line
