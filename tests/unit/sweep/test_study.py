"""Is a sweep a study like any other: do shards travel, and do files follow the variables?"""

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sweep_cases import small_sweep

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.campaign.run import run_campaign
from mcage.campaign.study import ShardTask
from mcage.lifetime.outcomes import LifeEnd
from mcage.report.cases import names_in
from mcage.results.header import header_class
from mcage.results.reader import open_results, read_header
from mcage.results.variable import Variable
from mcage.sweep import batch, variables
from mcage.sweep.header import SweepHeader
from mcage.sweep.variables import VARIABLES

SMALL = {
    "techniques": ["baseline"],
    "environments": ["nominal"],
    "instances": 3,
    "workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1},
    "life": {"epochs": 2},
}


@pytest.fixture(scope="module")
def sweep():
    return small_sweep("numpy", **SMALL)


def test_a_shard_is_a_value_that_travels(sweep, tmp_path):
    """A process that has the value alone writes the same bytes as this one."""
    study = sweep.study
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    path = ShardTask(study.header, study.maker, here, 1, 3).run(study)
    sent = pickle.dumps(ShardTask(study.header, study.maker, there, 1, 3))
    script = "import pickle, sys; pickle.load(sys.stdin.buffer).run()"
    line = [sys.executable, "-c", script]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(line, input=sent, check=True, env=paths)
    assert path.read_bytes() == (there / path.name).read_bytes()
    assert pickle.loads(sent).header.spec_toml == sweep.spec.to_toml()


def test_a_sweep_says_that_its_energies_do_not_lie_on_one_curve():
    low = {"techniques": ["baseline"], "environments": ["dvfs"]}
    (mixed,) = small_sweep(**low, vdd_volts=[0.419, 0.44]).header.caveats
    assert mixed.startswith("energy at 0.419 V is that of printed constants, and at 0.44 V")
    assert small_sweep(**low, vdd_volts=[0.42, 0.44]).header.caveats == ()
    assert small_sweep(**low).header.caveats == ()


def test_files_know_whose_they_are(sweep):
    assert sweep.header.study == "sweep"
    assert header_class("sweep") is SweepHeader
    assert sweep.study.quantities.keys() >= {"median_life", "max_dvth"}


def test_a_file_knows_what_techniques_of_a_user_call_themselves(tmp_path, monkeypatch):
    (tmp_path / "names_of_users.py").write_text(
        "from dataclasses import replace\n"
        "from mcage.techniques.catalogue import TECHNIQUES\n"
        'ROTATES, ARGO, SAME, ALSO = (replace(TECHNIQUES["rar"], name=name)\n'
        '    for name in ("turns", "argo", "same", "same"))\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    names = [f"names_of_users:{name}" for name in ("ROTATES", "ARGO", "SAME", "ALSO")]
    sweep = small_sweep("numpy", **SMALL | {"techniques": ["baseline", *names]})
    # What might be taken for another technique is called as in the spec.
    assert sweep.header.technique_names == ((names[0], "turns"),)
    path = run_campaign(sweep.study, tmp_path / "r.h5")
    assert read_header(path).technique_names == sweep.header.technique_names
    with open_results(path) as results:
        assert names_in(results) == {names[0]: "turns"}
        assert results["technique"].values.tolist() == ["baseline", *names]


@dataclass(frozen=True)
class MoreOfEnds(LifeEnd):
    half_life_seconds: np.ndarray


def test_a_new_variable_takes_a_declaration_and_the_field_that_carries_it(
    sweep, tmp_path, monkeypatch
):
    half = Variable("half_life_seconds", ("case", "instance"), "float64", "s", "half of the life")
    simulate = batch.simulate_lifetimes

    def simulate_more(*arguments):
        outcomes = simulate(*arguments)
        end = outcomes.end
        return replace(outcomes, end=MoreOfEnds(end.seconds, end.cause, end.seconds / 2))

    monkeypatch.setattr(batch, "simulate_lifetimes", simulate_more)
    monkeypatch.setattr(variables, "VARIABLES", (*VARIABLES, half))
    out = run_campaign(sweep.study, tmp_path / "r.h5", 2)
    with open_results(out) as results:
        assert results["half_life_seconds"].attrs["long_name"] == "half of the life"
        seconds = results["life_years"].values * SECONDS_PER_YEAR
        assert results["half_life_seconds"].values == pytest.approx(seconds / 2)
