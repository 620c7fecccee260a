"""The study of sensitivity: a quantity of one case under several settings of its constants."""

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
from mcage.studies.single_case import SingleCase

Setting = Mapping[str, Value]
"""Changed keys of a spec, with their values."""


@dataclass(frozen=True, eq=False)
class SensitivityStudy:
    """A quantity of one case, which settings of its constants change.

    Parameters
    ----------
    spec : SweepSpec
        A sweep of one case; its instances are the dies of each evaluation.
    quantity : Quantity
        The quantity.
    engine : Engine
        Engine that computes lives.
    refit : bool
        Whether what is fitted to published figures is fitted again when other constants vary; see
        `mcage.studies.sensitivity.refit`.
    progress : Progress
        Where progress is reported.

    Raises
    ------
    UserError
        The spec has several cases or a stopping rule; or it cannot be refitted, and ``refit``
        asks for that.
    """

    spec: SweepSpec
    quantity: Quantity
    engine: Engine
    refit: bool = True
    progress: Progress = Silent()  # noqa: RUF009 - it holds nothing

    def __post_init__(self) -> None:
        _ = self.case
        self.at({})

    @cached_property
    def case(self) -> SingleCase:
        """The case as the spec has it."""
        return SingleCase(self.spec, self.engine, "a sensitivity study")

    @property
    def label(self) -> str:
        """Name of the case in files and tables."""
        return self.case.label

    def at(self, setting: Setting) -> SweepSpec:
        """Spec of the case under a setting.

        Raises
        ------
        UserError
            A key may not have its value, or the setting cannot be refitted.
        """
        spec = self.case.changed({**self.quantity.changes, **setting})
        return refitted(spec, self.spec, setting) if self.refit else spec

    def check(self, parameters: Sequence[Parameter | Choice]) -> None:
        """Refuse parameters that the quantity does not depend on, or whose ends make no sense.

        Raises
        ------
        UserError
            One line that names the parameter.
        """
        for parameter in parameters:
            if parameter.key in self.quantity.changes:
                raise UserError(f"{parameter.name}: {self.quantity.name} does not depend on it")
            if self.refit and parameter.key == f"{CONSTANT}amplitude":
                raise UserError(
                    f"{parameter.name}: the amplitude is what is fitted again; vary shift_factor, "
                    "or fit nothing (--no-refit)"
                )
            for value in parameter.settings:
                self.at({parameter.key: value})

    def values(self, settings: Sequence[Setting]) -> list[Floats]:
        """Compute the quantity of each die under each setting: float64[settings][instances].

        Raises
        ------
        UserError
            A setting makes no sense; the message says which.
        """
        return self.each(settings, lambda _, dies: dies)

    def each(
        self, settings: Sequence[Setting], function: Callable[[Setting, Floats], Any]
    ) -> list[Any]:
        """Call a function with each setting and its dies, as soon as their lives are computed.

        Parameters
        ----------
        settings : sequence of mapping
            The settings.
        function : callable
            Is called from several threads with a setting and the quantity of each die,
            float64[instances].

        Returns
        -------
        list
            Results of the function, in the order of the settings.

        Raises
        ------
        UserError
            A setting makes no sense; the message says which.
        """
        dies = self.spec.instances

        def evaluate(setting: Setting) -> Any:
            try:
                arrays = self.case.compute(self.at(setting))
                result = function(setting, self.quantity.of_dies(arrays))
            except UserError as error:
                raise UserError(f"at {in_words(setting)}: {error}") from error
            self.progress.advance(dies)
            return result

        self.case.plan.prepare()
        self.progress.start(len(settings) * dies, 0)
        pool = ThreadPoolExecutor(usable_cores())
        try:
            return list(pool.map(evaluate, settings))
        finally:
            pool.shutdown(cancel_futures=True)
            self.progress.finish()


def in_words(setting: Setting) -> str:
    """Write a setting for people."""
    if not setting:
        return "the spec"
    return ", ".join(
        f"{key} = {value:.6g}" if isinstance(value, float) else f"{key} = {value}"
        for key, value in setting.items()
    )
