"""Studies of small cases: against closed forms, against sweeps, and the same dies throughout."""

import csv
import io
import json
import math

import numpy as np
import pytest
from command_line import invoke
from rich.console import Console
from sweep_cases import small_spec
from tables import each

from mcage.aging.environment import dvth_at_delay
from mcage.aging.nbti import BOLTZMANN_EV_PER_KELVIN, facelift
from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.methods.sensitivity import (
    QUANTITIES,
    Parameter,
    SensitivityStudy,
    _difference_of_quantiles,
    evaluated,
    indices,
    one_at_a_time,
    shipped,
    sobol,
    user_range,
    value_of,
)
from mcage.methods.sensitivity_output import table_of
from mcage.report.tables import print_table
from mcage.studies.sweep.study import Sweep

ENGINE, _ = select_engine("numba")
FACELIFT = facelift()


def spec(technique="baseline", environment="turbo", **fields):
    return small_spec(techniques=[technique], environments=[environment], **fields)


def study(given, of="median_life", **options):
    return SensitivityStudy(given, of, ENGINE, **options)


def varied(given, *ranges):
    entries = [user_range(text, shipped()) for text in ranges]
    return [entry.of(given) for entry in entries]


def effects(given, *ranges, of="median_life", **options):
    """Effects by parameter and setting."""
    result = one_at_a_time(study(given, of, **options), varied(given, *ranges))
    return result, {
        (bar.parameter.name, effect.setting): effect
        for bar in result.bars
        for effect in bar.effects
    }


# ---- closed forms ------------------------------------------------------------------------------

ONE_KERNEL = {"workload": {"kernels": ["ScanLargeArrays"], "periods": 1, "generations": 2}}
"""One kernel for life: the worst shift grows as the fourth root of time."""


def test_lives_that_end_by_delay_follow_the_fourth_power():
    """At nominal voltage a life is (shift at the guardband / prefactor)^4, in closed form."""
    given = spec(**ONE_KERNEL)
    result, by = effects(
        given,
        "guardband=0.11..0.16",
        "shift_factor=0.9..1.1",
        "temperature=350..373.15",
        "vmin_coefficient=0.5..1.5",
    )
    life = result.nominal.value
    assert 0 < life < 10

    def limit(guardband):
        return dvth_at_delay(guardband, 1.0, FACELIFT.vt0_volts, FACELIFT.alpha)

    def warmth(kelvin):
        return math.exp(-FACELIFT.activation_energy_ev / (BOLTZMANN_EV_PER_KELVIN * kelvin))

    expected = {
        ("guardband", 0.11): (limit(0.11) / limit(0.139)) ** 4,
        ("guardband", 0.16): (limit(0.16) / limit(0.139)) ** 4,
        ("shift_factor", 0.9): 0.9**-4,
        ("shift_factor", 1.1): 1.1**-4,
        ("temperature", 350.0): (warmth(353.15) / warmth(350)) ** 4,
        ("temperature", 373.15): (warmth(353.15) / warmth(373.15)) ** 4,
        ("vmin_coefficient", 0.5): 1.0,
        ("vmin_coefficient", 1.5): 1.0,
    }
    assert by.keys() == expected.keys()
    for key, factor in expected.items():
        assert by[key].value.value == pytest.approx(life * factor, rel=1e-6), key
        assert by[key].difference.value == pytest.approx(life * (factor - 1), rel=1e-6, abs=1e-9)
    assert [bar.parameter.name for bar in result.bars[-1:]] == ["vmin_coefficient"]
    sizes = [bar.size for bar in result.bars]
    assert sizes == sorted(sizes, reverse=True)


