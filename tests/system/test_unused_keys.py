"""A value that can change nothing is refused by name, and only such a value is."""

import subprocess
import sys

import numpy as np
import pytest
from environment_cases import points
from rare_cases import engine
from rare_cases import spec_of as rare_spec_of
from sweep_cases import assert_same_arrays, small_spec, small_sweep
from tables import each

from mcage.errors import UserError
from mcage.spec import SweepSpec
from mcage.studies.rare_events import failure_probability
from mcage.studies.sensitivity import QUANTITIES, SensitivityStudy
from mcage.sweep.run import run_sweep
from mcage.sweep.unused_keys import refuse_unused

MCAGE = [sys.executable, "-c", "from mcage.cli.main import main; main()"]
ALONE = {"kernels": ["MatrixTranspose"], "periods": 2, "generations": 1}
QUICK = {
    "techniques": ["baseline"],
    "environments": ["nominal"],
    "workload": ALONE,
    "life": {"epochs": 2},
}
LOW = {"environments": ["undervolted"]}
FIXED = {
    "operating_points": {"own": points((0.9, 0.5), (0.5,))},
    "environments": ["nominal", "own"],
}

UNUSED = {
    "vdd_volts = [0.9]: environment 'nominal' has fixed voltages": (
        {},
        {"vdd_volts": [0.9]},
    ),
    "vdd_volts = [0.6]: environments 'nominal', 'own' have fixed voltages": (
        FIXED,
        {"vdd_volts": [0.6]},
    ),
    "workload.mix = 'dirichlet(0.5)': a sweep of one kernel (MatrixTranspose) has nothing": (
        {},
        {"workload": {**ALONE, "mix": "dirichlet(0.5)"}},
    ),
    "life.idle = 'held': slices are never idle, since life.activity = 1": (
        {"life": {"epochs": 2}},
        {"life": {"epochs": 2, "idle": "held"}},
    ),
    "life.spill_limit = 0.0: no technique of this sweep (baseline, disable) spills": (
        {"techniques": ["baseline", "disable"], **LOW},
        {"life": {"epochs": 2, "spill_limit": 0.0}},
    ),
    "life.vmin_coefficient = 0.5: faults of mode 'table' do not grow": (
        {"techniques": ["rrcd"], **LOW, "faults": {"mode": "table"}},
        {"life": {"epochs": 2, "vmin_coefficient": 0.5}},
    ),
    "faults.spread_blocks = True: no technique of this sweep (gr-guard, rrcd+rc+rar) uses": (
        {"techniques": ["gr-guard", "rrcd+rc+rar"], **LOW},
        {"faults": {"spread_blocks": True}},
    ),
    "faults.spread_blocks = True: mode 'table-exact' puts each faulty bit": (
        {"techniques": ["rrcd"], **LOW, "faults": {"mode": "table-exact"}},
        {"faults": {"mode": "table-exact", "spread_blocks": True}},
    ),
    "faults.slices_per_chip = 4: dies do not differ": (
        {"techniques": ["rrcd"], **LOW},
        {"faults": {"slices_per_chip": 4}},
    ),
    "faults.phi = 0.25: no deviation is correlated over a slice": (
        {"techniques": ["rrcd"], **LOW, "scenarios": ["dispersed"]},
        {"faults": {"phi": 0.25}},
    ),
    "faults.arrays = '128x256': arrays do not differ": (
        {"techniques": ["rrcd"], **LOW, "scenarios": ["dispersed"]},
        {"faults": {"arrays": "128x256"}},
    ),
    "registers.delta_limit = 'none': no technique of this sweep (baseline, gr-guard) compresses": (
        {"techniques": ["baseline", "gr-guard"], **LOW},
        {"registers": {"delta_limit": "none"}},
    ),
    "registers.lds_rows = 1: no technique of this sweep (rc+rar, disable) spills": (
        {"techniques": ["rc+rar", "disable"], **LOW},
        {"registers": {"lds_rows": 1}},
    ),
    "registers.selector_offsets = 4: no technique of this sweep (rc+rar, rrcd) rotates": (
        {"techniques": ["rc+rar", "rrcd"], **LOW},
        {"registers": {"selector_offsets": 4}},
    ),
}
"""The message, a sweep, and what it has no use for."""


