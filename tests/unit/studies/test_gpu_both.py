"""A spec of both levels: each key once, files of the levels, what goes into the sweep."""

import numpy as np
import pytest
from tables import each

from mcage.aging.nbti import nbti_model
from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.studies.gpu_both.register_files import (
    BothEnd,
    Clock,
    SliceFates,
    SmLevel,
    combined,
    too_slow_years,
    with_slower_period,
)
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_both.study import Both
from mcage.studies.gpu_gating.life import SmHistory
from mcage.studies.gpu_gating.spec import GatingSpec

RANGES = {
    "activity": (0.001, 1.0),
    "temperature_kelvin": (320.0, 350.0),
    "vt0_volts": (0.3, 0.3),
}

LEVELS = ("gating", "sweep")
BHARDWAJ, FACELIFT = ({"aging": {"model": name}} for name in ("bhardwaj", "facelift"))


@each(
    ("fields", "words"),
    [
        ({"sweep": {"life": {"activity": 0.5}}}, "sweep.life.activity = 0.5"),
        ({"sweep": {"life": {"horizon_years": 3.0}}}, "that of gating.life.horizon_years"),
        ({"sweep": {"faults": {"slices_per_chip": 4}}}, "sweep.faults.slices_per_chip = 4"),
        ({"sweep": {"environments": ["turbo", "dvfs"]}}, "sweep.environments"),
        ({"gating": BHARDWAJ, "sweep": FACELIFT}, "sweep.aging.model = 'facelift'"),
        ({"gating": {"seed": 7}}, "gating.seed = 7"),
        ({"gating": {"workload": {"idle": "on"}}}, "gating.workload.idle"),
    ],
)
def test_a_key_that_another_decides_is_refused(fields, words):
    with pytest.raises(UserError) as error:
        BothSpec.from_mapping(fields)
    message = str(error.value)
    assert message.startswith("gpu both: ")
    assert words in message
    assert message.count("\n") == 0


def test_a_key_may_repeat_what_decides_it():
    spec = BothSpec.from_mapping({level: {"life": {"horizon_years": 3.0}} for level in LEVELS})
    assert spec.sweep_of(16, RANGES).life.horizon_years == 3.0


def test_levels_may_be_files(tmp_path):
    (tmp_path / "gating.toml").write_text('policies = ["default", "most-slack"]\n')
    (tmp_path / "sweep.toml").write_text("[workload]\nperiods = 5\n")
    spec = BothSpec.from_mapping({level: str(tmp_path / f"{level}.toml") for level in LEVELS})
    assert spec.gating.policies == ("default", "most-slack")
    assert spec.sweep.workload.periods == 5
    assert BothSpec().gating.policies == ("default", "round-robin")
    assert BothSpec(stopping={"rel_ci": 0.1}).stopping.of == "cell_margin"
    with pytest.raises(UserError, match=r"nowhere\.toml"):
        BothSpec.from_mapping({"gating": str(tmp_path / "nowhere.toml")})


def test_the_sweep_takes_what_the_gating_says():
    spec = BothSpec.from_mapping(
        {
            "instances": 5,
            "seed": 9,
            "slices_per_sm": 3,
            "gating": {
                "life": {"horizon_years": 4.0, "delay_guardband": 0.2},
                "aging": {"model": "facelift", "constants": {"eta": 0.3, "vt0_volts": 0.25}},
            },
        }
    )
    sweep = spec.sweep_of(16, RANGES)
    assert (sweep.instances, sweep.seed, sweep.faults.slices_per_chip) == (240, 9, 48)
    assert (sweep.life.horizon_years, sweep.life.delay_guardband) == (4.0, 0.2)
    assert sweep.life.temperature_kelvin == "uniform(320.0, 350.0)"
    assert sweep.aging.vt0_volts == 0.3
    assert sweep.aging.constants == {"eta": 0.3}
    gating = spec.gating_of((1.0, 4.0))
    assert (gating.instances, gating.seed, gating.report_years) == (5, 9, (1.0, 4.0))


# From slices and SMs to GPUs: when cells are too slow, who dies first, and of what.

AGES = np.array([1.0, 4.0, 10.0])


def fates(fault_years, cause, dvth_at_one_year, root=4):
    """Slices [I, n, k] whose shift grows with a root of time."""
    fault_years = np.array(fault_years, dtype=float)
    ages = np.minimum(AGES, np.where(np.isinf(fault_years), 10.0, fault_years)[..., None])
    dvth = np.array(dvth_at_one_year)[..., None] * ages ** (1 / root)
    began = np.concatenate([[0.0], AGES[:-1]])
    dvth = np.where(began < fault_years[..., None], dvth, np.nan)
    return SliceFates(
        fault_years, np.array(cause, np.int8), ages, dvth, np.full(ages.shape[:3], 0.5)
    )


