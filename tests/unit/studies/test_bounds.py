"""Every key of every spec takes the values at its bounds, and refuses by name those beyond."""

import json
import math
from typing import NamedTuple

import pytest
from tables import each

from mcage.errors import UserError
from mcage.geometry import PRESETS
from mcage.plain_text import shortened
from mcage.spec import SweepSpec
from mcage.spec.keys import inner_section, keys_below
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.studies.inject.spec import InjectSpec
from mcage.studies.vmin.spec import VminSpec


class Values(NamedTuple):
    """Values of a key.

    Parameters
    ----------
    taken, refused : tuple
        Values.
    wrong : tuple
        Lists of which the first member is refused.
    """

    taken: tuple
    refused: tuple
    wrong: tuple = ()


NO_NUMBER = ("7", "", True, math.nan, math.inf, -math.inf, [1], {})
NO_NAME = ("", 3, True, [], {})
ANY_NUMBER = Values((-1.5, 0), NO_NUMBER)
BOOLEAN = Values((True, False), (0, 1, "true", [], {}, math.nan))


def up(number):
    return math.nextafter(number, math.inf)


def down(number):
    return math.nextafter(number, -math.inf)


def integers(low, high):
    return Values((low, high), (low - 1, high + 1, low + 0.5, *NO_NUMBER))


def numbers(low, high, above=False, below=False, word=None):
    """Between bounds, which are not among them if they must be exceeded; or a word."""
    inside = (up(low) if above else low, down(high) if below else high)
    beyond = (low if above else down(low), high if below else up(high))
    return Values((*inside, *filter(None, [word])), (*beyond, *NO_NUMBER))


def drawn(low, high, word=None):
    """Numbers, or distributions between the bounds."""
    of = numbers(low, high, word=word)
    beyond = (f"uniform({low}, {up(high)})", f"uniform({down(low)}, {high})", "swing(3)")
    return Values((*of.taken, f"uniform({low}, {high})"), of.refused + beyond)


def choices(*names):
    return Values(names, (names[0].upper(), f"{names[0]} ", *NO_NAME))


def name(known="a name"):
    return Values((known,), NO_NAME)


def several(of, empty=False, most=None):
    """Lists of these values, of which each may stand there once."""
    no_list = ("text", 3, True, {}, *([] if empty else [[]]))
    too_many = () if most is None else ([of.taken[0]] * (most + 1),)
    taken = [[value] for value in of.taken] + ([[]] if empty else [])
    return Values((*taken,), no_list + too_many, tuple([value] for value in of.refused))


