"""A spec of both levels: each key once, files of the levels, what goes into the sweep."""

import tomllib

import pytest
from tables import each

from mcage.errors import UserError
from mcage.gpu.both.spec import BothSpec

RANGES = {
    "activity": (0.001, 1.0),
    "temperature_kelvin": (320.0, 350.0),
    "vt0_volts": (0.3, 0.3),
}


@each(
    ("fields", "words"),
    [
        ({"sweep": {"life": {"activity": 0.5}}}, "sweep.life.activity = 0.5"),
        ({"sweep": {"life": {"horizon_years": 3.0}}}, "that of gating.life.horizon_years"),
        ({"sweep": {"aging": {"model": "bhardwaj"}}}, "that of gating.aging.model"),
        ({"sweep": {"aging": {"vt0_volts": 0.25}}}, "sweep.aging.vt0_volts = 0.25"),
        ({"sweep": {"faults": {"slices_per_chip": 4}}}, "sweep.faults.slices_per_chip = 4"),
        ({"sweep": {"environments": ["nominal", "dvfs"]}}, "sweep.environments"),
        (
            {
                "gating": {"aging": {"model": "bhardwaj"}},
                "sweep": {"aging": {"model": "facelift"}},
            },
            "sweep.aging.model = 'facelift'",
        ),
        ({"gating": {"seed": 7}}, "gating.seed = 7"),
        ({"gating": {"stopping": {"rel_ci": 0.1}}}, "gating.stopping"),
        ({"gating": {"workload": {"idle": "on"}}}, "gating.workload.idle"),
        ({"gating": {"life": {"report_years": [1.0]}}}, "gating.life.report_years"),
        ({"gating": 3}, "gating = 3"),
        ({"slices_per_sm": 0}, "slices_per_sm = 0"),
        ({"cell_vt0": "die"}, "cell_vt0"),
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
    spec = BothSpec.from_mapping(
        {
            "gating": {"life": {"horizon_years": 3.0}},
            "sweep": {"life": {"horizon_years": 3.0}},
        }
    )
    assert spec.sweep_of(16, RANGES).life.horizon_years == 3.0


def test_recorded_launches_are_read_into_the_spec(tmp_path):
    path = tmp_path / "launches.csv"
    path.write_text("kernel,seconds\nLU,1.5\n")
    spec = BothSpec.from_mapping({"gating": {"workload": {"recorded": str(path)}}})
    path.unlink()
    assert spec.gating.workload.recorded.seconds == (1.5,)
    assert "launches.csv" not in spec.to_toml()
    again = BothSpec.from_mapping(tomllib.loads(spec.to_toml()))
    assert again.digest() == spec.digest() != BothSpec().digest()


def test_toml_and_back():
    spec = BothSpec.from_mapping(
        {
            "instances": 3,
            "gating": {
                "sensors": {"noise_mv": 2.0},
                "life": {"horizon_years": 3.0},
                "aging": {"constants": {"eta": 0.3}},
            },
            "sweep": {"techniques": ["rrcd"], "environments": ["dvfs"]},
            "stopping": {"rel_ci": 0.1},
        }
    )
    assert BothSpec.from_mapping(tomllib.loads(spec.to_toml())) == spec
    assert spec.gating.policies == ("default", "round-robin")
    assert spec.stopping.of == "cell_margin"


def test_levels_may_be_files(tmp_path):
    (tmp_path / "gating.toml").write_text('policies = ["default", "most-slack"]\n')
    (tmp_path / "sweep.toml").write_text("[workload]\nperiod_years = 2.0\n")
    spec = BothSpec.from_mapping(
        {level: str(tmp_path / f"{level}.toml") for level in ("gating", "sweep")}
    )
    assert spec.gating.policies == ("default", "most-slack")
    assert spec.sweep.workload.periods == 5
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
