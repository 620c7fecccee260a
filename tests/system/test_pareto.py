"""Does `mcage pareto` say which cases no other beats, and refuse dies that are not shared?"""

import re
from functools import partial

import command_line
import fake_campaign
import matplotlib
import numpy as np
import pytest
import rails
from command_line import invoke
from tables import each

import mcage
from mcage.costs.energy import area
from mcage.errors import UserError
from mcage.report.pareto import added_area
from mcage.spec.cost_constants import load_costs
from mcage.stats.estimates import mean
from mcage.techniques import TECHNIQUES

CASES = fake_campaign.CAMPAIGN.cases
LABELS = [case["case"] for case in CASES]
SPEC = "seed = 7\n[life]\nhorizon_years = 10.0\n"


def write(path, sizes=(40,), **fields):
    fake_campaign.write(path, sizes, **{"spec_toml": SPEC} | fields)


def worse(arrays):
    """The second case lives a year less than the first and spills less; the third nothing of it."""
    lives, spills = arrays["life_years"], arrays["spill_rate"]
    lives[1], lives[2] = np.maximum(lives[0] - 1, 0.01), 0.0
    spills[1], spills[2] = spills[0] / 2, np.nan
    return arrays | {"energy_saving_nominal": lives / 100}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fronts")
    write(folder / "a.h5", change=worse)
    other = tuple(case | {"case": f"{case['case']}, too", "protection": "none"} for case in CASES)
    write(folder / "more.h5", (30,), cases=other)
    write(folder / "same.h5")
    write(folder / "room.h5", spec_toml=SPEC + "[registers]\nlds_rows = 16\n")
    write(folder / "seed.h5", seed=8)
    write(folder / "faults.h5", spec_toml=SPEC + "[faults]\nmu_volts = 0.14\n")
    write(folder / "horizon.h5", spec_toml=SPEC.replace("10.0", "9.0"))
    scenarios = (CASES[0], CASES[1] | {"scenario": "clustered"}, CASES[2])
    write(folder / "scenarios.h5", cases=scenarios)
    chips = SPEC + "[faults]\nslices_per_chip = 4\nsigma_die_volts = 0.01\n"
    write(folder / "chips.h5", change=worse, spec_toml=chips)
    return folder


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def pareto(*arguments):
    return invoke("pareto", *arguments)


from_json = partial(command_line.from_json, "pareto")


def test_a_front_by_hand():
    of = from_json("a.h5", "--objective", "rmst", "--objective", "dead_on")
    best = of["designs"][0]
    lives = fake_campaign.compute(0, 40)["life_years"]
    value = best["objectives"]["rmst_years"]
    assert list(value.values()) == pytest.approx(
        list(vars(mean(lives[0], within=(0, 10))).values())
    )
    assert [of["instances"], of["groups"], of["resamples"]] == [40, 40, 1000]
    assert [d["on_front"] for d in of["designs"]] == [True, False, False]
    assert [d["front_probability"] for d in of["designs"]] == [1.0, 0.0, 0.0]
    assert [d["dominated_by"] for d in of["designs"]] == ["", LABELS[0], LABELS[0]]
    assert [d["worked"] for d in of["designs"]] == [40, 40, 0]


def test_a_case_without_a_value_is_not_on_the_front():
    """The third case never works, and so has no spill rate; the second spills less."""
    of = from_json("a.h5", "--objective", "rmst", "--objective", "spill_rate")
    assert [d["on_front"] for d in of["designs"]] == [True, True, False]
    assert of["designs"][2]["objectives"]["spill_rate"]["value"] is None
    assert of["designs"][2]["dominated_by"] == ""


def test_the_user_may_turn_an_objective_round():
    objectives = ("--objective", "rmst:min", "--objective", "vdd_volts")
    of = from_json("a.h5", *objectives)
    assert [d["on_front"] for d in of["designs"]] == [False, False, True]
    assert [o["better"] for o in of["objectives"]] == ["less", "less"]
    head, *_ = pareto("a.h5", *objectives, "--csv").stdout.splitlines()
    assert head.split(",").count("vdd_volts") == 1, "an axis that is an objective"


def test_by_default_life_energy_and_area_count():
    of = from_json("a.h5")
    assert [o["key"] for o in of["objectives"]] == ["rmst_years", "energy_saving_of_all", "area"]
    overheads = [d["objectives"]["area"]["value"] for d in of["designs"]]
    technology = load_costs().technology("28nm")
    rrcd = area(TECHNIQUES["rrcd"], technology).overhead
    pointer = 13 / 2048
    assert overheads == pytest.approx([pointer, pointer + rrcd, pointer + rrcd])


def test_protection_adds_to_the_area_and_techniques_of_users_have_none_that_is_known():
    technology = load_costs().technology("28nm")
    assert np.isnan(added_area("mine:RRCD", "ecp1", technology))
    rrcd = area(TECHNIQUES["rrcd"], technology).overhead
    assert added_area("rrcd", "none", technology) == pytest.approx(rrcd)
    added = added_area("rrcd", "secded32", technology) - rrcd
    assert 7 / 32 < added < 7 / 32 + 0.02  # and encoders and decoders


