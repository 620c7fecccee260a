"""What a study is asked: which quantity, by which method, over which ranges of which constants."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcage.campaign.progress import Progress
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.plain_text import shown
from mcage.spec import SweepSpec
from mcage.stats.wording import known_name
from mcage.studies.sensitivity.one_at_a_time import OneAtATime, one_at_a_time
from mcage.studies.sensitivity.parameters import (
    Choice,
    Parameter,
    check_keys,
    chosen,
    from_file,
    shipped,
    user_range,
)
from mcage.studies.sensitivity.quantities import QUANTITIES, Quantity
from mcage.studies.sensitivity.sobol import Sobol, check_samples, sobol
from mcage.studies.sensitivity.study import SensitivityStudy

ONE_AT_A_TIME, SOBOL = METHODS = ("one-at-a-time", "sobol")


@dataclass(frozen=True)
class Question:
    """What a study varies, how, and of what it asks for the change.

    Parameters
    ----------
    of, method : str
        Names of the quantity and of the method.
    parameter : sequence of str
        Names of the parameters to vary; empty: all that can matter.
    range_ : sequence of str
        Ranges as ``--range`` takes them.
    ranges : Path or None
        TOML file of ranges.
    refit : bool
        Whether amplitude and mu are fitted again.
    samples : int
        Points of the Sobol' design.
    """

    of: str
    method: str
    parameter: Sequence[str] | None
    range_: Sequence[str] | None
    ranges: Path | None
    refit: bool
    samples: int

    def check(self) -> None:
        """Refuse what no study could take, before anything is read or computed.

        Raises
        ------
        UserError
            There is no such method or quantity, or the number of samples is no power of two.
        """
        if self.method not in METHODS:
            raise UserError(f"method {shown(self.method)}: choose from {', '.join(METHODS)}")
        if known_name(self.of, QUANTITIES) not in QUANTITIES:
            raise UserError(f"of {shown(self.of)}: choose from {', '.join(QUANTITIES)}")
        check_samples(self.samples)

    @property
    def quantity(self) -> Quantity:
        """The quantity."""
        return QUANTITIES[known_name(self.of, QUANTITIES)]

    def varied(self, base: SweepSpec) -> list[Parameter | Choice]:
        """Parameters and choices: those that are named, or all that can matter to the quantity.

        A parameter of which a range is asked for is among them, or is refused.

        Raises
        ------
        UserError
            A name or a range is refused.
        """
        entries = shipped()
        if self.ranges:
            in_file = from_file(self.ranges)
            check_keys(in_file, base, str(self.ranges))
            entries |= in_file
        given = [user_range(text, entries) for text in self.range_ or ()]
        asked = [entry.name for entry in given]
        if twice := [name for name in asked if asked.count(name) > 1]:
            raise UserError(f"--range {shown(twice[0])} is given twice")
        entries |= dict(zip(asked, given, strict=True))
        if self.parameter:
            for name in asked:
                if name not in self.parameter:
                    raise UserError(f"--range {name}: --parameter does not name it")
            return chosen(base, entries, self.parameter)
        entries = {
            name: entry
            for name, entry in entries.items()
            if name in asked
            or (
                entry.applies(base)
                and entry.key not in self.quantity.changes
                and not (entry.alternatives and self.method == SOBOL)
            )
        }
        return chosen(base, entries, list(entries))

    def study(self, base: SweepSpec, engine: Engine, progress: Progress) -> SensitivityStudy:
        """Make the study of a case.

        Raises
        ------
        UserError
            As `SensitivityStudy`.
        """
        return SensitivityStudy(base, self.quantity, engine, self.refit, progress)

    def answer(
        self, study: SensitivityStudy, varied: Sequence[Parameter | Choice]
    ) -> OneAtATime | Sobol:
        """Compute a study.

        Raises
        ------
        UserError
            A parameter is refused.
        """
        if self.method == SOBOL:
            return sobol(study, varied, self.samples)
        return one_at_a_time(study, varied)
