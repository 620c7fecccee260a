"""The study of injections: the fate of each run, in every case and at every age."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.lifetime.faulty_cells import faulty_cells
from mcage.plain_text import shortened
from mcage.results.axes import coordinates_of, points_of_cases
from mcage.results.header import DeclaredHeader, rule_of
from mcage.results.measures import Measure
from mcage.results.variable import Coordinate, Variable
from mcage.results.writer import Arrays
from mcage.soft_errors.rates import MBIT, upsets
from mcage.studies.common import StudyOfSpec
from mcage.studies.inject.cells import CellRules, CellsUnderWaves, ran_with
from mcage.studies.inject.flips import (
    ONE_CELL,
    RegisterFlip,
    Upset,
    drawn_cells,
    flips_at,
    flips_of_needed_bits,
    flips_of_results,
    hit,
    upsets_of,
)
from mcage.studies.inject.kernel import InjectedKernel, PlacedKernel, WrongOutputs
from mcage.studies.inject.outcomes import (
    DETECTED,
    MEASURES,
    NOT_RUN,
    OF_FLIPS,
    OF_SLICES,
    SILENT,
    VARIABLES,
    Fate,
)
from mcage.studies.inject.slices import (
    GIVEN_UP,
    NOBODY_KNOWS,
    FaultsAtAge,
    FaultySlice,
    numbers_of,
    values_of_cells,
)
from mcage.studies.inject.spec import (
    CELLS,
    FLIP,
    INSTRUCTION,
    PLACES,
    READ,
    SINGLE,
    ChosenCells,
    ChosenPlaces,
    InjectSpec,
)
from mcage.studies.sweep.axes import AXES, GEOMETRY, KERNELS
from mcage.studies.sweep.batch import slices_of_case
from mcage.studies.sweep.plan import PlannedCase, SweepPlan
from mcage.studies.sweep.soft_errors import NODE
from mcage.traces.library import RecordedTrace
from mcage.tracing.emulation.faults import End, Ran, RunFaults
from mcage.tracing.emulation.waves import Say

BATCH = 500
"""Injections that are computed together."""

Place = tuple[int, int]
"""Number of an injection among those that are computed together, and of an age."""

_OF_END = {
    End.ADDRESS: Fate.ADDRESS,
    End.LIMIT: Fate.LIMIT,
    End.DETECTED: Fate.CODE,
    End.NOT_EMULATED: Fate.NOT_EMULATED,
}

AGE = Variable("age", ("age",), "float64", "year", "age of the slice")
DRAWN = Variable(
    "drawn_fit",
    ("case",),
    "float64",
    "FIT",
    "rate of the upsets of a slice that flips are drawn from, while it runs the kernel",
    "The mean of the rates at its operating points. Divided by the mean of flip_attempts, the "
    "rate of the flips.",
)
NEEDED = Variable(
    "needed_share",
    ("case",),
    "float64",
    "1",
    "share of the bits of the register file that are needed, on the mean over time",
    "The AVF by ACE: flips are injected into these bits; a flip of any other changes nothing.",
)
LINE = Variable(
    "instruction",
    ("instruction",),
    "text",
    "1",
    "instructions that write registers, by address in the code object",
)
BEFORE_THE_FIRST = "before the first instruction"
ALLOCATED = Variable(
    "allocated_share",
    ("case",),
    "float64",
    "1",
    "share of the bits of the register file in allocated windows, on the mean over time",
)


@dataclass(frozen=True, kw_only=True)
class InjectHeader(DeclaredHeader):
    """Injections as their files know them."""

    command: ClassVar[str] = "mcage inject --engine {engine}"
    axes: ClassVar = tuple(axis for axis in AXES if axis not in (GEOMETRY, KERNELS))
    decided_by: ClassVar = InjectSpec.decided_by
    spec: ClassVar[type] = InjectSpec
    maker: ClassVar[str] = f"{__name__}:InjectStudy"
    grid: ClassVar[tuple[str, ...]] = ("case",)
    measures: ClassVar[tuple[Measure, ...]] = MEASURES


class InjectPlan(SweepPlan):
    """A sweep whose slices run the injected kernel, or age under others until they do."""

    def __init__(
        self, spec: InjectSpec, engine: Engine, kernel: InjectedKernel, digests: Mapping[str, str]
    ) -> None:
        self._kernel, self.digests = kernel, digests
        self._ages_under_it = spec.workload.kernels == (spec.program.source,)
        super().__init__(spec, engine)
        here, there = kernel.geometry, self.geometry
        if here.shape != there.shape:
            raise UserError(
                f"workload.kernels: {self.traces[0].name!r} is of a slice {there.name}, but the "
                f"kernel of program.arch = {spec.program.arch!r} runs on {here.name}"
            )

    @property
    def programs(self) -> dict[str, str]:
        """Digests of the kernel, of what it is made of, and of chosen cells or places."""
        aged = {} if self._ages_under_it else super().programs
        return aged | self._kernel.programs | dict(self.digests)

    def _traces(self) -> tuple[RecordedTrace, ...]:
        if not self._ages_under_it:
            return super()._traces()
        trace = self._kernel.trace
        return (RecordedTrace.of(trace, trace.digest()),)


class InjectStudy(StudyOfSpec):
    """Injections before the first: everything that can be wrong is checked.

    Parameters
    ----------
    spec : InjectSpec
        What to compute.
    engine : Engine
        What replays kernels.
    engine_reason : str
        Why that engine.
    say : callable, optional
        Receives the progress of the run without faults now and then.

    Raises
    ------
    UserError
        The kernel cannot be run, or a case makes no sense.
    """

    batch = BATCH

    def __init__(
        self, spec: InjectSpec, engine: Engine, engine_reason: str = "", say: Say | None = None
    ) -> None:
        spec.check_program()
        spec.refuse_unused()
        self.spec: InjectSpec = spec
        self.engine_reason = engine_reason
        name = spec.inject.stuck_cells
        chosen = None if name is None else ChosenCells(name)  # before the kernel runs
        self._places = None if spec.inject.at is None else ChosenPlaces(spec.inject.at)
        for key, table in (("stuck_cells", chosen), ("at", self._places)):
            if table is not None and spec.instances > table.instances:
                raise UserError(
                    f"instances = {spec.instances}: inject.{key} = "
                    f"{shortened(getattr(spec.inject, key))} has {table.instances} instances; give "
                    "so many, or fewer"
                )
        release = spec.workload.release
        self.kernel = InjectedKernel(spec.program, CellsUnderWaves, release, say, spec.programs)
        self._chosen = None if chosen is None else chosen.of(self.kernel.geometry, spec.seed)
        digests = {} if chosen is None else {CELLS: chosen.digest}
        if self._places is not None:
            digests[PLACES] = self._places.digest
        self.plan = InjectPlan(spec, engine, self.kernel, digests)
        self._placements: dict[str, PlacedKernel] = {}
        if self._places is not None:
            flips_at(self._places, *self._drawn_by(np.arange(spec.instances)))
        for case in self.plan.cases:
            self._require_values_as_they_are(case)
            if not self._placement(case).needed_share:
                raise UserError(
                    f"inject: technique {case.case.technique}: no bit of the register file is "
                    "ever needed"
                )

    def _require_values_as_they_are(self, case: PlannedCase) -> None:
        """Refuse flips of registers as programs see them where cells hold something else."""
        of, technique = self.spec.inject.of_registers, case.technique
        if not of or self.spec.inject.fault != FLIP:
            return
        name = protection.name if (protection := case.conditions.protection).code else ""
        if technique.stores_inline or technique.stores_in_blocks:
            name = technique.name
        if name:
            raise UserError(
                f"inject.{of}: a register changes as the program sees it, behind {name!r}, which "
                "would make no difference; leave one of both out"
            )

    @property
    def _is_flip(self) -> bool:
        return self.spec.inject.fault == FLIP

    def _placement(self, case: PlannedCase) -> PlacedKernel:
        """Where a technique keeps values on a slice without faults."""
        name = case.case.technique
        if name not in self._placements:
            self._placements[name] = PlacedKernel(
                self.kernel, case.technique, self.spec.delta_limit
            )
        return self._placements[name]

    @cached_property
    def header(self) -> InjectHeader:
        """Attributes of files that describe the study."""
        spec, plan = self.spec, self.plan
        where = [self._placement(case) for case in plan.cases]
        points = points_of_cases(InjectHeader.axes, plan.cases, plan.spec_values)
        digest = plan.digest(self.kernel.digest, *plan.digests.values())
        return InjectHeader(
            name="inject",
            of_programs=plan.caveats_of_traces,
            computes=VARIABLES + (OF_FLIPS if self._is_flip else OF_SLICES),
            labels=(
                *coordinates_of(InjectHeader.axes, points),
                Coordinate(AGE, spec.ages),
                Coordinate(NEEDED, [each.needed_share for each in where]),
                Coordinate(ALLOCATED, [each.allocated_share for each in where]),
                *(
                    [Coordinate(DRAWN, [self._drawn_fit(case) for case in plan.cases])]
                    if self._is_flip and not spec.inject.of_registers
                    else ()
                ),
                *([Coordinate(LINE, list(self._lines.values()))] if self._is_flip else ()),
            ),
            stopping=rule_of(spec.stopping, VARIABLES, MEASURES),
            **self.campaign(plan.recorded_spec, digest, plan.engine),
        )

    @cached_property
    def _lines(self) -> dict[int, str]:
        """Instructions that write registers by address, rising; -1 is before all of them."""
        kernel = self.kernel
        where = zip(kernel.writes.window.tolist(), kernel.step_of_write.tolist(), strict=True)
        writers = {kernel.instruction_at(*each) for each in where} - {-1}
        lines = {
            address: f"{address:#x}: {text}"
            for address, text in kernel.listing.items()
            if address in writers
        }
        return {-1: BEFORE_THE_FIRST} | lines

    @property
    def _sizes(self) -> Sequence[float]:
        """Share of the upsets that change 1, 2, 3, ... cells."""
        upset = self.spec.inject.upset
        return ONE_CELL if upset == SINGLE else upsets(upset).sizes

    def _drawn_fit(self, case: PlannedCase) -> float:
        """Rate of the upsets that the flips of a case are drawn from, in FIT of a slice."""
        of_spec, upset = self.spec.faults.fit_per_mbit, self.spec.inject.upset
        node = NODE if upset == SINGLE else upset
        changed = {}
        if of_spec is not None:  # at 1 V, whatever the voltage of the node's own rate
            as_given = upsets(node, 1.0, fit_per_mbit=1.0).fit_per_mbit
            changed["fit_per_mbit"] = of_spec / as_given
        fit_per_mbit = sum(
            point.time_fraction * upsets(node, point.vdd_volts, **changed).fit_per_mbit
            for point in case.conditions.environment.points
        )
        protection = case.conditions.protection
        cells = drawn_cells(self._placement(case), protection, self._sizes)
        return fit_per_mbit / MBIT * cells

    def compute(self, first: int, last: int) -> Arrays:
        """Fates of injections ``first`` ... ``last`` - 1, as the header declares."""
        instances = np.arange(first, last)
        of_cases = [self._case(case, instances) for case in self.plan.cases]
        return {
            variable.name: np.stack([of_case[variable.name] for of_case in of_cases])
            for variable in self.header.variables
        }

    def _case(self, case: PlannedCase, instances: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        results = _Results(len(instances), len(self.spec.ages), self.spec.inject.tolerance)
        compute = self._flips if self._is_flip else self._slices
        beside = compute(case, instances, results)
        return results.finished() | beside

    def rerun(self, case: int, instance: int, age: int) -> Ran | None:
        """Repeat an injection.

        Parameters
        ----------
        case, instance, age : int
            Numbers of the case, the injection and the age.

        Returns
        -------
        Ran or None
            None if nothing that is needed is wrong, or the slice is not in use.
        """
        planned, instances = self.plan.cases[case], np.array([instance])
        results = _Results(1, len(self.spec.ages), self.spec.inject.tolerance)
        if self._is_flip:
            drawn = self._upsets(planned, instances)
            for faults, places in self._hits(planned, instances, drawn, results):
                if (0, age) in places:
                    return self.kernel.reruns.run([faults])[0]
            return None
        where, slices = self._placement(planned), self._of_case(planned, instances)
        states = self._reported(where, slices, instances, results)
        return ran_with(states, where, self._rules(planned)).get((0, age))

    # Flips.

    def _drawn_by(
        self, instances: NDArray[np.int64]
    ) -> tuple[int, NDArray[np.int64], InjectedKernel, str]:
        return self.spec.seed, instances, self.kernel, self.spec.inject.upset

    def _upsets(
        self, case: PlannedCase, instances: NDArray[np.int64]
    ) -> Sequence[Upset | RegisterFlip]:
        spec, where = self.spec, self._placement(case)
        if self._places is not None:
            return flips_at(self._places, *self._drawn_by(instances))
        if spec.inject.weight == INSTRUCTION:
            return flips_of_results(*self._drawn_by(instances))
        if spec.inject.of_registers:
            return flips_of_needed_bits(spec.seed, instances, where, spec.inject.upset)
        return upsets_of(spec.seed, instances, where, case.conditions.protection, self._sizes)

    def _flips(
        self, case: PlannedCase, instances: NDArray[np.int64], results: "_Results"
    ) -> dict[str, NDArray[Any]]:
        drawn = self._upsets(case, instances)
        runs = self._hits(case, instances, drawn, results)
        ran = self.kernel.reruns.run([faults for faults, _ in runs])
        for (_, places), of_run in zip(runs, ran, strict=True):
            results.put(self.kernel, places, of_run)
        return self._hit(self._placement(case), drawn)

    def _hits(
        self,
        case: PlannedCase,
        instances: NDArray[np.int64],
        drawn: Sequence[Upset | RegisterFlip],
        results: "_Results",
    ) -> list[tuple[RunFaults, list[Place]]]:
        """Wrong bits of flips and their places; the verdicts of codes are noted at once."""
        protection, where = case.conditions.protection, self._placement(case)
        slices = self._of_case(case, instances) if protection.code is not None else []
        runs: dict[tuple[int, bytes], tuple[RunFaults, list[Place]]] = {}
        for number, upset in enumerate(drawn):
            for age, years in enumerate(self.spec.ages):
                faults = None
                if slices:
                    faults = slices[number].at_reported(years)
                    if faults is None or where.refuses(faults.fault_map):
                        results.fate[number, age] = Fate.RETIRED
                        continue
                if isinstance(upset, RegisterFlip):
                    of_upset = upset.hit(where)
                else:
                    of_upset = hit(upset, where, protection, faults)
                results.faulty_bits[number, age] = of_upset.faulty_bits
                results.fate[number, age] = of_upset.fate
                if of_upset.faults is not None:
                    (flips,) = of_upset.faults.flips.values()
                    key = number, flips[0].bits.tobytes()
                    runs.setdefault(key, (of_upset.faults, []))[1].append((number, age))
        return list(runs.values())

    def _hit(
        self, where: PlacedKernel, drawn: Sequence[Upset | RegisterFlip]
    ) -> dict[str, NDArray[Any]]:
        """Variables of the places of flips, as the header declares them."""
        struck = [upset.struck(where) for upset in drawn]
        kernel, number = self.kernel, {address: n for n, address in enumerate(self._lines)}
        places = [kernel.place_of(of.window) for of in struck]
        columns = {
            "flip_work_group": [group for group, _ in places],
            "flip_wave": [wave for _, wave in places],
            "flip_step": [of.step for of in struck],
            "flip_instruction": [
                number[kernel.instruction_at(of.window, kernel.step_of_value(of.write, of.lane))]
                for of in struck
            ],
            "flip_register": [of.register for of in struck],
            "flip_bit": [of.bit for of in struck],
            "flip_lane": [of.lane for of in struck],
            "flip_cells": [of.cells for of in struck],
            "flip_attempts": [of.attempts for of in struck],
            "flip_entry": [of.entry for of in struck],
            "flip_moment": [of.cycle / kernel.trace.cycles for of in struck],
        }
        return {of.name: np.array(columns[of.name], of.dtype) for of in OF_FLIPS}

    # Slices with all their faulty cells.

    def _slices(
        self, case: PlannedCase, instances: NDArray[np.int64], results: "_Results"
    ) -> dict[str, NDArray[Any]]:
        where = self._placement(case)
        slices = self._of_case(case, instances)
        judged_by = where, self._rules(case)
        ran = ran_with(self._reported(where, slices, instances, results), *judged_by)
        for place, of_run in ran.items():
            results.put(self.kernel, [place], of_run)
        looks_of = [of.looks(where) for of in slices]
        looks = {
            (number, look): (int(instances[number]), faults)
            for number, (of_slice, _) in enumerate(looks_of)
            for look, (_, faults) in enumerate(of_slice)
        }
        fates = {
            place: results.fate_of(self.kernel, of_run)[0]
            for place, of_run in ran_with(looks, *judged_by).items()
        }
        numbers = [
            numbers_of(
                [look.age_years for look, _ in of_slice],
                [fates.get((number, look), Fate.MASKED) for look in range(len(of_slice))],
                min(refused, of.end_years if of.end_cause in GIVEN_UP else math.inf),
            )
            for number, (of, (of_slice, refused)) in enumerate(zip(slices, looks_of, strict=True))
        ]
        return {
            variable.name: np.array([of[variable.name] for of in numbers], variable.dtype)
            for variable in OF_SLICES
        }

    def _reported(
        self,
        where: PlacedKernel,
        slices: Sequence[FaultySlice],
        instances: NDArray[np.int64],
        results: "_Results",
    ) -> dict[Place, tuple[int, FaultsAtAge]]:
        """Slices at the reported ages, of those that are in use."""
        states = {}
        for number, of in enumerate(slices):
            for age, years in enumerate(self.spec.ages):
                faults = of.at_reported(years)
                if faults is None or where.refuses(faults.fault_map):
                    results.fate[number, age] = Fate.RETIRED
                    continue
                results.faulty_bits[number, age] = len(faults.cell)
                states[number, age] = int(instances[number]), faults
        return states

    def _rules(self, case: PlannedCase) -> CellRules:
        return CellRules(
            self._placement(case).storing,
            case.conditions.protection.code,
            self.spec.inject.fault == READ,
            self.kernel.emulation.preloaded,
        )

    def _of_case(self, case: PlannedCase, instances: NDArray[np.int64]) -> list[FaultySlice]:
        """Slices with the cells that become faulty while they run the kernel."""
        conditions, geometry = case.conditions, self.kernel.geometry
        protection = conditions.protection
        if self._chosen is not None:
            end = geometry, protection, self.spec.life.horizon_years
            cells = [self._chosen[instance] for instance in instances.tolist()]
            return [
                FaultySlice(
                    of.cell, of.at_one, np.zeros(len(of.cell)), *end, known_years=NOBODY_KNOWS
                )
                for of in cells
            ]
        batch, weak, luck = slices_of_case(self.plan, case, instances)
        fault_free = self.plan.fault_free_of(case)
        lives = faulty_cells(conditions, self.plan.engine, fault_free, batch, weak, luck)
        tested = case.technique.heeds_faults or protection.pointers or protection.spares
        interval = self.spec.inject.test_interval_years if tested else None
        slices = []
        for number, instance in enumerate(instances.tolist()):
            cell, years, weak_value = lives.of(number)
            slices.append(
                FaultySlice(
                    cell,
                    values_of_cells(self.spec.seed, instance, cell, weak_value),
                    years,
                    geometry,
                    protection,
                    float(lives.end_years[number]),
                    EndCause(int(lives.end_cause[number])),
                    interval,
                )
            )
        return slices


class _Results:
    """Results of N injections at A ages.

    Attributes
    ----------
    arrays : dict of str to array[N, A]
        `VARIABLES` by name; those that `finished` derives from fates are 0 before.
    """

    def __init__(self, count: int, ages: int, tolerance: float) -> None:
        self._tolerance = tolerance
        self.arrays = {of.name: np.zeros((count, ages), of.dtype) for of in VARIABLES}
        self.fate, self.faulty_bits = self.arrays["fate"], self.arrays["faulty_bits"]

    def fate_of(self, kernel: InjectedKernel, ran: Ran) -> tuple[Fate, WrongOutputs | None]:
        """Fate of a run, and the errors of its outputs if they differ."""
        if ran.end != End.COMPLETE:
            return _OF_END[ran.end], None
        if not len(ran.place):
            return Fate.MASKED, None
        wrong = kernel.wrong_outputs(ran)
        return Fate.TOLERABLE if wrong.output_error <= self._tolerance else Fate.SDC, wrong

    def put(self, kernel: InjectedKernel, places: Sequence[Place], ran: Ran) -> None:
        """Note what has become of a run, for the injections at some places."""
        fate, wrong = self.fate_of(kernel, ran)
        for place in places:
            self.fate[place] = fate
            for name, value in vars(wrong).items() if wrong else ():
                self.arrays[name][place] = value

    def finished(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the results file."""
        error = self.arrays["output_error"]
        error[np.isin(self.fate, [*DETECTED, *NOT_RUN]) | np.isinf(error)] = np.nan
        for name, fates in (("silent", SILENT), ("detected", DETECTED)):
            self.arrays[name][:] = np.isin(self.fate, fates)
        return self.arrays
