"""Does a campaign with a stopping rule end at the right instance, and with the same bits always?"""

import math

import fake_campaign
import numpy as np
import pytest
from campaign_cases import Computer, ExecutorOf, Listener, interrupt
from scipy.stats import t

from mcage.campaign.executors import MadeShard
from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import shard_folder, shard_name
from mcage.campaign.stopping import CampaignPrecision, Watch, checkpoints
from mcage.campaign.study import Study
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.results.header import StoppingRule
from mcage.results.reader import read_header
from mcage.spec import SweepSpec
from mcage.stats.estimates import Estimate
from mcage.stats.survival import Precision
from mcage.studies.sweep.header import stopping_rule

MOST = 900
RULE = StoppingRule(0.047, "spill_rate")
CAMPAIGN = fake_campaign.campaign(instances=MOST, stopping=RULE)


def half_over_mean(values):
    half = t.ppf(0.975, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size)
    return half / values.mean()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted") / "r.h5"
    return run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 1000).read_bytes()


@pytest.fixture(scope="module")
def expected():
    """Instances after which the rule is kept, found without the code under test."""
    rates = fake_campaign.compute(0, MOST)["spill_rate"]
    looked_at = (500, 630, 800, 900)
    return next(n for n in looked_at if max(half_over_mean(r[:n]) for r in rates) <= RULE.rel_ci)


# ---- where it may end --------------------------------------------------------------------------


def test_checkpoints():
    ladder = [500, 630, 800, 1000, 1250, 1600, 2000, 2500, 3200, 4000, 5000, 6300, 8000, 10_000]
    assert checkpoints(10_000) == ladder
    assert checkpoints(10_001) == [*ladder, 10_001]
    assert checkpoints(499) == [499]
    assert checkpoints(900, group_size=7) == [504, 630, 805, 900]
    assert checkpoints(9000, group_size=4000) == [4000, 8000, 9000]
    assert Watch(fake_campaign.campaign(instances=2000)).checkpoint == 2000


def test_it_ends_at_the_first_checkpoint_that_is_precise_enough(expected, uninterrupted, tmp_path):
    assert 500 < expected < MOST, "choose a rule that this sample keeps in between"
    computer, listener = Computer(), Listener()
    out = run_campaign(Study(CAMPAIGN, computer), tmp_path / "r.h5", 1000, listener)
    assert max(last for _, last in computer.ranges) == expected
    assert read_header(out).instances == expected
    assert read_header(out).stopping == RULE
    assert listener.begin == (MOST, 0)
    assert listener.advanced == expected
    assert [line.split(":")[0] for line in listener.said[:-1]] == ["500 instances"]
    last = f"spill_rate to ±4.7 % in every case with {expected} of at most {MOST} instances; worst:"
    assert listener.said[-1].startswith(last)
    assert read_header(out).stopped == listener.said[-1]


@pytest.mark.parametrize(("margin", "level"), [(0.0235, 0.95), (0.035, 0.999), (1e-9, 0.95)])
def test_an_absolute_margin_at_a_level(margin, level, tmp_path):
    """It ends with the first sample whose interval of that level is no wider."""
    rule = StoppingRule(None, "spill_rate", margin=margin, level=level)
    campaign = fake_campaign.campaign(instances=MOST, stopping=rule)
    out = run_campaign(Study(campaign, fake_campaign.compute), tmp_path / "r.h5", 1000)
    header = read_header(out)
    assert header.stopping == rule
    sizes = checkpoints(MOST)
    widths = {}
    for size in sizes:
        rates = fake_campaign.compute(0, size)["spill_rate"]
        z = t.ppf((1 + level) / 2, size - 1)
        widths[size] = max(z * of.std(ddof=1) / math.sqrt(size) for of in rates)
    enough = [size for size in sizes if widths[size] <= margin]
    assert header.instances == (enough or [MOST])[0]
    assert ("at 0.999" in header.stopped) == (level == 0.999)
    assert header.stopped.startswith("NOT " * (not enough) + "spill_rate to ±")


