"""Lives under each NBTI model: ends in closed form, plug-ins, and what a sweep refuses."""

import dataclasses
import sys
import types

import numpy as np
import pytest
from life_cases import (
    YEAR,
    alternating_trace,
    cell,
    lived,
    rules,
    steady_trace,
    tail_of,
    whole_entries,
)
from nbti_cases import ADDITIVE, MODELS
from sweep_cases import assert_same_arrays, small_spec, small_sweep
from tables import each

from mcage.aging.environment import environment
from mcage.aging.nbti import AdditiveModel, NbtiModel, facelift
from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.studies.sweep.study import Sweep

ZERO = np.zeros(64, dtype=np.uint32)
NOMINAL = environment("turbo", 0.419)
UNEVEN = (0.0, 0.1, 0.7, 1.9, 3.3, 10.0)
"""Borders of epochs whose lengths do not add up without rounding."""


@each("name", MODELS)
def test_the_worst_cell_of_a_model_ends_the_life(name):
    """A cell at '0' for life: the guardband is what it uses up in 3.7 years, to the moment."""
    model = MODELS[name]
    limit = model.largest_dvth(NOMINAL, 3.7 * YEAR)
    guardband = float((1 - limit / (1.0 - model.vt0_volts)) ** -model.alpha - 1)
    options = {"nbti": model, "delay_guardband": guardband, "epoch_edges_years": UNEVEN}
    life = lived([steady_trace([ZERO])], "baseline", **options)
    assert life.end.cause == [EndCause.DELAY]
    assert life.end.seconds[0] / YEAR == pytest.approx(3.7, rel=1e-9)
    assert life.degradation.max_dvth_volts[0] == pytest.approx([limit, 0], rel=1e-10)
    assert life.degradation.delay_increase[0] == pytest.approx(guardband, rel=1e-8)


@each("name", MODELS)
def test_recovery_is_that_of_the_model(name):
    """All cells at '0' for 30 of 100 cycles, then at '1'."""
    trace = alternating_trace(ZERO, 30, ~ZERO)
    life = lived([trace], "baseline", nbti=MODELS[name], epoch_edges_years=UNEVEN)
    shifts = [MODELS[name].dvth_at(NOMINAL, duty, 10 * YEAR) for duty in (0.3, 0.7)]
    assert life.degradation.max_dvth_volts[0] == pytest.approx(shifts, rel=1e-9)
    assert shifts[0] < shifts[1] < MODELS[name].dvth_at(NOMINAL, 1.0, 10 * YEAR)


@each("name", MODELS)
def test_faults_grow_with_the_model(name):
    """Two weak cells under full stress fail when their shift has reached what Vmin lacks."""
    shift = MODELS[name].largest_dvth(NOMINAL, 3.4 * YEAR)
    weak = {cell(0, bit): 1.0 - shift for bit in (3, 900)}
    life = lived([steady_trace([ZERO])], "baseline", tail_of(weak), nbti=MODELS[name])
    assert life.end.cause == [EndCause.FAULTY_ENTRY]
    assert life.end.seconds[0] / YEAR == pytest.approx(3.4, abs=1 / 2**12)


@each("name", ADDITIVE)
def test_rounding_is_no_recovery(name):
    """Times that miss the age by rounding shift as full stress does, one second less does not."""
    age = np.float64(10 * YEAR)
    seconds = np.array([age, np.nextafter(age, 0), age * (1 - 1e-14), age - 1])
    shift = rules(nbti=MODELS[name]).additive_shift().dvth(seconds, age)
    full = MODELS[name].largest_dvth(NOMINAL, 10 * YEAR)
    assert shift[:3] == pytest.approx([full] * 3, rel=1e-13)
    assert shift[3] < full * (1 - 1e-7)


# ---- sweeps ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Relaxing(NbtiModel):
    """A model of one's own that is no sum: shifts relax, within two years, to what a duty asks."""

    vt0_volts: float = 0.3
    alpha: float = 1.3

    root, state_size, additive = 1, 1, False

    def stress_per_second(self, vdd_volts, temperature_kelvin, vt0_volts):
        return 0.05 + np.zeros(np.broadcast_shapes(np.shape(temperature_kelvin)))

    def diffusion_per_second(self, temperature_kelvin):
        return np.ones_like(temperature_kelvin, dtype=float)

    def advance(self, state, rates, duty_cycle, seconds):
        asked = rates.stress * np.asarray(duty_cycle)
        return asked + (state - asked) * np.exp(-np.asarray(seconds) / (2 * YEAR))

    def dvth_of(self, state):
        return state[0]


class Reversed(Relaxing):
    """Stress does good."""

    def advance(self, state, rates, duty_cycle, seconds):
        return super().advance(state, rates, 1 - np.asarray(duty_cycle), seconds)


