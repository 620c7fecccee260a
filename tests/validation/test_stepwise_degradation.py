"""Lives under NBTI models that are no sums: held against slices of which every cell is followed."""

import dataclasses
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from host_gpu.compiler import host_compiler
from host_gpu.host_device import HostDevice
from life_cases import (
    NUMBA,
    NUMPY,
    YEAR,
    alternating_trace,
    arrays_of,
    cell,
    lived,
    shared_replays,
    tail_of,
)
from nbti_cases import MODELS, constant_environment
from trace_strategies import SPILLING, random_trace

from mcage.aging.nbti import NbtiModel, facelift
from mcage.aging.sampling import InstanceDistributions
from mcage.distributions import Distribution
from mcage.engines.cuda_engine import CudaEngine
from mcage.geometry import GCN
from mcage.lifetime import EndCause
from mcage.techniques import TECHNIQUES
from mcage.traces import bundled_trace, first_generations
from mcage.variation.fault_models import fault_map

BHARDWAJ = MODELS["bhardwaj"]
TRACES = tuple(
    first_generations(bundled_trace(name), 2) for name in ("MatrixTranspose", "QuasiRandomSequence")
)
UNEVEN = (0.0, 0.1, 0.7, 1.9, 3.3, 6.0)
SAMPLE = range(0, GCN.cells, 5003)


@dataclasses.dataclass(frozen=True)
class FollowedFacelift(NbtiModel):
    """`facelift`, of which a sweep does not know that sums are all it needs."""

    vt0_volts: float = facelift().vt0_volts
    alpha: float = facelift().alpha

    root, state_size, additive = 4, 3, False

    def stress_per_second(self, vdd_volts, temperature_kelvin, vt0_volts):
        return facelift().stress_per_second(vdd_volts, temperature_kelvin, vt0_volts)

    def diffusion_per_second(self, temperature_kelvin):
        return facelift().diffusion_per_second(temperature_kelvin)

    def advance(self, state, rates, duty_cycle, seconds):
        return facelift().advance(state, rates, duty_cycle, seconds)

    def dvth_of(self, state):
        return facelift().dvth_of(state)


FOLLOWED = FollowedFacelift()


def random_tail(technique, instance):
    """Weak cells of one instance, the more the higher its number; none of instance 0.

    All over the slice, or where windows have to be whole, in its last entries.
    """
    rng = np.random.default_rng(instance)
    first = cell(244) if TECHNIQUES[technique].packs else 0
    count = instance * (GCN.cells - first) // 1300
    cells = first + rng.choice(GCN.cells - first, count, replace=False)
    return dict(zip(cells.tolist(), rng.uniform(0.95, 1.0005, count).tolist(), strict=True))


class EveryCell:
    """One instance whose 524,288 cells are all taken through its life, without any bound.

    Cells whose duty cycles were the same in each epoch shift alike: each history is followed once,
    and each cell of the sample, which come first.
    """

    def __init__(self, technique, tail, kernels, model=BHARDWAJ, swing=(0.0,) * 5):
        self.model = model
        self.rates = [model.rates(constant_environment(1.0, 353.15 + one)) for one in swing]
        duties = self._duties(technique, tail_of(tail), kernels)
        self.duties = duties[..., np.concatenate([SAMPLE, _one_of_each_history(duties)])]
        self.pasts, self.worst = [], []
        state = model.initial_state(self.duties.shape[1:])
        for epoch in range(len(kernels)):
            self.pasts.append(state)
            state = self._advanced(epoch, state, self.duties[epoch])
            self.worst.append(model.dvth_of(state).max(axis=1))

    def _duties(self, technique, cells, kernels):
        """Duty cycles of all cells, float[epochs, 2, cells]: shifts of weak cells make faults."""
        shared = shared_replays(NUMBA, TRACES, TECHNIQUES[technique])
        duties = np.empty((len(kernels), 2, GCN.cells))
        healthy = cells.vmin_volts <= 1.0
        state = self.model.initial_state((2, len(cells.cell)))
        for epoch, kernel in enumerate(kernels):
            maps = fault_map(cells, ~healthy)
            if not TECHNIQUES[technique].heeds_faults:
                maps = np.zeros_like(maps)
            times = NUMBA.cell_times(shared.replays[kernel], maps)
            period = np.broadcast_to(times.period, 1)[0]
            duties[epoch] = times.zeros[0].ravel() / period, times.ones[0].ravel() / period
            state = self._advanced(epoch, state, duties[epoch][:, cells.cell])
            healthy &= cells.vmin_volts + self.model.dvth_of(state).max(axis=0) <= 1.0
        return duties

    def _advanced(self, epoch, state, duty, years=None):
        """States at an age in an epoch, or at its end, of those at its beginning."""
        seconds = YEAR * ((UNEVEN[epoch + 1] if years is None else years) - UNEVEN[epoch])
        return self.model.advance(state, self.rates[epoch], duty, seconds)

    def dvth(self, epoch, years, followed=slice(None)):
        """Shifts at an age in an epoch, of all that are followed unless some are given."""
        state, duty = self.pasts[epoch][..., followed], self.duties[epoch][..., followed]
        return self.model.dvth_of(self._advanced(epoch, state, duty, years))

    def years_to(self, limit):
        """Age at which the first of all cells reaches a limit, and the epoch."""
        epoch = next(i for i, worst in enumerate(self.worst) if worst.max() >= limit)
        low, high = UNEVEN[epoch], UNEVEN[epoch + 1]
        at_end = self.dvth(epoch, high).max(axis=0)
        followed = np.flatnonzero(at_end >= limit)
        # They have crossed it upwards, once.
        for _ in range(40):
            middle = 0.5 * (low + high)
            over = self.dvth(epoch, middle, followed).max(axis=0) >= limit
            if over.any():
                high, followed = middle, followed[over]  # the first is among them
            else:
                low = middle
        return high, epoch


