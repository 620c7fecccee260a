"""What a design may be chosen by: measures and variables of a sweep, its voltages, its area."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import xarray as xr

from mcage.costs import Technology, area
from mcage.costs.protection import protection_area
from mcage.errors import UserError
from mcage.plain_text import shown
from mcage.protection.policy import protection
from mcage.results.measures import Better, Form, Measure
from mcage.stats.estimates import Floats, Range, known_name
from mcage.studies.sweep.header import VARIABLES, SweepHeader
from mcage.techniques import TECHNIQUES

DIRECTIONS: dict[str, Better] = {"min": "less", "max": "more"}
"""What is better, by the word that follows a colon."""

DEFAULT = ("rmst_years", "energy_saving_of_all", "area")
"""Objectives where none is named: life, energy and area."""


@dataclass(frozen=True)
class Objective:
    """A number of each case of which less or more is better.

    Parameters
    ----------
    key : str
        Its name for programs.
    name : str
        Its name for people, with the unit in brackets.
    better : {'less', 'more', ''}
        What is better; empty as long as the user has not said it.
    values : callable
        From cases of a results file and the constants of their costs to the values of their
        instances, [case, instance], NaN where an instance has none; or to the values of cases,
        [case], that do not depend on instances.
    scale : float
        What makes a value that of the name's unit, such as 100 for percent of a fraction.
    form : str
        See `mcage.results.measures.Form`.
    within : callable
        From the horizon to the range of its values.
    """

    key: str
    name: str
    better: Better
    values: Callable[[xr.Dataset, Technology], Floats]
    scale: float = 1.0
    form: Form = "mean"
    within: Callable[[float], Range | None] = lambda _: None

    @property
    def heading(self) -> str:
        """Heading of its column."""
        return self.name.replace(" [", "\n[")

    @property
    def sign(self) -> float:
        """Factor with which less is better."""
        return -1.0 if self.better == "more" else 1.0


def added_area(technique: str, guard: str, technology: Technology) -> float:
    """Area of what a technique and its protection add, as a fraction of that of the slice.

    Parameters
    ----------
    technique, guard : str
        Technique and protection as files have them, such as ``rrcd`` and ``ecp1``.
    technology : Technology
        Constants of the components.

    Returns
    -------
    float
        NaN where nobody knows: of a technique that does not ship with mcage, whose module is not
        imported because a file names it.
    """
    if technique not in TECHNIQUES:
        return math.nan
    added = sum(protection_area(protection(guard), technology, technology.geometry).values())
    return area(TECHNIQUES[technique], technology).overhead + added / technology.slice.area_mm2


def _areas(cases: xr.Dataset, technology: Technology) -> Floats:
    """Area that the technique of each case adds; NaN where constants are of another slice."""
    names = list(zip(cases["technique"].values, cases["protection"].values, strict=True))
    of_names = {name: added_area(*name, technology) for name in set(names)}
    # Where constants are of another slice, no slice has a power either.
    known = bool(np.isfinite(cases["conventional_power_mw"].values).any())
    return np.array([of_names[name] if known else math.nan for name in names])


def _of_measure(measure: Measure, cases: xr.Dataset, _: Technology) -> Floats:
    arrays = {
        name: cases[name].transpose("case", "instance", ...).values for name in measure.variables
    }
    of_cases = (
        measure.of({name: array[place] for name, array in arrays.items()})
        for place in range(cases.sizes["case"])
    )
    return np.stack([np.asarray(values, np.float64) for values in of_cases])


def _of_variable(name: str, cases: xr.Dataset, _: Technology) -> Floats:
    array = cases[name]
    dims = ("case", "instance") if "instance" in array.dims else ("case",)
    return np.asarray(array.transpose(*dims).values, np.float64)


def _known() -> dict[str, Objective]:
    """All objectives by key."""
    measures = [
        Objective(m.key, m.name, m.better, partial(_of_measure, m), m.scale, m.form, m.within)
        for m in SweepHeader.measures
        if m.better
    ]
    taken = {objective.key for objective in measures}
    numbers = [
        variable
        for variable in (*VARIABLES, *(axis.variable() for axis in SweepHeader.axes))
        if variable.dims in (("case", "instance"), ("case",))
        and variable.dtype != "text"
        and not variable.flags
        and variable.name not in taken
    ]
    variables = [
        Objective(
            variable.name,
            variable.long_name + f" [{variable.units}]" * (variable.units != "1"),
            "less" if variable.dims == ("case",) else "",
            partial(_of_variable, variable.name),
        )
        for variable in numbers
        if variable.name != "life_years"  # a life, of which the measure is the mean
    ]
    areas = Objective("area", "area added [% of the slice]", "less", _areas, 100.0)
    return {objective.key: objective for objective in (*measures, *variables, areas)}


def objective(text: str) -> Objective:
    """Objective as it is named on the command line: ``NAME``, ``NAME:min`` or ``NAME:max``.

    Parameters
    ----------
    text : str
        Key of an objective or its beginning, if only one key begins so; after a colon, which of
        two values is better.

    Raises
    ------
    UserError
        There is no such objective, several are meant, or it is not known what is better.
    """
    name, colon, direction = text.partition(":")
    known = _known()
    if colon and direction not in DIRECTIONS:
        raise UserError(f"--objective {shown(text)}: after the colon, min or max is needed")
    name = known_name(name.strip(), known)
    meant = [name] if name in known else [key for key in known if name and key.startswith(name)]
    if len(meant) != 1:
        quantiles = [m.key for m in SweepHeader.measures if m.quantile is not None]
        if name and any(key.startswith(name) for key in quantiles):
            raise UserError(
                f"--objective {shown(text)}: quantiles are no means over dies, as which objectives "
                "are resampled; use rmst_years"
            )
        raise UserError(
            f"--objective {shown(text)}: there {'are several' if meant else 'is no'} such; choose "
            f"from {', '.join(meant or known)}"
        )
    chosen = known[meant[0]]
    if direction:
        return replace(chosen, better=DIRECTIONS[direction])
    if not chosen.better:
        raise UserError(
            f"--objective {shown(text)}: say what is better, {chosen.key}:min or {chosen.key}:max"
        )
    return chosen


def objectives(texts: tuple[str, ...]) -> tuple[Objective, ...]:
    """Objectives of these names, at least two; those of `DEFAULT` if there are none.

    Raises
    ------
    UserError
        As `objective`; or one stands twice, or alone.
    """
    chosen = tuple(map(objective, texts or DEFAULT))
    keys = [of.key for of in chosen]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise UserError(f"--objective {twice}: is given twice")
    if len(chosen) < 2:
        raise UserError(
            f"--objective {keys[0]}: a front needs two objectives or more; for one, sort the table "
            "of mcage show"
        )
    return chosen
