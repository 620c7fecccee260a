"""The study of SM gating as a campaign."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from gpu_cases import gating
from tables import each

from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.errors import UserError
from mcage.gpu.gating.spec import MOST_LAUNCHES, GatingSpec
from mcage.gpu.gating.study import study_of_header
from mcage.report.notes import caveats_of
from mcage.report.tables.gpu.lives import summarize_file, table_of
from mcage.results.reader import read_header
from mcage.spec.toml_files import read_toml

LAUNCHES = {"kernels": ["LU", "FWT"], "seconds": [3.0, 1.0]}


def study(**fields):
    fields.setdefault("policies", ["default", "most-slack"])
    return gating(**fields).study


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_campaign(study(), tmp_path_factory.mktemp("whole") / "r.h5", 100)


def test_a_campaign_in_pieces_is_the_same_to_the_bit(whole, tmp_path):
    pieces = run_campaign(study(), tmp_path / "r.h5", 5)
    assert pieces.read_bytes() == whole.read_bytes()


def test_a_process_makes_the_same_study_of_its_header(whole):
    original = study()
    again = study_of_header(original.header)
    assert original.header.difference(again.header) is None
    for name, array in original.compute(3, 5).items():
        np.testing.assert_array_equal(again.compute(3, 5)[name], array)


@pytest.fixture
def recorded(tmp_path):
    """Makes a study of a recorded sequence, FWT for so many seconds of 4."""
    path = tmp_path / "launches.csv"

    def make(fwt):
        path.write_text(f"kernel,seconds\nLU,{4 - fwt}\nFWT,{fwt}\n")
        made = study(workload={"recorded": str(path)})
        path.unlink()
        return made

    return make


def test_recorded_launches_are_read_once_and_stay_in_the_file(recorded, tmp_path):
    path = run_campaign(recorded(1), tmp_path / "r.h5", 100)
    again = study_of_header(read_header(path))  # without the CSV file
    assert run_campaign(again, tmp_path / "again.h5", 5).read_bytes() == path.read_bytes()
    table = study(workload={"recorded": LAUNCHES})
    assert table.header.spec_digest == again.header.spec_digest


def test_the_longest_recorded_sequence_is_read_again_from_the_spec_that_holds_it(tmp_path):
    seconds = [0.1234567890123456 + launch / 7 for launch in range(MOST_LAUNCHES)]
    recorded = {"kernels": ["BSRT", "HTSP"] * (MOST_LAUNCHES // 2), "seconds": seconds}
    spec = GatingSpec.from_mapping({"workload": {"recorded": recorded}})
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml())
    assert read_toml(path)["workload"]["recorded"] == recorded


def test_launches_whose_lines_are_not_known_are_called_by_their_number():
    launches = {"kernels": ["LU", "none"], "seconds": [1.0, 2.0], "sources": ["l.csv: line 2"]}
    with pytest.raises(UserError, match=r"recorded: launch 1: kernel 'none' is unknown"):
        study(workload={"recorded": launches})


def test_other_launches_are_another_campaign(recorded, tmp_path):
    first, edited = (
        run_campaign(recorded(fwt), tmp_path / f"{fwt}.h5", 100).rename(tmp_path / f"part{fwt}.h5")
        for fwt in (1, 2)
    )
    with pytest.raises(UserError, match=r"part1\.h5 .*spec_digest"):
        run_campaign(recorded(2), first, 100)
    with pytest.raises(UserError, match=r"part2\.h5 .*spec_digest"):
        merge(tmp_path / "r.h5", [first, edited])


def test_a_file_with_no_more_than_the_name_of_its_launches():
    header = study().header
    named = '[workload]\nrecorded = "launches.csv"'
    old = replace(header, spec_toml=header.spec_toml.replace("[workload]", named))
    (caveat,) = caveats_of(old)
    assert 'the launches of workload.recorded = "launches.csv" are not in the file' in caveat
    assert "are not in the file" in old.difference(old)
    assert header.difference(header) is None


def test_the_file_opens_as_a_dataset(whole):
    with xr.open_dataset(whole, engine="h5netcdf") as results:
        assert dict(results.sizes) == {"policy": 2, "instance": 12, "age": 10}
        assert results["margin_needed"].attrs["units"] == "1"
        assert results["policy"].values.tolist() == ["default", "most-slack"]
        margins = results["margin_needed"].values
    assert (np.diff(margins[0]) > 0).all()
    assert (margins[1, :, -1] < margins[0, :, -1]).all()


def test_the_table_says_what_the_file_holds(whole):
    default, slack = summarize_file(whole)
    with xr.open_dataset(whole, engine="h5netcdf") as results:
        margins = np.sort(results["margin_needed"].values[:, :, -1])
    assert default.median_margin.value == margins[0][5]
    assert slack.median_margin.value == margins[1][5]
    assert (default.alive.value, slack.alive.value) == (0.0, 1.0)
    assert default.median_life.value == pytest.approx(4.2, abs=0.3)


def test_a_ranking_of_equal_temperatures_is_said_to_be_none():
    policies = ["coolest-first", "fixed"]
    equally_warm = study(policies=policies, temperature={"model": "fixed"})
    by_temperature, always_the_first = equally_warm.compute(0, 4)["margin_needed"]
    assert np.array_equal(by_temperature, always_the_first)
    (caveat,) = caveats_of(equally_warm.header)
    assert caveat.startswith("CAVEAT: coolest-first: at a fixed temperature all SMs are equally")
    assert caveats_of(study(policies=policies).header) == []
    assert caveats_of(study(temperature={"model": "fixed"}).header) == []


def test_a_share_is_written_with_its_bounds(whole):
    """None or all of twelve: Wilson's interval lies on one side of the share."""
    (alive,) = (c for c in table_of(summarize_file(whole)).columns if c.key == "alive")
    assert [cell.text for cell in alive.cells] == ["0 [0, 24]", "100 [76, 100]"]


