"""What a file of results says about itself: which study wrote it, of which spec, on which engine.

A study may have a class of its own, with what it alone knows, and registers it by an entry point
of the group ``mcage.headers``, or by `register` in the running process. The files of any other
study declare their variables and coordinates themselves.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from importlib.metadata import entry_points
from itertools import chain, pairwise
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from mcage.errors import UserError
from mcage.plain_text import shortened, shown
from mcage.results.axes import Axis
from mcage.results.differences import Difference, digests_apart, programs_in, spec_differences
from mcage.results.measures import Measure, quantities_of
from mcage.results.variable import Coordinate, Quantity, Variable, mean_of
from mcage.stats.estimates import CONFIDENCE, known_name
from mcage.stats.survival import Precision
from mcage.version import Code, running_code

SCHEMA_VERSION = 11
"""Version of what all files hold."""

EXTENT = ("spec_toml", "instances", "absent", "stopping", "stopped")
"""Fields of a header that say how many instances there are, and decide none of them."""

HEADERS, PRESENTATIONS = "mcage.headers", "mcage.presentations"
"""Groups of entry points: of each study the class of its headers, and the one that shows it."""

OTHER = "a technique, model, constant or kernel that the spec names has changed"
"""How two campaigns with the same keys and programs differ."""

OLDEST_STUDY = "sweep"
"""The study of files that do not name theirs."""


def _fields_of(record: Any) -> dict[str, Any]:
    """Fields of a dataclass by name, without those of records in them."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


@dataclass(frozen=True)
class StoppingRule:
    """When a campaign may end before its last instance.

    Parameters
    ----------
    rel_ci : float or None
        Largest half-width of the interval relative to the value, 0 ... 1, both excluded; None
        where `margin` decides.
    of : str
        Name of the quantity that must be known so well.
    group_size : int
        Instances that depend on one another, such as the slices of a chip: a campaign ends with
        whole groups only.
    margin : float or None
        Largest half-width in the unit of the quantity, of shares as fractions.
    level : float
        Level of the interval.
    """

    rel_ci: float | None
    of: str
    group_size: int = 1
    margin: float | None = None
    level: float = CONFIDENCE

    @property
    def limit(self) -> float:
        """Largest half-width, relative or absolute."""
        limit = self.rel_ci if self.margin is None else self.margin
        assert limit is not None
        return limit

    def width(self, precision: Precision) -> float:
        """Half-width of a quantity, relative or absolute as the rule has it."""
        return precision.relative if self.margin is None else precision.absolute


def rule_of(
    stopping: Any,
    variables: Iterable[Variable],
    measures: Iterable[Measure] = (),
    group_size: int = 1,
) -> StoppingRule | None:
    """Rule that a spec asks for, or None.

    Parameters
    ----------
    stopping : object or None
        What the spec says: ``rel_ci`` or ``margin``, ``level``, and ``of``, a measure that may
        stop the study, or of a study without such, the variable of which the mean is looked at.
    variables, measures : iterable of Variable, of Measure
        What the study computes, and what it says of a case.
    group_size : int
        As of `StoppingRule`.

    Raises
    ------
    UserError
        The study has no such measure, or no such variable of numbers.
    """
    if stopping is None:
        return None
    stops = dict.fromkeys(measure.stops for measure in measures if measure.stops)
    names = list(stops) or [variable.name for variable in variables if not variable.flags]
    of = known_name(stopping.of, names)
    if of not in names:
        must = "must be one of" if stops else "is no variable; choose from"
        said = f"{must} {', '.join(names)}"
        raise UserError(f"stopping.of = {shortened(of)}{':' * bool(stops)} {said}")
    return StoppingRule(stopping.rel_ci, of, group_size, stopping.margin, stopping.level)