def test_operating_points_of_ones_own_vary():
    """Stress comes from the high point only: a life goes as the inverse of its share."""
    points = [{"vdd_volts": 1.0, "share": 0.5}, {"vdd_volts": 0.29}]
    given = small_spec(
        techniques=["baseline"],
        environments=["half"],
        operating_points={"half": points},
        faults={"mode": "varius", "mu_volts": 0.0, "sigma_random_volts": 0.01},
        **ONE_KERNEL,
    )
    result, by = effects(given, "operating_points.half.0.share=0.4..0.8")
    for (_, share), effect in by.items():
        assert effect.value.value == pytest.approx(result.nominal.value * 0.5 / share, rel=1e-6)
    with pytest.raises(UserError, match=r"'operating_points\.half\.2\.share' is no key of a sweep"):
        effects(given, "operating_points.half.2.share=0.4..0.8")


def test_what_is_fitted_again_leaves_the_calibrated_voltage_alone():
    """At 1.0 V and 353.15 K the field constant does nothing, unless the amplitude stays."""
    given = spec(**ONE_KERNEL)
    result, by = effects(given, "e0=0.18..0.25", "ea=0.1..0.16", "vt0=0.25..0.35")
    for effect in by.values():
        assert effect.difference.value == pytest.approx(0, abs=1e-6)
    life = result.nominal.value
    _, by = effects(given, "e0=0.18..0.25", refit=False)
    thickness = FACELIFT.oxide_thickness_nm
    for field in (0.18, 0.25):
        growth = math.exp((1 / field - 1 / FACELIFT.field_volts_per_nm) / thickness)
        value = by["e0", field].value.value
        assert value == pytest.approx(life * growth**-4, rel=1e-6) if growth > 1 else value > 10


def test_stretching_the_law_of_vmin_is_a_smaller_coefficient():
    """Both deviations times f about the Vdd of the table: the same faults, which grow 1/f as fast.

    This is what fitting mu again is for, and the closed form that it is held against.
    """
    given = spec("rrcd", "dvfs", **ONE_KERNEL)
    sigmas = {
        key: 1.25 * value_of(given, key)
        for key in ("faults.sigma_systematic_volts", "faults.sigma_random_volts")
    }

    base = Sweep(given, ENGINE)

    def faulty_entries(setting, **options):
        sweep = Sweep(study(given, **options).at(setting), ENGINE, like=base)
        arrays = sweep.compute(0, 6)
        return arrays["faulty_entries_start"], arrays["epoch_faulty_entries"]

    start, slower = faulty_entries({"life.vmin_coefficient": 1 / 1.25})
    for entries, expected in zip(faulty_entries(sigmas), (start, slower), strict=True):
        assert np.array_equal(entries, expected)
    _, nominal = faulty_entries({})
    assert (slower <= nominal).all()
    assert (slower < nominal).any()
    # At the same mu, many more cells are faulty from the start.
    unfitted, _ = faulty_entries(sigmas, refit=False)
    assert (unfitted > 1.5 * start).all()


# ---- the same as sweeps ------------------------------------------------------------------------


@each(
    "setting",
    [
        {"aging.constants.eta": 0.2},
        {"registers.delta_limit": "none"},
        {"life.activity": 0.5},
    ],
)
def test_an_evaluation_is_the_sweep_of_its_spec(setting):
    """To the last bit, though replays are taken over where they would be the same."""
    given = spec("rc+rar", workload=ONE_KERNEL["workload"] | {"kernels": ["MatrixTranspose"]})
    its = study(given.model_copy(update={"instances": 3}), "max_dvth", refit=False)
    base, changed = its.values([{}, setting])
    for dies, spec_of in ((base, its.at({})), (changed, its.at(setting))):
        arrays = Sweep(spec_of, ENGINE).compute(0, 3)
        assert np.array_equal(dies, arrays["max_dvth_mv"][0].max(axis=-1))
    assert not np.allclose(base, changed, rtol=1e-3)