def test_a_campaign_may_stop_when_a_mean_is_known(tmp_path):
    rule = {"rel_ci": 0.05, "of": "margin_needed"}
    path = run_campaign(study(instances=4000, stopping=rule), tmp_path / "r.h5", 50)
    with xr.open_dataset(path, engine="h5netcdf") as results:
        assert results.sizes["instance"] < 4000
    with pytest.raises(UserError, match=r"stopping\.of = 'life' is no variable"):
        _ = study(stopping={"rel_ci": 0.05, "of": "life"})


@each(
    ("fields", "message"),
    [
        ({"policies": ["best"]}, "policy 'best' is unknown"),
        ({"policies": ["fixed", "fixed"]}, "policies .*: names 'fixed' twice"),
        ({"policies": []}, "policies"),
        ({"gpu": "gtx680"}, "GPU 'gtx680' is unknown; choose from gtx580"),
        ({"gpu": "missing.toml"}, "missing.toml: cannot read"),
        ({"life": {"spare_sms": 16}}, "life.spare_sms = 16: the GPU has 16 SMs"),
        ({"life": {"report_years": [3.0, 2.0]}}, "report_years must rise"),
        ({"life": {"report_years": [11.0]}}, "report_years = 11 lies beyond life.horizon_years"),
        ({"workload": {"kernels": "rodinia"}}, "kernels 'rodinia' are unknown"),
        ({"workload": {"names": ["LUD"]}}, "there is no kernel 'LUD' in it"),
        ({"workload": {"utilization": 1.0}}, "is workload.utilisation meant"),
        ({"workload": {"weights": {"LU": 0.0}}}, "no kernel has a weight above 0"),
        (
            {"workload": {"weights": {"LU": 1.0}, "recorded": LAUNCHES}},
            "workload.weights and workload.recorded: give one of them",
        ),
        ({"workload": {"transitions": {"LU": {"LU": 0.5}}}}, "probabilities sum to 0.5, not to 1"),
        ({"sensors": {"noise_mv": float("nan")}}, "noise_mv = nan must be a finite number"),
        ({"aging": {"model": "hci"}}, "NBTI model 'hci' is unknown"),
        ({"temperature": {"ambient_kelvin": 20.0}}, "ambient_kelvin = 20"),
        ({"temperature": {"ambient_kelvin": 440.0}}, r"SM\d+ reaches 4\d\d K"),
    ],
)
def test_specs_that_make_no_sense(fields, message):
    with pytest.raises(UserError, match=message):
        _ = gating(**fields).header


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[kernels.a]\n", "kernels.a = {}: needs sms, or the measured characteristics"),
        ("[kernels.a]\nsms = 17\n", "kernels.'a'.sms = 17, but the GPU has 16 SMs"),
        ("[kernels.a]\nsms = 2\nmiss = 0.5\n", "gives both sms and measured characteristics"),
        ("[kernels.a]\nmiss = 0.5\n", "lacks global_latency_cycles"),
        ("[kernels]\n", "kernels"),
        ("kernels = nan\n", "kernels = nan must be a finite number"),
    ],
)
def test_kernels_that_make_no_sense(tmp_path, text, message):
    path = tmp_path / "kernels.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=f"kernels.toml: .*{message}"):
        gating(workload={"kernels": str(path)})


MEASURED = """
[kernels.streaming]
global_latency_cycles = 500.0
cache_latency_cycles = 60.0
miss = 0.5
load_bytes_per_thread = 8.0
comp_cycles = 20.0
total_warps = 768
total_workload_warps = 76800
[kernels.counted]
sms = 12
time_ratio = 1.02
"""


def test_measured_kernels_go_through_the_time_model(tmp_path):
    path = tmp_path / "kernels.toml"
    path.write_text(MEASURED)
    streaming, counted = gating(workload={"kernels": str(path)}).kernels
    assert 4 <= streaming.sms < 16
    assert 1 <= streaming.time_ratio <= 1.08
    assert (counted.sms, counted.time_ratio) == (12, 1.02)


def test_a_spec_survives_its_toml():
    spec = gating(workload={"weights": {"LU": 2.0}}, stopping={"rel_ci": 0.1}).spec
    import tomllib

    assert GatingSpec.from_mapping(tomllib.loads(spec.to_toml())) == spec