@dataclass(frozen=True, kw_only=True)
class Header(ABC):
    """A campaign as its files know it: everything but the numbers that it computes.

    Parameters
    ----------
    spec_toml, spec_digest : str
        The spec as TOML text, and the hexadecimal digest of everything that decides its results.
    seed : int
        Seed of all random streams.
    instances : int
        Number of instances; their ids are 0 ... instances - 1. With a stopping rule, the most
        that are computed, until the campaign has ended.
    engine, engine_reason, device : str
        The engine that computes, why that engine, and what it runs on.
    codes : tuple of Code
        Code that computes; of finished results, all codes that computed some of them.
    stopping : StoppingRule, optional
        When the campaign may end earlier.
    stopped : str
        Where it has ended by that rule and why, in words; empty until then.
    absent : tuple of (int, int)
        First and last id of the ranges of instances that a partial results file lacks, rising;
        empty of every other.

    Raises
    ------
    ValueError
        A field contradicts another.
    """

    spec_toml: str
    spec_digest: str
    seed: int
    instances: int
    engine: str
    engine_reason: str = ""
    device: str = ""
    codes: tuple[Code, ...] = field(default_factory=lambda: (running_code(),))
    stopping: StoppingRule | None = None
    stopped: str = ""
    absent: tuple[tuple[int, int], ...] = ()

    spec: ClassVar[type | None] = None
    """Class of the specs of the study, if `mcage.run` is to compute them."""

    maker: ClassVar[str] = ""
    """Class that makes the study of such a spec, a `mcage.studies.common.StudyOfSpec`, as
    ``module:NAME``."""

    command: ClassVar[str] = ""
    """Command line that computes the study, but for spec and output; empty where there is none."""

    axes: ClassVar[tuple[Axis, ...]] = ()
    """Axes by which its cases differ. By default, these are the coordinates of its cases, or its
    dimensions of texts."""

    measures: ClassVar[tuple[Measure, ...]] = ()
    """Numbers that the study says of each of its cases; those that may stop it among them."""

    objectives: ClassVar[tuple[str, ...]] = ()
    """Keys of what its cases are chosen by unless the user says; empty for all measures of which is
    known what is better."""

    grid: ClassVar[tuple[str, ...]] = ()
    """Dimensions along which its cases lie; empty for all that have names."""

    decided_by: ClassVar[Mapping[str, Sequence[str]] | None] = None
    """By the key of a program, or of a name of programs: keys of the spec, and sections, that make
    it another one. None: the study runs no programs."""

    def __post_init__(self) -> None:
        if self.instances < 1:
            raise ValueError("a campaign needs an instance")
        if self.stopped and not self.stopping:
            raise ValueError("a campaign without a stopping rule has not ended by one")
        if not self.codes:
            raise ValueError("a campaign needs a code that computes it")
        borders = [border for first, last in self.absent for border in (first, last + 1)]
        rise = all(a < b for a, b in pairwise([-1, *borders, self.instances + 1]))
        if not rise or borders == [0, self.instances]:
            raise ValueError(f"no file of {self.instances} instances lacks {self.absent}")

    @cached_property
    def present(self) -> tuple[range, ...]:
        """Ids of the instances that a results file holds, in rising ranges."""
        borders = [0, *(border for a, b in self.absent for border in (a, b + 1)), self.instances]
        ranges = (range(*pair) for pair in zip(borders[::2], borders[1::2], strict=True))
        return tuple(ids for ids in ranges if ids)

    @property
    def ids(self) -> Sequence[int]:
        """Ids of the instances that a results file holds, rising."""
        if not self.absent:
            return range(self.instances)
        return tuple(chain.from_iterable(self.present))

    @property
    def holds(self) -> int:
        """Number of instances that a results file holds."""
        return sum(map(len, self.present))

    @property
    @abstractmethod
    def study(self) -> str:
        """Name of the study."""

    @property
    def dependent_instances(self) -> int:
        """Number of successive instances that are not independent of one another; 1 if all are.

        Raises
        ------
        UserError
            The spec is not one of the study.
        """
        return 1

    def of_cases(self, places: Iterable[int]) -> "Header":
        """Header of the cases at these places alone, of a study that has cases."""
        return self

    @property
    @abstractmethod
    def variables(self) -> tuple[Variable, ...]:
        """Variables that the study computes. Shards hold these, with fewer instances."""

    @property
    @abstractmethod
    def coordinates(self) -> tuple[Coordinate, ...]:
        """Coordinates of the variables, with a scale for each dimension."""

    @property
    def case_dims(self) -> tuple[str, ...]:
        """Dimensions along which cases lie."""
        named = (of.variable for of in self.coordinates if of.is_scale)
        return self.grid or tuple(of.name for of in named if of.dtype == "text")

    @property
    def quantities(self) -> Mapping[str, Quantity]:
        """Quantities of a stopping rule: measures, or without any, the mean of any variable."""
        labels = {c.variable.name: c.values for c in self.coordinates}
        if any(measure.stops for measure in self.measures):
            return quantities_of(
                self.measures, self.case_dims, self.coordinates, self.variables, self.spec_toml
            )
        numbers = (v for v in self.variables if v.per_instance and not v.flags)
        return {variable.name: mean_of(variable, labels) for variable in numbers}

    def declaration(self) -> dict[str, Any]:
        """Attributes that a results file needs to be read, besides those of every study."""
        return {}

    def to_json(self) -> str:
        """Text from which `from_json` of this class makes the same header again."""
        return json.dumps(self, sort_keys=True, allow_nan=False, default=_fields_of)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Header out of the text of `to_json`.

        Raises
        ------
        ValueError
            It is another text; the message names the field.
        """
        try:
            header: Self = _type(cls).validate_json(text, strict=True)
        except ValidationError as error:
            problem = error.errors()[0]
            field = ".".join(str(part) for part in problem["loc"])
            message = problem["msg"].removeprefix("Value error, ")
            raise ValueError(f"{field}: {message}" if field else message) from error
        return header

    def difference(self, other: "Header") -> str | None:
        """Say why results of ``other`` may not join those of this campaign; None if they may.

        Of keys of the spec and of programs, the value of the other campaign comes first.

        Number of instances and stopping rule may differ, because they decide no instance; so may
        device and reason (a campaign may continue on another machine). The engine may not, because
        the file names a single engine. `other_codes` tells of the codes that compute them.
        """
        for name in ("study", "engine"):
            if getattr(self, name) != getattr(other, name):
                return f"{name} {shown(getattr(other, name))}, not {getattr(self, name)}"
        if self.spec_digest != other.spec_digest:
            if keys := other.differences(self, of_a_campaign=True):
                return f"differs from this one in {', '.join(map(str, keys))}"
            digests = digests_apart(other.spec_digest, self.spec_digest)
            return f"spec_digest {', not '.join(digests)}: {OTHER}"
        theirs = replace(
            self.over(other), device=self.device, engine_reason=self.engine_reason, codes=self.codes
        )
        return None if theirs == self else "another grid"

    @property
    def programs(self) -> dict[str, str]:
        """Digests of the programs that ran, by the keys that name them; empty if not known."""
        return programs_in(self.spec_toml)

    def differences(self, other: "Header", of_a_campaign: bool = False) -> list[Difference]:
        """In what spec and programs differ from those of another campaign of the same study.

        See `mcage.results.differences.spec_differences`.
        """
        specs = self.spec_toml, other.spec_toml
        return spec_differences(*specs, self.decided_by, of_a_campaign)

    def over(self, other: "Header") -> "Header":
        """Return the header of ``other`` with the extent of this campaign.

        The extent is what decides no instance: how many there are, when the
        campaign stops and has stopped; and the spec as text, which says that, too.
        """
        return replace(other, **{name: getattr(self, name) for name in EXTENT})

    def other_codes(self, other: "Header") -> tuple[Code, ...]:
        """Codes of ``other`` that differ, in what decides results, from all of this campaign."""
        return tuple(
            theirs
            for theirs in other.codes
            if not any(theirs.computes_as(ours) for ours in self.codes)
        )

    @property
    def accepted_other_code(self) -> bool:
        """Whether these are results of several codes that may differ, as the user has accepted."""
        return not all(code.computes_as(self.codes[0]) for code in self.codes)

    def joined_by(self, other: "Header") -> Self:
        """Return this header with the codes of ``other`` added to its own."""
        return replace(self, codes=tuple(dict.fromkeys((*self.codes, *other.codes))))


@dataclass(frozen=True, kw_only=True)
class DeclaredHeader(Header):
    """Header of a study whose files declare their variables and coordinates.

    Parameters
    ----------
    name : str
        Name of the study.
    computes : tuple of Variable
        What it computes; at least one variable.
    labels : tuple of Coordinate
        The coordinates of all dimensions but ``instance``.
    of_programs : tuple of str
        Caveats of the programs that the study is of.

    Raises
    ------
    ValueError
        As `Header`; or the name is taken, a name stands twice, or a dimension has no coordinate.
    """

    name: str
    computes: tuple[Variable, ...]
    labels: tuple[Coordinate, ...] = ()
    of_programs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name or header_class(self.name) is not type(self):
            raise ValueError(f"{self.name!r} is not the name of this study")
        _check_declaration(self.computes, [label.variable for label in self.labels])
        if empty := [label.variable.name for label in self.labels if not label.values]:
            raise ValueError(f"{empty[0]}: a coordinate needs values")

    @override
    @property
    def study(self) -> str:
        return self.name

    @override
    @property
    def variables(self) -> tuple[Variable, ...]:
        return self.computes

    @override
    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        return (Coordinate(INSTANCE, self.ids), *self.labels)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveats that belong wherever the results are shown."""
        return self.of_programs

    def declaration(self) -> dict[str, Any]:
        """The variables, coordinates and caveats as JSON texts."""
        coordinates = [asdict(label.variable) for label in self.labels]
        caveats = {"caveats": json.dumps(self.of_programs)} if self.of_programs else {}
        return caveats | {
            "variables": json.dumps([asdict(v) for v in self.computes], sort_keys=True),
            "coordinates": json.dumps(coordinates, sort_keys=True),
        }