def history(too_slow_years):
    years = np.array(too_slow_years, dtype=float).T
    return SmHistory(np.ones(years.shape), np.full(years.shape, 350.0), years)


def clock(vt0=(0.3, 0.3), guardband=0.1):
    return Clock(1.0, 1.3, guardband, np.array([vt0]).T)


def rules(spares=0):
    return spares, 4, tuple(AGES)


NEVER = np.inf
CENSORED = EndCause.CENSORED


def test_a_root_of_time_is_met_exactly():
    slices = fates([[[NEVER], [NEVER]]], [[[CENSORED], [CENSORED]]], [[[0.02], [0.04]]])
    limit = np.full((1, 2, 1), 0.05)
    late = too_slow_years(slices, limit, 4)
    assert np.isinf(late[0, 0, 0])
    assert late[0, 1, 0] == pytest.approx((0.05 / 0.04) ** 4, rel=1e-12)


def test_a_slice_that_fails_first_is_never_too_slow():
    slices = fates([[[2.0]]], [[[EndCause.FAULTY_ENTRY]]], [[[0.04]]])
    limit = np.full((1, 1, 1), 0.04 * 3.0**0.25)
    assert np.isinf(too_slow_years(slices, limit, 4)).all()


def test_limit_and_margin_are_of_the_same_clock():
    ticking = clock(vt0=(0.28, 0.33))
    limit = ticking.dvth_limit()
    assert limit.shape == (1, 2, 1)
    assert limit[0, 0, 0] == pytest.approx(limit[0, 1, 0] + 0.05)  # a fast SM has the slack
    margins = ticking.margins(limit[..., None])
    assert margins == pytest.approx(np.full((1, 2, 1, 1), 0.1))
    assert ticking.margins(np.zeros((1, 2, 1, 1))).max() == 0.0


@each(
    ("logic", "faults", "cause", "spares", "life", "end"),
    [
        ([NEVER, NEVER], [[NEVER, NEVER], [NEVER, NEVER]], CENSORED, 0, NEVER, BothEnd.CENSORED),
        ([3.0, 5.0], [[NEVER, NEVER], [NEVER, NEVER]], CENSORED, 0, 3.0, BothEnd.LOGIC_DELAY),
        ([3.0, 5.0], [[NEVER, NEVER], [NEVER, NEVER]], CENSORED, 1, 5.0, BothEnd.LOGIC_DELAY),
        ([3.0, 5.0], [[NEVER, 2.0], [4.0, NEVER]], EndCause.NO_HOME, 0, 2.0, BothEnd.NO_HOME),
        ([3.0, 5.0], [[NEVER, 2.0], [4.0, NEVER]], EndCause.NO_HOME, 1, 4.0, BothEnd.NO_HOME),
        ([3.0, 5.0], [[0.0, 0.0], [6.0, 9.0]], EndCause.FAULTY_ENTRY, 0, 0.0, BothEnd.FAULTY_ENTRY),
    ],
)
def test_who_dies_first(logic, faults, cause, spares, life, end):
    causes = np.where(np.isinf([faults]), CENSORED, cause)
    slices = fates([faults], causes, np.full((1, 2, 2), 1e-3))
    gpu = combined(slices, history([logic]), clock(), *rules(spares))
    assert (gpu.life_years[0], gpu.cause[0]) == (life, end)
    assert gpu.fault_years[0] == np.sort(np.min(faults, axis=1))[spares]
    assert np.isinf(gpu.cell_delay_years[0])


def test_cells_too_slow_end_a_life():
    slices = fates([[[NEVER], [NEVER]]], [[[CENSORED], [CENSORED]]], [[[0.04], [0.041]]])
    limit = float(clock().dvth_limit()[0, 0, 0])
    gpu = combined(slices, history([[NEVER, NEVER]]), clock(), *rules(0))
    assert gpu.life_years[0] == pytest.approx((limit / 0.041) ** 4)
    assert gpu.cause[0] == BothEnd.CELL_DELAY
    assert gpu.max_dvth_volts[0] == pytest.approx(0.041 * AGES**0.25)


