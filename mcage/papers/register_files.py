"""Figures of the papers on register files: Valero et al. (TC 2019), Toca-Diaz et al. (RRCD)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mcage.aging.environment import NOMINAL_VDD_VOLTS, delay_increase, environment
from mcage.aging.nbti import SECONDS_PER_YEAR, facelift
from mcage.costs.activity import CONVENTIONAL
from mcage.costs.energy import Energy, Slowdown, area, energy, slowdown, suav
from mcage.geometry import COMPONENT_BITS, GCN
from mcage.papers.kernel_replays import ALL, MEAN, ONE, ZERO, KernelReplays, Published, SteadyPass
from mcage.spec.cost_constants import Technology, load_costs
from mcage.stats.estimates import mean
from mcage.techniques import technique
from mcage.variation.scenarios import PUBLISHED, scenario
from mcage.variation.vmin_tail import expected_classes

# A printed value as mcage computes it.

_ROUNDING = 1e-9
"""Largest difference of values of dies that rounding alone can make."""

Samples = NDArray[np.float64]
"""A value for each die, or a single value where dies make no difference."""


@dataclass(frozen=True)
class Measured:
    """Result of mcage for a printed value.

    Attributes
    ----------
    value : float
        NaN where a list is printed.
    half_width : float
        Half of the 95 % interval of the mean over dies; 0 where dies make no difference.
    by_kernel : dict of str to float
        Value of each kernel; empty where the metric is not one of kernels.
    text : str
        A list, written as in the paper.
    """

    value: float
    half_width: float = 0.0
    by_kernel: dict[str, float] = field(default_factory=dict)
    text: str = ""

    def agrees(self, figure: Published) -> bool:
        """Whether the value lies within the tolerance of the printed one."""
        return self.text == figure.text if self.text else figure.agrees(self.value)


def of_kernels(figure: Published, values: dict[str, Samples]) -> Measured:
    """Reduce the values of the kernels to what is printed.

    That is their mean, the value of a kernel, or the value that is furthest from the printed one.
    """
    by_kernel = {kernel: float(samples.mean()) for kernel, samples in values.items()}
    if figure.kernel == MEAN:
        asked: Samples = np.mean(np.broadcast_arrays(*values.values()), axis=0)
    elif figure.kernel == ALL:
        asked = values[max(by_kernel, key=lambda kernel: abs(figure.difference(by_kernel[kernel])))]
    else:
        asked = values[figure.kernel]
    estimate = mean(asked)
    half_width = (estimate.upper - estimate.lower) / 2 if np.ptp(asked) > _ROUNDING else 0.0
    return Measured(estimate.value, half_width, by_kernel)


Metric = Callable[[KernelReplays, Published, int | None], Measured]
"""Computes a printed value under a delta limit."""


# Slowdown and energy as both papers report them: each kernel against a conventional slice.

TECHNOLOGIES = {"000": "32nm", "002": "28nm"}
"""Technology of each paper."""


@dataclass(frozen=True)
class Spent:
    """Slowdown and energy of a technique on a kernel, for each die.

    Attributes
    ----------
    slowdown : Slowdown
        Extra execution time.
    energy, conventional : Energy
        Energy of the technique, and of the conventional slice.
    smoothed : Energy or None
        Energy of the conventional slice at the lower voltage that smoothing allows; only for the
        paper on RRCD.
    """

    slowdown: Slowdown
    energy: Energy
    conventional: Energy
    smoothed: Energy | None

    @property
    def saving(self) -> Samples:
        """Energy saved, as a fraction of the conventional slice's."""
        return 1 - self.energy.total / self.conventional.total

    @property
    def saving_over_smoothing(self) -> Samples:
        """Energy saved, as a fraction of the smoothed slice's."""
        assert self.smoothed is not None
        return 1 - self.energy.total / self.smoothed.total


def spent(
    study: KernelReplays,
    paper: str,
    name: str,
    limit: int | None,
    scenario_name: str = "",
) -> dict[str, Spent]:
    """Slowdown and energy of a technique on each kernel, in the technology of a paper.

    Parameters
    ----------
    study : KernelReplays
        Replays.
    paper, name : str
        Key of `TECHNOLOGIES`, and technique.
    limit : int or None
        Largest delta of a compressible value.
    scenario_name : str
        Scenario of the faults and of the Vdd; empty: no faults, and the nominal Vdd.
    """

    def compute() -> dict[str, Spent]:
        costs, policies = load_costs(), technique(name)
        technology = costs.technology(TECHNOLOGIES[paper], "rows")
        vdd_volts = scenario(scenario_name).vdd_volts if scenario_name else None
        of = {}
        for kernel, run in study.runs(name, limit, scenario_name).items():
            slower = slowdown(run.activity, policies, technology, costs.penalties)
            conventional = study.conventional[kernel]
            of[kernel] = Spent(
                slower,
                energy(run.activity, policies, technology, vdd_volts, slower.total),
                energy(conventional, CONVENTIONAL, technology),
                suav(conventional, technology, costs) if scenario_name else None,
            )
        return of

    return study.once(("spent", paper, name, limit, scenario_name), compute)