def test_a_quantity_is_what_a_sweep_says_of_it():
    """Every measure of a sweep, in the unit of its name, with the same interval."""
    given = spec("rrcd", "dvfs", **ONE_KERNEL, instances=8, life={"horizon_years": 3.0})
    arrays = Sweep(given, ENGINE).compute(0, 8)
    case = {name: array[0] for name, array in arrays.items()}
    for name, measure in QUANTITIES.items():
        of = study(given, name)
        found, said = of.estimate(of.of_dies(arrays)), measure.estimate(case, 3.0)
        scaled = [measure.scale * bound for bound in vars(said).values()]
        assert [*vars(found).values()] == pytest.approx(scaled, rel=1e-9, nan_ok=True), name
    assert {"rmst", "energy_saving_of_all", "b10_life", "delay"} <= QUANTITIES.keys()
    del arrays["due_fit"]
    with pytest.raises(UserError, match="of due_fit: a sweep of this spec has no due_fit"):
        study(given, "due_fit").of_dies(arrays)


def test_replays_are_taken_over_only_where_they_are_the_same():
    base = Sweep(spec("rrcd", **ONE_KERNEL), ENGINE)
    base.prepare()
    workload = ONE_KERNEL["workload"]
    aged = {"life": {"epochs": 5, "activity": 0.5}}
    same = Sweep(spec("rrcd", "dvfs", workload=workload, **aged), ENGINE, like=base)
    assert same.plan.fault_free["rrcd"] is base.plan.fault_free["rrcd"]
    held = {"epochs": 4, "idle": "held", "activity": 0.5}
    for fields in (
        {"workload": workload | {"kernels": ["MatrixTranspose"]}},
        {"workload": workload | {"generations": 3}},
        {"workload": workload | {"release": "work-group"}},
        {"registers": {"delta_limit": "none"}},
        {"registers": {"selector_offsets": 4}},
        {"registers": {"lds_rows": 3}},
        {"life": held},
    ):
        other = Sweep(spec("rrcd", **{"workload": workload} | fields), ENGINE, like=base)
        assert other.plan.fault_free["rrcd"] is not base.plan.fault_free["rrcd"], fields
    longer = Sweep(spec("rrcd", workload=workload, life=held | {"activity": 0.6}), ENGINE)
    assert Sweep(longer.spec, ENGINE, like=other).plan.like is None
    mixed = Sweep(spec("rc", workload=workload), ENGINE, like=base)
    assert mixed.plan.fault_free["rc"].replays[0].technique.name == "rc"


# ---- medians and the horizon -------------------------------------------------------------------


def test_lives_beyond_the_horizon_are_said_to_be():
    """A guardband that nobody uses up: a bound, no number; both beyond: nothing is known."""
    given = spec(**ONE_KERNEL)
    _, by = effects(given, "guardband=0.139..0.5")
    (effect,) = by.values()
    assert effect.value.value == math.inf
    assert effect.difference.value == math.inf
    assert effect.least_difference == pytest.approx(10 - 3.0, abs=0.5)
    beyond = spec(**ONE_KERNEL, life={"delay_guardband": 0.5, "epochs": 4})
    _, by = effects(beyond, "guardband=0.45..0.6")
    assert all(math.isnan(effect.difference.value) for effect in by.values())
    assert all(effect.least_difference == 0 for effect in by.values())


def test_differences_of_medians_are_paired():
    """Dies that all live a year longer: a year, without a width; of five dies, without bounds.

    Five lie all on one side of their true median in 6 % of the lots; six, in 3 %.
    """
    lives = np.random.default_rng(1).exponential(3.0, 51)
    for dies, bound in ((51, 1.0), (6, 1.0), (5, math.nan)):
        gained = _difference_of_quantiles(lives[:dies] + 1.0, lives[:dies])
        expected = {"value": 1.0, "lower": bound, "upper": bound}
        assert vars(gained) == pytest.approx(expected, nan_ok=True), dies
    other = _difference_of_quantiles(np.random.default_rng(2).exponential(3.0, 51), lives)
    assert other.lower < other.value < other.upper


