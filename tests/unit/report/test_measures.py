"""Is a measure declared once? One more, in one place, stands wherever measures do."""

import csv
import io
import json

import fake_campaign
import numpy as np
import pytest
from command_line import invoke

import mcage
from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.results.header import StoppingRule
from mcage.results.measures import Measure
from mcage.spec import SweepSpec
from mcage.studies.sweep.header import SweepHeader, stopping_rule
from mcage.studies.sweep.measures import MEASURES

SPENT = Measure(
    "delay_spent",
    "delay that aging has added [%]",
    ("delay_increase",),
    lambda case: case["delay_increase"],
    "delay\nadded [%]",
    scale=100.0,
    of_working=True,
    compared=True,
    stops="delay_spent",
)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(SweepHeader, "measures", (*MEASURES, SPENT))
    header = fake_campaign.campaign(instances=30, spec_toml=SweepSpec().to_toml())
    study = Study(header, fake_campaign.compute)
    return run_campaign(study, tmp_path / "r.h5", 30)


def test_a_new_measure_stands_in_every_form(path, tmp_path):
    mean = fake_campaign.compute(0, 30)["delay_increase"].mean(axis=1)
    assert "added [%]" in invoke("show", path).output
    summaries = json.loads(invoke("show", path, "--json").output)
    assert [of["delay_spent"]["value"] for of in summaries] == pytest.approx(list(mean))
    lines = list(csv.DictReader(io.StringIO(invoke("show", path, "--csv").output)))
    assert [float(line["delay_spent"]) for line in lines] == pytest.approx(list(mean))
    with mcage.open_results(path) as results:
        assert results.mcage.summary()["delay_spent"].tolist() == pytest.approx(list(mean))
        first, second, *_ = results["case"].values.tolist()
        frame = results.mcage.paired(first, second).set_index("quantity")
    assert frame.loc["delay_spent", "difference"] == pytest.approx(mean[0] - mean[1])
    compared = json.loads(invoke("show", path, "--compare", first, second, "--json").output)
    assert compared["lines"]["delay_spent"]["name"] == "delay that aging has added [%]"
    assert "added [%]" in mcage.write_report(path, tmp_path / "page", figure="causes").read_text()


def test_a_campaign_may_be_stopped_by_it(path):
    spec = SweepSpec(stopping={"rel_ci": 0.5, "of": "delay_spent"})
    assert stopping_rule(spec) == StoppingRule(0.5, "delay_spent")
    arrays = fake_campaign.compute(0, 30)
    quantity = fake_campaign.campaign(instances=30).quantities["delay_spent"]
    known = quantity.precisions({name: arrays[name] for name in quantity.variables})
    means = [precision.estimate.value for precision in known.values()]
    assert np.allclose(means, arrays["delay_increase"].mean(axis=1))
