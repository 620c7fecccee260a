"""Environments of a sweep: presets, or points as its spec defines them; cases named by them."""

from mcage.aging.environment import Environment, OperatingPoint, environment
from mcage.aging.sampling import TimeFractionDistributions
from mcage.results.header import CaseName
from mcage.spec import Case, SweepSpec


def conditions_of(
    spec: SweepSpec, case: Case, temperature_kelvin: float
) -> tuple[Environment, TimeFractionDistributions | None]:
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
    points = spec.points_of(name)
    if not points:
        return environment(name, case.scenario_vdd_volts, temperature_kelvin), None
    shares = TimeFractionDistributions(name, tuple(point.share_distribution for point in points))
    own = Environment(
        name,
        tuple(
            OperatingPoint(
                vdd_volts=point.vdd_in(case.scenario_vdd_volts),
                share=share,
                temperature_kelvin=temperature_kelvin,
                temperature_offset_kelvin=point.temperature_offset_kelvin,
            )
            for point, share in zip(points, shares.middle, strict=True)
        ),
    )
    return own, shares if shares.vary else None


def name_of(case: Case, conditions: Environment) -> CaseName:
    """A case as files and tables name it: by the voltages at which the slice works.

    Parameters
    ----------
    case : Case
        The case.
    conditions : Environment
        Its operating points. The label has the Vdd of each, in their order: ``0.8/0.419 V``.
    """
    # Every digit, since voltages that differ little are different cases.
    volts = "/".join(repr(float(point.vdd_volts)).removesuffix(".0") for point in conditions.points)
    return CaseName(
        label=f"{case.technique} {case.environment} {case.scenario} {volts} V",
        technique=case.technique,
        environment=case.environment,
        scenario=case.scenario,
        vdd_volts=conditions.lowest_vdd_volts,
        highest_vdd_volts=conditions.highest_vdd_volts,
    )
