"""The study of SM gating as a campaign."""

from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import xarray as xr
from gpu_cases import gating, lives, vectors
from tables import each

from mcage.aging.environment import Environment, OperatingPoint, delay_increase
from mcage.aging.nbti import SECONDS_PER_YEAR, Transistors
from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.errors import UserError
from mcage.files.inputs import read_toml
from mcage.gpu.chip import Floorplan, ThermalNetwork, gpu
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


# Lives of GPUs, reading by reading.

FIXED = {"model": "fixed", "fixed_kelvin": 353.15}
EQUAL = {"sigma_systematic_mv": 0.0}


ALWAYS_ON = Environment("always on", (OperatingPoint(1.0, 1.0, 353.15),))


def shift(study, duty, years):
    return float(study.nbti.dvth_at(ALWAYS_ON, duty, years * SECONDS_PER_YEAR, Transistors()))


@pytest.mark.parametrize("model", ["facelift", "bhardwaj", "finfet"])
def test_an_sm_that_always_works_shifts_as_its_model_says(model):
    study = gating(policies=["default"], aging={"model": model}, temperature=FIXED, variation=EQUAL)
    life = lives(study, "default", 1)
    for age, dvth in zip(study.spec.report_years, life.max_dvth_volts[0], strict=True):
        assert dvth == pytest.approx(shift(study, 1.0, age), rel=1e-9)


def test_in_turns_all_sms_work_for_the_mean_share():
    study = gating(policies=["round-robin"], temperature=FIXED, variation=EQUAL)
    dvth = lives(study, "round-robin", 1).max_dvth_volts[0, -1]
    counts = [kernel.sms for kernel in study.kernels]
    assert np.mean(counts) / 16 == pytest.approx(0.799, abs=0.001)
    assert dvth == pytest.approx(shift(study, np.mean(counts) / 16, 10), rel=1e-9)


def test_the_margin_is_that_of_the_slowest_sm_over_the_slowest_new_sm():
    study = gating(policies=["default"], temperature=FIXED)
    population = study.population(np.arange(5))
    margin = study.lives.run(study.policies["default"], population).margin_needed[:, -1]
    transistors = Transistors(vt0_volts=population.vt0_volts)
    dvth = study.nbti.dvth_at(ALWAYS_ON, 1.0, 10 * SECONDS_PER_YEAR, transistors)
    slower = 1 + delay_increase(dvth, 1.0, population.vt0_volts, study.nbti.alpha)
    new = (1.0 - population.vt0_volts) ** -study.nbti.alpha
    np.testing.assert_allclose(1 + margin, (slower * new).max(axis=0) / new.max(axis=0))


def test_a_life_ends_when_the_margin_reaches_the_guardband():
    years = {"report_years": [2.0, 2.5, 3.0, 3.5, 4.0], "horizon_years": 10.0}
    study = gating(policies=["default"], temperature=FIXED, variation=EQUAL, life=years)
    life = lives(study, "default", 1)
    # The amplitude of facelift is fitted to 13.9 % after three years of full stress.
    assert life.life_years[0] == pytest.approx(3.0, rel=1e-4)
    assert life.ended[0]
    at_three = study.spec.report_years.index(3.0)
    assert life.margin_needed[0, at_three] == pytest.approx(0.139, rel=1e-5)