@pytest.mark.slow
def test_intervals_of_differences_of_medians_cover():
    """Of 200 lots whose medians differ by nothing, 95 % intervals hold 0 on 180 at least.

    The percentile bootstrap is a little wide for medians; at 95 %, 1 set of lots in 500 would have
    fewer.
    """
    hits = 0
    for seed in range(200):
        lives, nominal = np.random.default_rng(seed).exponential(3.0, (2, 60))
        result = _difference_of_quantiles(lives, nominal)
        hits += result.lower <= 0 <= result.upper
    assert hits >= 180


def test_it_is_said_how_many_dies_have_a_quantity(monkeypatch):
    """Shifts are of the dies that reach the horizon, differences of those that do so twice."""
    nan = math.nan
    lots = [[1.0, 2.0, nan, 4.0], [0.5, nan, 1.0, 2.0], [2.0, nan, nan, nan]]
    monkeypatch.setattr(SensitivityStudy, "values", lambda *_: [np.array(lot) for lot in lots])
    given = spec(**ONE_KERNEL, instances=4)
    result, by = effects(given, "shift_factor=0.5..2", of="max_dvth")
    assert result.nominal_dies == 3
    assert [(effect.dies, effect.pairs) for effect in by.values()] == [(3, 2), (1, 1)]
    assert by["shift_factor", 0.5].difference.value == pytest.approx((-0.5 - 2.0) / 2)
    console = Console(file=io.StringIO(), width=200)
    print_table(table_of(result), console)
    said = console.file.getvalue()
    assert "mV, 3 instances" in said
    assert "pairs: those that have it under both settings" in said
    lots[:] = [[1.0, 2.0, 3.0, 4.0]] * 3
    whole, _ = effects(given, "shift_factor=0.5..2", of="max_dvth")
    print_table(table_of(whole), console)
    assert not whole.leaves_out
    said_of_whole = console.file.getvalue()[len(said) :]
    assert "instances" not in said_of_whole.replace("4 instances, horizon", "")


def test_shifts_are_of_one_age():
    """No guardband ends a life: all dies reach the horizon, and have drifted as far as they do."""
    given = spec(**ONE_KERNEL)
    result, by = effects(given, "shift_factor=0.5..2", of="max_dvth")
    assert by["shift_factor", 2.0].value.value == pytest.approx(2 * result.nominal.value, rel=1e-6)
    with pytest.raises(UserError, match="guardband: max_dvth does not depend on it"):
        effects(given, "guardband=0.1..0.2", of="max_dvth")


# ---- Sobol' ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_indices_of_a_shift_follow_its_closed_form():
    """The shift is a product of the factor and of exp(-Ea/(k T)): its indices are known.

    With c the coefficients of variation of the factors of a product, the first-order indices are
    c_i^2 / (prod (1 + c_j^2) - 1).
    """
    given = spec(**ONE_KERNEL, instances=1)
    ranges = varied(given, "shift_factor=0.5..1.5", "temperature=300..400")
    result = sobol(study(given, "max_dvth"), ranges, 64)
    kelvin = np.linspace(300, 400, 20_001)
    warmth = np.exp(-FACELIFT.activation_energy_ev / (BOLTZMANN_EV_PER_KELVIN * kelvin))
    of_factor, of_warmth = 1 / 12, (warmth.std() / warmth.mean()) ** 2
    whole = (1 + of_factor) * (1 + of_warmth) - 1
    expected = {"shift_factor": of_factor / whole, "temperature": of_warmth / whole}
    assert result.evaluations == 64 * 4
    for index in result.indices:
        total = expected[index.parameter.name] + of_factor * of_warmth / whole
        assert index.total.lower <= total <= index.total.upper
        assert index.total.value == pytest.approx(total, abs=0.1)
        assert index.first_order.value == pytest.approx(expected[index.parameter.name], abs=0.1)
    assert sobol(study(given, "max_dvth"), ranges, 2) == sobol(study(given, "max_dvth"), ranges, 2)


