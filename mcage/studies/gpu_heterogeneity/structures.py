"""Warp scheduler and L2 of planar and FinFET parts (Zhang et al., INTEGRATION 2015)."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.environment import TEMPERATURE_KELVIN, Environment, OperatingPoint, delay_increase
from mcage.aging.nbti import SECONDS_PER_YEAR, NbtiModel, Transistors, nbti_model
from mcage.aging.nbti.models import FinFetPlanar
from mcage.errors import UserError
from mcage.plain_text import shortened

Fields = Literal["swapped", "common"]
FIELDS: tuple[Fields, ...] = ("swapped", "common")
"""How Table 3's field constants are read: with its columns swapped, or 0.335 V/nm for both. As
printed, planar transistors would age 19 times more, against the paper's claim (docs/aging.md)."""


@dataclass(frozen=True)
class Parts:
    """FinFET and planar transistors.

    Parameters
    ----------
    finfet, planar : FinFetPlanar
        How each kind shifts.
    """

    finfet: FinFetPlanar
    planar: FinFetPlanar


def parts(fields: Fields = "swapped") -> Parts:
    """Return both kinds under a reading of the field constants."""
    suffix = "" if fields == "swapped" else "-common"
    finfet, planar = (nbti_model(f"{kind}{suffix}") for kind in ("finfet", "planar"))
    return Parts(cast(FinFetPlanar, finfet), cast(FinFetPlanar, planar))


# Delay of a structure after its years, and what less activity or less heat leaves of it.
#
# Zhang et al., INTEGRATION 2015, section 6. The delay increase of the baseline is an input: it is
# turned into a threshold shift, multiplied by the ratio of the model's shifts after and before a
# change, and turned back.

YEARS = 7.0
"""Service life (printed, section 5)."""

VDD_VOLTS = 0.9
"""Supply voltage (printed)."""


@dataclass(frozen=True, eq=False)
class Conditions:
    """Age and temperature of a structure; both may be arrays.

    Parameters
    ----------
    years : array
        Age (printed: 7).
    temperature_kelvin : array
        Temperature of the baseline, K (assumed).
    """

    years: ArrayLike = YEARS
    temperature_kelvin: ArrayLike = TEMPERATURE_KELVIN

    def dvth_volts(
        self, model: NbtiModel, duty: ArrayLike, drop_kelvin: ArrayLike = 0.0
    ) -> NDArray[np.float64]:
        """Shift of a transistor, V.

        Parameters
        ----------
        model : NbtiModel
            What the structure is made of.
        duty : array
            Share of the time under stress, 0 ... 1.
        drop_kelvin : array
            Kelvin by which it is cooler than the baseline.
        """
        point = OperatingPoint(VDD_VOLTS, 1.0, TEMPERATURE_KELVIN)
        baseline = np.asarray(self.temperature_kelvin, np.float64)
        temperature = baseline - np.asarray(drop_kelvin, np.float64)
        return model.dvth_at(
            Environment("structure", (point,)),
            duty,
            np.asarray(self.years, np.float64) * SECONDS_PER_YEAR,
            Transistors(temperature_kelvin=temperature),
        )

    def delay(self, model: NbtiModel, duty: ArrayLike) -> NDArray[np.float64]:
        """Relative delay increase of a transistor with a duty."""
        return self.delay_of(model, self.dvth_volts(model, duty))

    def delay_left(
        self, model: NbtiModel, baseline_delay: ArrayLike, dvth_ratio: ArrayLike
    ) -> NDArray[np.float64]:
        """Delay increase of which a baseline's shift is multiplied by a ratio.

        Parameters
        ----------
        model : NbtiModel
            What the structure is made of.
        baseline_delay : array
            Relative delay increase of the baseline.
        dvth_ratio : array
            Shift after the change over the shift before.
        """
        shift = self.shift_at(model, baseline_delay)
        return self.delay_of(model, shift * np.asarray(dvth_ratio, np.float64))

    def delay_of(self, model: NbtiModel, dvth_volts: ArrayLike) -> NDArray[np.float64]:
        """Relative delay increase of a transistor that has shifted."""
        return delay_increase(dvth_volts, VDD_VOLTS, model.vt0_volts, model.alpha)

    def shift_at(self, model: NbtiModel, delay: ArrayLike) -> NDArray[np.float64]:
        """Shift at which the delay has grown by ``delay``, V; inverse of `delay_of`."""
        slower = 1 + np.asarray(delay, np.float64)
        shift: NDArray[np.float64] = (VDD_VOLTS - model.vt0_volts) * (
            1 - slower ** (-1 / model.alpha)
        )
        return shift


# Benchmarks of Zhang et al. (INTEGRATION 2015): filter rates, and what else is printed of each.