@pytest.mark.parametrize("message", UNUSED)
def test_what_can_change_nothing_is_refused(message, tmp_path):
    fields, unused = UNUSED[message]
    refuse_unused(small_spec(**(QUICK | fields)))
    with pytest.raises(UserError) as caught:
        run_sweep(small_spec(**(QUICK | fields | unused)), tmp_path / "r.h5")
    assert str(caught.value).startswith(message)
    assert "leave it out" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("message", UNUSED)
def test_it_would_have_changed_nothing(message):
    """To the last bit: a `Sweep` by itself computes what the commands refuse."""
    fields, unused = UNUSED[message]
    assert_same_arrays(
        small_sweep(**(QUICK | fields | unused)).compute(0, 2),
        small_sweep(**(QUICK | fields)).compute(0, 2),
    )


USED = [
    {"environments": ["nominal", "dvfs"], "vdd_volts": [0.45, 0.6]},
    {**LOW, "operating_points": {"own": points((0.9, 0.5), ("scenario",))}, "vdd_volts": [0.45]},
    {"life": {"epochs": 4, "idle": "held", "activity": 0.5}},
    {"techniques": ["baseline", "rrcd"], "life": {"epochs": 4, "spill_limit": 0.0}},
    {"techniques": ["gr-guard"], "registers": {"lds_rows": 1}},
    {"faults": {"mode": "varius-selected"}, "life": {"epochs": 4, "vmin_coefficient": 0.5}},
    {"techniques": ["rrcd+pg"], "faults": {"spread_blocks": True}},
    {"faults": {"slices_per_chip": 4, "sigma_die_volts": 0.01}},
    {"faults": {"slices_per_chip": 4}, "stopping": {"rel_ci": 0.1}},
    {"scenarios": ["dispersed", "common"], "faults": {"phi": 0.25}},
    {"scenarios": ["dispersed"], "faults": {"phi": 0.25, "sigma_systematic_volts": 0.01}},
    {"techniques": ["baseline", "wc"], "registers": {"delta_limit": "none"}},
    {"techniques": ["rrcd", "rrcd+rc+rar"], "registers": {"selector_offsets": 4}},
    {"workload": {"kernels": ["DCT", "Reduction"], "periods": 2, "mix": "one"}},
]


@each("fields", USED)
def test_what_one_case_has_a_use_for_is_taken(fields):
    refuse_unused(small_spec(**fields))


@pytest.mark.parametrize("technique", ["baseline", "argo", "disable", "rrcd"])
def test_a_default_is_taken_though_it_is_written_out(technique, tmp_path):
    """What --show-spec prints runs."""
    spec = SweepSpec.from_mapping({"techniques": [technique], "environments": ["nominal"]})
    path = tmp_path / "sweep.toml"
    path.write_text(spec.to_toml())
    assert "selector_offsets" in path.read_text()
    refuse_unused(SweepSpec.from_toml(path))


def test_the_command_line_says_so(tmp_path):
    words = ["--environment", "nominal", "--vdd", "0.9", "--technique", "baseline"]
    done = subprocess.run(
        [*MCAGE, "sweep", *words, "--instances", "1", "--out", "r.h5"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "error: vdd_volts = [0.9]: environment 'nominal' has fixed voltages and would not use it; "
        "leave it out, or choose undervolted or dvfs\n"
    )
    assert not list(tmp_path.iterdir())


def test_rare_events_and_studies_refuse_it_too():
    words = r"vdd_volts = \[0\.9\]: environment 'nominal' has fixed voltages"
    spec = rare_spec_of("baseline", vdd_volts=0.9, environments=["nominal"])
    with pytest.raises(UserError, match=words):
        failure_probability(spec, 0.0, 10, engine=engine())
    with pytest.raises(UserError, match=words):
        SensitivityStudy(spec, QUANTITIES["mean_life"], engine())


def test_a_study_may_vary_what_turns_out_not_to_matter():
    spec = rare_spec_of("baseline", instances=3)
    study = SensitivityStudy(spec, QUANTITIES["mean_life"], engine())
    base, changed = study.values([{}, {"registers.lds_rows": 0}])
    assert np.array_equal(base, changed)
