"""A register-file sweep: from its plan to the arrays of any range of instances, or a whole file."""

import sys
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import constants
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.results.axes import points_of_cases
from mcage.results.writer import Arrays, joined
from mcage.spec import SweepSpec
from mcage.spec.draws import DRAWN, OF_MODEL
from mcage.studies.common import StudyOfSpec
from mcage.studies.sweep.batch import batch_by_work, batches, compute_batch
from mcage.studies.sweep.header import SweepHeader, stopping_rule
from mcage.studies.sweep.plan import PlannedCase, SweepPlan
from mcage.techniques import TECHNIQUES

# Batches that become smaller when memory runs out.

SMALLEST_BATCH = 8
"""Instances of a batch that is not halved any more."""

Result = TypeVar("Result")
Say = Callable[[str], None]


class Halving:
    """Computes batches, in halves if there is no memory for a whole batch.

    Later batches are no larger than the halves.

    Results do not depend on it, since no instance depends on its batch.

    Parameters
    ----------
    say : callable, optional
        Receives every new size.
    """

    def __init__(self, say: Say | None = None) -> None:
        self._say = say
        self._most = sys.maxsize

    def run(
        self, compute: Callable[[NDArray[np.int64]], Result], instances: NDArray[np.int64]
    ) -> list[Result]:
        """Results of ``compute`` for all instances: part by part, or in one part if memory lasts.

        Parameters
        ----------
        compute : callable
            Computes a batch, and raises MemoryError if there is no memory for it.
        instances : int64[n]
            Of the batch.

        Raises
        ------
        UserError
            There is no memory even for `SMALLEST_BATCH` instances.
        """
        results: list[Result] = []
        while len(instances):
            part = instances[: self._most]
            try:
                results.append(compute(part))
            except MemoryError as error:
                self._shrink(len(part), error)
                # What the batch had in memory goes with the error, before the next try.
            else:
                instances = instances[len(part) :]
        return results

    def _shrink(self, size: int, error: MemoryError) -> None:
        why = str(error) or "no memory"
        if size <= SMALLEST_BATCH:
            raise UserError(
                f"out of memory with {size} instances in a batch ({why}); finished shards are "
                "kept: free memory, and run the same command again"
            ) from error
        half = max(SMALLEST_BATCH, size // 2)
        if half < self._most:
            self._most = half
            if self._say:
                self._say(f"out of memory ({why}): on with batches of {half} instances")


class Sweep(StudyOfSpec):
    """A sweep before its first instance: traces are loaded, and all cases are checked.

    Parameters
    ----------
    spec : SweepSpec
        What to compute.
    engine : Engine
        What computes it.
    engine_reason : str
        Why that engine.
    like : Sweep, optional
        A sweep on the same engine. Its traces and fault-free replays are taken over where they
        would be the same.
    say : callable, optional
        Receives messages about batches that shrink because memory runs out.

    Attributes
    ----------
    spec : SweepSpec
        As given, with the digests of its programs.
    plan : SweepPlan
        What all instances share.

    Raises
    ------
    UserError
        A kernel, technique or case of the spec makes no sense.
    """

    def __init__(
        self,
        spec: SweepSpec,
        engine: Engine,
        engine_reason: str = "",
        like: "Sweep | None" = None,
        say: Say | None = None,
    ) -> None:
        self.plan: SweepPlan = SweepPlan(spec, engine, like.plan if like else None)
        self.spec: SweepSpec = self.plan.recorded_spec
        self.engine_reason = engine_reason
        self._halving = Halving(say)

    @cached_property
    def header(self) -> SweepHeader:
        """Attributes of files that describe the sweep."""
        spec, plan = self.spec, self.plan
        return SweepHeader(
            cases=points_of_cases(SweepHeader.axes, plan.cases, plan.spec_values),
            kernels=tuple(trace.name for trace in plan.traces),
            workload_periods=spec.workload.periods,
            operating_points=plan.operating_points,
            epoch_edges_years=spec.epoch_edges_years,
            caveats=plan.caveats,
            draws=_columns(spec),
            margins=plan.margin_kinds,
            technique_names=_names(plan.cases),
            mix_size=plan.mix_size,
            stopping=stopping_rule(spec),
            **self.campaign(spec, plan.digest(), plan.engine),
        )

    def prepare(self) -> None:
        """Compute what all instances share; otherwise the first `compute` does."""
        self.plan.prepare()

    def compute(self, first: int, last: int) -> Arrays:
        """Results of instances ``first`` ... ``last`` - 1, as the header declares."""
        self.prepare()
        parts = self.plan.in_batch_threads(
            partial(self._halving.run, self._batch), batches(first, last, self.batch)
        )
        return joined(self.header.variables, chain.from_iterable(parts))

    @cached_property
    def batch(self) -> int:
        """Instances that are computed together."""
        return batch_by_work(self.plan)

    @property
    def threads(self) -> int:
        """Threads that compute a batch each."""
        return self.plan.batch_threads

    def _batch(self, instances: NDArray[np.int64]) -> dict[str, NDArray[np.generic]]:
        return compute_batch(self.plan, instances)


def _columns(spec: SweepSpec) -> tuple[tuple[str, str, tuple[float, ...]], ...]:
    """Columns of the joint draws of a sweep, if it has any: key, unit, values."""
    if spec.draws is None:
        return ()
    of_model = constants(spec.aging.model) if spec.draws.of_model else {}
    units = DRAWN | {OF_MODEL + name: constant.unit for name, constant in of_model.items()}
    return tuple((key, units[key], values) for key, values in spec.draws.columns.items())


def _names(cases: Sequence[PlannedCase]) -> tuple[tuple[str, str], ...]:
    """User-defined techniques, and what they call themselves where nothing else is called so."""
    names = {case.case.technique: case.technique.name for case in cases}
    return tuple(
        (technique, name)
        for technique, name in names.items()
        if name != technique and name not in TECHNIQUES and [*names.values()].count(name) == 1
    )
