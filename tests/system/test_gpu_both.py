"""The command `mcage gpu both`: a campaign, its table, its spec, its refusals."""

import json
import shutil

import pytest

SMALL = (
    *("gpu", "both", "--slices-per-sm", "1", "--engine", "numba", "--replay", "MatrixTranspose"),
    *("--periods", "1", "--set", "sweep.workload.generations=2"),
)


def test_a_campaign_goes_on_where_it_was_stopped(command, tmp_path):
    """Shards of a run that ended early are taken, and the file is that of a run in one go."""
    whole, parts = tmp_path / "whole.h5", tmp_path / "parts.h5"
    code, out, err = command(*SMALL, "--instances", "5", "--out", whole, "--json")
    assert code == 0, err
    rows = json.loads(out)
    pairs = [(row["policy"], row["technique"]) for row in rows]
    assert pairs == [
        (policy, technique)
        for policy in ("default", "round-robin")
        for technique in ("baseline", "rc+rar")
    ]
    both = rows[-1]
    assert rows[1]["saved"]["value"] < both["saved"]["value"] < both["independent"]["value"]
    assert command(*SMALL, "--instances", "5", "--shard-size", "2", "--out", parts)[0] == 0
    shown = [command("show", path, "--json")[1] for path in (whole, parts)]
    assert shown[0] == shown[1]
    again = command(*SMALL, "--instances", "5", "--out", whole, "--json")
    assert json.loads(again[1]) == rows
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_the_table_names_the_levels(command):
    code, out, _ = command(*SMALL, "--instances", "2", "--out", "r.h5")
    assert code == 0
    for word in ("none", "gating", "registers", "both", "if independent"):
        assert word in out


def test_a_spec_is_shown_and_read_again(command, tmp_path):
    code, shown, _ = command(*SMALL, "--instances", "3", "--noise", "2", "--show-spec")
    assert code == 0
    (tmp_path / "both.toml").write_text(shown)
    assert command("gpu", "both", tmp_path / "both.toml", "--show-spec")[1] == shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--technique", "nope"], "technique 'nope' is unknown"),
        (["--policy", "nope"], "policy 'nope' is unknown"),
        (["--environment", "undervolted"], "cell_vt0 = 'sm'"),
        (["--rel-ci", "0.1", "--of", "nope"], "stopping.of = 'nope'"),
        (["--set", "sweep.life.activity=0.5"], "sweep.life.activity = 0.5"),
        (["--set", "sweep.registers.lds_rows=4"], "lds_rows = 4"),
        (["--set", "sweep.aging.nbti_spread_mv=1"], "sweep.aging.nbti_spread_mv = 1"),
        (["--nominal", "nowhere.csv"], "nowhere.csv"),
        (["--nominal", "nowhere.csv", "--policy", "fixed"], "--nominal"),
    ],
)
def test_nonsense_is_refused_before_anything_is_written(command, tmp_path, arguments, words):
    out = tmp_path / "none.h5"
    code, printed, err = command("gpu", "both", *arguments, "--out", out)
    assert (code, printed) == (2, "")
    assert words in err
    assert err.count("\n") <= 2
    assert not list(tmp_path.iterdir())


def test_cases_of_a_file(command, tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text("case,active_share,duty\nTable 2,0.799,0.42\n")
    code, out, _ = command("gpu", "both", "--nominal", path, "--json")
    assert code == 0
    (row,) = json.loads(out)
    assert row["case"] == "Table 2"
    assert row["saved_pct_both"] == pytest.approx(60.6, abs=0.05)
