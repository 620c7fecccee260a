"""Area that a technique adds to a slice."""

from dataclasses import dataclass

from mcage.costs.units import units_of
from mcage.spec.cost_constants import Technology
from mcage.techniques import Technique


@dataclass(frozen=True)
class Area:
    """Area of what a technique adds, in mm^2.

    Attributes
    ----------
    slice_mm2 : float
        The slice alone.
    added_mm2 : dict of str to float
        Each component beside it; several units of a kind together.
    """

    slice_mm2: float
    added_mm2: dict[str, float]

    @property
    def overhead(self) -> float:
        """Everything added, as a fraction of the slice."""
        return sum(self.added_mm2.values()) / self.slice_mm2


def area(
    technique: Technique, technology: Technology, decompression_units: int | None = None
) -> Area:
    """Add up the area of the units that a technique needs.

    Parameters
    ----------
    technique : Technique
        Its policies say which units there are.
    technology : Technology
        Constants of the components.
    decompression_units : int, optional
        Decompression units counted; by default as many as the slice has, two. Valero et al. count
        one: ``area(RC, ..., decompression_units=1)`` without the power gating is their 3.82 %.

    Notes
    -----
    Valero et al., IEEE TC 2019, section 5.1.3; Toca-Diaz et al. (RRCD), section IV.E. The
    destination buffer is printed in no table; its area is assumed to be 0.
    """
    units = units_of(technique, technology)
    count = technology.decompression_units if decompression_units is None else decompression_units
    added = {}
    if units.compression and units.decompression:
        added["compression unit"] = units.compression.area_mm2
        added["decompression units"] = count * units.decompression.area_mm2
    if units.table:
        added["compression table"] = technology.compression_table.area_mm2
    if units.redirection:
        added["redirection table"] = technology.redirection_table.area_mm2
        added["selection unit"] = technology.selection_unit.area_mm2
    if units.speculates:
        added["destination buffer"] = technology.destination_buffer.area_mm2
    if units.power_gating:
        added["power gating"] = technology.power_gating_area_mm2
    return Area(technology.slice.area_mm2, added)