def _one_of_each_history(duties):
    """One of all cells whose duty cycles are the same in each epoch, by a key of all of these."""
    keys = np.random.default_rng(0).random(duties[..., 0].size) @ duties.reshape(-1, GCN.cells)
    order = np.argsort(keys)
    return order[np.diff(keys[order], prepend=-1.0) > 0]


def passed(epoch, years):
    """Years spent in each epoch up to an age."""
    return np.diff([*UNEVEN[: epoch + 1], years])


TESTED = ["baseline", "rc+rar", "disable", "gr-guard", "rrcd", "rrcd+pg", "rrcd+rc+rar"]


@pytest.mark.parametrize(
    ("technique", "model", "swings"),
    [
        *((one, BHARDWAJ, False) for one in TESTED),
        ("rrcd+rc+rar", FOLLOWED, False),
        ("rrcd+rc+rar", BHARDWAJ, True),
        ("rc+rar", facelift(), True),
    ],
)
def test_lives_are_those_of_all_cells(technique, model, swings):
    """Worst shifts epoch by epoch, sampled cells, and ends by delay."""
    heeds_faults = TECHNIQUES[technique].heeds_faults
    tails = [random_tail(technique, one) if heeds_faults else {} for one in (0, 3, 5)]
    kernels = np.array([[0, 1, 0, 1, 0], [1, 0, 1, 1, 0], [0, 0, 1, 0, 1]])
    options = {"nbti": model, "epoch_edges_years": UNEVEN, "engine": NUMBA, "lds_rows": 256}
    swing = np.zeros((3, 5))
    if swings:
        distribution = Distribution.of("uniform(-30, 30)")
        options["distributions"] = replace(
            InstanceDistributions.nominal(model, 353.15), temperature_swing_kelvin=distribution
        )
        options["constants"] = options["distributions"].draw(1, np.arange(3), 5)
        swing = options["constants"].temperature_swing_kelvin
    life = lived(TRACES, technique, tail_of(*tails), SAMPLE, kernels, **options)
    assert (life.end.cause == EndCause.CENSORED).all()
    every = [
        EveryCell(technique, tail, kernel, model, one)
        for tail, kernel, one in zip(tails, kernels, swing, strict=True)
    ]
    for one, slice_ in enumerate(every):
        expected = np.array(slice_.worst)
        assert life.degradation.epoch_max_dvth_volts[one] == pytest.approx(expected, rel=1e-13)
        sampled = slice_.dvth(4, UNEVEN[-1])[:, : len(SAMPLE)].T
        assert life.degradation.sampled.dvth_volts()[one] == pytest.approx(
            sampled, rel=1e-12, abs=1e-15
        )

    limit = 0.99 * float(np.mean([np.max(slice_.worst[2]) for slice_ in every]))
    guardband = float((1 - limit / (1 - model.vt0_volts)) ** -model.alpha - 1)
    life = lived(
        TRACES, technique, tail_of(*tails), SAMPLE, kernels, delay_guardband=guardband, **options
    )
    for one, slice_ in enumerate(every):
        if np.max(slice_.worst) < limit:
            assert life.end.cause[one] == EndCause.CENSORED
            continue
        years, epoch = slice_.years_to(limit)
        assert life.end.cause[one] == EndCause.DELAY
        assert life.end.seconds[one] / YEAR == pytest.approx(years, rel=1e-9)
        shift = slice_.dvth(epoch, life.end.seconds[one] / YEAR)
        assert life.degradation.max_dvth_volts[one] == pytest.approx(shift.max(axis=1), rel=1e-10)
        held = np.stack(slice_.duties[: epoch + 1]).T @ passed(epoch, years)
        assert life.degradation.longest_duty[one] == pytest.approx(
            held.max(axis=0) / years, rel=1e-9
        )
        sampled = shift[:, : len(SAMPLE)].T
        assert life.degradation.sampled.dvth_volts()[one] == pytest.approx(
            sampled, rel=1e-10, abs=1e-15
        )
    assert EndCause.DELAY in life.end.cause