def test_tables_have_what_may_be_on_the_front_and_csv_has_all():
    result = pareto("a.h5", "--objective", "rmst", "--objective", "dead_on")
    assert "1 of 3 cases on the front, 40 instances per case" in result.stdout
    said = " ".join(result.stdout.split())
    assert "2 cases with less than 5 % are left out, --all shows them" in said
    everything = pareto("a.h5", "--objective", "rmst", "--objective", "dead_on", "--all")
    assert ["rrcd" in of.stdout for of in (result, everything)] == [False, True]
    head, *lines = pareto("a.h5", "--csv").stdout.splitlines()
    assert len(lines) == 3
    assert "rmst_years,rmst_years_lower,rmst_years_upper" in head
    assert head.endswith("on_front,front_probability,dominated_by")


def test_cases_of_several_files_meet_on_their_common_dies():
    of = from_json("a.h5", "more.h5")
    assert of["instances"] == 30
    assert len(of["designs"]) == 6
    assert {d["file"] for d in of["designs"]} == {"a.h5", "more.h5"}
    of = from_json("a.h5", "room.h5", "--allow", "registers")
    assert of["differs"] == ["room.h5: registers.lds_rows (not given, 16)"]


def test_slices_of_a_chip_are_drawn_together():
    arguments = ("--objective", "rmst", "--objective", "spill_rate")
    of, alone = (from_json(file, *arguments) for file in ("chips.h5", "a.h5"))
    assert (of["instances"], of["groups"]) == (40, 10)
    (wide, narrow) = (f["designs"][0]["objectives"]["rmst_years"] for f in (of, alone))
    assert wide["value"] == pytest.approx(narrow["value"])
    assert wide["upper"] != narrow["upper"]
    text = pareto("chips.h5", *arguments).stdout
    assert "40 instances per case of 10 chips" in text
    assert "WARNING" not in text


def test_a_front_is_the_same_again():
    first, again = (from_json("same.h5", "--resamples", "300") for _ in range(2))
    assert first == again


@pytest.mark.slow
@each(
    ("axes", "shown", "left_out"),
    [
        ((), ("area added", "energy saving"), "RMST"),
        (("--y", "rmst_years"), ("area added", "RMST"), "energy saving"),
        (("--x", "rmst_years"), ("RMST", "energy saving"), "area added"),
    ],
)
def test_a_figure_shows_the_objectives_that_the_user_names(tmp_path, axes, shown, left_out):
    path = tmp_path / f"front{len(list(tmp_path.iterdir()))}.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        label = ("--label", "baseline=Ours")
        result = pareto("a.h5", "--figure", str(path), *axes, *label)
    assert result.exit_code == 0, result.exception
    text = path.read_text(encoding="utf-8")
    for words in ("Ours", *shown):
        assert words in text
    assert left_out not in text
    assert re.search(r">[\d.]+ V<", text), "the voltage at a point of the front"


@each(
    ("arguments", "words"),
    [
        (["a.h5", "seed.h5"], "share no dies: their seeds are 7 and 8"),
        (["a.h5", "faults.h5"], "share no dies: the specs differ in faults.mu_volts"),
        (["a.h5", "horizon.h5", "--allow", "life"], "different horizons"),
        (["a.h5", "room.h5"], "--allow registers.lds_rows"),
        (["a.h5", "same.h5"], "both hold the case 'baseline turbo common 1 V'"),
        (["a.h5", "a.h5"], "is named twice"),
        (["a.h5", "--where", "technique=none"], "nothing has it"),
        (["scenarios.h5"], "share no dies; choose one of them: --where scenario=common"),
        (["a.h5", "--objective", "rmst"], "two objectives or more"),
        (["a.h5", "--objective", "rmst", "--objective", "rmst_years:min"], "is given twice"),
        (["a.h5", "--objective", "beauty", "--objective", "area"], "there is no such; choose from"),
        (["a.h5", "--objective", "energy", "--objective", "area"], "there are several such"),
        (["a.h5", "--objective", "median_life", "--objective", "area"], "is no mean over"),
        (["a.h5", "--objective", "power", "--objective", "area"], "power_mw:min or power_mw:max"),
        (["a.h5", "--objective", "rmst:best", "--objective", "area"], "min or max is needed"),
        (["a.h5", "--x", "area"], "--x area: is an axis of the figure that --figure FILE draws"),
        (
            ["a.h5", "--figure", "f.png", "--x", "power"],
            "is none of the objectives rmst_years",
        ),
        (["a.h5", "--figure", "f.png", "--x", "area", "--y", "area"], "name two objectives"),
    ],
)
def test_what_makes_no_front_is_refused(arguments, words):
    error = pareto(*arguments).exception
    assert isinstance(error, UserError)
    assert words in str(error)


def test_without_any_value_there_is_no_objective(tmp_path):
    path = tmp_path / "unknown.h5"
    write(path, change=lambda arrays: arrays | {"spill_rate": np.full((3, 40), np.nan)})
    result = invoke("pareto", path, "--objective", "rmst", "--objective", "spill_rate")
    assert isinstance(result.exception, UserError)
    assert f"{path}: spill_rate: no case has a value of it" in str(result.exception)


def test_studies_do_not_mix(tmp_path):
    other = mcage.run(rails.RailsSpec(instances=4), tmp_path / "rails.h5")
    error = pareto("a.h5", other).exception
    assert isinstance(error, UserError)
    assert "hold the studies sweep and gpu-rails: a front is of one" in str(error)
