"""Cases of a results file: by which names they are found, and the lives in them."""

from collections.abc import Sequence
from dataclasses import dataclass

import xarray as xr

from mcage.errors import UserError
from mcage.lifetime.end_cause import EndCause
from mcage.stats.survival import CaseLives

CAUSES = {
    cause: cause.name.lower().replace("_", " ")
    for cause in EndCause
    if cause is not EndCause.CENSORED
}
"""What ends a life, in words."""


def lives_of(case: xr.Dataset) -> CaseLives:
    """Lives of one case of a results file."""
    cause = case["end_cause"].values
    return CaseLives(
        label=str(case["case"].item()),
        years=case["life_years"].values,
        died=cause != EndCause.CENSORED,
        cause=cause,
        horizon_years=float(case["epoch_end_years"][-1]),
    )


@dataclass(frozen=True)
class Setting:
    """What cases that differ in their technique alone have in common.

    Parameters
    ----------
    environment, scenario : str
        Names.
    voltages : str
        Supply voltage at each operating point of the environment, with the unit.
    """

    environment: str
    scenario: str
    voltages: str

    @classmethod
    def of(cls, case: xr.Dataset) -> "Setting":
        """Setting of one case of a results file."""
        names = ("technique", "environment", "scenario")
        technique, environment, scenario = (str(case[name].item()) for name in names)
        # A label is made of the three names and the voltages.
        voltages = str(case["case"].item()).removeprefix(f"{technique} {environment} {scenario} ")
        return cls(environment, scenario, voltages)


def labels_of(results: xr.Dataset) -> list[str]:
    """Labels of all cases, in the order of the file."""
    return [str(label) for label in results["case"].values]


def find_case(labels: Sequence[str], name: str) -> int:
    """Place of the one case that a name means.

    Parameters
    ----------
    labels : sequence of str
        Of the cases of the file.
    name : str
        A label, or the beginning of one: of whole words (``rrcd dvfs`` does not mean
        ``rrcd dvfsx``, nor ``rrcd`` the technique ``rrcd+pg``), or of letters if no label begins
        with such words.

    Raises
    ------
    UserError
        No case has that name, or several have.
    """
    for begins in (str.__eq__, _begins_with_words, str.startswith):
        found = [place for place, label in enumerate(labels) if begins(label, name)]
        if len(found) == 1:
            return found[0]
        if found:
            meant = ", ".join(repr(labels[place]) for place in found)
            raise UserError(f"case {name!r} may be {meant}: give more of its label")
    raise UserError(f"no case {name!r}; there are {', '.join(map(repr, labels))}")


def _begins_with_words(label: str, name: str) -> bool:
    words = name.split()
    return bool(words) and label.split()[: len(words)] == words