@each(
    ("of", "ranges", "message"),
    [
        (
            "median_life",
            ("guardband=0.1..0.6", "shift_factor=0.5..1.5"),
            "median_life lies beyond the horizon of 10 years, and indices of lives cut there",
        ),
        ("rmst", ("guardband=0.1..0.2",), "two or more are needed"),
        ("rmst", ("guardband=0.1..0.2", "lds_rows=0,32"), "a choice has no Sobol' index"),
        (
            "censored_share",
            ("shift_factor=0.9..1", "temperature=350..355"),
            "is 0 whatever the param",
        ),
    ],
)
def test_indices_that_would_say_nothing(of, ranges, message):
    given = spec(**ONE_KERNEL, instances=2)
    with pytest.raises(UserError) as caught:
        sobol(study(given, of), varied(given, *ranges), 4)
    assert message in str(caught.value)


def test_indices_of_shifts_need_dies_that_live():
    given = spec("baseline", "dvfs", **ONE_KERNEL, instances=2)
    with pytest.raises(UserError, match="dies die before the horizon of 10 years: delay would be"):
        sobol(study(given, "delay"), varied(given, "eta=0.3..0.4", "e0=0.15..0.25"), 2)


# ---- refused -----------------------------------------------------------------------------------


def test_a_stopping_rule_is_refused():
    """It would end no evaluation, and a rule that does nothing must not seem to hold."""
    with pytest.raises(UserError, match=r"stopping: a sensitivity study compu"):
        study(spec(stopping={"rel_ci": 0.1}))


@each(
    ("range_text", "message"),
    [
        ("temperature=300..500", r"life\.temperature_kelvin = 500"),
        ("aging.model=facelift,face", "NBTI model 'face' is unknown"),
    ],
)
def test_ranges_outside_of_what_a_spec_may_say(range_text, message):
    with pytest.raises(UserError, match=rf"^.*{message}.*$"):
        effects(spec(**ONE_KERNEL, instances=2), range_text)


def test_a_given_amplitude_is_not_overruled():
    given = spec(**ONE_KERNEL, aging={"constants": {"amplitude": 1.5e5}}, instances=2)
    with pytest.raises(UserError, match=r"amplitude = 150000 would be fitted again; leave it out"):
        study(given)
    _, by = effects(given, "eta=0.3..0.4", refit=False)
    assert len(by) == 2


def test_what_is_refused_is_refused_before_anything_is_replayed():
    given = spec(**ONE_KERNEL, instances=2)
    refused = study(given)
    assert refused.case.label.startswith("baseline ecp1 turbo")
    with pytest.raises(UserError, match=r"the amplitude is what is fitted again.*\(--no-refit\)"):
        refused.check(varied(given, "aging.constants.amplitude=1e5..2e5"))
    assert not {"fault_free", "conventional"} & set(vars(refused.case.plan))


def test_a_model_that_is_fitted_by_another_constant_is_not_fitted_again():
    """Refused before any life, with the way out; without a fit, its constants vary."""
    given = spec("rrcd+rc+rar", **ONE_KERNEL, aging={"model": "bhardwaj"}, instances=2)
    period = "aging.constants.period_seconds=0.005..0.02"
    with pytest.raises(UserError, match=r"'bhardwaj' is fitted by its scale, .* \(--no-refit\)"):
        study(given).check(varied(given, period))
    _, by = effects(given, period, of="max_dvth", refit=False)
    low, high = (by["aging.constants.period_seconds", value] for value in (0.005, 0.02))
    assert low.value.value < high.value.value


# ---- command line ------------------------------------------------------------------------------

SMALL = ["--environment", "turbo", "--kernel", "ScanLargeArrays"]
SMALL += ["--generations", "2", "--instances", "3"]


