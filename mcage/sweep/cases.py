"""The cases of a sweep: each with its technique, its faults, its operating points and its name."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import Environment, OperatingPoint, environment
from mcage.aging.nbti import NbtiModel
from mcage.aging.sampling import InstanceDistributions, TimeFractionDistributions
from mcage.aging.transistors import DelayPath, NbtiSpread, Pbti, TrapLaw
from mcage.aging.vmin import margins
from mcage.errors import UserError
from mcage.geometry import SliceGeometry
from mcage.lifetime.conditions import LifeConditions
from mcage.spec import Case, SweepSpec
from mcage.sweep.header import CaseName
from mcage.techniques import Technique, technique
from mcage.traces.transforms import HELD
from mcage.variation.expected import check_vdd
from mcage.variation.fault_models import FaultModel, fault_model
from mcage.variation.scenarios import Scenario, scenario
from mcage.variation.vmin_tail import TailCells

OF_FAULTS = "faults."
"""Beginning of the keys of the law of Vmin."""


@dataclass(frozen=True)
class PlannedCase:
    """A case whose technique, faults and conditions have been checked.

    Attributes
    ----------
    case : Case
        The case as the spec names it.
    technique : Technique
        Its technique.
    faults : FaultModel
        The model that its dies are drawn from.
    conditions : LifeConditions
        What the lives of all its instances have in common.
    faults_of_rows : tuple of FaultModel
        Where joint draws of constants change the law of Vmin: the model of each row; else empty.
    """

    case: Case
    technique: Technique
    faults: FaultModel
    conditions: LifeConditions
    faults_of_rows: tuple[FaultModel, ...] = ()

    def sample(
        self,
        seed: int,
        instances: NDArray[np.int64],
        rows: NDArray[np.int64] | None,
        floor_volts: float,
    ) -> TailCells:
        """Cells of instances that matter; see `FaultModel.sample`.

        Parameters
        ----------
        seed, instances, floor_volts
            As of `FaultModel.sample`.
        rows : int64[I], optional
            Row of each in the joint draws of constants, if there are any.
        """
        if not self.faults_of_rows or rows is None or not len(rows):
            return self.faults.sample(seed, instances, floor_volts)
        together = [np.flatnonzero(rows == row) for row in np.unique(rows)]
        tails = [
            self.faults_of_rows[rows[places[0]]].sample(seed, instances[places], floor_volts)
            for places in together
        ]
        return TailCells.interleaved(tails, together)

    @property
    def name(self) -> CaseName:
        """The case as files and tables name it."""
        return name_of(self.case, self.conditions.environment)


def plan_cases(
    spec: SweepSpec,
    nbti: NbtiModel,
    distributions: InstanceDistributions,
    geometry: SliceGeometry,
) -> tuple[PlannedCase, ...]:
    """Every case of a spec, in the order of the results file.

    Parameters
    ----------
    spec : SweepSpec
        What to compute.
    nbti : NbtiModel
        Model of the threshold shift.
    distributions : InstanceDistributions
        Of what differs from instance to instance.
    geometry : SliceGeometry
        The slice.

    Raises
    ------
    UserError
        A technique, a scenario or an environment is unknown, or a case contradicts itself.
    """
    cases = spec.cases({name: scenario(name).vdd_volts for name in spec.scenarios})
    of_rows: dict[str, tuple[FaultModel, ...]] = {
        name: _faults_of_rows(spec, geometry, name) for name in spec.scenarios
    }
    planned = tuple(
        _planned(spec, case, nbti, distributions, geometry, of_rows[case.scenario])
        for case in cases
    )
    # Techniques share their dies and voltages: each of these is looked at once.
    for case in {(case.case.scenario, _fault_volts(case)): case for case in planned}.values():
        _check_fault_vdd(spec, case)
    return planned


def _planned(
    spec: SweepSpec,
    case: Case,
    nbti: NbtiModel,
    distributions: InstanceDistributions,
    geometry: SliceGeometry,
    faults_of_rows: tuple[FaultModel, ...],
) -> PlannedCase:
    # The keys of [faults] bear the names of the parameters.
    faults = fault_model(case.scenario, geometry=geometry, **spec.faults.model_dump())
    # Temperatures that differ are drawn by instance; the environment is given the middle one.
    temperature_kelvin = distributions.temperature_kelvin.at(0.5)
    points, fractions = operating_points(spec, case, temperature_kelvin)
    _check_threshold(spec, points, distributions.highest_vt0_volts)
    _check_fault_voltage(case, points, faults)
    lds_rows = spec.registers.lds_rows
    return PlannedCase(
        case=case,
        technique=technique(case.technique),
        faults=faults,
        conditions=LifeConditions(
            environment=points,
            nbti=nbti,
            epoch_edges_years=spec.epoch_edges_years,
            delay_guardband=spec.life.delay_guardband,
            vmin_coefficient=spec.life.vmin_coefficient,
            lds_rows=geometry.lds_rows if lds_rows is None else lds_rows,
            spread_blocks=spec.faults.spread_blocks,
            distributions=(
                distributions
                if fractions is None
                else replace(distributions, time_fractions=fractions)
            ),
            spill_limit=1.0 if spec.life.spill_limit is None else spec.life.spill_limit,
            holds_while_idle=spec.life.idle == HELD,
            spread=nbti_spread(spec, geometry),
            pbti=Pbti.of(spec.aging.pbti, nbti),
            margins=margins(spec.aging.vmin_model),
        ),
        faults_of_rows=faults_of_rows,
    )


def nbti_spread(spec: SweepSpec, geometry: SliceGeometry) -> NbtiSpread | None:
    """How transistors differ that are stressed alike; None where they do not.

    Raises
    ------
    UserError
        The key ``life.delay_path`` names no path.
    """
    path = DelayPath.of(spec.life.delay_path, geometry.cells)
    if spec.aging.nbti_spread_mv == 0:
        return None
    return NbtiSpread(TrapLaw(spec.aging.nbti_spread_mv / 1e3), path)


def _faults_of_rows(
    spec: SweepSpec, geometry: SliceGeometry, scenario_name: str
) -> tuple[FaultModel, ...]:
    """Fault models of the rows of joint draws; empty where all rows have the same."""
    draws = spec.draws
    names = () if draws is None else draws.named(OF_FAULTS)
    if draws is None or not names:
        return ()
    models: list[FaultModel] = []
    for row in range(draws.rows):
        given = {name: draws.columns[OF_FAULTS + name][row] for name in names}
        try:
            fields = spec.faults.model_dump() | given
            models.append(fault_model(scenario_name, geometry=geometry, **fields))
        except UserError as error:
            raise UserError(f"{draws.place(row)}: {error}") from error
    return tuple(models)


def _fault_volts(planned: PlannedCase) -> tuple[float, float]:
    """Vdd at which the faults of a case are looked for, and that of its scenario."""
    return planned.conditions.environment.lowest_vdd_volts, planned.case.scenario_vdd_volts


def _check_fault_vdd(spec: SweepSpec, planned: PlannedCase) -> None:
    """Refuse a case whose faults are looked for at a Vdd of which its fault model says nothing."""
    lowest_vdd_volts, scenario_vdd_volts = _fault_volts(planned)
    if planned.faults.mode != "varius":
        planned.faults.check_vdd(scenario_vdd_volts)  # the voltage of the published table
    models = planned.faults_of_rows or (planned.faults,)
    # A slice has no more reliable entries with a higher mu: of rows that differ in nothing else,
    # the row with the highest is looked at, which takes a twentieth of a second.
    worst: dict[Scenario, int] = {}
    for row, model in enumerate(models):
        others = replace(model.scenario, mu_volts=0.0)
        before = worst.setdefault(others, row)
        if model.scenario.mu_volts > models[before].scenario.mu_volts:
            worst[others] = row
    for row in worst.values():
        try:
            check_vdd(models[row].scenario, lowest_vdd_volts)
        except UserError as error:
            name = planned.case.environment
            places = [f"operating_points.{name}"] if spec.points_of(name) else []
            if spec.draws is not None and planned.faults_of_rows:
                places.insert(0, spec.draws.place(row))
            raise UserError(": ".join([*places, str(error)])) from error


def _check_threshold(spec: SweepSpec, points: Environment, highest_vt0_volts: float) -> None:
    """Refuse operating points that lie below the threshold voltage of some transistor."""
    highest_vdd_volts = points.highest_vdd_volts
    if highest_vt0_volts < highest_vdd_volts:
        return
    if spec.points_of(points.name):
        raise UserError(
            f"operating_points.{points.name}: its highest Vdd, {highest_vdd_volts:g} V, "
            f"must exceed the threshold voltage, {highest_vt0_volts:g} V"
        )
    drawn = {} if spec.draws is None else dict.fromkeys(spec.draws.columns, "drawn")
    given = {
        "aging.vt0_volts": spec.aging.vt0_volts,
        "aging.constants.vt0_volts": (spec.aging.constants or {}).get("vt0_volts"),
    } | drawn
    for key, vt0 in given.items():
        if vt0 is not None and key.endswith("vt0_volts"):
            raise UserError(
                f"{key} = {vt0!r}: {highest_vt0_volts:g} V must stay below the highest Vdd of "
                f"environment {points.name!r}, {highest_vdd_volts:g} V"
            )


def _check_fault_voltage(case: Case, points: Environment, faults: FaultModel) -> None:
    """Refuse faults that are known at another voltage than the lowest of the case."""
    if not faults.grows and points.lowest_vdd_volts != case.scenario_vdd_volts:
        raise UserError(
            f"environment {points.name!r} asks for the faults at "
            f"{points.lowest_vdd_volts:g} V, but mode {faults.mode!r} knows those at "
            f"{case.scenario_vdd_volts:g} V only: choose undervolted, dvfs, or points of which "
            "that is the lowest, or mode varius"
        )


def operating_points(
    spec: SweepSpec, case: Case, temperature_kelvin: float
) -> tuple[Environment, TimeFractionDistributions | None]:
    """Operating points of a case.

    Parameters
    ----------
    spec : SweepSpec
        Defines environments that are no presets.
    case : Case
        Names an environment, and the Vdd of its scenario.
    temperature_kelvin : float
        Temperature of the slice, K, to which single points add their offset.

    Returns
    -------
    environment, time_fractions
        The operating points, and the distributions of the fractions of time spent at them; None
        where no instance differs from another in these.

    Raises
    ------
    UserError
        As `mcage.aging.environment.environment`.
    """
    name = case.environment
    points = spec.points_of(name)
    if not points:
        return environment(name, case.scenario_vdd_volts, temperature_kelvin), None
    fractions = TimeFractionDistributions(name, tuple(point.share_distribution for point in points))
    user_defined = Environment(
        name,
        tuple(
            OperatingPoint(
                vdd_volts=point.vdd_in(case.scenario_vdd_volts),
                time_fraction=fraction,
                temperature_kelvin=temperature_kelvin,
                temperature_offset_kelvin=point.temperature_offset_kelvin,
            )
            for point, fraction in zip(points, fractions.middle, strict=True)
        ),
    )
    return user_defined, fractions if fractions.vary else None


def name_of(case: Case, points: Environment) -> CaseName:
    """A case as files and tables name it: by the voltages at which the slice works.

    Parameters
    ----------
    case : Case
        The case.
    points : Environment
        Its operating points. The label has the Vdd of each, in their order: ``0.8/0.419 V``.
    """
    # All digits are given, since voltages that differ little are different cases.
    volts = "/".join(repr(float(point.vdd_volts)).removesuffix(".0") for point in points.points)
    return CaseName(
        label=f"{case.technique} {case.environment} {case.scenario} {volts} V",
        technique=case.technique,
        environment=case.environment,
        scenario=case.scenario,
        vdd_volts=points.lowest_vdd_volts,
        highest_vdd_volts=points.highest_vdd_volts,
    )
