"""What both papers print about their circuits: sizes, power, area and times of components."""

from collections.abc import Callable

from mcage.costs import Technology, area, load_costs
from mcage.geometry import GCN
from mcage.studies.reproduction.costs import TECHNOLOGIES
from mcage.studies.reproduction.kernel_replays import KernelReplays
from mcage.studies.reproduction.measured import Measured, Metric
from mcage.studies.reproduction.published import Published
from mcage.techniques import technique

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