def _over_scenarios(
    figure: Published, of_scenario: Callable[[str], Mapping[str, Samples]]
) -> Measured:
    """Shares of each kernel on each die; without a scenario, over all scenarios."""
    names = [figure.scenario] if figure.scenario or figure.paper == "000" else list(PUBLISHED)
    values: dict[str, list[Samples]] = {}
    for name in names:
        for kernel, shares in of_scenario(name).items():
            values.setdefault(kernel, []).append(100 * shares)
    return of_kernels(figure, {kernel: np.concatenate(of) for kernel, of in values.items()})


def _cost(value: Callable[[Spent], Samples]) -> Metric:
    """Metric that is a cost of a technique."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        def of_scenario(name: str) -> dict[str, Samples]:
            costs = spent(study, figure.paper, figure.technique, limit, name)
            return {kernel: value(cost) for kernel, cost in costs.items()}

        return _over_scenarios(figure, of_scenario)

    return measure


COSTS_METRICS: dict[str, Metric] = {
    "slowdown": _cost(lambda cost: cost.slowdown.total),
    "energy_saving": _cost(lambda cost: cost.saving),
    "energy_saving_over_smoothing": _cost(lambda cost: cost.saving_over_smoothing),
}


# Figures of Toca-Diaz et al., "RRCD: Redireccion de Registros Basada en Compresion de Datos".
#
# Register files below their safe supply voltage, with a third of the entries faulty.

SLICES = 40
"""Slices of a register file, 4 of each of 10 units: its worst cell sets its safe voltage."""


def _expected_class(bits: int) -> Metric:
    """Metric that is the share of entries with a number of faulty bits, by the spatial model."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        constants = scenario(figure.scenario)
        return Measured(float(100 * expected_classes(constants, constants.vdd_volts)[bits]))

    return measure