INSTANCE = Variable("instance", ("instance",), "int64", "1", "instance")
"""Coordinates of the instances in all results files."""


AnyClass = TypeVar("AnyClass", bound=type)

_registered: dict[tuple[str, str], Any] = {}


def register(study: str, group: str = HEADERS) -> Callable[[AnyClass], AnyClass]:
    """Make a class that of the headers of a study, in the running process.

    Parameters
    ----------
    study : str
        Name of the study, as its files say it.
    group : str
        `HEADERS`; or `PRESENTATIONS`, of a `mcage.report.presentation.Presentation`.
    """

    def registered(header: AnyClass) -> AnyClass:
        _registered[group, study] = header
        return header

    return registered


def registered(group: str, study: str) -> Any:
    """Class that a study has registered, or None.

    No more than what is installed, or has registered itself, is imported because a file names it.
    """
    if (group, study) not in _registered:
        installed = entry_points(group=group, name=study)
        _registered[group, study] = installed[study].load() if installed.names else None
    return _registered[group, study]


def header_class(study: str) -> type[Header]:
    """Class of the headers of a study."""
    chosen: type[Header] = registered(HEADERS, study) or DeclaredHeader
    return chosen


def studies() -> tuple[str, ...]:
    """Names of the studies that are installed, or have registered themselves."""
    here = {study for (group, study), kind in _registered.items() if group == HEADERS and kind}
    return tuple(sorted({*entry_points(group=HEADERS).names, *here}))