MEAN_BASELINE_DELAY = 0.077
"""Delay increase of the baseline's scheduler, mean of the ten benchmarks (printed, section 6.1.1);
for benchmarks of which none is printed."""

MEAN_L2_BASELINE_DELAY = 0.141
"""Delay increase of the baseline's L2 data array, mean of the ten (printed, section 6.2)."""

USUAL_MISS_RATE = 0.3
"""L2 miss rate of benchmarks of which none is printed (assumed): with it the mean delay of the L2
that is read after its tags is 2.7 %, where 2.8 is printed."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, with what the paper prints of it; None where it prints nothing.

    Parameters
    ----------
    name : str
        Its name.
    filter_rate : float
        Share of the reads that the first stage of the scheduler spares (Table 4).
    baseline_delay : float or None
        Relative delay increase of the baseline's scheduler after 7 years.
    l2_miss_rate : float or None
        Miss rate of the L2.
    latency_cycles : float or None
        Mean latency of the instructions of the longest-warp chain.
    printed : dict of str to float
        Printed results of the proposal: ``two_stage_delay``, ``temperature_drop``, ``l2_delay``.
    """

    name: str
    filter_rate: float
    baseline_delay: float | None = None
    l2_miss_rate: float | None = None
    latency_cycles: float | None = None
    printed: dict[str, float] = field(default_factory=dict)

    @property
    def scheduler_delay(self) -> float:
        """Delay increase of the baseline's scheduler: as printed, otherwise the mean of the ten."""
        return MEAN_BASELINE_DELAY if self.baseline_delay is None else self.baseline_delay

    @property
    def miss_rate(self) -> float:
        """Miss rate of the L2: as printed, otherwise `USUAL_MISS_RATE`."""
        return USUAL_MISS_RATE if self.l2_miss_rate is None else self.l2_miss_rate


@cache
def benchmarks() -> dict[str, Benchmark]:
    """Return the ten benchmarks by name, in the order of Table 4."""
    return {name: Benchmark(name=name, **fields) for name, fields in _file()["benchmarks"].items()}


def printed_means() -> dict[str, float]:
    """Printed means over the ten benchmarks, by the names of `Benchmark.printed`."""
    means: dict[str, float] = _file()["mean"]["printed"]
    return means


def benchmarks_called(names: Sequence[str]) -> tuple[Benchmark, ...]:
    """Return benchmarks by name; all for no name.

    Raises
    ------
    UserError
        There is no such benchmark.
    """
    known = benchmarks()
    for name in names:
        if name not in known:
            raise UserError(
                f"benchmark {shortened(name)} is unknown; choose from {', '.join(known)}"
            )
    return tuple(known[name] for name in (names or known))


@cache
def _file() -> dict[str, Any]:
    path = files("mcage") / "data" / "benchmarks" / "zhang-2015.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


# The L2 data array: 16 ways at once, or, after the tags, only the way that has the data.
#
# Zhang et al., INTEGRATION 2015, section 4.2: the tags are planar, and are read first.

WAYS = 16
"""Ways of a set (printed)."""

L2_BASE_DUTY = 0.7774
"""Duty of the baseline's data array (reconstructed): meets the printed mean of 14.1 %."""


@dataclass(frozen=True, eq=False)
class SequentialL2:
    """How the data array ages when it is read after the tags; all numbers may be arrays.

    Parameters
    ----------
    base_duty : array
        Share of the time under stress when all ways are read.
    count_fills : array of bool
        Whether a miss reads and writes a way, too, when its line is filled; the paper leaves that
        out.
    """

    base_duty: ArrayLike = L2_BASE_DUTY
    count_fills: ArrayLike = False

    def duty(self, miss_rate: ArrayLike) -> NDArray[np.float64]:
        """Share of the time under stress, of a miss rate 0 ... 1."""
        misses = np.asarray(miss_rate, np.float64)
        used = np.where(self.count_fills, 1.0, 1 - misses)
        duty: NDArray[np.float64] = np.asarray(self.base_duty, np.float64) * used / WAYS
        return duty

    def delay(
        self, model: NbtiModel, conditions: Conditions, miss_rate: ArrayLike
    ) -> NDArray[np.float64]:
        """Relative delay increase of the data array."""
        return conditions.delay(model, self.duty(miss_rate))


# The two-stage warp scheduler: a planar filter in front of a FinFET scheduler.
#
# The baseline reads the entry of every resident warp in each cycle. In the two-stage scheduler a
# planar one-bit array tells which warps have their data, and only these entries are read (Zhang et
# al., INTEGRATION 2015, section 4.1). The share of the reads that it spares is the filter rate.

Reading = Literal["activity", "combined", "thermal"]
READINGS: tuple[Reading, ...] = ("activity", "combined", "thermal")
"""Effect of a filtered read: on the duty; on duty and temperature; on the temperature alone."""

