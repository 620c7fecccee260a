"""How a spec, or the header of a file, becomes a study: the same way for all studies."""

from inspect import signature
from pkgutil import resolve_name

import numpy as np
import pytest
import typer.main

from mcage.cli.app import COMMANDS, app
from mcage.errors import UserError
from mcage.functions import study_of
from mcage.results.header import header_class, studies
from mcage.spec import SweepSpec
from mcage.studies.common import StudyOfSpec
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_gating.policies import POLICIES
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.studies.sweep.study import Sweep
from mcage.studies.vmin.spec import VminSpec


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
SPECS = {
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


@pytest.mark.parametrize("name", studies())
def test_each_study_is_made_of_its_spec_by_a_class_that_its_header_names(name):
    header = header_class(name)
    assert header.spec is not None
    if name != "sweep":  # of which the module of the study names the header
        assert issubclass(resolve_name(header.maker), StudyOfSpec)


@pytest.mark.parametrize("name", SPECS)
def test_an_instance_depends_on_nothing_but_spec_seed_and_number(name):
    """Also as a process makes it, which knows what the header of a file has."""
    study = study_of(SPECS[name].model_copy(update={"instances": 4}))
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