# ---- what must not matter, and what must --------------------------------------------------------


def some_lives(technique, instances=range(4), model=BHARDWAJ, engine=NUMBA, traces=TRACES, **given):
    """Lives of instances with a mixture of ends, each on kernels of its own."""
    heeds_faults = TECHNIQUES[technique].heeds_faults
    tails = [random_tail(technique, one) if heeds_faults else {} for one in instances]
    kernels = np.stack([np.random.default_rng(one).integers(2, size=5) for one in instances])
    options = {"epoch_edges_years": UNEVEN, "engine": engine, "lds_rows": 256} | given
    return lived(traces, technique, tail_of(*tails), SAMPLE, kernels, nbti=model, **options)


def assert_lives(one, other, rel, names=None):
    values, others = arrays_of(one), arrays_of(other)
    for name in names or values:
        expected = pytest.approx(others[name], rel=rel, abs=1e-15, nan_ok=True)
        assert values[name] == expected, name


@pytest.mark.parametrize("technique", TESTED)
def test_a_model_of_sums_may_also_be_followed(technique):
    """The same lives by two ways that have nothing but the model in common."""
    followed, summed = (some_lives(technique, model=model) for model in (FOLLOWED, facelift()))
    assert (followed.end.cause == EndCause.CENSORED).all()
    assert_lives(followed, summed, 1e-12)


@pytest.mark.parametrize(
    ("technique", "guardband"), [("baseline", 0.12), ("rc+rar", 0.03), ("rrcd+rc+rar", 0.029)]
)
def test_ends_of_a_model_of_sums(technique, guardband):
    """Ends by delay, of slices that share their times and of others."""
    followed, summed = (
        some_lives(technique, model=model, delay_guardband=guardband)
        for model in (FOLLOWED, facelift())
    )
    assert (summed.end.cause == EndCause.DELAY).all()
    assert followed.degradation.delay_increase == pytest.approx(guardband, rel=1e-9)
    assert_lives(summed, followed, 1e-10)


def dying_entries(technique, instance):
    """Entries that fail one after the other: all of them, or every seventh to split windows."""
    rng = np.random.default_rng(instance)
    entries = np.arange(3, 256, 7) if TECHNIQUES[technique].packs else np.arange(256)
    least = 0.985 if TECHNIQUES[technique].compresses else 0.95
    weak = {}
    for entry, vmin in zip(entries, rng.uniform(least, 1.0, len(entries)), strict=True):
        weak |= dict.fromkeys((cell(int(entry), 512 * block) for block in range(4)), float(vmin))
    return weak


@pytest.mark.parametrize("technique", ["disable", "gr-guard", "rrcd", "rrcd+pg", "rrcd+rc+rar"])
def test_shifts_where_faults_end_a_life_within_an_epoch(technique):
    """The largest of all cells, also where another cell is the worst at the end of the epoch."""
    instances = range(4)
    tails = [dying_entries(technique, one) for one in instances]
    kernels = np.stack([np.random.default_rng(one).integers(2, size=5) for one in instances])
    options = {"epoch_edges_years": UNEVEN, "engine": NUMBA, "lds_rows": 0}
    followed, summed = (
        lived(TRACES, technique, tail_of(*tails), SAMPLE, kernels, nbti=model, **options)
        for model in (FOLLOWED, facelift())
    )
    assert (summed.end.cause == EndCause.NO_HOME).any()
    within = ~np.isin(summed.end.seconds, YEAR * np.array(UNEVEN))
    assert within.any()
    assert_lives(summed, followed, 1e-10)


