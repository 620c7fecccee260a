"""SM gating beside what Chen et al. print, and beside an independent prototype."""

import numpy as np
import pytest
from gpu_cases import gating

from mcage.aging.nbti import Transistors, nbti_model
from mcage.gpu.gating.policies import policy
from mcage.gpu.gating.rounds import ROUND_SECONDS, Rounds

MEDIANS = {
    "default": {"facelift": 17.7, "bhardwaj": 16.1},
    "round-robin": {"facelift": 11.2, "bhardwaj": 4.0},
    "least-shift": {"facelift": 11.5, "bhardwaj": 14.1},
    "most-slack": {"facelift": 6.1, "bhardwaj": 6.8},
    "coolest-first": {"facelift": 12.3, "bhardwaj": 13.7},
}
"""Delay margin needed after ten years, %: 2,000 dies of a prototype that shares no code."""


def margins_of(gpus, **fields):
    """Delay margin needed after ten years, %, by policy."""
    fields.setdefault("policies", list(MEDIANS))
    fields.setdefault("sensors", {}).setdefault("interval_days", 7.0)
    study = gating(**fields)
    population = study.population(np.arange(gpus))
    return {
        name: 100 * study.lives.run(chosen, population).margin_needed[:, -1]
        for name, chosen in study.policies.items()
    }


@pytest.fixture(scope="module")
def margins():
    return margins_of(500)


@pytest.mark.parametrize("name", MEDIANS)
def test_the_median_margin_is_that_of_the_prototype(margins, name):
    assert np.median(margins[name]) == pytest.approx(MEDIANS[name]["facelift"], abs=0.3)


def test_medians_under_bhardwaj_are_those_of_the_prototype():
    for name, values in margins_of(150, aging={"model": "bhardwaj"}).items():
        assert np.median(values) == pytest.approx(MEDIANS[name]["bhardwaj"], abs=0.3), name


def test_least_shift_loses_to_a_counter_on_dies_that_differ(margins):
    lost = margins["least-shift"] - margins["round-robin"]
    assert lost.mean() == pytest.approx(0.31, abs=0.05)


def test_noise_costs_most_slack_and_helps_least_shift(margins):
    noisy = margins_of(500, policies=["most-slack", "least-shift"], sensors={"noise_mv": 5.0})
    assert np.median(noisy["most-slack"]) - np.median(margins["most-slack"]) == pytest.approx(
        0.9, abs=0.3
    )
    assert (noisy["least-shift"] - margins["least-shift"]).mean() < 0


def test_fourteen_kernels_by_their_published_counts():
    counts = [kernel.sms for kernel in gating().kernels]
    mitigations = []
    for count in counts:
        history = Rounds(
            nbti_model("bhardwaj-unscaled"),
            np.full(100, count),
            ROUND_SECONDS,
            1.0,
            Transistors(temperature_kelvin=353.15),
            16,
        )
        shifts = [history.dvth_volts(policy(name)).max() for name in ("least-shift", "default")]
        mitigations.append(100 * (1 - shifts[0] / shifts[1]))
    assert len(counts) == 14
    assert min(mitigations) == pytest.approx(27.1, abs=0.05)
    assert max(mitigations) == pytest.approx(53.6, abs=0.05)
    assert np.mean(mitigations) == pytest.approx(36.3, abs=0.05)
    assert 31 < np.mean(mitigations) < 37
