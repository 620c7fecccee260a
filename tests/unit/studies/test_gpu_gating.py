"""The study of SM gating as a campaign."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from gpu_cases import gating, vectors
from tables import each

from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.errors import UserError
from mcage.files.inputs import read_toml
from mcage.report.notes import caveats_of
from mcage.results.reader import read_header
from mcage.studies.gpu_gating.life import shifts_of_rounds
from mcage.studies.gpu_gating.policies import POLICIES, CheckedPolicy, Policy, Readings, policy
from mcage.studies.gpu_gating.presentation import GatingPresentation
from mcage.studies.gpu_gating.spec import MOST_LAUNCHES, GatingSpec, GpuWorkload, read_launches
from mcage.studies.gpu_gating.study import Gating, GatingHeader
from mcage.studies.gpu_gating.workload import kernel_shares

LAUNCHES = {"kernels": ["LU", "FWT"], "seconds": [3.0, 1.0]}


def study(**fields):
    fields.setdefault("policies", ["default", "most-slack"])
    return gating(**fields).study


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
    again = Gating.study_of_header(read_header(path))  # without the CSV file
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
    with pytest.raises(UserError, match=r"part1\.h5 .*recorded\.\w+ \("):
        run_campaign(recorded(2), first, 100)
    with pytest.raises(UserError, match=r"part2\.h5 .*recorded\.\w+ \("):
        merge(tmp_path / "r.h5", [first, edited])


def test_a_file_with_no_more_than_the_name_of_its_launches():
    header = study().header
    named = '[workload]\nrecorded = "launches.csv"'
    old = replace(header, spec_toml=header.spec_toml.replace("[workload]", named))
    (caveat,) = caveats_of(old)
    assert 'the launches of workload.recorded = "launches.csv" are not in the file' in caveat
    assert "are not in the file" in old.difference(old)
    assert header.difference(header) is None


def test_the_table_says_what_the_file_holds(tmp_path):
    path = run_campaign(study(), tmp_path / "r.h5", 100)
    default, slack = GatingPresentation(GatingHeader).summarize_file(path)
    with xr.open_dataset(path, engine="h5netcdf") as results:
        assert dict(results.sizes) == {"policy": 2, "instance": 12, "age": 10}
        margins = np.sort(results["margin_needed"].values, axis=1)
    assert (np.diff(margins[0]) > 0).all()
    assert (margins[1, :, -1] < margins[0, :, -1]).all()
    assert default.median_margin.value == margins[0, 5, -1]
    assert slack.median_margin.value == margins[1, 5, -1]
    assert default.median_life_years.value == pytest.approx(4.2, abs=0.3)
    # None or all of twelve: Wilson's interval lies on one side of the share.
    bounds = [(it.alive.value, it.alive.lower, it.alive.upper) for it in (default, slack)]
    assert bounds == [
        pytest.approx((0, 0, 0.24), abs=0.005),
        pytest.approx((1, 0.76, 1), abs=0.005),
    ]


def test_a_ranking_of_equal_temperatures_is_said_to_be_none():
    policies = ["coolest-first", "fixed"]
    equally_warm = study(policies=policies, temperature={"model": "fixed"})
    by_temperature, always_the_first = equally_warm.compute(0, 4)["margin_needed"]
    assert np.array_equal(by_temperature, always_the_first)
    (caveat,) = caveats_of(equally_warm.header)
    assert caveat.startswith("CAVEAT: coolest-first: at a fixed temperature all SMs are equally")
    assert caveats_of(study(policies=policies).header) == []
    assert caveats_of(study(temperature={"model": "fixed"}).header) == []


@each(
    ("fields", "message"),
    [
        ({"policies": ["best"]}, "policy 'best' is unknown"),
        ({"policies": ["fixed", "fixed"]}, "policies .*: names 'fixed' twice"),
        ({"gpu": "gtx680"}, "GPU 'gtx680' is unknown; choose from gtx580"),
        ({"life": {"spare_sms": 16}}, "life.spare_sms = 16: the GPU has 16 SMs"),
        ({"life": {"report_years": [3.0, 2.0]}}, "report_years must rise"),
        ({"life": {"report_years": [11.0]}}, "report_years = 11 lies beyond life.horizon_years"),
        ({"workload": {"kernels": "rodinia"}}, "kernels 'rodinia' are unknown"),
        ({"workload": {"names": ["LUD"]}}, "there is no kernel 'LUD' in it"),
        ({"workload": {"weights": {"LU": 0.0}}}, "no kernel has a weight above 0"),
        (
            {"workload": {"weights": {"LU": 1.0}, "recorded": LAUNCHES}},
            "workload.weights and workload.recorded: give one of them",
        ),
        ({"temperature": {"ambient_kelvin": 440.0}}, r"SM\d+ reaches 4\d\d K"),
    ],
)
def test_specs_that_make_no_sense(fields, message):
    with pytest.raises(UserError, match=message):
        _ = gating(**fields).header


@each(
    ("text", "message"),
    [
        ("[kernels.a]\n", "kernels.a = {}: needs sms, or the measured characteristics"),
        ("[kernels.a]\nsms = 17\n", "kernels.'a'.sms = 17, but the GPU has 16 SMs"),
        ("[kernels.a]\nsms = 2\nmiss = 0.5\n", "gives both sms and measured characteristics"),
        ("[kernels.a]\nmiss = 0.5\n", "lacks global_latency_cycles"),
        ("kernels = nan\n", "kernels = nan must be a finite number"),
    ],
)
def test_kernels_that_make_no_sense(tmp_path, text, message):
    path = tmp_path / "kernels.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=f"kernels.toml: .*{message}"):
        gating(workload={"kernels": str(path)})


# SM gating launch by launch.


def shifts(name, counts, rounds, sms=16, **others):
    return shifts_of_rounds(policy(name), np.resize(counts, rounds), sms, **others)


@each("row", vectors("gating"))
def test_vectors(row):
    counts = [int(text) for text in row["active_SMs_per_round_cyclic"].split()]
    name = {"paper": "least-shift"}.get(row["policy"], row["policy"].replace("_", "-"))
    of_sms = 1e3 * shifts(name, counts, int(row["rounds"]), int(row["SMs"]))
    assert of_sms.max() == pytest.approx(float(row["max_dVth_mV"]), rel=1e-5)
    assert of_sms.min() == pytest.approx(float(row["min_dVth_mV"]), rel=1e-5)
    assert of_sms.mean() == pytest.approx(float(row["mean_dVth_mV"]), rel=1e-5)


def mitigation(active, rounds):
    gated, always = (shifts(name, [active], rounds).max() for name in ("least-shift", "default"))
    return 1 - gated / always


def closed_form_mitigation(active, sms, rounds):
    """Mitigation of the largest shift by gating equal SMs in turns.

    A rest removes nine tenths of a shift, whose sixth power is nothing: what counts is how many
    rounds an SM works in a row.
    """
    if active == sms:
        return 0.0
    in_a_row = -(-active // (sms - active))
    return 1 - (in_a_row / rounds) ** (1 / 6)


@each(
    ("active", "rounds", "points"),
    [*((active, 100, 0.01) for active in (4, 8, 9, 12, 13, 14, 15, 16)), (15, 1000, 0.04)],
)
def test_the_closed_form_holds_within_its_stated_error(active, rounds, points):
    closed = 100 * closed_form_mitigation(active, 16, rounds)
    assert closed == pytest.approx(100 * mitigation(active, rounds), abs=points)


@each("active", [3, 7, 11, 15])
def test_least_shift_does_what_a_counter_does_where_sms_are_equal(active):
    by_shift, by_turn = (
        np.sort(shifts(name, [active], 200), axis=0) for name in ("least-shift", "round-robin")
    )
    np.testing.assert_allclose(by_shift, by_turn, rtol=1e-3)
    assert by_shift.max() == pytest.approx(by_turn.max(), rel=1e-9)


# Policies: the SMs that each puts to work.

DVTH = np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 0.0], [4.0, 5.0]])
VT = np.array([[0.1, 0.4], [0.4, 0.3], [0.3, 0.2], [0.2, 0.1]])
KELVIN = np.array([[340.0, 341.0], [341.0, 342.0], [339.0, 340.0], [350.0, 330.0]])
COUNT = np.array([2, 1])


def readings(retired=(), turn=(0, 3)):
    gone = np.zeros((4, 2), np.bool_)
    gone[list(retired)] = True
    return Readings(DVTH, VT, KELVIN, gone, np.array(turn), lambda: VT[::-1])


def workers(name, count=COUNT, **known):
    chosen = POLICIES[name].workers(readings(**known), count)
    return [np.flatnonzero(column).tolist() for column in chosen.T]


@each(
    ("name", "expected"),
    [
        ("least-shift", [[1, 2], [2]]),
        ("most-slack", [[0, 3], [3]]),
        ("coolest-first", [[0, 2], [3]]),
        ("fixed", [[0, 1], [0]]),
        ("round-robin", [[0, 1], [3]]),
        ("random", [[0, 3], [0]]),
    ],
)
def test_who_works(name, expected):
    assert workers(name) == expected


def test_a_retired_sm_never_works():
    assert workers("least-shift", retired=[1]) == [[0, 2], [2]]
    for name in POLICIES:
        assert all(2 not in sms for sms in workers(name, np.array([3, 3]), retired=[2]))


def test_of_sms_that_are_equally_warm_but_for_rounding_the_lower_index_works():
    """Mirror images on a floorplan: which of them rounding makes warmer depends on the machine."""
    kelvin = np.full((4, 2), 344.0)
    kelvin[0], kelvin[2] = np.nextafter(kelvin[0], 400.0), np.nextafter(kelvin[2], 300.0)
    same = replace(readings(), temperature_kelvin=kelvin)
    chosen = POLICIES["coolest-first"].workers(same, COUNT)
    assert [np.flatnonzero(column).tolist() for column in chosen.T] == [[0, 1], [0]]


class Spread(Policy):
    def __init__(self, answer):
        self.answer = answer

    def workers(self, readings, count):
        return self.answer


FINE = np.array([[True, True], [True, False], [False, False], [False, False]])


@each(
    ("answer", "retired", "message"),
    [
        (FINE, [1], "puts SM 1 of GPU 0 of a batch to work, which is retired"),
        (FINE[:3], [], r"gives bool\[3, 2\], where bool\[4, 2\]"),
        (FINE.astype(int), [], r"gives int64\[4, 2\]"),
        (~FINE, [], "puts 3 SMs of GPU 1 of a batch to work, where 1 are needed"),
        ("nothing", [], "gives <U7"),
    ],
)
def test_answers_of_user_defined_policies_are_checked(answer, retired, message):
    checked = CheckedPolicy(Spread(answer), "policy 'spread:MINE'")
    with pytest.raises(UserError, match=f"policy 'spread:MINE': workers {message}"):
        checked.workers(readings(retired), COUNT)


def test_a_policy_that_answers_rightly_passes_and_one_that_fails_is_blamed():
    checked = CheckedPolicy(Spread(FINE), "policy 'spread:FINE'")
    np.testing.assert_array_equal(checked.workers(readings(), COUNT), FINE)

    class Failing(Policy):
        def workers(self, readings, count):
            raise ZeroDivisionError("no SM")

    with pytest.raises(UserError, match=r"policy 'a:B'.*no SM"):
        CheckedPolicy(Failing(), "policy 'a:B'").workers(readings(), COUNT)


# Sequences of kernels: weights, jobs, recorded launches.

NAMES = ("a", "b", "c")
GPUS = np.arange(4)


def shares_of(workload, horizon_days=3650.0, instances=GPUS):
    return kernel_shares(workload, NAMES, horizon_days, 1)(instances)


def shares_between(start=0.0, end=7.0, **fields):
    return shares_of(GpuWorkload.model_validate(fields)).between(start, end)


def test_kernels_have_equal_shares_unless_weights_say_otherwise():
    np.testing.assert_allclose(shares_between(), np.full((3, 1), 1 / 3))
    np.testing.assert_allclose(shares_between(weights={"a": 3, "c": 1})[:, 0], [0.75, 0, 0.25])


def test_a_job_that_an_interval_cuts_counts_in_part():
    jobs = shares_of(GpuWorkload(job_days=3.0))
    whole = np.stack([jobs.between(3 * job, 3 * job + 3) for job in range(4)])
    np.testing.assert_allclose(
        jobs.between(2.0, 10.0), (whole[0] + 3 * whole[1] + 3 * whole[2] + whole[3]) / 8
    )


@pytest.fixture
def launches(tmp_path):
    """Reads the file launches.csv of a text."""

    def read(text):
        path = tmp_path / "launches.csv"
        path.write_text(text)
        return {"recorded": read_launches(path)}

    return read


def test_a_recorded_sequence_is_repeated_to_the_second(launches):
    recorded = launches("# seen\nkernel,size,seconds\na,1,86400\nb,2,172800\n\na,1,86400\n")
    np.testing.assert_allclose(shares_between(0, 4, **recorded)[:, 0], [0.5, 0.5, 0])
    np.testing.assert_allclose(shares_between(0.5, 2, **recorded)[:, 0], [1 / 3, 2 / 3, 0])
    np.testing.assert_allclose(shares_between(3, 5.5, **recorded)[:, 0], [2 / 2.5, 0.5 / 2.5, 0])


SEQUENCE = "kernel,seconds\n"


@each(
    ("text", "message"),
    [
        ("kernel\na\n", "the column seconds is missing"),
        (SEQUENCE + "d,1\n", "line 2: kernel 'd' is unknown"),
        (SEQUENCE + "a,nan\n", "line 2: seconds = 'nan' must be a number, 1e-09"),
        (SEQUENCE + "a,1\n" * 50_001, "line 50002: more than 50,000 rows"),
    ],
)
def test_recorded_sequences_that_are_none(launches, text, message):
    with pytest.raises(UserError, match=rf"launches\.csv: {message}"):
        shares_between(**launches(text))


@each(
    ("fields", "message"),
    [
        ({"weights": {"d": 1.0}}, "workload.weights: kernel 'd' is unknown"),
        ({"job_days": 0.01}, "365,000 jobs in 10 years"),
    ],
)
def test_workloads_that_make_no_sense(fields, message):
    with pytest.raises(UserError, match=message):
        shares_between(**fields)