def _faulty_entries(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    constants = scenario(figure.scenario)
    return Measured(float(100 * expected_classes(constants, constants.vdd_volts)[2:].sum()))


def _vdd(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    return Measured(1000 * scenario(figure.scenario).vdd_volts)


def _safe_vdd(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    """Median over register files of the Vmin of their worst cell, in millivolts.

    In half of the register files no cell has a Vmin above the voltage above which ln 2 cells are
    expected. The value is that of the scenario that is furthest from the printed one.
    """
    tail = np.log(2) / (SLICES * GCN.cells)
    medians = []
    for name in PUBLISHED:
        constants = scenario(name)
        spread = np.hypot(constants.sigma_systematic_volts, constants.sigma_random_volts)
        medians.append(float(1000 * (constants.mu_volts - ndtri(tail) * spread)))
    return Measured(max(medians, key=lambda volts: abs(figure.difference(volts))))


def _per_die(value: Callable[[SteadyPass], NDArray[np.float64]]) -> Metric:
    """Metric that is a share of each kernel on each die."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        def of_scenario(name: str) -> dict[str, Samples]:
            runs = study.runs(figure.technique, limit, name)
            return {kernel: value(run) for kernel, run in runs.items()}

        return _over_scenarios(figure, of_scenario)

    return measure


OCCUPANCIES = {
    "reliable_compressed": (True, True),
    "reliable_uncompressed": (True, False),
    "faulty_compressed": (False, True),
    "faulty_uncompressed": (False, False),
}
"""Kinds of occupied entries in Fig. 2: is the entry reliable, is its register compressed?"""


def occupancies(
    study: KernelReplays,
    scenario_name: str,
    limit: int | None,
    reliable: bool,
    compressed: bool,
) -> dict[str, Samples]:
    """Share of entries of a kind that hold a register of a kind, by kernel and die.

    Registers keep their rows, as without redirection.
    """
    selected = (study.fault_maps(scenario_name) == 0) == reliable
    return {
        kernel: selected @ held[int(compressed)] / GCN.entries
        for kernel, held in study.held(limit).items()
    }


def _occupancy(reliable: bool, compressed: bool) -> Metric:
    """Metric that is the share of a kind."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        shares = occupancies(study, figure.scenario, limit, reliable, compressed)
        return of_kernels(figure, {kernel: 100 * share for kernel, share in shares.items()})

    return measure


def _all_occupied(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    shares = {
        name: held.sum(keepdims=True)[0] / GCN.entries for name, held in study.held(limit).items()
    }
    return of_kernels(figure, {kernel: 100 * share for kernel, share in shares.items()})


TOCA_DIAZ_METRICS: dict[str, Metric] = {
    **{f"entries_with_{bits}_faulty_bits": _expected_class(bits) for bits in range(5)},
    "faulty_entries": _faulty_entries,
    "vdd": _vdd,
    "safe_vdd": _safe_vdd,
    **{name: _occupancy(*kind) for name, kind in OCCUPANCIES.items()},
    "occupancy": _all_occupied,
    "regular_writes": _per_die(lambda run: run.share(run.counters.regular)),
    "lds_writes": _per_die(lambda run: run.share(run.counters.lds)),
    "mispredicted_writes": _per_die(lambda run: np.array([run.mispredicted])),
}


# Figures of Valero et al., "An Aging-Aware GPU Register File Design Based on Data Redundancy".
#
# IEEE TC 2019: compression and rotation (RC, RAR) against Warped-Compression and ARGO.

LIFE_YEARS = 3.0
"""Section 6.4."""

UPPER_BITS, SIGN_BIT = slice(24, 31), 31
"""Bits of a component in Fig. 12; its "most significant bits" are taken as the upper byte."""


def dvth_volts(duty: float) -> float:
    """Threshold shift after `LIFE_YEARS` at nominal voltage under a duty cycle."""
    model, seconds = facelift(), LIFE_YEARS * SECONDS_PER_YEAR
    stressed = duty * seconds
    rate = model.stress_rate(environment("turbo", NOMINAL_VDD_VOLTS))
    return float(model.dvth(rate * stressed, stressed, (1 - duty) * seconds))


def _dvth(run: SteadyPass, which: int) -> float:
    return dvth_volts(float(run.cells.longest[which]))


def _delay(run: SteadyPass) -> float:
    """Increase of the switching delay by the worst transistor."""
    model = facelift()
    worst = max(_dvth(run, ZERO), _dvth(run, ONE))
    return float(delay_increase(worst, NOMINAL_VDD_VOLTS, model.vt0_volts, model.alpha))


def _percent(value: Callable[[SteadyPass], float]) -> Metric:
    """Metric that is a share of each kernel."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        runs = study.runs(figure.technique, limit)
        return of_kernels(figure, {name: 100 * np.array([value(runs[name])]) for name in runs})

    return measure


def _reduction(value: Callable[[SteadyPass], float]) -> Metric:
    """Metric that is a reduction against the baseline of each kernel."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        runs, base = study.runs(figure.technique, limit), study.runs("baseline")
        left = {name: np.array([value(runs[name]) / value(base[name])]) for name in runs}
        return of_kernels(figure, {name: 100 * (1 - share) for name, share in left.items()})

    return measure


def _normalised_dvth(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    """Largest threshold shift of a slice over the largest possible one."""
    runs, most = study.runs(figure.technique, limit), dvth_volts(1.0)
    worst = {name: max(_dvth(run, ZERO), _dvth(run, ONE)) for name, run in runs.items()}
    return of_kernels(figure, {name: np.array([shift / most]) for name, shift in worst.items()})


def _compressed_registers(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    """Entries, in all windows, of the register whose longest '0' is shortest on average."""
    (size,) = study.traces[figure.kernel].window_sizes
    cells = study.runs("rc", limit)[figure.kernel].cells
    longest = cells.of_entries[cells.used, ZERO, ZERO].reshape(-1, size)
    register = longest.mean(axis=0).argmin()
    return Measured(np.nan, text=", ".join(map(str, register + size * np.arange(len(longest)))))


def _unused_registers(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    unused = np.flatnonzero(~study.runs("baseline")[figure.kernel].cells.used)
    return Measured(np.nan, text=f"{unused[0]} to {unused[-1]}")


def _zero_duty_of_bits(bits: slice | int) -> Metric:
    """Metric that is the mean '0' duty cycle of given bits of the components, at the baseline."""

    def value(run: SteadyPass) -> float:
        by_bit = run.cells.of_bits[:, ZERO].reshape(GCN.components, COMPONENT_BITS)
        return float(by_bit.mean(axis=0)[bits].mean())

    return _percent(value)


def _wakeups_per_access(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    runs = study.runs(figure.technique, limit)
    return of_kernels(
        figure,
        {
            name: run.counters.wakeups / run.counters.passes / (run.reads + run.writes)
            for name, run in runs.items()
        },
    )


def _utilisation(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    """Share of the entries that windows occupy, N times k, for the closest window size."""
    trace = study.traces[figure.kernel]
    shares = [100 * size * trace.concurrent_windows / GCN.entries for size in trace.window_sizes]
    return Measured(min(map(round, shares), key=lambda share: abs(figure.difference(share))))


def _unused_windows(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    """Windows that would fit but have no wavefront, for the closest window size."""
    trace = study.traces[figure.kernel]
    unused = [GCN.entries // size - trace.concurrent_windows for size in trace.window_sizes]
    return Measured(min(unused, key=lambda windows: abs(figure.difference(windows))))


VALERO_2019_METRICS: dict[str, Metric] = {
    "longest_zero_duty_reduction": _reduction(lambda run: float(run.cells.longest[ZERO])),
    "longest_one_duty_reduction": _reduction(lambda run: float(run.cells.longest[ONE])),
    "longest_zero_duty": _percent(lambda run: float(run.cells.longest[ZERO])),
    "dvth_t0_saving": _reduction(lambda run: _dvth(run, ZERO)),
    "dvth_t1_saving": _reduction(lambda run: _dvth(run, ONE)),
    "normalised_dvth": _normalised_dvth,
    "delay_increase": _percent(_delay),
    "compressible_writes": _percent(lambda run: run.compressible),
    "movs_per_write": _percent(lambda run: run.movs),
    "compressed_registers": _compressed_registers,
    "unused_registers": _unused_registers,
    "upper_bits_zero_duty": _zero_duty_of_bits(UPPER_BITS),
    "sign_bit_zero_duty": _zero_duty_of_bits(SIGN_BIT),
    "wakeups_per_access": _wakeups_per_access,
    "utilisation": _utilisation,
    "unused_windows": _unused_windows,
}


BASE_BITS, EXPONENT_BITS = 32, 3
"""A compressed register: its first component and the exponents of two deltas (section 5.1.1)."""

VALID_BITS = 1
"""Valid bits of an entry of the compression table."""

ADDRESS_BITS = 3 + 2 + 8
"""Bits of an entry of the redirection table: valid, compressed, in the LDS; block; entry
(002, IV.B)."""

COMPRESSED_BITS = BASE_BITS + 2 * EXPONENT_BITS + VALID_BITS


def _of_technology(value: Callable[[Technology], float]) -> Metric:
    """Metric that follows from constants of the paper's technology."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        return Measured(value(load_costs().technology(TECHNOLOGIES[figure.paper])))

    return measure


def _wakeup_cycles(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    return Measured(load_costs().penalties.wakeup.cycles)


def _compression_area(technology: Technology) -> float:
    """Area of the units and the table of RC, with a single decompression unit as the paper counts.

    In percent of the slice.
    """
    whole = area(technique("rc"), technology, decompression_units=1)
    return 100 * (whole.overhead - technology.power_gating_area_mm2 / whole.slice_mm2)


def _power_gating_area(technology: Technology) -> float:
    return 100 * technology.power_gating_area_mm2 / technology.slice.area_mm2


def _compression_leakage(technology: Technology) -> float:
    """Leakage of a compression and two decompression units, in percent of the slice's."""
    units = (
        technology.compression_unit.leakage_mw
        + technology.decompression_units * technology.decompression_unit.leakage_mw
    )
    return 100 * units / technology.slice.leakage_mw


def _component_power(technology: Technology) -> float:
    """Power of a compressor, two decompressors, redirection table and selection unit, mW."""
    return (
        technology.compression_unit.leakage_mw
        + technology.decompression_units * technology.decompression_unit.leakage_mw
        + technology.redirection_table.leakage_mw
        + technology.selection_unit.leakage_mw
    )


METRICS: dict[str, Metric] = {
    "wakeup_cycles": _wakeup_cycles,
    "wakeup_energy": _of_technology(lambda technology: technology.wakeup_pj),
    "table_retention": _of_technology(lambda technology: technology.retention_cycles),
    "refresh_period": _of_technology(lambda technology: technology.refresh_period_cycles),
    "compression_area": _of_technology(_compression_area),
    "power_gating_area": _of_technology(_power_gating_area),
    "power_gating_area_mm2": _of_technology(lambda technology: technology.power_gating_area_mm2),
    "total_area": _of_technology(
        lambda technology: _compression_area(technology) + _power_gating_area(technology)
    ),
    "compression_leakage": _of_technology(_compression_leakage),
    "table_size": _of_technology(lambda technology: GCN.entries * COMPRESSED_BITS / 8 / 1024),
    "component_power": _of_technology(_component_power),
    "component_area": _of_technology(
        lambda technology: sum(area(technique("rrcd"), technology).added_mm2.values())
    ),
    "component_area_share": _of_technology(
        lambda technology: 100 * area(technique("rrcd"), technology).overhead
    ),
    "compressed_size": _of_technology(lambda technology: COMPRESSED_BITS / 8),
    "redirection_table_size": _of_technology(lambda technology: GCN.entries * ADDRESS_BITS / 8),
}
