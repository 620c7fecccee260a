"""Lives under NBTI models that are no sums: held against slices of which every cell is followed."""

import dataclasses
import random
from dataclasses import replace

import numpy as np
import pytest
from engine_cases import cuda_engine
from life_cases import NUMBA, NUMPY, YEAR, arrays_of, cell, lived, shared_replays, tail_of
from nbti_cases import MODELS, constant_environment
from tables import slow
from trace_strategies import SPILLING, random_trace

from mcage.aging.nbti import NbtiModel, facelift
from mcage.aging.sampling import InstanceDistributions
from mcage.distributions import Distribution
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

    stress_per_second = staticmethod(facelift().stress_per_second)
    diffusion_per_second = staticmethod(facelift().diffusion_per_second)
    advance = staticmethod(facelift().advance)
    dvth_of = staticmethod(facelift().dvth_of)


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


@pytest.mark.parametrize(
    ("technique", "model", "swings"),
    [
        ("baseline", BHARDWAJ, False),
        ("disable", BHARDWAJ, False),
        ("rrcd+rc+rar", BHARDWAJ, True),
        ("rc+rar", facelift(), True),
        *(slow(name, BHARDWAJ, False) for name in ("rc+rar", "gr-guard", "rrcd", "rrcd+pg")),
        slow("rrcd+rc+rar", FOLLOWED, False),
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


def dying_entries(technique, instance):
    """Entries that fail one after the other: all of them, or every seventh to split windows."""
    rng = np.random.default_rng(instance)
    entries = np.arange(3, 256, 7) if TECHNIQUES[technique].packs else np.arange(256)
    least = 0.985 if TECHNIQUES[technique].compresses else 0.95
    weak = {}
    for entry, vmin in zip(entries, rng.uniform(least, 1.0, len(entries)), strict=True):
        weak |= dict.fromkeys((cell(int(entry), 512 * block) for block in range(4)), float(vmin))
    return weak


@pytest.mark.parametrize(
    "technique", ["disable", "rrcd+rc+rar", *map(slow, ("gr-guard", "rrcd", "rrcd+pg"))]
)
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
    of_cells = arrays_of(followed)
    for name, values in arrays_of(summed).items():
        assert values == pytest.approx(of_cells[name], rel=1e-10, abs=1e-15, nan_ok=True), name


SMALL = tuple(random_trace(random.Random(seed), **SPILLING) for seed in (11, 12))


@pytest.mark.parametrize(
    ("engine", "technique"),
    [
        (NUMPY, "disable"),
        (NUMPY, "rrcd"),
        slow(NUMPY, "rar"),
        slow(cuda_engine(1), "rrcd"),
    ],
)
def test_engines_live_the_same_lives(engine, technique):
    one, other = (some_lives(technique, [2], engine=of, traces=SMALL) for of in (engine, NUMBA))
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