def test_margins_are_of_slices_that_live():
    faults = [[[2.0], [NEVER]]]
    causes = [[[EndCause.NO_HOME], [CENSORED]]]
    slices = fates(faults, causes, [[[0.05], [0.01]]])
    gpu = combined(slices, history([[NEVER, NEVER]]), clock(), *rules(1))
    assert gpu.max_dvth_volts[0] == pytest.approx([0.05, 0.05 * 2.0**0.25, 0.01 * 10.0**0.25])
    gpu = combined(slices, history([[NEVER, NEVER]]), clock(), *rules(0))
    assert gpu.max_dvth_volts[0] == pytest.approx([0.05, np.nan, np.nan], nan_ok=True)
    assert np.isnan(gpu.cell_margin[0]).tolist() == [False, True, True]
    gone = fates([[[0.0]]], [[[EndCause.NO_HOME]]], [[[0.05]]])
    gpu = combined(gone, history([[NEVER]]), clock(vt0=(0.3,)), *rules(0))
    assert np.isnan(gpu.cell_margin).all()


def test_a_cell_that_switches_no_longer_does_not_drop_out_of_the_slowest():
    overdrive = float(clock().overdrive[0, 0, 0])
    for shift in (overdrive, 2 * overdrive):
        margins = clock().margins(np.array([[[[shift]], [[0.01]]]]))
        assert np.isinf(margins[0, 0, 0, 0])
        assert np.isfinite(margins[0, 1, 0, 0])
        slices = fates([[[NEVER], [NEVER]]], [[[CENSORED], [CENSORED]]], [[[shift], [0.01]]])
        gpu = combined(slices, history([[NEVER, NEVER]]), clock(), *rules(1))
        assert np.isnan(gpu.cell_margin[0, 0])
        assert np.isfinite(gpu.max_dvth_volts[0, 0])


def test_the_slower_period_counts():
    model = nbti_model("bhardwaj")
    assert with_slower_period(model, 0.0) is model
    assert with_slower_period(model, 604_800.0).period_seconds == 604_800.0
    facelift = nbti_model("facelift")
    assert with_slower_period(facelift, 604_800.0) is facelift


# What an SM gives to its slices, and which slices share a die.


@pytest.fixture(scope="module")
def study():
    fields = {
        "instances": 3,
        "gating": {"sensors": {"interval_days": 30.0}, "policies": ["default", "least-shift"]},
        "sweep": {"workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1}},
    }
    return Both(BothSpec.from_mapping(fields), *select_engine("numba"))


def test_slices_take_after_their_sm(study):
    files = study.register_files
    shares = np.linspace(0.1, 0.9, 16 * 2).reshape(16, 2)
    kelvin, vt0 = 300.0 + 10 * shares, 0.3 + 0.01 * shares
    history = SmHistory(shares, kelvin, np.full(shares.shape, np.inf))
    given = files.constants(study.plan.cases[0], np.arange(64), vt0, history)
    of_sms = {"activity": shares, "temperature_kelvin": kelvin, "vt0_volts": vt0}
    for name, values in of_sms.items():
        of_slices = getattr(given, name).reshape(2, 16, 2)
        np.testing.assert_array_equal(of_slices, np.repeat(values.T[..., None], 2, axis=2))


def test_a_slice_of_a_busier_and_hotter_sm_shifts_further(study):
    shares, kelvin = np.full((16, 1), 0.5), np.full((16, 1), 330.0)
    shares[3], kelvin[7] = 0.9, 340.0
    level = SmLevel(SmHistory(shares, kelvin, np.full(shares.shape, np.inf)), 0.0)
    gpus = np.arange(1)
    fates = study.register_files.fates(gpus, np.full((16, 1), 0.3), {"p": level})
    for name, technique, slices in fates:
        assert (name, slices.dvth_volts.shape) == ("p", (1, 16, 2, 4)), technique
        shift = slices.dvth_volts[0, :, :, -1]
        ordinary = np.delete(shift, [3, 7], axis=0)
        assert np.ptp(ordinary) == 0
        assert (shift[3] > ordinary[0]).all()
        assert (shift[7] > ordinary[0]).all()
        duty = slices.longest_duty[0]
        assert duty[3] == pytest.approx(duty[0] * 0.9 / 0.5)


def test_a_die_is_a_gpu(study):
    """Two slices of 16 SMs: 32 successive ids share the die part of Vmin."""
    faults = study.plan.cases[0].faults
    assert faults.dies(np.array([0, 31, 32, 95])).tolist() == [0, 0, 1, 2]
    assert study.plan.spec.instances == 3 * 32


@each(("policy", "days"), [("default", 0.0), ("least-shift", 30.0)])
def test_the_period_of_a_policy(study, policy, days):
    assert study.period_seconds(policy) == days * 86_400


def test_specs_of_whole_gpus_are_typed_alike():
    assert GatingSpec(policies="default").policies == ("default",)
    assert BothSpec(gating={"policies": ["default"]}) == BothSpec(
        gating=GatingSpec(policies=["default"])
    )
    with pytest.raises(UserError, match=r"BothSpec: gating.policies.0 = 3: input should be"):
        BothSpec(gating={"policies": 3})