@pytest.mark.parametrize("of", ["b10_life", "spill_rate"])
def test_every_quantity_can_stop_it(of, tmp_path):
    campaign = fake_campaign.campaign(instances=2000, stopping=StoppingRule(0.6, of))
    out = run_campaign(Study(campaign, fake_campaign.compute), tmp_path / "r.h5", 1000)
    assert read_header(out).instances == 500
    assert read_header(out).stopped.startswith(f"{of} to ±")


def test_the_spec_knows_the_quantities():
    """And another name is refused, with those that there are."""
    for name in CAMPAIGN.quantities:
        spec = SweepSpec(stopping={"rel_ci": 0.1, "of": name})
        assert stopping_rule(spec) == StoppingRule(0.1, name)
    for wrong in ("median", "life_years"):
        spec = SweepSpec(stopping={"rel_ci": 0.1, "of": wrong})
        with pytest.raises(UserError, match=rf"stopping.of = '{wrong}': must be one of .*rmst"):
            stopping_rule(spec)


# ---- whatever happens on the way ---------------------------------------------------------------


def test_stopped_and_continued(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    interrupt(out, 70, 8, CAMPAIGN)
    computer, listener = Computer(), Listener()
    run_campaign(Study(CAMPAIGN, computer), out, 200, listener)
    assert min(first for first, _ in computer.ranges) == 500
    assert listener.begin[1] == 500
    assert out.read_bytes() == uninterrupted


def test_a_damaged_shard_before_a_checkpoint_that_was_passed(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    victim = interrupt(out, 100, 6, CAMPAIGN) / shard_name(CAMPAIGN.spec_digest, range(100, 200))
    victim.write_bytes(victim.read_bytes()[:-100])
    computer = Computer()
    run_campaign(Study(CAMPAIGN, computer), out, 1000, Listener())
    assert computer.ranges == [(100, 200), (600, 630)]
    assert out.read_bytes() == uninterrupted


def test_a_shard_that_is_damaged_while_the_campaign_runs(tmp_path):
    out = tmp_path / "r.h5"

    def spoiling(study, tasks):
        for task in tasks:
            path = task.run(study)
            path.write_bytes(path.read_bytes()[:-100])
            yield MadeShard(task, 1.0)

    with pytest.raises(UserError, match=r"truncated.*: run the same campaign again"):
        run_campaign(
            Study(CAMPAIGN, fake_campaign.compute), out, 1000, executor=ExecutorOf(spoiling)
        )
    assert not out.exists()


@pytest.mark.slow
def test_all_instances_after_a_rule_has_ended_it(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    out.write_bytes(uninterrupted)
    plain = fake_campaign.campaign(instances=MOST)
    run_campaign(Study(plain, fake_campaign.compute), out, 1000)
    whole = run_campaign(Study(plain, fake_campaign.compute), tmp_path / "whole.h5", 1000)
    assert out.read_bytes() == whole.read_bytes()


def test_a_rule_over_instances_without_one(tmp_path, uninterrupted):
    """The instances that are there are looked at up to each checkpoint, not file by file."""
    out = tmp_path / "r.h5"
    plain = fake_campaign.campaign(instances=577)
    run_campaign(Study(plain, fake_campaign.compute), out, 1000)
    run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 1000)
    assert out.read_bytes() == uninterrupted


def test_shards_of_several_machines(expected, uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    folder = shard_folder(out)
    fake_campaign.write_shards(folder, CAMPAIGN, range(300), range(300, 500))
    with pytest.raises(UserError, match=f"400 of at most {MOST} instances are missing.*: 500-899"):
        merge(out)
    rest = [range(n, min(n + 60, expected)) for n in range(500, expected, 60)]
    fake_campaign.write_shards(folder, CAMPAIGN, *rest)
    assert merge(out).read_bytes() == uninterrupted
    assert not folder.exists()


# ---- what it says ------------------------------------------------------------------------------


def test_all_instances_without_the_precision(tmp_path):
    campaign = fake_campaign.campaign(instances=520, stopping=StoppingRule(0.01, "spill_rate"))
    listener = Listener()
    out = run_campaign(Study(campaign, fake_campaign.compute), tmp_path / "r.h5", 1000, listener)
    assert read_header(out).instances == 520
    said = read_header(out).stopped
    assert said == listener.said[-1]
    assert said.startswith(
        "NOT spill_rate to ±1 % in every case: all 520 instances are computed, and 3 of 3 fall "
        "short; worst: "
    )
    rates = fake_campaign.compute(0, 520)["spill_rate"]
    needed = 520 * (max(map(half_over_mean, rates)) / 0.01) ** 2
    (about,) = (int(part.split()[-1]) for part in said.split(", ") if "±1 % needs" in part)
    assert needed <= about < 1.1 * needed


def test_cases_that_cannot_become_tighter_keep_no_sweep_from_stopping(tmp_path):
    """One case lives beyond the horizon, one is dead on arrival; the third decides.

    A mean life up to the horizon is not certain, though all slices have reached it.
    """

    def compute(first, last):
        arrays = fake_campaign.compute(first, last)
        arrays["life_years"][0], arrays["end_cause"][0] = 10.0, EndCause.CENSORED
        arrays["life_years"][1], arrays["end_cause"][1] = 0.0, EndCause.FAULTY_ENTRY
        arrays["spill_rate"][1] = np.nan
        return arrays

    for of, known in (("median_life", 2), ("spill_rate", 1), ("rmst", 1)):
        campaign = fake_campaign.campaign(instances=700, stopping=StoppingRule(0.25, of))
        out = run_campaign(Study(campaign, compute), tmp_path / f"{of}.h5", 1000)
        said = read_header(out).stopped
        assert read_header(out).instances == 500
        assert f"; {known} of 3 cannot become tighter; " in said
        assert f"worst: {campaign.cases[2]['case']} " in said or of == "spill_rate"


def state(*relatives, value=5.0, instances=1000):
    half = 0.2
    cases = {
        f"case {place}": Precision(Estimate(value, value - half, value + half), relative)
        for place, relative in enumerate(relatives)
    }
    return CampaignPrecision(
        fake_campaign.campaign(instances=4000),
        StoppingRule(0.05, "median_life"),
        instances,
        cases,
    )


def test_words_by_hand():
    assert state(0.04, 0.02).at_the_end() == (
        "median_life to ±5 % in every case with 1000 of at most 4000 instances; "
        "worst: case 0 5.00 [4.80, 5.20] years (±4 %); "
        "±2.5 % needs about 2600, ±0.5 % needs about 64000"
    )
    words = state(0.02, 0.0).at_the_end()
    assert "(±2 %); 1 of 2 cannot become tighter; ±2.5 % is reached, too, ±0.5 % needs" in words
    assert state(0.0, 0.0).at_the_end() == (
        "median_life to ±5 % in every case with 1000 of at most 4000 instances; "
        "no case can become tighter"
    )
    assert state(0.04, 0.1).on_the_way() == (
        "1000 instances: case 1 5.00 [4.80, 5.20] years (±10 %); ±5 % needs about 4000"
    )
    assert state(0.04, math.inf, value=math.inf, instances=4000).at_the_end() == (
        "NOT median_life to ±5 % in every case: all 4000 instances are computed, and 1 of 2 fall "
        "short; worst: case 1 > 10 years (no relative precision); "
        "the number of instances that would do is unknown"
    )


# ---- what asks for it --------------------------------------------------------------------------


def test_the_rule_of_a_spec():
    def rule(**fields):
        return stopping_rule(SweepSpec.from_mapping(fields))

    asked = {"rel_ci": 0.02, "of": "b10_life"}
    assert rule() is None
    assert rule(stopping={"rel_ci": 0.02}) == StoppingRule(0.02, "median_life", 1)
    assert rule(stopping=asked, faults={"slices_per_chip": 4}) == StoppingRule(0.02, "b10_life", 4)
    alone = {"sigma_die_volts": 0.01}
    assert rule(stopping=asked, faults=alone) == StoppingRule(0.02, "b10_life", 1)
    with pytest.raises(UserError, match=r"stopping: 4 slices share each die"):
        rule(stopping=asked, faults={"slices_per_chip": 4, "sigma_die_volts": 0.01})
