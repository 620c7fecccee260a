"""Every key of every spec takes the values at its bounds, and refuses by name those beyond."""

import json
from inspect import signature
from pkgutil import resolve_name

import numpy as np
import pytest
import typer.main
from key_values import (
    BESIDE,
    BOOLEAN,
    EXTENT,
    NO_NUMBER,
    OF_SWEEPS,
    STOPPING,
    Values,
    choices,
    down,
    drawn,
    integers,
    name,
    nested,
    numbers,
    several,
)
from tables import each

from mcage.cli.app import COMMANDS, app
from mcage.errors import UserError
from mcage.functions import study_of
from mcage.plain_text import shortened
from mcage.results.header import header_class, studies
from mcage.spec import SweepSpec
from mcage.spec.keys import inner_section, keys_below
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_gating.policies import POLICIES
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.studies.inject.spec import InjectSpec
from mcage.studies.sweep.study import Sweep
from mcage.studies.vmin.spec import VminSpec

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
    "inject.upset": choices("single", "two-bits", "random", "zero", "28nm", "16nm"),
    "inject.weight": choices("cycle", "instruction"),
    "inject.at": name(),
    "inject.ages_years": several(numbers(0, 100), empty=True, most=100),
    "inject.tolerance": numbers(0, 1e9),
    "inject.test_interval_years": numbers(0, 100),
    **STOPPING,
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

KEYS = [(spec, key, values) for spec, table in SPECS.items() for key, values in table.items()]


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


# How a spec, or the header of a file, becomes a study: the same way for all studies.


def options_of(command):
    made = typer.main.get_command(app)
    for name in command.split():
        made = made.commands[name]
    return {option.opts[0] for option in made.params}


VMIN = VminSpec(instances=1, techniques=["baseline"], workload={"kernels": ["DCT"]})
SHORT = {"workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1}}
OF_GPUS = {
    "sensors": {"interval_days": 365.0, "noise_mv": 2.0},
    "policies": list(POLICIES),
    "workload": {"job_days": 40.0, "utilisation": 0.7},
    "life": {"spare_sms": 1},
}
STUDIES = {
    "sweep": SweepSpec(spread=True, techniques=["rrcd"], **SHORT, life={"epochs": 2}),
    "vmin": VminSpec(techniques=["rc+rar"], **SHORT),
    "gpu-gating": GatingSpec(**OF_GPUS),
    "gpu-heterogeneity": HeterogeneitySpec(
        readings=["activity", "thermal"], proposal={"power": "normal(1, 0.1)", "delay": 1.05}
    ),
    "gpu-both": BothSpec(
        gating=OF_GPUS | {"policies": ["most-slack"]},
        sweep=SHORT | {"techniques": ["rrcd"], "environments": ["dvfs"]},
        slices_per_sm=1,
    ),
}
"""A spec of each study that needs no compiler; instances differ by all that they may."""


@pytest.mark.parametrize("name", STUDIES)
def test_an_instance_depends_on_nothing_but_spec_seed_and_number(name):
    """Also as a process makes it, which knows what the header of a file has."""
    study = study_of(STUDIES[name].model_copy(update={"instances": 4}))
    whole, again = study.compute(0, 4), resolve_name(study.maker)(study.header)
    assert study.header.difference(again.header) is None
    for variable in study.header.variables:
        if variable.per_instance:
            axis = variable.instance_axis
            for first, last in ((0, 3), (3, 4)):
                part = again.compute(first, last)[variable.name]
                expected = whole[variable.name].take(range(first, last), axis)
                np.testing.assert_array_equal(part, expected, err_msg=variable.name)


def test_a_process_makes_the_same_study_of_header_and_maker():
    original = study_of(VMIN, "numpy")
    again = resolve_name(original.maker)(original.header)
    assert again.header.engine == "numpy"
    assert (again.batch, again.threads) == (original.batch, original.threads)


def test_devices_are_heard_by_every_study_that_has_an_engine():
    with pytest.raises(UserError, match="--devices is for the engine 'cuda', not for 'numpy'"):
        study_of(VMIN, "numpy", (0,))


@pytest.mark.parametrize(
    ("engine", "devices", "message"),
    [("cuda", None, "engine = 'cuda'"), ("numpy", (0, 1), r"devices = \[0, 1\]")],
)
def test_a_study_without_an_engine_takes_none(engine, devices, message):
    assert study_of(GatingSpec(instances=1), "numpy").header.engine == "numpy"
    with pytest.raises(UserError, match=f"{message}: this study has no engine; leave it out"):
        study_of(GatingSpec(instances=1), engine, devices)


@pytest.mark.parametrize(  # tests register studies of their own
    "command", [name for study in studies() if (name := study.replace("-", " ")) in COMMANDS]
)
def test_only_commands_of_studies_with_an_engine_offer_its_options(command):
    header = header_class(command.replace(" ", "-"))
    study = Sweep if command == "sweep" else resolve_name(header.maker)
    flags = options_of(command)
    assert ("--engine" in flags) == ("engine" in signature(study).parameters)
    assert "--devices" not in flags or "--engine" in flags