@pytest.mark.parametrize("technique", ["rc+rar", "rrcd+rc+rar"])
def test_borders_of_epochs_do_not_matter(technique):
    """Each epoch in two pieces; no fault grows, so that maps stay as they are."""
    halves = [0.5 * (one + other) for one, other in pairwise(UNEVEN)]
    edges = tuple(sorted([*UNEVEN, *halves]))
    heeds_faults = TECHNIQUES[technique].heeds_faults
    tail = dict.fromkeys(random_tail(technique, 3), np.inf) if heeds_faults else {}
    lives = []
    for borders, kernels in ((UNEVEN, [0, 1, 1, 0, 1]), (edges, [0, 0, 1, 1, 1, 1, 0, 0, 1, 1])):
        options = {"nbti": BHARDWAJ, "epoch_edges_years": borders, "engine": NUMBA}
        one = lived(
            TRACES,
            technique,
            tail_of(tail),
            SAMPLE,
            [kernels],
            lds_rows=256,
            delay_guardband=0.03,
            **options,
        )
        lives.append(one)
    assert lives[0].end.cause == [EndCause.DELAY]
    names = [
        "end.seconds",
        "degradation.max_dvth_volts",
        "degradation.sampled_dvth_volts",
        "degradation.longest_duty",
    ]
    assert_lives(*lives, 1e-10, names)


def test_the_order_of_kernels_matters_where_no_sum_says_all():
    """A year at duty 0.9 and one at 0.1, in both orders: one model forgets it, one does not."""
    zero = np.zeros(64, dtype=np.uint32)
    traces = [alternating_trace(zero, cycles, ~zero) for cycles in (90, 10)]
    for model, differs in ((BHARDWAJ, 1e-6), (FOLLOWED, 0), (facelift(), 0)):
        options = {"nbti": model, "epoch_edges_years": (0.0, 1.0, 2.0), "sample": [cell(0)]}
        first, second = (
            lived(traces, "baseline", kernels=[order], **options) for order in ([0, 1], [1, 0])
        )
        expected = second.degradation.sampled.dvth_volts()
        if differs:
            apart = np.abs(first.degradation.sampled.dvth_volts() / expected - 1)
            assert (apart[0, 0] > differs).all()
        else:
            assert first.degradation.sampled.dvth_volts() == pytest.approx(expected, rel=1e-14)
        assert first.degradation.max_dvth_volts == pytest.approx(
            first.degradation.sampled.dvth_volts()[:, 0], rel=1e-14
        )


SMALL = tuple(random_trace(random.Random(seed), **SPILLING) for seed in (11, 12))


@pytest.mark.parametrize("technique", ["rar", "disable", "rrcd"])
def test_engines_live_the_same_lives(technique):
    one, other = (
        some_lives(technique, [0, 2], engine=engine, traces=SMALL) for engine in (NUMPY, NUMBA)
    )
    for name, values in arrays_of(one).items():
        assert np.array_equal(values, arrays_of(other)[name], equal_nan=True), name


@pytest.mark.skipif(host_compiler() is None, reason="no C++ compiler to run the kernels with")
def test_a_device_lives_the_same_lives():
    device = CudaEngine([HostDevice(1, 2**30)])
    one, other = (
        some_lives("rrcd", [2], engine=engine, traces=SMALL) for engine in (device, NUMBA)
    )
    for name, values in arrays_of(one).items():
        assert np.array_equal(values, arrays_of(other)[name], equal_nan=True), name


@pytest.mark.parametrize("technique", ["rc+rar", "disable", "rrcd+rc+rar"])
def test_an_instance_does_not_depend_on_its_batch(technique):
    guardband = 0.13 if technique == "disable" else 0.03
    instances = [3, 0, 5, 1, 4]
    together = some_lives(technique, instances, delay_guardband=guardband)
    assert len(np.unique(together.degradation.sampled.dvth_volts(), axis=0)) > 1
    for place, one in enumerate(instances):
        alone = some_lives(technique, [one], delay_guardband=guardband)
        for name, values in arrays_of(alone).items():
            expected = arrays_of(together)[name][place]
            assert np.array_equal(expected, values[0], equal_nan=True), name