BASE_DUTY = 0.4
"""Duty of the baseline (reconstructed): under `activity` the mean of ten two-stage delays is then
2.37 %, where 2.36 is printed."""

_PRINTED_DROPS = ((0.9741, 15.0), (0.7693, 11.0))
"""Filter rate and temperature drop in K of NN and of Backprop (Table 4, section 6.1)."""

THETA_KELVIN = sum(f * drop for f, drop in _PRINTED_DROPS) / sum(f * f for f, _ in _PRINTED_DROPS)
"""Temperature drop of a scheduler whose reads are all filtered, 14.976 K (reconstructed): least
squares through the two drops in print."""

THERMAL_ACTIVATION_EV = 0.972
"""Activation energy of the shift under `thermal`, eV (reconstructed): the mean of what the two
printed drops need; the published value, Ea/4, is an eighth of it."""


@dataclass(frozen=True, eq=False)
class TwoStage:
    """How the two-stage scheduler ages; all numbers may be arrays.

    Parameters
    ----------
    reading : str
        What a filtered read changes.
    base_duty : array
        Share of the time for which an entry of the baseline is under stress.
    theta_kelvin : array
        Temperature drop at a filter rate of 1, K.
    activation_ev : array
        Activation energy of the shift under ``thermal``, eV.
    """

    reading: Reading = "activity"
    base_duty: ArrayLike = BASE_DUTY
    theta_kelvin: ArrayLike = THETA_KELVIN
    activation_ev: ArrayLike = THERMAL_ACTIVATION_EV

    def drop_kelvin(self, filter_rate: ArrayLike) -> NDArray[np.float64]:
        """Kelvin by which the scheduler is cooler than the baseline; the same in all readings."""
        drop: NDArray[np.float64] = np.asarray(self.theta_kelvin) * np.asarray(filter_rate)
        return drop

    def dvth_ratio(
        self, kind: FinFetPlanar, conditions: Conditions, filter_rate: ArrayLike
    ) -> NDArray[np.float64]:
        """Shift of the two-stage scheduler over that of the baseline.

        Parameters
        ----------
        kind : FinFetPlanar
            What the scheduler is made of.
        conditions : Conditions
            Age, voltage, temperature.
        filter_rate : array
            Share of the reads that the first stage spares, 0 ... 1.
        """
        rate = np.asarray(filter_rate, np.float64)
        base = np.asarray(self.base_duty, np.float64)
        duty = base * (1 - rate) if self.reading != "thermal" else base
        drop = self.drop_kelvin(rate) if self.reading != "activity" else 0.0
        model = kind
        if self.reading == "thermal":
            model = replace(kind, effective_activation_energy_ev=self.activation_ev)
        before = conditions.dvth_volts(model, base)
        return conditions.dvth_volts(model, duty, drop) / before

    def delay(
        self,
        kind: FinFetPlanar,
        conditions: Conditions,
        baseline_delay: ArrayLike,
        filter_rate: ArrayLike,
    ) -> NDArray[np.float64]:
        """Relative delay increase of the two-stage scheduler, from that of the baseline."""
        ratio = self.dvth_ratio(kind, conditions, filter_rate)
        return conditions.delay_left(kind, baseline_delay, ratio)


def ipc_overhead(latency_cycles: ArrayLike) -> NDArray[np.float64]:
    """Relative extra time of the longest chain of warps (equations 4 to 6).

    The second stage adds a cycle to each instruction.

    Parameters
    ----------
    latency_cycles : array
        Mean latency of the instructions of the chain, cycles.
    """
    overhead: NDArray[np.float64] = 1 / np.asarray(latency_cycles, np.float64)
    return overhead


# Three designs of scheduler and L2: how far each ages, and what that is worth.
#
# Zhang et al., INTEGRATION 2015, sections 3, 4 and 7: the baseline is made of FinFETs alone; the
# proposal has the two-stage scheduler and an L2 with planar tags that are read first; duplication
# has two copies of both structures, which take turns.

Design = Literal["baseline", "two-stage+planar-tags", "duplication"]
BASELINE: Design = "baseline"
PROPOSAL: Design = "two-stage+planar-tags"
DUPLICATION: Design = "duplication"
DESIGNS: tuple[Design, ...] = (BASELINE, PROPOSAL, DUPLICATION)

COPY_SHARE = 0.5
"""Share of the accesses of which each of two copies is spared."""


def nbti_efficiency(
    delay: ArrayLike, delay_increase: ArrayLike, power: ArrayLike
) -> NDArray[np.float64]:
    """NBTI efficiency of a design; less is better (Zhang et al., section 7).

    Parameters
    ----------
    delay : array
        Execution time, relative to any unit.
    delay_increase : array
        Larger one of the relative delay increases of scheduler and L2.
    power : array
        Power, relative to any unit.
    """
    slowest = np.asarray(delay, np.float64) * (1 + np.asarray(delay_increase, np.float64))
    efficiency: NDArray[np.float64] = slowest * slowest * slowest * np.asarray(power, np.float64)
    return efficiency


