"""``mcage inject``: from the command line to a results file, a page and a picture."""

import csv

import numpy as np
import pytest
from amd_tools import needs_clang
from command_line import from_json
from faulty_oracle import BLEND, BLEND_ARGUMENTS

import mcage
from mcage.errors import UserError
from mcage.protection.codes import secded
from mcage.results.reader import open_results
from mcage.soft_errors.rates import constants, soft_errors, upsets
from mcage.studies.inject.outcomes import DETECTED, Fate

RUN = ("inject", "blend.cl", "--args", "blend.py", "--arch", "gfx900")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "blend.cl").write_text(BLEND)
    (tmp_path / "blend.py").write_text(BLEND_ARGUMENTS)
    return tmp_path


@needs_clang
@pytest.mark.slow
def test_flips_end_in_a_table_a_page_and_a_picture(command, folder):
    made = (*RUN, "--instances", "80", "--out", "flips.h5", "--picture", "wrong.png")
    code, out, said = command(*made)
    assert code == 0, said
    assert "AVF" in out
    assert "SDC" in out
    assert (folder / "wrong.png").read_bytes().startswith(b"\x89PNG")
    with open_results(folder / "flips.h5") as results:
        assert results["fate"].shape == (1, 80, 1)
        assert results["flip_bit"].dims == ("case", "instance")
    (row,) = from_json("show", "flips.h5")
    shares = [row[name]["value"] for name in ("masked", "sdc", "address", "limit", "code")]
    assert sum(shares) == pytest.approx(1)
    assert row["due"]["value"] == pytest.approx(sum(shares[2:]))
    assert row["injected"]["value"] == pytest.approx(row["needed"] * (1 - shares[0]))
    assert command("report", "flips.h5", "--out", "page")[0] == 0
    page = (folder / "page" / "index.html").read_text()
    assert "Outcome of flips by bit" in page


@needs_clang
@pytest.mark.slow
def test_rates_of_upsets_of_several_cells(command, folder):
    """Words that a code detects, as often as `soft_errors` says of the same kernel."""
    given = ("--upset", "28nm", "--protection", "none", "--protection", "secded32")
    made = (*RUN, *given, "--set", "faults.fit_per_mbit=100", "--instances", "1500")
    assert command(*made, "--out", "flips.h5", "--picture", "wrong.png")[0] == 0
    assert (folder / "wrong.png").exists()
    none, coded = from_json("show", "flips.h5")
    assert none["injected"]["value"] is None
    assert none["sdc_fit"]["value"] > 5 * coded["sdc_fit"]["value"]
    with open_results(folder / "flips.h5") as results:
        expected = 0.0
        for vdd in (0.8, 0.524):
            cells = upsets("28nm", vdd, fit_per_mbit=100)
            words = [256 * 64, 0, 0]
            found = soft_errors(words, results["needed_share"].values[1], cells, secded(32))
            expected += float(found.due) / 2
        rate = results["drawn_fit"].values[1] / results["flip_attempts"].values[1].mean()
        assert rate * coded["code"]["value"] == pytest.approx(expected, rel=0.2)


