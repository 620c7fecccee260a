"""The case of a study: the only case of a sweep, planned, and computed again under changed keys.

An evaluation is a sweep like any other, of the spec of the case with changed keys, so that
`mcage sweep` gives the same numbers. Dies and workloads follow from the seed and the instance, so
that all evaluations are of the same dies (common random numbers).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.results.writer import Arrays
from mcage.spec import SweepSpec
from mcage.sweep.plan import SweepPlan
from mcage.sweep.study import Sweep
from mcage.variation.scenarios import scenario


@dataclass(frozen=True, eq=False)
class SingleCase:
    """The only case of a sweep.

    Parameters
    ----------
    spec : SweepSpec
        A sweep of one case.
    engine : Engine
        Engine that computes lives.
    study : str
        Name of the study in messages, with its article.
    like : Sweep, optional
        A sweep on the same engine. Its traces and fault-free replays are taken over where they
        would be the same.

    Raises
    ------
    UserError
        The spec has a stopping rule, several cases, or a value that the case has no use for.
    """

    spec: SweepSpec
    engine: Engine
    study: str
    like: Sweep | None = None

    def __post_init__(self) -> None:
        spec = self.spec
        if spec.stopping is not None:
            raise UserError(
                f"stopping.rel_ci = {spec.stopping.rel_ci:g}: {self.study} computes as many "
                "instances as the spec says; leave it out of the spec"
            )
        cases = spec.cases({name: scenario(name).vdd_volts for name in spec.scenarios})
        if len(cases) != 1:
            raise UserError(
                f"{len(cases)} cases: {self.study} is of one technique, environment, scenario and "
                "vdd at a time"
            )
        spec.refuse_unused()

    @cached_property
    def _sweep(self) -> Sweep:
        return Sweep(self.spec, self.engine, like=self.like)

    @property
    def plan(self) -> SweepPlan:
        """Traces, models and conditions of the case, checked; its replays are not prepared yet."""
        return self._sweep.plan

    @property
    def label(self) -> str:
        """Name of the case in files and tables."""
        return self.plan.cases[0].name.label

    def changed(self, changes: Mapping[str, Any]) -> SweepSpec:
        """Spec of the case with changed keys.

        Parameters
        ----------
        changes : mapping
            Values by dotted key, such as ``life.temperature_kelvin``.

        Raises
        ------
        UserError
            A key may not have its value.
        """
        fields: dict[str, Any] = self.spec.model_dump(mode="json", exclude_none=True)
        for key, value in changes.items():
            target: Any = fields
            *parts, name = key.split(".")
            for part in parts:
                is_list = isinstance(target, list)
                target = target[int(part)] if is_list else target.setdefault(part, {})
            target[name] = value
        return SweepSpec.from_mapping(fields, self.study)

    def compute(self, spec: SweepSpec) -> Arrays:
        """Arrays of the results file of a changed spec, for all instances of the case.

        Traces and fault-free replays of the case are used again where they would be the same.

        Raises
        ------
        UserError
            A model or a technique refuses the spec.
        """
        return Sweep(spec, self.engine, like=self._sweep).compute(0, self.spec.instances)
