"""Figures of Toca-Diaz et al., "RRCD: Redireccion de Registros Basada en Compresion de Datos".

Register files below their safe supply voltage, with a third of the entries faulty.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mcage.geometry import GCN
from mcage.studies.reproduction.kernel_replays import KernelReplays, Run
from mcage.studies.reproduction.measured import Measured, Metric, Samples, of_kernels
from mcage.studies.reproduction.published import Published
from mcage.variation.expected import expected_classes
from mcage.variation.scenarios import PUBLISHED, scenario

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


def _per_die(value: Callable[[Run], NDArray[np.float64]]) -> Metric:
    """Metric that is a share of each kernel on each die; without a scenario, over all scenarios."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        names = [figure.scenario] if figure.scenario else list(PUBLISHED)
        values: dict[str, list[Samples]] = {}
        for name in names:
            for kernel, run in study.runs(figure.technique, limit, name).items():
                values.setdefault(kernel, []).append(100 * value(run))
        return of_kernels(figure, {name: np.concatenate(of) for name, of in values.items()})

    return measure


OCCUPANCIES = {
    "reliable_compressed": (True, True),
    "reliable_uncompressed": (True, False),
    "faulty_compressed": (False, True),
    "faulty_uncompressed": (False, False),
}
"""Kinds of occupied entries in Fig. 2: is the entry reliable, is its register compressed?"""


def occupancies(
    study: KernelReplays, scenario_name: str, limit: int | None, reliable: bool, compressed: bool
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


METRICS: dict[str, Metric] = {
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
