"""Constants of the costs: as printed, and refused where they cannot be meant."""

import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from places import ROOT

from mcage.costs import load_costs
from mcage.errors import UserError
from mcage.geometry import GCN, NVIDIA

SHIPPED = files("mcage").joinpath("data", "costs.toml").read_text(encoding="utf-8")


def test_constants_are_the_printed_ones():
    costs = load_costs()
    old, new = costs.technology("32nm"), costs.technology("28nm")
    assert (old.slice.read_pj, old.slice.write_pj, old.slice.leakage_mw) == (295.86, 365.91, 75.86)
    assert old.refresh_period_cycles == 465  # Valero et al., section 5.1.3
    logic = old.compression_unit.leakage_mw + 2 * old.decompression_unit.leakage_mw
    assert logic / old.slice.leakage_mw == pytest.approx(0.32, abs=0.005)
    # Toca-Diaz et al., section IV.E: power of all components at nominal Vdd.
    added = new.compression_unit, new.redirection_table, new.selection_unit
    power = sum(unit.leakage_mw for unit in added) + 2 * new.decompression_unit.leakage_mw
    assert power == pytest.approx(36.77)
    assert costs.smoothing_vdd_volts == 0.6


def test_technology_must_be_known():
    with pytest.raises(UserError, match="technology '45nm' is unknown; choose from 32nm, 28nm"):
        load_costs().technology("45nm")


def test_slice_below_nominal_vdd():
    """Printed rows at their voltages; linear and quadratic law elsewhere, a hair off them too."""
    new = load_costs().technology("28nm")
    assert new.slice_at(None) == new.slice
    common = new.slice_at(0.419)
    assert (common.read_pj, common.write_pj, common.leakage_mw) == (84.38, 97.68, 30.79)
    assert new.slice_at(0.497).read_pj == 84.90
    assert new.slice_at(0.371).leakage_mw == 27.73
    half = new.slice_at(0.4)
    assert half.leakage_mw == pytest.approx(58.58 / 2)
    assert (half.read_pj, half.write_pj) == (
        pytest.approx(247.38 / 4),
        pytest.approx(302.23 / 4),
    )
    assert new.slice_at(0.42).read_pj == pytest.approx(247.38 * (0.42 / 0.8) ** 2)


def test_energies_that_do_not_lie_on_one_curve_are_said():
    new, old = (load_costs().technology(name) for name in ("28nm", "32nm"))
    note = new.note_on_mixture({0.8, 0.44, 0.419, 1.0, 0.5, 0.371})
    assert note.startswith(
        "energy at 0.371, 0.419 V is that of printed constants, and at 0.44, 0.5 V"
    )
    assert "at 0.371 (+28%), 0.419 (+24%) V" in note
    for alike in ({0.419, 0.497, 0.8}, {0.42, 0.44, 0.8}, {1.0, 0.8, 0.419}):
        assert new.note_on_mixture(alike) == ""
    assert old.note_on_mixture({0.419, 0.44}) == ""


@pytest.mark.parametrize("vdd_volts", [0, -0.5, 2.5, float("nan")])
def test_vdd_that_cannot_be_meant(vdd_volts):
    with pytest.raises(UserError, match="above 0 and at most 2 V"):
        load_costs().technology("28nm").slice_at(vdd_volts)


GEOMETRY = "geometry = { entries = 512, components = 32, block_components = 32 }\n"