@needs_clang
def test_rates_and_bars_of_slices_that_are_in_use(command, folder):
    """Rates are those of the file's numbers, and the parts of a bar add up to all of it."""
    given = ("--upset", "16nm", "--protection", "secded32", "--vdd", "0.44")
    (folder / "life.toml").write_text(
        "[[operating_points.most]]\nvdd_volts = 0.8\nshare = 0.25\n"
        '[[operating_points.most]]\nvdd_volts = "scenario"\n'
    )
    made = (*RUN, "life.toml", *given, "--environment", "most", "--set", "faults.fit_per_mbit=100")
    ages = ("--age", "0", "--age", "9", "--instances", "200")
    code, _, said = command(*made, *ages, "--out", "flips.h5")
    assert code == 0, said
    rows = from_json("show", "flips.h5")
    with open_results(folder / "flips.h5") as results:
        per_volt = constants("16nm")["slope_per_volt"]
        fit = sum(
            share * 100 * np.exp(-per_volt * (vdd - 1))
            for vdd, share in ((0.8, 0.25), (0.44, 0.75))
        )
        cells = results["needed_share"].values[0] * 256 * 64 * 32
        assert results["drawn_fit"].values[0] == pytest.approx(fit / 2**20 * cells * 39 / 32)
        attempts, fate = results["flip_attempts"].values[0], results["fate"].values[0]
        retired = [(fate[:, age] == Fate.RETIRED) for age in range(2)]
        assert 0 < retired[1].sum() < 200
        for age, row in enumerate(rows):
            count = (np.isin(fate[:, age], DETECTED)).sum() / attempts[~retired[age]].sum()
            expected = results["drawn_fit"].values[0] * count
            assert row["due_fit"]["value"] == pytest.approx(expected)
    assert command("report", "flips.h5", "--out", "page")[0] == 0
    with (folder / "page" / "outcome-by-register.csv").open() as stream:
        bars = {}
        for line in csv.DictReader(stream):
            bars[line["x"]] = bars.get(line["x"], 0.0) + float(line["y"])
    assert all(height == pytest.approx(100) for height in bars.values())
    # Single flips leave out some that a code detects: no rate.
    single = (*RUN, "--protection", "secded32", "--instances", "20", "--out", "single.h5")
    assert command(*single)[0] == 0
    assert from_json("show", "single.h5")[0]["due_fit"]["value"] is None


@needs_clang
def test_flips_by_what_they_hit(command, folder, refusal):
    """Each counts once; those of one population are not set beside those of another."""
    for weight in ("cycle", "instruction"):
        made = (*RUN, "--weight", weight, "--margin", "0.2", "--level", "0.99", "--instances", "60")
        code, _, said = command(*made, "--out", f"{weight}.h5")
        assert code == 0, said
        (case,) = from_json("show", f"{weight}.h5")
        for by in ("instruction", "register", "bit", "lane"):
            (of_case,) = from_json("show", f"{weight}.h5", "--by", by)
            places = of_case["hit"]
            assert sum(place["flips"] for place in places) == 60
            masked = sum(place["flips"] * place["masked"]["value"] for place in places)
            assert masked == pytest.approx(60 * case["masked"]["value"])
            assert len({place[by] for place in places}) == len(places)
        assert (case["injected"] is None) == (weight == "instruction")
    assert case["population"] == "results of instructions"
    with open_results(folder / "instruction.h5") as results:
        frame = mcage.open_results(folder / "instruction.h5").mcage.flips_by("lane")
        assert frame["flips"].sum() == 60
        assert set(frame["lane"]) == set(results["flip_lane"].values[0].tolist())
        with pytest.raises(UserError, match="by moment: no flips are counted by that"):
            mcage.open_results(folder / "instruction.h5").mcage.flips_by("moment")
    out = command("show", "instruction.h5", "--by", "instruction", "--wide")[1]
    assert "0x" in out
    assert "v_" in out
    said = refusal("compare", "cycle.h5", "instruction.h5")
    assert "inject.weight" in said
    assert "--causes is for sweeps" in refusal("show", "cycle.h5", "--causes")


@needs_clang
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--args", "x=f32[4]"), ("--grid", "missing")),
        (("--args", "nothing.py"), ("nothing.py",)),
        (("--fault", "stuck", "--upset", "28nm"), ("upset", "28nm", "stuck")),
        (("--technique", "disable"), ("disable",)),
        (("--grid", "a"), ("grid", "a")),
        (("--picture", "wrong.txt"), ("wrong.txt",)),
        (("--picture", "wrong.png", "--part", "1/2"), ("--picture",)),
        (("--picture", "f.png"), ("--picture f.png: is the results file",)),
    ],
)
def test_what_is_wrong_is_said(refusal, folder, change, words):
    given = [*RUN, "--instances", "20", "--out", "f.png" if "f.png" in change else "f.h5"]
    for name, value in zip(change[::2], change[1::2], strict=True):
        if name in given:
            given[given.index(name) + 1] = value
        else:
            given += [name, value]
    said = refusal(*given)
    assert all(word in said for word in words)
    assert "Traceback" not in said
    assert not (folder / "f.h5").exists()
