"""Does `mcage compare` pair what is the same, and refuse what nobody has said to be meant?"""

from functools import partial

import command_line
import fake_campaign
import numpy as np
import pytest
from command_line import invoke
from tables import each

from mcage.campaign.run import run_campaign
from mcage.errors import UserError
from mcage.stats.estimates import mean

LABELS = [case["case"] for case in fake_campaign.CAMPAIGN.cases]
VARIABLES = fake_campaign.CAMPAIGN.variables
SPEC = "seed = 7\n[aging]\nmodel = 'facelift'\n[life]\nhorizon_years = 10.0\n"


def write(path, sizes=(40,), **fields):
    fake_campaign.write(path, sizes, **{"spec_toml": SPEC} | fields)


def longer(arrays):
    """Slices live a year longer, but not beyond the horizon."""
    lives = np.minimum(arrays["life_years"] + 1, 10.0)
    causes = np.where(lives < 10.0, arrays["end_cause"], 0)
    return arrays | {"life_years": lives, "end_cause": causes}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    write(folder / "a.h5")
    write(folder / "longer.h5", (30,), change=longer)
    write(folder / "seed.h5", (50,), change=longer, seed=8)
    write(folder / "model.h5", places=(1, 2), spec_toml=SPEC.replace("facelift", "planar"))
    write(folder / "other.h5", places=(0,))
    return folder


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def compare(*arguments):
    return invoke("compare", *arguments)


from_json = partial(command_line.from_json, "compare")


def test_the_same_dies_are_compared_one_by_one():
    (of,) = from_json("a.h5", "longer.h5")
    assert of["paired"]
    assert of["instances"] == [30, 30]
    assert [pair["case"] for pair in of["pairs"]] == LABELS
    lives = fake_campaign.compute(0, 40)["life_years"][:, :30]
    for pair, years in zip(of["pairs"], lives, strict=True):
        line = pair["lines"]["rmst_years"]
        assert line["first"] == vars(mean(years, within=(0.0, 10.0))), "within the horizon"
        difference = line["difference"]
        expected = years - np.minimum(years + 1, 10)
        assert difference["value"] == pytest.approx(expected.mean())
        half = 2.045 * expected.std(ddof=1) / np.sqrt(30)
        assert difference["upper"] - difference["value"] >= half * 0.999
        assert difference["value"] - difference["lower"] >= half * 0.999
        assert pair["outliving"]["first"]["value"] == 0
        assert set(pair["lines"]) >= {"max_dvth_t0_mv_at_equal_age", "energy_saving_nominal"}


def test_other_dies_are_compared_by_their_means():
    (of,) = from_json("a.h5", "seed.h5", "--where", "technique=rrcd", "--where", "vdd<0.5")
    assert not of["paired"]
    assert of["instances"] == [40, 50]
    (pair,) = of["pairs"]
    assert pair["outliving"] is None
    lives = [fake_campaign.compute(0, count)["life_years"][2] for count in (40, 50)]
    lives[1] = np.minimum(lives[1] + 1, 10)
    means = pair["lines"]["rmst_years"]
    assert (means["first_dies"], means["second_dies"]) == (40, 50)
    assert means["difference"]["value"] == pytest.approx(lives[0].mean() - lives[1].mean())
    error = np.sqrt(sum(of.var(ddof=1) / of.size for of in lives))
    half = means["difference"]["upper"] - means["difference"]["value"]
    assert half == pytest.approx(1.99 * error, rel=0.05)
    text = compare("a.h5", "seed.h5").stdout
    assert "not the same dies (seeds 7 and 8)" in text


def test_differences_are_listed_and_cases_of_one_file_named():
    text = " ".join(compare("a.h5", "model.h5", "--allow", "aging.model").stdout.split())
    assert "differs: aging.model ('facelift', 'planar')" in text
    assert f"only in A: {LABELS[0]}" in text


def test_kernels_that_nobody_knows_by_digest_are_no_difference_and_said():
    result = compare("a.h5", "longer.h5")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for name in ("a.h5", "longer.h5"):
        assert f"{name}: by digest, its kernels are not known" in text


def test_other_epochs_have_no_equal_age(tmp_path):
    """Whatever else differs: fewer epochs, too."""
    axes = {v.name: v.dims.index("epoch") for v in VARIABLES if "epoch" in v.dims}

    def first_epochs(arrays):
        return arrays | {name: np.take(arrays[name], [0, 1], axis) for name, axis in axes.items()}

    write(tmp_path / "fewer.h5", change=first_epochs, epoch_edges_years=(0.0, 2.0, 10.0))
    (of,) = from_json("a.h5", tmp_path / "fewer.h5")
    assert len(of["pairs"]) == 3
    assert not any("equal_age" in key for key in of["pairs"][0]["lines"])


def test_several_files_stand_in_one_table():
    lines = compare("a.h5", "longer.h5", "seed.h5", "--csv").stdout.splitlines()
    heading, *rows = [line.split(",") for line in lines]
    assert heading[:4] == ["file", "case", "quantity", "dies"]
    assert {row[0] for row in rows} == {"longer.h5", "seed.h5"}
    assert len(rows) == 3 * (7 + 5)


@each(
    ("arguments", "words"),
    [
        (("a.h5", "model.h5"), "aging.model .*if this is what you compare: --allow aging.model"),
        (("model.h5", "other.h5", "--allow", "aging"), "have no case in common"),
        (("a.h5",), "name them, too"),
        (("a.h5", "longer.h5", "--where", "policy=x"), "the keys are case, technique"),
        (("a.h5", "longer.h5", "--csv", "--json"), "give one of them"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, words):
    result = compare(*arguments)
    assert isinstance(result.exception, UserError)
    assert result.stdout == ""
    with pytest.raises(UserError, match=words):
        raise result.exception


def test_studies_of_other_kinds(tmp_path):
    import darts

    pi = run_campaign(darts.pi_by_darts(20), tmp_path / "pi.h5", 50)
    assert "different studies" in str(compare("a.h5", pi).exception)
