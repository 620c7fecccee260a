"""Do several files of one case each show and compare as one file of all cases?"""

import json

import fake_campaign
import numpy as np
import pytest
from typer.testing import CliRunner

from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import write_shard
from mcage.campaign.study import Study
from mcage.cli.app import app
from mcage.errors import UserError
from mcage.results.conform import conforming
from mcage.results.writer import write_results

INSTANCES = 30
CASES = fake_campaign.CAMPAIGN.cases
BASELINE, RRCD, DVFS = range(3)


def arrays_of(places, instances):
    """What the fake campaign computes for some of its cases."""
    whole = fake_campaign.compute(0, instances)
    axes = {
        v.name: v.dims.index("case") for v in fake_campaign.CAMPAIGN.variables if "case" in v.dims
    }
    return {
        name: np.take(array, places, axes[name]) if name in axes else array
        for name, array in whole.items()
    }


def write(path, places, instances=INSTANCES, **fields):
    cases = tuple(CASES[place] for place in places)
    header = fake_campaign.campaign(cases=cases, instances=instances, **fields)
    write_results(path, header, [conforming(header, arrays_of(places, instances), instances)])
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    all_of_them = write(folder / "all.h5", [BASELINE, RRCD, DVFS])
    parts = [write(folder / f"{place}.h5", [place]) for place in range(3)]
    return all_of_them, *parts


def show(*arguments):
    return CliRunner().invoke(app, ["show", *map(str, arguments)], catch_exceptions=False)


def test_a_table_of_all_cases(files):
    whole, *parts = files
    expected = json.loads(show(whole, "--json").stdout)
    several = json.loads(show(*parts, "--json").stdout)
    assert [case.pop("file") for case in several] == [str(path) for path in parts]
    assert several == expected


def test_the_table_names_the_files(files, monkeypatch):
    monkeypatch.chdir(files[0].parent)
    monkeypatch.setenv("COLUMNS", "300")
    printed = show("0.h5", "1.h5", "2.h5").stdout
    rows = [line.split()[:3] for line in printed.splitlines() if ".h5 " in line]
    assert rows == [
        ["0.h5", "baseline", "nominal"],
        ["1.h5", "rrcd", "nominal"],
        ["2.h5", "rrcd", "dvfs"],
    ]
    causes = show("0.h5", "1.h5", "--causes").stdout.splitlines()
    for file, label in (("0.h5", "baseline nominal"), ("1.h5", "rrcd nominal")):
        assert any(line.startswith(f"{file}, {label}") for line in causes)
    assert "30 instances per case, horizon 10 years" in printed


@pytest.mark.parametrize(
    "names", [("baseline", "rrcd dvfs"), ("{0}", "{2}"), ("rrcd n", "{2} rrcd")]
)
def test_a_comparison(names, files):
    whole, *parts = files
    places = [0 if "base" in names[0] or "{0}" in names[0] else 1, 2]
    labels = [CASES[place].label for place in places]
    expected = json.loads(show(whole, "--json", "--compare", *labels).stdout)
    given = [name.format(*parts) for name in names]
    assert json.loads(show(*parts, "--json", "--compare", *given).stdout) == expected


def test_cases_of_the_same_label_are_named_by_their_files(files, tmp_path):
    here = files[2]
    there = write(tmp_path / "there.h5", [RRCD])
    label = CASES[RRCD].label
    compared = json.loads(show(here, there, "--json", "--compare", here, there).stdout)
    assert (compared["first"], compared["second"]) == (f"{label} of {here}", f"{label} of {there}")
    assert compared["life_to_horizon_years"]["difference"]["value"] == 0
    with pytest.raises(UserError, match=r"case 'rrcd' may be .*2\.h5|1\.h5.*: give more of"):
        show(here, there, "--compare", "rrcd", there)


def test_only_dies_of_both_are_compared(files, tmp_path):
    """More instances in a file, and a partial file: by their ids."""
    other = fake_campaign.campaign(cases=(CASES[DVFS],), instances=40)
    folder = tmp_path / "shards"
    folder.mkdir()
    for first, last in ((3, 10), (20, 40)):
        arrays = {
            name: array[first:last] if name in fake_campaign.OF_INSTANCES else array
            for name, array in arrays_of([DVFS], 40).items()
        }
        for variable in other.variables:
            if variable.dims[:2] == ("case", "instance"):
                arrays[variable.name] = arrays[variable.name][:, first:last]
        write_shard(folder, other, range(first, last), arrays)
    partial = merge(tmp_path / "partial.h5", [folder], partial=True)
    compared = json.loads(show(files[1], partial, "--json", "--compare", "baseline", "rrcd").stdout)
    ids = [*range(3, 10), *range(20, 30)]
    assert compared["instances"] == len(ids)
    years = fake_campaign.compute(0, 30)["life_years"]
    difference = years[BASELINE, ids].mean() - years[DVFS, ids].mean()
    assert compared["life_to_horizon_years"]["difference"]["value"] == pytest.approx(difference)
    shown = show(files[1], partial)
    assert f"{partial}: PARTIAL: 13 of 40 instances are missing (0-2, 10-19)" in shown.output
    assert "27 to 30 instances per case" in shown.output


def refused(match, *arguments):
    with pytest.raises(UserError, match=match):
        show(*arguments)


def test_what_cannot_be_put_together_is_refused(files, tmp_path):
    _, baseline, rrcd, _ = files
    seeded = write(tmp_path / "seed.h5", [RRCD], seed=8)
    refused(r"seed 7 and .* seed 8", baseline, seeded, "--compare", "baseline", "rrcd")
    edges = tuple(2 * edge for edge in fake_campaign.CAMPAIGN.epoch_edges_years)
    longer = write(tmp_path / "longer.h5", [RRCD], epoch_edges_years=edges)
    refused("have different epochs", baseline, longer, "--compare", "baseline", "rrcd")
    refused(r"--figure is for one file: leave out .*1\.h5", baseline, rrcd, "--figure", "x.png")
    refused("two are needed", baseline, rrcd, "--compare", "rrcd", "rrcd")
    refused("no case 'x'", baseline, rrcd, "--compare", "rrcd", "x")


def test_files_of_other_studies(tmp_path):
    import darts

    pi, more = (
        run_campaign(darts.pi_by_darts(count), tmp_path / f"{count}.h5", 50) for count in (20, 40)
    )
    listed = json.loads(show(pi, more, "--json").stdout)
    assert [(row["file"], row["instances"]) for row in listed] == [(str(pi), 20), (str(more), 40)]
    printed = show(pi, more, "--csv").stdout.splitlines()
    assert [line.split(",")[0] for line in printed] == ["file", str(pi), str(more)]
    sweep = run_campaign(
        Study(fake_campaign.campaign(instances=6), fake_campaign.compute), tmp_path / "s.h5", 9
    )
    refused("holds another study than", pi, sweep)