EXTENT = {"instances": integers(1, 10**9), "seed": integers(0, 2**63 - 1)}
STOPPING = {
    "stopping.rel_ci": numbers(0, 1, above=True, below=True),
    "stopping.of": name(),
}
OF_SWEEPS = EXTENT | {
    "techniques": several(name()),
    "protections": several(name("none")),
    "environments": several(name("dvfs")),
    "scenarios": several(choices("common", "clustered", "dispersed", "measured")),
    "vdd_volts": several(numbers(0, 2, above=True), empty=True),
    "low_vdd": choices("working", "printed"),
    "spread": BOOLEAN,
    "preset": choices("papers", "valero-2019", "toca-diaz"),
    "workload.kernels": several(name(), empty=True),
    "workload.suite": choices("sdk-2011", "modern", "all"),
    "workload.schedule": choices("interleaved", "sequential"),
    "workload.mix_size": integers(1, 100),
    "workload.periods": integers(1, 1000),
    "workload.generations": integers(0, 10**6),
    "workload.release": choices("wavefront", "work-group"),
    "life.horizon_years": numbers(0.001, 100),
    "life.epochs": integers(1, 1000),
    "life.delay_guardband": numbers(0, 100, above=True),
    "life.temperature_kelvin": drawn(200, 450),
    "life.temperature_swing_kelvin": drawn(-250, 250),
    "life.activity": drawn(0.001, 1),
    "life.idle": choices("gated", "held"),
    "life.spill_limit": numbers(0, 1),
    "life.slowdown_limit": numbers(0, 100, word="none"),
    "life.uncorrectable_blocks": integers(0, 1000),
    "life.vmin_coefficient": numbers(0, 10),
    "life.delay_path": name(),
    "aging.model": name(),
    "aging.vt0_volts": drawn(0, 1),
    "aging.shift_factor": drawn(0, 10),
    "aging.nbti_spread_mv": Values((0, 0.05, 50), (down(0), down(0.05), up(50), *NO_NUMBER)),
    "aging.pbti": Values((0, 10, "a model"), (down(0), up(10), *NO_NUMBER[1:])),
    "aging.vmin_model": name(),
    "faults.mode": choices("varius", "table", "table-exact"),
    "faults.cell": choices("6t", "8t"),
    "faults.spread_blocks": BOOLEAN,
    "faults.fit_per_mbit": numbers(0, 1e6),
    "faults.slices_per_chip": integers(1, 10_000),
    "faults.mu_volts": ANY_NUMBER,
    "faults.sigma_die_volts": ANY_NUMBER,
    "faults.sigma_systematic_volts": ANY_NUMBER,
    "faults.sigma_random_volts": ANY_NUMBER,
    "faults.phi": ANY_NUMBER,
    "faults.arrays": Values(("none", "64x256"), ("64", "64x", *NO_NAME)),
    "registers.geometry.preset": choices(*PRESETS),
    "registers.geometry.entries": Values((64,), (64.5, *NO_NUMBER)),
    "registers.geometry.components": Values((32,), (32.5, *NO_NUMBER)),
    "registers.geometry.block_components": Values((8,), (8.5, *NO_NUMBER)),
    "registers.delta_limit": Values((1, 2**31, "none"), (0, -64, 63, 65, 2**32, 64.0, *NO_NUMBER)),
    "registers.lds_rows": integers(0, 1024),
    "registers.overflow": choices("memory", "end"),
    "registers.selector_offsets": Values((1, 256), (0, 3, 257, 512, 8.0, *NO_NUMBER)),
    "costs.technology": choices("28nm", "32nm"),
    "costs.vdd_scaling": choices("curve", "rows"),
    **STOPPING,
}
OF_VMIN = {
    "vmin.ages_years": several(numbers(0, 100), most=100),
    "vmin.years": numbers(0, 100),
    "vmin.share": numbers(0, 1, above=True, below=True),
    "vmin.lowest_volts": numbers(0, 2, above=True),
    **STOPPING,
}
OF_INJECTIONS = {
    "program.source": name(),
    "program.arch": name(),
    "program.tolerance": Values((0, 1e300), (down(0), *NO_NUMBER)),
    "program.inputs": integers(0, 2**63 - 1),
    "program.compute_units": integers(1, 1024),
    "program.latency": numbers(0.01, 100),
    "program.most_instructions": integers(1, 10**10),
    "inject.fault": choices("flip", "stuck", "read"),
    "inject.upset": choices("single", "28nm", "16nm"),
    "inject.ages_years": several(numbers(0, 100), empty=True, most=100),
    "inject.tolerance": numbers(0, 1e9),
    "inject.test_interval_years": numbers(0, 100),
    "stopping.rel_ci": STOPPING["stopping.rel_ci"],
    "stopping.of": choices("sdc", "sdc_beyond", "due"),
}
OF_GATING = EXTENT | {
    "policies": several(name()),
    "gpu": name(),
    "workload.kernels": name(),
    "workload.names": several(name(), empty=True),
    "workload.job_days": numbers(0, 36_500),
    "workload.utilisation": numbers(0, 1, above=True),
    "workload.idle": choices("gated", "on"),
    "time_model.reading": choices("literal", "bounded"),
    "time_model.whole_warps": BOOLEAN,
    "time_model.delta": numbers(0, 10),
    "time_model.min_sms": integers(1, 127),
    "sensors.interval_days": numbers(0.01, 36_500),
    "sensors.noise_mv": numbers(0, 500),
    "sensors.noise_kelvin": numbers(0, 100),
    "sensors.reassign": choices("launch", "reading"),
    "life.horizon_years": numbers(0.001, 100),
    "life.report_years": several(numbers(0, 100, above=True), empty=True),
    "life.delay_guardband": numbers(0, 100, above=True),
    "life.spare_sms": integers(0, 126),
    "aging.model": name(),
    "aging.vdd_volts": numbers(0, 2, above=True),
    "variation.sigma_die_mv": numbers(0, 500),
    "variation.sigma_systematic_mv": numbers(0, 500),
    "variation.sigma_random_mv": numbers(0, 500),
    "variation.phi": numbers(0, 10, above=True),
    "temperature.model": choices("network", "fixed"),
    "temperature.fixed_kelvin": drawn(200, 450),
    "temperature.ambient_kelvin": drawn(200, 450),
    **STOPPING,
}
OF_HETEROGENEITY = EXTENT | {
    "readings": several(choices("activity", "combined", "thermal")),
    "fields": choices("swapped", "common", "either"),
    "fills": choices("ignored", "counted", "either"),
    "service.years": drawn(0.01, 100),
    "service.temperature_kelvin": drawn(300, 420),
    "scheduler.benchmarks": several(name(), empty=True),
    "scheduler.filter_rate": drawn(0, 1, word="benchmark"),
    "scheduler.baseline_delay": drawn(0.001, 1, word="printed"),
    "scheduler.base_duty": drawn(0.001, 1),
    "scheduler.theta_kelvin": drawn(0, 100),
    "scheduler.activation_ev": drawn(0, 1.5),
    "l2.miss_rate": drawn(0, 1),
    "l2.baseline_delay": drawn(0.001, 1, word="model"),
    "l2.base_duty": drawn(0.001, 1),
    "proposal.latency_cycles": drawn(1, 1e6),
    "proposal.l2_ipc_loss": drawn(0, 0.9),
    "proposal.delay": drawn(0.5, 10),
    "proposal.power": drawn(0.01, 100),
    "duplication.delay": drawn(0.5, 10),
    "duplication.power": drawn(0.01, 100),
    **STOPPING,
}
OF_BOTH = EXTENT | {
    "instances": integers(1, 10**8),
    "slices_per_sm": integers(1, 64),
    "cell_vt0": choices("sm", "nominal"),
    **STOPPING,
}
SPECS = {
    SweepSpec: OF_SWEEPS,
    VminSpec: OF_VMIN,
    InjectSpec: OF_INJECTIONS,
    GatingSpec: OF_GATING,
    HeterogeneitySpec: OF_HETEROGENEITY,
    BothSpec: OF_BOTH,
}
RULES_OF_THEIR_OWN = {
    SweepSpec: {
        *("workload.mix", "aging.constants", "costs.tables", "operating_points", "programs"),
        *("draws.columns", "draws.sources"),
    },
    InjectSpec: {
        *("program.args", "program.grid", "program.block", "program.check", "program.entry"),
        *("program.flags", "inject.stuck_cells"),
    },
    GatingSpec: {
        *("workload.weights", "workload.recorded.kernels", "workload.recorded.seconds"),
        *("workload.recorded.sources", "aging.constants"),
    },
}
"""Keys with texts and tables that other tests try."""