def code_in_words(codes: Iterable[Code]) -> str:
    """Codes as messages name them."""
    return "; ".join(map(str, codes))


def _check_declaration(variables: Sequence[Variable], coordinates: Sequence[Variable]) -> None:
    """Refuse variables that no file can hold.

    Raises
    ------
    ValueError
        A name stands twice, a dimension has no scale, a variable does not hold numbers, or no
        variable has the dimension ``instance``.
    """
    names = ["instance", *(array.name for array in (*variables, *coordinates))]
    if not variables or len(set(names)) < len(names):
        raise ValueError("a study needs variables, each with a name of its own")
    scales = {"instance", *(label.name for label in coordinates if label.dims == (label.name,))}
    for array in (*variables, *coordinates):
        if missing := set(array.dims) - scales:
            raise ValueError(f"{array.name}: no coordinate for {min(missing)}")
    for variable in variables:
        if variable.dtype == "text" or np.dtype(variable.dtype).kind not in "iuf":
            raise ValueError(f"{variable.name}: {variable.dtype} is not a type of numbers")
        if not variable.per_instance and np.dtype(variable.dtype).kind == "f":
            raise ValueError(f"{variable.name}: only integers can be summed over instances")
    if not any(variable.per_instance for variable in variables):
        raise ValueError("a study needs a variable with the dimension instance")
    for label in coordinates:
        _ = label.dtype == "text" or np.dtype(label.dtype)
        if len(label.dims) != 1:
            raise ValueError(f"{label.name}: a coordinate needs one dimension")


@cache
def _type(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
