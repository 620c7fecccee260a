"""Environments, histories and reference values for the tests of the NBTI models."""

import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from scipy.special import pdtrc
from scipy.stats import poisson

from mcage.aging.environment import Environment, OperatingPoint
from mcage.aging.nbti import MODEL_NAMES, Phases, nbti_model
from mcage.aging.nbti.model import NOMINAL_TRANSISTORS

DATA = Path(__file__).parent / "data"
MODELS = {name: nbti_model(name) for name in MODEL_NAMES}
ADDITIVE = [name for name, model in MODELS.items() if model.additive]

fractions = st.just(0.0) | st.just(1.0) | st.floats(1e-12, 1)
# Not shorter than the period of stress and recovery in `bhardwaj`.
durations = st.floats(0.01, 1e9)
voltages = st.floats(0.31, 1.1)
temperatures = st.floats(250, 450)
histories = st.lists(
    st.tuples(durations, fractions, voltages, temperatures), min_size=1, max_size=5
)
"""Lists of epochs: seconds, duty, Vdd, temperature."""


def constant_environment(vdd_volts, temperature_kelvin=353.15):
    return Environment("constant", (OperatingPoint(vdd_volts, 1.0, temperature_kelvin),))


def prefactor_of(model, vdd_volts, temperature_kelvin):
    """K of a nominal transistor under Facelift: its shift after a second of stress, V s^-0.25."""
    return math.sqrt(
        math.sqrt(model.stress_per_second(vdd_volts, temperature_kelvin, model.vt0_volts))
    )


def exceedance(law, shift_volts, mean_volts):
    """Probability that a transistor shifts further than so far, by the exact sum over traps."""
    shift = shift_volts / law.eta_volts
    below = np.arange(int(shift + 40 * math.sqrt(shift)) + 100)
    return float(poisson.pmf(below, shift) @ pdtrc(below, mean_volts / law.eta_volts))


def past_of(model, history, transistors=NOMINAL_TRANSISTORS):
    state = model.initial_state(())
    for seconds, duty_cycle, vdd_volts, temperature_kelvin in history:
        surroundings = constant_environment(vdd_volts, temperature_kelvin)
        rates = model.rates(surroundings, transistors)
        state = model.advance(state, rates, duty_cycle, seconds)
    return state


def shift_of(model, history):
    return float(model.dvth_of(past_of(model, history)))


def read_csv(name):
    with (DATA / name).open() as lines:
        next(lines)
        return list(csv.DictReader(lines))


def vectors(*models):
    """Reference values of some models, as rows of their table."""
    return [row for row in read_csv("nbti_test_vectors.csv") if row["model"] in models]


def shift_of_vector(row):
    """What mcage makes of the inputs of a reference value, in volts."""
    inputs = json.loads(row["inputs_json"])
    match row["model"]:
        case "bhardwaj-phase":
            model = dataclasses.replace(MODELS["bhardwaj"], scale=inputs["kv_scale"])
            phases = Phases(model)
            state = phases.initial_state(())
            for kind, seconds, vdd_volts, temperature_kelvin in inputs["phases"]:
                rates = model.rates(constant_environment(vdd_volts, temperature_kelvin))
                state = phases.advance(state, rates, kind == "s", seconds)
            return float(phases.dvth_of(state))
        case "bhardwaj-longterm":
            model = dataclasses.replace(
                MODELS["bhardwaj"], scale=inputs["kv_scale"], period_seconds=inputs["Tclk"]
            )
            epochs = inputs["epochs_duty_dt_V_T"]
            return shift_of(model, [(dt, duty, vdd, kelvin) for duty, dt, vdd, kelvin in epochs])
        case additive:
            epochs = inputs["epochs_ts_tr_V_T"]
            return shift_of(
                MODELS[additive],
                [(ts + tr, ts / (ts + tr), vdd, kelvin) for ts, tr, vdd, kelvin in epochs],
            )