class InTurns(Policy):
    """The SMs of each half work for a year, and rest for a year."""

    def workers(self, readings, count):
        first_half = (np.arange(len(readings.dvth_volts)) < 8)[:, None]
        return first_half == ((readings.turn // 8) % 2 == 0)


@pytest.mark.parametrize(
    ("model", "guardband"),
    [("facelift", 0.04), ("facelift", 0.08), ("finfet", 0.18)],
)
def test_an_sm_becomes_too_slow_within_a_long_interval(tmp_path, model, guardband):
    """Against the shift of SMs in turns every half hour, by the model's formula."""
    (tmp_path / "kernels.toml").write_text("[kernels.half]\nsms = 8\n")
    study = gating(
        workload={"kernels": str(tmp_path / "kernels.toml")},
        life={"delay_guardband": guardband},
        sensors={"interval_days": 365.0},
        aging={"model": model},
        temperature=FIXED,
        variation=EQUAL,
    )
    life = study.lives.run(InTurns(), study.population(np.arange(1)))
    years = np.arange(0, 10, 1 / 20_000)
    nbti = study.nbti
    rates = nbti.rates(ALWAYS_ON, Transistors())
    limit = (1 - (1 + guardband) ** (-1 / nbti.alpha)) * (1 - nbti.vt0_volts)
    first_half = np.floor(years) // 2 + np.where(np.floor(years) % 2 == 0, years % 1, 1.0)
    for worked, sms in ((first_half, slice(8)), (years - first_half, slice(8, 16))):
        seconds = worked * SECONDS_PER_YEAR, (years - worked) * SECONDS_PER_YEAR
        too_slow = nbti.dvth_after(rates, *seconds) > limit
        (ages,) = {*life.of_sms.too_slow_years[sms, 0].tolist()}
        assert ages == pytest.approx(years[too_slow.argmax()], abs=1e-4)
    assert ages > 1  # of the second half, which rests first


def test_a_guardband_retires_the_slowest_sms_while_spares_last():
    life = {"spare_sms": 2, "delay_guardband": 0.05}
    study = gating(policies=["fixed"], life=life, sensors={"interval_days": 30.0})
    result = lives(study, "fixed")
    assert (result.retired_sms[:, -1] == 2).all()
    assert (np.diff(result.retired_sms, axis=1) >= 0).all()
    without = lives(gating(policies=["fixed"], life={"delay_guardband": 0.05}), "fixed")
    assert (result.life_years > without.life_years).all()
    assert (without.retired_sms == 0).all()


def test_a_retired_sm_does_not_work_and_the_others_take_longer():
    life = {"spare_sms": 5, "delay_guardband": 0.05}
    study = gating(policies=["default", "round-robin"], life=life)
    before, after = (
        lives(gating(policies=["default"]), "default"),
        lives(study, "default"),
    )
    assert (before.slowdown == 0).all()
    assert (after.slowdown > 0.1).all()
    assert (after.sm_power_w < before.sm_power_w).all()


def test_idle_sms_that_stay_on_age():
    gated, on = (
        lives(
            gating(policies=["default"], workload={"utilisation": 0.4, "idle": idle}), "default"
        ).max_dvth_volts[:, -1]
        for idle in ("gated", "on")
    )
    assert (gated < 0.8 * on).all()


def test_static_power_that_grows_with_temperature_converges(tmp_path):
    path = tmp_path / "hot.toml"
    shipped = (files("mcage") / "data" / "gpus" / "gtx580.toml").read_text()
    path.write_text(shipped.replace("growth_per_kelvin = 0.0", "growth_per_kelvin = 0.01"))
    warmer = gating(policies=["default"], gpu=str(path))
    cold, hot = (lives(study, "default", 3).hottest_kelvin for study in (gating(), warmer))
    assert (hot > cold + 1).all()
    temperatures = warmer.lives.temperatures(np.array([318.15]))
    kelvin, watts = temperatures.of(np.ones((16, 1)), np.ones((16, 1)))
    expected = 6.0 + 1.59 * np.exp(0.01 * (kelvin - 318.15))
    np.testing.assert_allclose(watts, expected, rtol=1e-9)


def test_an_sm_that_all_kernels_need_works_for_exactly_all_of_the_time():
    study = gating()
    shares = study.population(np.arange(1)).shares.between(0, 7)
    demand = study.lives.demands.of(shares, np.array([16]), gates=True)
    working = demand.by_rank[:, 0]
    assert (working[:7] == 1).all()
    assert 0 < working[14] < working[7] < 1
    assert working[15] == 0
    assert working.sum() == pytest.approx(np.mean([kernel.sms for kernel in study.kernels]))


def test_gpus_in_warmer_air_shift_more():
    study = gating(
        policies=["default"],
        temperature={"ambient_kelvin": "uniform(300, 330)"},
        variation=EQUAL,
    )
    air = study.population(np.arange(12)).surroundings_kelvin
    life = lives(study, "default")
    assert 300 < air.min() < air.max() < 330
    order = air.argsort()
    assert (np.diff(life.max_dvth_volts[order, -1]) > 0).all()
    nominal = lives(gating(), "default", 1).hottest_kelvin[0]
    np.testing.assert_allclose(life.hottest_kelvin - air, nominal - 318.15)


# The thermal network and its floorplan.

NETWORK = gpu("gtx580").network
SQUARE = {"a": (0.0, 0.0, 0.01, 0.01), "b": (0.01, 0.0, 0.01, 0.01)}


@each("case", ["all-on", "four-on", "10W-in-SM3"])
def test_temperatures_are_those_of_hotspot(case):
    rows = {row["block"]: row for row in vectors("temperature") if row["case"] == case}
    names = NETWORK.floorplan.names
    kelvin = NETWORK.steady([float(rows[name]["power_W"]) for name in names])
    expected = [float(rows[name]["temperature_K"]) for name in names]
    np.testing.assert_allclose(kelvin, expected, atol=0.01, rtol=0)


def test_all_heat_leaves_through_the_sink():
    matrix = NETWORK.conductances
    assert matrix.shape == (88, 88)
    np.testing.assert_array_equal(matrix, matrix.T)
    to_air = matrix.sum(axis=1)
    power = np.zeros(88)
    power[:19] = np.arange(19)
    rise = np.linalg.solve(matrix, power)
    assert to_air @ rise == pytest.approx(power.sum())
    assert (np.abs(to_air[: 3 * 19]) < 1e-9).all()  # die, interface and spreader meet no air


def test_a_transient_starts_where_it_is_told_and_ends_in_the_steady_state():
    power = np.linspace(0, 9, 19)
    start = np.linspace(0, 20, 88)
    np.testing.assert_allclose(NETWORK.transient(start, power, 0.0), start, atol=1e-9)
    end = NETWORK.transient(start, power, 1e4)[:19] + NETWORK.package.ambient_kelvin
    np.testing.assert_allclose(end, NETWORK.steady(power), atol=1e-8)


def test_a_transient_follows_the_differential_equation():
    power, before = np.linspace(1, 9, 19), np.zeros(88)
    step = 1e-7
    after = NETWORK.transient(before, power, step)
    watts = np.concatenate([power, np.zeros(69)])
    np.testing.assert_allclose((after / step)[:19], (watts / NETWORK.capacities)[:19], rtol=0.01)
    slowest = 1 / NETWORK._modes[0]
    assert slowest[0] == pytest.approx(8.1, abs=0.1)  # seconds: of the sink


@each(
    ("changed", "message"),
    [
        ({"b": (0.009, 0.0, 0.01, 0.01)}, "blocks 'a' and 'b' overlap"),
        ({"b": (0.011, 0.0, 0.01, 0.01)}, r"leave a gap of 10 mm\^2 in a die of 21 x 10 mm"),
        ({"b": (0.01, 0.0, 0.01, 0.0)}, "a width and a height above 0"),
        ({"b": (0.01, np.nan, 0.01, 0.01)}, "must be finite"),
    ],
)
def test_floorplans_that_are_none(changed, message):
    with pytest.raises(UserError, match=f"plan.toml.*{message}"):
        Floorplan(SQUARE | changed, "plan.toml")


def test_a_die_must_fit_on_its_spreader():
    wide = {"far from the origin": (1.0, 2.0, 0.04, 0.02)}
    with pytest.raises(UserError, match="a die of 40 x 20 mm must fit on a spreader of 30 mm"):
        ThermalNetwork(Floorplan(wide), NETWORK.package)
    small = NETWORK.package.model_copy(update={"sink_side_m": 0.02})
    with pytest.raises(UserError, match="a sink of 20 mm"):
        ThermalNetwork(Floorplan(SQUARE), small)
