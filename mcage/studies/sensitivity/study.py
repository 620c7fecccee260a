"""A study: one case of a sweep, lived by the same dies under one setting after another.

An evaluation is a sweep like any other, of the spec of the study with some keys changed, so that
`mcage sweep` gives the same numbers. Dies and workloads follow from seed and instance: all settings
are tried on the same ones (common random numbers).
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mcage.campaign.progress import Progress, Silent
from mcage.concurrency import usable_cores
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.spec import SweepSpec
from mcage.stats.estimates import Floats
from mcage.studies.sensitivity.parameters import CONSTANT, Choice, Parameter, Value
from mcage.studies.sensitivity.quantities import Quantity
from mcage.studies.sensitivity.refit import refitted
from mcage.sweep.study import Sweep
from mcage.sweep.unused_keys import refuse_unused

Setting = Mapping[str, Value]
"""Values of keys of the spec that are changed."""


@dataclass(frozen=True, eq=False)
class Study:
    """One case, and what is asked of it.

    Parameters
    ----------
    spec : SweepSpec
        A sweep of one case; its instances are the dies of every evaluation.
    quantity : Quantity
        What is asked.
    engine : Engine
        What computes lives.
    refit : bool
        Whether what is fitted to published figures is fitted again as other constants vary; see
        `mcage.studies.sensitivity.refit`.
    progress : Progress
        Where to report.

    Raises
    ------
    UserError
        The spec has several cases, or makes no sense.
    """

    spec: SweepSpec
    quantity: Quantity
    engine: Engine
    refit: bool = True
    progress: Progress = Silent()  # noqa: RUF009 - it holds nothing

    def __post_init__(self) -> None:
        spec = self.spec
        if spec.stopping is not None:
            raise UserError(
                f"stopping.rel_ci = {spec.stopping.rel_ci:g}: a sensitivity study is of all its "
                "dies, under every setting; leave it out of the spec"
            )
        many = [len(spec.techniques), len(spec.environments), len(spec.scenarios)]
        if max(*many, len(spec.vdd_volts)) > 1:
            raise UserError(
                "a sensitivity study is of one technique, environment, scenario and vdd at a time; "
                f"the spec has {' x '.join(map(str, [*many, max(1, len(spec.vdd_volts))]))}"
            )
        refuse_unused(spec)

    @property
    def label(self) -> str:
        """The case in one text."""
        return self._base.header.cases[0].label

    @cached_property
    def _base(self) -> Sweep:
        base = Sweep(self.at({}), self.engine)
        base.prepare()
        return base

    def at(self, setting: Setting) -> SweepSpec:
        """Spec of the study with some keys changed.

        Raises
        ------
        UserError
            A value is not one that its key may have.
        """
        fields: dict[str, Any] = self.spec.model_dump(mode="json", exclude_none=True)
        for key, value in {**self.quantity.changes, **setting}.items():
            target: Any = fields
            *parts, name = key.split(".")
            for part in parts:
                is_list = isinstance(target, list)
                target = target[int(part)] if is_list else target.setdefault(part, {})
            target[name] = value
        spec = SweepSpec.from_mapping(fields, "sensitivity")
        return refitted(spec, self.spec, setting) if self.refit else spec

    def check(self, parameters: Sequence[Parameter | Choice]) -> None:
        """Refuse parameters that the quantity takes no notice of, or whose ends make no sense.

        Raises
        ------
        UserError
            One line that names the parameter.
        """
        for one in parameters:
            if one.key in self.quantity.changes:
                raise UserError(f"{one.name}: {self.quantity.name} does not depend on it")
            if self.refit and one.key == f"{CONSTANT}amplitude":
                raise UserError(
                    f"{one.name}: the amplitude is what is fitted again; vary shift_factor, "
                    "or fit nothing (--no-refit)"
                )
            for value in one.settings:
                self.at({one.key: value})

    def values(self, settings: Sequence[Setting]) -> list[Floats]:
        """The quantity of every die under each setting: float64[settings][instances].

        Raises
        ------
        UserError
            A setting makes no sense; the message says which.
        """
        return self.each(settings, lambda _, dies: dies)

    def each(self, settings: Sequence[Setting], of: Callable[[Setting, Floats], Any]) -> list[Any]:
        """What a function makes of every setting and its dies, as soon as they have lived."""
        dies = self.spec.instances
        base = self._base

        def evaluate(setting: Setting) -> Any:
            try:
                sweep = Sweep(self.at(setting), self.engine, like=base)
                found = of(setting, self.quantity.of_dies(sweep.compute(0, dies)))
            except UserError as error:
                raise UserError(f"at {in_words(setting)}: {error}") from error
            self.progress.advance(dies)
            return found

        self.progress.start(len(settings) * dies, 0)
        pool = ThreadPoolExecutor(usable_cores())
        try:
            return list(pool.map(evaluate, settings))
        finally:
            pool.shutdown(cancel_futures=True)
            self.progress.finish()


def in_words(setting: Setting) -> str:
    """A setting for people."""
    if not setting:
        return "the spec"
    return ", ".join(
        f"{key} = {value:.6g}" if isinstance(value, float) else f"{key} = {value}"
        for key, value in setting.items()
    )