class Forgetful(Relaxing):
    """What was before an epoch counts for nothing in it."""

    def advance(self, state, rates, duty_cycle, seconds):
        return super().advance(np.zeros_like(state), rates, duty_cycle, seconds)


class Negative(Relaxing):
    """Shifts of the wrong sign."""

    def dvth_of(self, state):
        return -state[0]


@pytest.fixture
def plug_ins(monkeypatch):
    """A module of models of one's own."""

    @dataclasses.dataclass(frozen=True)
    class Steady(type(facelift())):
        """Shifts of which nothing recovers."""

        def dvth(self, stress, stressed, recovered):
            return np.sqrt(np.sqrt(np.asarray(stress, dtype=float)))

    class Silent(Steady):
        __repr__ = object.__repr__

    constants = dataclasses.asdict(facelift())
    module = types.ModuleType("my_nbti_models")
    module.STEADY, module.SILENT = Steady(**constants), Silent(**constants)
    module.RELAXING, module.REVERSED = Relaxing(), Reversed()
    module.FORGETFUL, module.NEGATIVE = Forgetful(), Negative()
    module.NO_RECOVERY = dataclasses.replace(facelift(), eta=0.0)
    monkeypatch.setitem(sys.modules, "my_nbti_models", module)
    return module


def with_model(name, **fields):
    workload = {"kernels": ["MatrixTranspose"], "generations": 1, "periods": 1}
    fields |= {"techniques": ["rar"], "environments": ["turbo"], "workload": workload}
    return small_sweep("numpy", aging={"model": name}, **fields)


def test_a_plug_in_is_the_model_of_the_sweep(plug_ins):
    """Without recovery, by two ways: the shift of the longest time under stress alone."""
    steady, no_recovery, shipped = (
        with_model(name).compute(0, 3)
        for name in ("my_nbti_models:STEADY", "my_nbti_models:NO_RECOVERY", "facelift")
    )
    assert_same_arrays(steady, no_recovery)
    assert (steady["max_dvth_mv"][0, :, 1] > shipped["max_dvth_mv"][0, :, 1]).all()
    assert isinstance(plug_ins.STEADY, AdditiveModel)


@each(("technique", "homes"), [("baseline", [0, 0, 0]), ("disable", [0, 1, 0])])
def test_a_model_that_is_no_sum_is_lived_by_as_well(plug_ins, technique, homes):
    """Shifts relax for two years, then for one, to what the kernel of that epoch asks.

    A window moves out of entry 0 where that is faulty.
    """
    traces = [alternating_trace(ZERO, 50, ~ZERO), steady_trace([ZERO])]
    options = {"nbti": plug_ins.RELAXING, "epoch_edges_years": (0.0, 2.0, 3.0)}
    given = {"kernels": [[0, 1], [1, 0], [0, 0]], "sample": [cell(0), cell(1)]}
    tail = tail_of(*(whole_entries(range(home)) for home in homes))
    life = lived(traces, technique, tail, **given, **options)
    asked = np.array([[0.025, 0.025], [0.05, 0.0]])  # of T0 and T1, by kernel
    first, second = asked[np.transpose(given["kernels"])]
    expected = second + (first * (1 - np.exp(-1)) - second) * np.exp(-0.5)
    assert life.degradation.max_dvth_volts == pytest.approx(expected, rel=1e-12)
    sampled = np.zeros((3, 2, 2))
    sampled[range(3), homes] = expected  # the other entry is never written
    assert life.degradation.sampled.dvth_volts() == pytest.approx(sampled, rel=1e-12)


def test_the_file_and_its_digest_know_the_model(plug_ins):
    campaign = with_model("my_nbti_models:NO_RECOVERY").header
    assert 'model = "my_nbti_models:NO_RECOVERY"' in campaign.spec_toml
    plug_ins.NO_RECOVERY = dataclasses.replace(plug_ins.NO_RECOVERY, eta=0.1)
    changed = with_model("my_nbti_models:NO_RECOVERY").header
    assert changed.spec_toml == campaign.spec_toml
    assert changed.spec_digest != campaign.spec_digest


@each(
    ("name", "message"),
    [
        ("NEGATIVE", "'.*negative or no numbers"),
        ("REVERSED", "'.*a longer duty in some epochs"),
        ("FORGETFUL", "'.*in two pieces each"),
        ("SILENT", "': its repr must tell its constants"),
        ("Steady", "' has nothing under 'Steady'"),
    ],
)
def test_models_that_a_sweep_cannot_live_by(plug_ins, name, message):
    spec = small_spec(aging={"model": f"my_nbti_models:{name}"})
    with pytest.raises(UserError, match=message) as refused:
        Sweep(spec, *select_engine("numba"))
    assert f"my_nbti_models:{name}" in str(refused.value)
    assert "\n" not in str(refused.value)
