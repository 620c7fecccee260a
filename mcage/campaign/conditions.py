"""Environments of a sweep: presets, or operating points as its spec defines them."""

from mcage.aging.environment import Environment, OperatingPoint, environment
from mcage.aging.shares import ShareLaws
from mcage.spec import Case, SweepSpec


def conditions_of(
    spec: SweepSpec, case: Case, temperature_kelvin: float
) -> tuple[Environment, ShareLaws | None]:
    """Operating points of a case, and the laws of their shares where instances differ in them.

    Parameters
    ----------
    spec : SweepSpec
        Defines environments that are no presets.
    case : Case
        Names one, and the Vdd of its scenario.
    temperature_kelvin : float
        Temperature of the slice, but for what single points are hotter.

    Raises
    ------
    UserError
        As `mcage.aging.environment.environment`.
    """
    name = case.environment
    points = spec.own_points(name)
    if not points:
        return environment(name, case.vdd_volts, temperature_kelvin), None
    shares = ShareLaws(name, tuple(point.share_law for point in points))
    own = Environment(
        name,
        tuple(
            OperatingPoint(
                vdd_volts=point.vdd_in(case),
                share=share,
                temperature_kelvin=temperature_kelvin,
                temperature_offset_kelvin=point.temperature_offset_kelvin,
            )
            for point, share in zip(points, shares.middle, strict=True)
        ),
    )
    return own, shares if shares.vary else None