BESIDE = {"stopping.of": {"rel_ci": 0.1}}
"""Keys that must stand beside one."""

KEYS = [(spec, key, values) for spec, table in SPECS.items() for key, values in table.items()]


def nested(key, value):
    """Fields of a spec in which one key has a value."""
    *tables, last = key.split(".")
    fields = {last: value} | BESIDE.get(key, {})
    for table in reversed(tables):
        fields = {table: fields}
    return fields


@each("spec", SPECS)
def test_the_tables_of_this_test_know_every_key(spec):
    keys = {key for key, _ in keys_below(spec)}
    keys -= {key for key in keys if any(other.startswith(f"{key}.") for other in keys)}
    if spec is BothSpec:
        keys = {key for key in keys if not key.startswith(("gating.", "sweep."))}
    inherited = (
        OF_SWEEPS.keys() | RULES_OF_THEIR_OWN[SweepSpec] if SweepSpec in spec.mro() else set()
    )
    known = SPECS[spec].keys() | RULES_OF_THEIR_OWN.get(spec, set())
    assert known <= keys <= known | inherited


@each("spec, key, values", KEYS)
def test_values_at_the_bounds_are_taken(spec, key, values):
    section = spec
    *tables, last = key.split(".")
    for table in tables:
        section = inner_section(section.model_fields[table].annotation)
    for value in values.taken:
        fields = {last: value} | BESIDE.get(key, {})
        assert last in section.model_validate_json(json.dumps(fields)).model_fields_set


@each("spec, key, values", KEYS)
def test_values_beyond_the_bounds_are_refused_by_key_and_value(spec, key, values):
    members = [(value, f"{key}.0", value[0]) for value in values.wrong]
    for value, place, shown in [*((value, key, value) for value in values.refused), *members]:
        with pytest.raises(UserError) as refused:
            spec.from_mapping(nested(key, value), "my.toml")
        message = str(refused.value)
        assert "\n" not in message
        assert message.startswith(f"my.toml: {place}"), value
        assert shortened(shown) in message, value


@each("spec, table", {(spec, key.partition(".")[0]) for spec, key, _ in KEYS if "." in key})
def test_a_section_is_a_table(spec, table):
    for value in (3, "text", [], True):
        with pytest.raises(UserError) as refused:
            spec.from_mapping({table: value}, "my.toml")
        assert f"{table} = {value!r}" in str(refused.value)