@dataclass(frozen=True, eq=False)
class DesignDelays:
    """Relative delay increases of a design; arrays of one shape.

    Parameters
    ----------
    finfet_scheduler, finfet_l2 : float64[...]
        Of what is made of FinFETs: a scheduler, or its second stage; tags and data array, or the
        data array.
    planar_scheduler, planar_l2 : float64[...]
        Of what is made of planar transistors: the first stage, the tags; 0 where there is nothing.
    """

    finfet_scheduler: NDArray[np.float64]
    finfet_l2: NDArray[np.float64]
    planar_scheduler: NDArray[np.float64]
    planar_l2: NDArray[np.float64]

    @property
    def scheduler(self) -> NDArray[np.float64]:
        """Increase of the scheduler: the larger one of its parts."""
        larger: NDArray[np.float64] = np.maximum(self.finfet_scheduler, self.planar_scheduler)
        return larger

    @property
    def l2(self) -> NDArray[np.float64]:
        """Increase of the L2: the larger one of its parts."""
        larger: NDArray[np.float64] = np.maximum(self.finfet_l2, self.planar_l2)
        return larger

    @property
    def largest(self) -> NDArray[np.float64]:
        """Larger increase of scheduler and L2, which sets the timing margin."""
        larger: NDArray[np.float64] = np.maximum(self.scheduler, self.l2)
        return larger


@dataclass(frozen=True, eq=False)
class HeterogeneousGpu:
    """A GPU of which scheduler and L2 age, under one reading; all numbers may be arrays.

    Parameters
    ----------
    kinds : Parts
        FinFET and planar transistors.
    conditions : Conditions
        Age, voltage, temperature.
    two_stage : TwoStage
        The scheduler, whose base duty is that of the baseline.
    sequential : SequentialL2
        The L2, likewise.
    scheduler_delay, l2_delay : array
        Relative delay increases of the baseline after `YEARS` at its temperature; NaN: those of the
        model at the base duties.
    """

    kinds: Parts
    conditions: Conditions
    two_stage: TwoStage
    sequential: SequentialL2
    scheduler_delay: ArrayLike
    l2_delay: ArrayLike

    def delays(self, design: Design, filter_rate: ArrayLike, miss_rate: ArrayLike) -> DesignDelays:
        """Delay increases of a design.

        Parameters
        ----------
        design : str
            The design.
        filter_rate : array
            Share of the reads that the first stage of the proposal spares.
        miss_rate : array
            Miss rate of the L2.

        Notes
        -----
        Delays that are given for the baseline fix the amplitude of both kinds of transistor in that
        structure; everything else goes as the model. The planar parts of the proposal are accessed
        as often as the baseline's structure, and are as hot.
        """
        finfet, conditions = self.kinds.finfet, self.conditions
        two_stage, l2 = self.two_stage, self.sequential
        known = ((two_stage.base_duty, self.scheduler_delay), (l2.base_duty, self.l2_delay))
        scheduler_before, l2_before = (self._aged(finfet, *structure) for structure in known)
        planar = [np.zeros_like(scheduler_before)] * 2
        if design == BASELINE:
            return DesignDelays(scheduler_before, l2_before, *planar)
        if design == PROPOSAL:
            spared, duty = filter_rate, l2.duty(miss_rate)
            planar = [self._aged(self.kinds.planar, *structure) for structure in known]
        else:
            spared, duty = COPY_SHARE, np.asarray(l2.base_duty, np.float64) * (1 - COPY_SHARE)
        shift, base = (conditions.dvth_volts(finfet, of) for of in (duty, l2.base_duty))
        return DesignDelays(
            two_stage.delay(finfet, conditions, scheduler_before, spared),
            conditions.delay_left(finfet, l2_before, shift / base),
            *planar,
        )

    def _aged(
        self, kind: FinFetPlanar, base_duty: ArrayLike, baseline_delay: ArrayLike
    ) -> NDArray[np.float64]:
        """Delay of a kind of transistor at the base duty of a structure, as `delays` says."""
        finfet, conditions = self.kinds.finfet, self.conditions
        printed = np.asarray(baseline_delay, np.float64)
        new = Conditions(YEARS, conditions.temperature_kelvin)
        at_base = new.dvth_volts(finfet, base_duty)
        factor = np.where(np.isnan(printed), 1.0, new.shift_at(finfet, printed) / at_base)
        return conditions.delay_of(kind, factor * conditions.dvth_volts(kind, base_duty))