def run(*arguments):
    technique = [] if "--technique" in arguments else ["--technique", "baseline"]
    spread = [] if "--spread" in arguments else ["--no-spread"]
    return invoke("sensitivity", *SMALL, *technique, *spread, *arguments)


def test_what_all_instances_have_in_common_has_no_interval():
    """Slices of one kernel that are alike live one life; those of the default differ."""
    options = "--parameter", "eta", "--of", "max_dvth"
    alike, differ = run(*options).stdout, run(*options, "--spread").stdout
    assert "fitted again to the published" in " ".join(alike.split())
    assert alike.count("(all alike)") == 5
    assert "[" not in alike.partition("reference:")[2].partition("parameter")[0]
    assert "alike" not in differ


def test_lives_beyond_the_horizon_are_bounds_in_the_table():
    words = run("--parameter", "guardband", "--horizon", 3).stdout
    assert "reference: > 3 years" in words
    assert "< -3.00" in words
    assert "not known" in words


def test_json_csv_and_figures(tmp_path):
    options = ["--parameter", "shift_factor", "--parameter", "guardband"]
    printed = json.loads(run(*options, "--json", "--out", str(tmp_path / "bars.csv")).stdout)
    assert printed["spec"]["techniques"] == ["baseline"]
    effects_of = {
        (bar["parameter"]["name"], effect["setting"]): effect
        for bar in printed["bars"]
        for effect in bar["effects"]
    }
    with (tmp_path / "bars.csv").open() as file:
        rows = {(row["parameter"], float(row["setting"])): row for row in csv.DictReader(file)}
    assert rows.keys() == effects_of.keys()
    for place, effect in effects_of.items():
        assert float(rows[place]["difference"]) == (effect["difference"]["value"] or math.inf)
    of_sobol = ["--samples", "2", "--method", "sobol"]
    for more, name in (([], "bars.png"), (of_sobol, "indices.svg"), (of_sobol, "indices.json")):
        result = run(*options, "--of", "rmst", *more, "--out", str(tmp_path / name))
        assert result.exit_code == 0, result.output
        assert (tmp_path / name).stat().st_size > 300
    indices = json.loads((tmp_path / "indices.json").read_text())["indices"]
    assert {index["parameter"]["name"] for index in indices} == {"shift_factor", "guardband"}


def test_the_list_has_every_shipped_parameter():
    result = invoke("sensitivity", "--list")
    for name, entry in shipped().items():
        assert f"{name} " in result.stdout
        assert entry.key in result.stdout
        assert entry.status in result.stdout


@each(
    ("arguments", "message"),
    [
        (["--method", "morris"], "method morris: choose from one-at-a-time, sobol"),
        (["--out", "study.xlsx"], "cannot write study.xlsx: its name must end in .json, .csv,"),
        (["--range", "eta=0.3..0.4", "--range", "eta=0.2..0.5"], "--range eta is given twice"),
        (
            ["--range", "eta=0.3..0.4", "--parameter", "e0"],
            "--range eta: --parameter does not name it",
        ),
    ],
)
def test_bad_options(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert isinstance(result.exception, UserError), result.output
    assert message in str(result.exception)
    assert not list(tmp_path.iterdir())


# Intervals of Sobol' indices hold the value as often as they say.


@pytest.mark.slow
def test_intervals_cover():
    """95 % intervals of the first index of a sum hold its value in most of 100 designs.

    Shifted Sobol' points are more even than random ones, so that a bootstrap, which takes them for
    random, covers more often. Fewer than 90 of 100 would be seen by chance once in 35 at 95 %.
    """
    ranges = [Parameter(name, name, -1.0, (1.0,), True) for name in "ab"]
    hits = 0
    for seed in range(100):
        first, _ = indices(64, evaluated(lambda x: x @ [2.0, 1.0], ranges, 64, seed), seed)
        hits += first[0].lower <= 0.8 <= first[0].upper
    assert hits >= 90
