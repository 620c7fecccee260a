"""What lies between a die and the air: interface material, heat spreader, heat sink."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A plate of one material.

    Parameters
    ----------
    thickness_m : float
        Thickness, m.
    conductivity_w_per_mk : float
        Thermal conductivity, W/(m K).
    heat_j_per_m3k : float
        Heat capacity of a volume, J/(m^3 K).
    """

    thickness_m: float
    conductivity_w_per_mk: float
    heat_j_per_m3k: float

    @property
    def sheet_w_per_k(self) -> float:
        """Conductance along the plate of a square of it, W/K."""
        return self.conductivity_w_per_mk * self.thickness_m

    def through(self, area_m2: float) -> float:
        """Conductance through an area of the plate, W/K."""
        return self.conductivity_w_per_mk * area_m2 / self.thickness_m


@dataclass(frozen=True)
class Package:
    """Die, interface material, spreader and sink, and the air that cools the sink.

    Parameters
    ----------
    die, interface, spreader, sink : Layer
        The plates, from the transistors outwards. Spreader and sink are squares.
    spreader_side_m, sink_side_m : float
        Sides of the squares, m.
    convection_k_per_w : float
        Resistance from the whole sink to the air, K/W.
    convection_j_per_k : float
        Heat capacity of the convection of the whole sink, J/K.
    ambient_kelvin : float
        Temperature of the air, K.
    capacity_factor : float
        Factor on every heat capacity: a lumped node warms up more slowly than the plate does.
    """

    die: Layer
    interface: Layer
    spreader: Layer
    sink: Layer
    spreader_side_m: float
    sink_side_m: float
    convection_k_per_w: float
    convection_j_per_k: float
    ambient_kelvin: float
    capacity_factor: float

    @property
    def layers(self) -> tuple[Layer, Layer, Layer, Layer]:
        """Plates from the transistors outwards."""
        return self.die, self.interface, self.spreader, self.sink

    def to_air(self, area_m2: float) -> float:
        """Conductance from an area of the sink to the air, W/K."""
        spread = self.convection_k_per_w * self.sink_side_m**2 / area_m2
        return 1 / (1 / self.sink.through(area_m2) + spread)

    def capacity(self, layer: Layer, area_m2: float) -> float:
        """Heat capacity of an area of a plate, J/K; of the sink, that of its convection too."""
        joules = layer.heat_j_per_m3k * layer.thickness_m * area_m2
        if layer is self.sink:
            joules += self.convection_j_per_k * area_m2 / self.sink_side_m**2
        return self.capacity_factor * joules
