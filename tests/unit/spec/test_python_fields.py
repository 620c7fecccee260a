"""Specs as one types them in Python."""

import copy
import pickle
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from tables import each

from mcage.errors import UserError
from mcage.gpu.both.spec import BothSpec
from mcage.gpu.gating.spec import GatingSpec
from mcage.spec import SweepSpec
from mcage.spec.environments import Point
from mcage.spec.sections import Life, Workload
from mcage.spec.study_spec import SweepFields


@each(
    "typed, plain",
    [
        ({"techniques": ["rrcd"]}, {"techniques": ["rrcd"]}),
        ({"techniques": "rrcd"}, {"techniques": ["rrcd"]}),
        ({"techniques": ("rrcd", "baseline")}, {"techniques": ["rrcd", "baseline"]}),
        ({"vdd_volts": 0.42}, {"vdd_volts": [0.42]}),
        ({"vdd_volts": np.array([0.42, 0.45])}, {"vdd_volts": [0.42, 0.45]}),
        ({"instances": np.int64(30)}, {"instances": 30}),
        ({"life": {"horizon_years": 5.0}}, {"life": {"horizon_years": 5.0}}),
        ({"life": Life(horizon_years=5.0)}, {"life": {"horizon_years": 5.0}}),
        ({"workload": Workload(kernels=("DCT",))}, {"workload": {"kernels": ["DCT"]}}),
        ({"workload": {"kernels": "DCT"}}, {"workload": {"kernels": ["DCT"]}}),
        ({"workload": {"kernels": Path("a.h5")}}, {"workload": {"kernels": ["a.h5"]}}),
        ({"workload": {"period_years": 2}}, {"workload": {"periods": 5}}),
        ({"stopping": {"rel_ci": 0.1}}, {"stopping": {"rel_ci": 0.1}}),
        (
            {"environments": "turbo", "operating_points": {"turbo": [Point(vdd_volts=1.1)]}},
            {"environments": ["turbo"], "operating_points": {"turbo": [{"vdd_volts": 1.1}]}},
        ),
        (
            {"draws": {"columns": {"aging.shift_factor": np.array([0.9, 1.1])}}},
            {"draws": {"columns": {"aging.shift_factor": [0.9, 1.1]}}},
        ),
    ],
)
def test_what_is_typed_is_the_spec_of_the_plain_values(typed, plain):
    spec = SweepSpec(**typed)
    assert spec == SweepSpec.from_mapping(plain)
    assert spec.digest() == SweepSpec.from_mapping(plain).digest()


@each(
    "typed, message",
    [
        ({"techniques": 5}, "SweepSpec: techniques.0 = 5: input should be a valid string"),
        ({"techniques": []}, "SweepSpec: techniques = []: "),
        ({"techniques": {"rrcd"}}, "SweepSpec: techniques = "),
        ({"techniques": ["rrcd", "rrcd"]}, "techniques = ['rrcd', 'rrcd']: names 'rrcd' twice"),
        ({"technique": ["rrcd"]}, "unknown key 'technique'; there are instances, seed"),
        ({"technique": ["rrcd"]}, "is techniques meant?"),
        ({"vdd": 0.44}, "is vdd_volts meant?"),
        ({"kernels": "DCT"}, "is workload.kernels meant?"),
        ({"geometry": "nvidia"}, "is registers.geometry meant?"),
        ({"constants": {"eta": 0.3}}, "is aging.constants meant?"),
        ({"temprature_kelvin": 353}, "is life.temperature_kelvin meant?"),
        ({"life": {"horizon": 3}}, "is life.horizon_years meant?"),
        ({"life": {"mu": 0.14}}, "is faults.mu_volts meant?"),
        ({"workload": {"kernles": "DCT"}}, "is workload.kernels meant?"),
        ({"life": {"horizon": 3}}, "unknown key 'life.horizon'; there are horizon_years"),
        ({"nothing_like_it": 3}, "operating_points, draws"),
        ({"life": 5}, "SweepSpec: life = 5: input should be an object"),
        ({"instances": 2.5}, "SweepSpec: instances = 2.5: input should be a valid integer"),
        ({"scenarios": "rare"}, "SweepSpec: scenarios.0 = 'rare': input should be 'common'"),
        ({"vdd_volts": [0.4, np.nan]}, "vdd_volts.1 = nan must be a finite number"),
        ({"environments": "turbo"}, "environments: unknown 'turbo'; choose from nominal"),
    ],
)
def test_mistakes_are_named_by_key_and_value(typed, message):
    with pytest.raises(UserError) as refused:
        SweepSpec(**typed)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_specs_of_whole_gpus_are_typed_alike():
    assert GatingSpec(policies="default").policies == ("default",)
    assert BothSpec(gating={"policies": ["default"]}) == BothSpec(
        gating=GatingSpec(policies=["default"])
    )
    with pytest.raises(UserError, match=r"BothSpec: gating.policies.0 = 3: input should be"):
        BothSpec(gating={"policies": 3})


def test_specs_are_copied_and_sent_to_other_processes():
    spec = SweepSpec(techniques="rrcd", workload={"periods": 2})
    assert pickle.loads(pickle.dumps(spec)) == copy.deepcopy(spec) == spec
    assert spec.model_copy(update={"seed": 3}).seed == 3


def test_type_checkers_know_each_key():
    assert list(get_type_hints(SweepFields)) == list(SweepSpec.model_fields)