def changed(old, new):
    assert re.search(old, SHIPPED, re.M)
    return re.sub(old, new, SHIPPED, count=1, flags=re.M)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(r"value = 295.86", 'value = "much"'), r"\[32nm.slice\] read_pj = 'much': a numb"),
        (changed(r"value = 295.86", "value = -1"), r"\[32nm.slice\] read_pj = -1: must be 0 or ab"),
        (changed(r"value = 295.86", "value = inf"), r"32nm.slice.read_pj.value = inf must be a fi"),
        (changed(r"value = 295.86", "value = 07:32:00"), r"read_pj.value = 07:32:00 must be no"),
        (changed(r"value = 295.86", "value = true"), r"read_pj = True: a number"),
        (changed(r'"pJ"', '"nJ"'), r"\[32nm\] wakeup_pj: unit 'nJ', where 'pJ'"),
        (changed(r'"printed"', '"guessed"'), r"\[32nm\] clock_ghz: status 'guessed', one of print"),
        (changed(r'source = "[^"]*"', 'source = " "'), r"clock_ghz: source ' ', where a text"),
        (changed(r', source = "[^"]*"', ""), r"clock_ghz: value, unit, status and source"),
        (changed(r"^clock_ghz = .*$", "clock_ghz = 1.0"), r"clock_ghz: value, unit, status and"),
        (changed(r"^retention_cycles = .*$", ""), r"\[32nm\] retention_cycles is missing"),
        (changed(r"value = 119048", "value = 0"), r"retention_cycles = 0: must be above 0"),
        (changed(r"^clock_ghz", "clock_mhz"), r"\[32nm\] clock_mhz is unknown; known are clock_gh"),
        (changed(r"^\[32nm.lds\]", "[32nm.lsd]"), r"\[32nm.lds\] is missing"),
        (changed(r"^\[smoothing\]", "[smoothed]"), r"\[smoothing\] is missing"),
        (
            changed(r"value = 0.0416", "value = 1.5"),
            r"\[unhidden_fraction\] wakeup = 1.5: a fraction",
        ),
        (changed("value = 295.86", "value = 0"), r"\[32nm.slice\] read_pj = 0: must be above 0"),
        (changed("value = 119048", "value = 255"), r"retention_cycles = 255: must be at least 256"),
        ('geometry = "amd"\n' + SHIPPED, "geometry = 'amd': unknown geometry 'amd'; choose one of"),
        ("geometry = 32\n" + SHIPPED, "geometry = 32: the name of a preset, or whole numbers"),
        ("geometry.entries = 512\n" + SHIPPED, r"geometry = \{'entries': 512\}: the name of a"),
        (GEOMETRY.replace("32", "32.0") + SHIPPED, "'components': 32.0.*: the name of a preset"),
        (GEOMETRY.replace("512", "500") + SHIPPED, "500.*: geometry: entries is 500, must be 64"),
        (SHIPPED[SHIPPED.index("[smoothing]") :], "no technology in it"),
        (
            changed(r"^\[28nm.low_vdd.common\]", "[28nm.low_vdd]\nx = 1\n[28nm.low_vdd.common]"),
            r"\[28nm.low_vdd.x\]: a table of constants is needed, not 1",
        ),
        ("[32nm", "not TOML"),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as refused:
        load_costs(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_file():
    with pytest.raises(UserError, match=r"nowhere\.toml: cannot read the file"):
        load_costs(Path("nowhere.toml"))


def test_a_technology_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(SHIPPED.replace("[32nm", "[22nm").replace("295.86", "200"))
    assert load_costs(path).technology("22nm").slice.read_pj == 200


def test_a_file_names_the_slice_of_its_constants(tmp_path):
    path, shapes = tmp_path / "mine.toml", []
    for line in ("", 'geometry = "nvidia"\n', GEOMETRY):
        path.write_text(line + SHIPPED)
        old = load_costs(path).technology("32nm")
        shapes.append(old.geometry.shape)
        assert old.refresh_period_cycles == 119048 // old.geometry.entries
    assert shapes == [GCN.shape, NVIDIA.shape, (512, 32, 32)]


@pytest.mark.parametrize("name", ["32nm", "28nm"])
def test_the_page_has_the_same_constants(name):
    """Rows of the tables in results/costs.md, and their status words, against the file."""
    page = (ROOT / "results" / "costs.md").read_text(encoding="utf-8")
    table = page.partition(f"| {name.replace('nm', ' nm')} | read |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.M)
    constants = tomllib.loads(SHIPPED)[name]
    components = [key for key, entry in constants.items() if "read_pj" in entry]
    assert [row[0] for row in rows] == components
    for component, cells in rows:
        *values, status = cells.split(" | ")
        entries = constants[component].values()
        assert [float(value) for value in values] == [entry["value"] for entry in entries]
        assert {entry["status"] for entry in entries} == {re.match(r"\w+", status)[0]}
