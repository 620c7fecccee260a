"""What a file of results says about the sweep it holds: its spec, its grid, its engine."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import pairwise

from pydantic import TypeAdapter, ValidationError

from mcage.plain_text import shown
from mcage.version import Code, running_code


@dataclass(frozen=True)
class CaseName:
    """One point of the sweep grid by name.

    Parameters
    ----------
    label : str
        The whole case in one text, unique in the sweep: technique, environment, scenario and
        voltages, with spaces between them.
    technique, environment, scenario : str
        Its parts.
    vdd_volts, highest_vdd_volts : float
        Lowest and highest supply voltage at which the slice works, V.
    """

    label: str
    technique: str
    environment: str
    scenario: str
    vdd_volts: float
    highest_vdd_volts: float


@dataclass(frozen=True)
class StoppingRule:
    """When a sweep may end before its last instance.

    Parameters
    ----------
    rel_ci : float
        Largest half-width of the 95 % interval relative to the value, 0 ... 1, both excluded.
    of : str
        The quantity that must be known so well in every case.
    slices_per_chip : int
        Instances that make a chip: only whole chips are looked at.
    """

    rel_ci: float
    of: str
    slices_per_chip: int = 1


@dataclass(frozen=True)
class SweepHeader:
    """A sweep as the files know it: everything but the numbers that it computes.

    Parameters
    ----------
    spec_toml, spec_digest : str
        The spec as TOML text, and the hexadecimal digest of everything that decides its results.
    seed : int
        Seed of all random streams.
    instances : int
        Number of instances of every case; their ids are 0 ... instances - 1. With a stopping
        rule, the most that are computed, until the sweep has ended.
    cases : tuple of CaseName
        The grid.
    kernels : tuple of str
        Names of the kernels that the workloads draw from.
    workload_periods : int
        Number of workload draws in a life.
    epoch_edges_years : tuple of float
        Borders of the epochs, years, from 0 to the horizon; one more than there are epochs.
    operating_points : int
        Operating points of the environment that has most.
    engine, engine_reason, device : str
        The engine that computes, why that one, and what it runs on.
    codes : tuple of Code
        Code that computes it; of finished results, all of which some were computed.
    stopping : StoppingRule, optional
        When the sweep may end earlier.
    stopped : str
        Where it has ended by that rule and why, in words; empty until then.

    Raises
    ------
    ValueError
        A field contradicts another.
    """

    spec_toml: str
    spec_digest: str
    seed: int
    instances: int
    cases: tuple[CaseName, ...]
    kernels: tuple[str, ...]
    workload_periods: int
    epoch_edges_years: tuple[float, ...]
    operating_points: int
    engine: str
    engine_reason: str = ""
    device: str = ""
    codes: tuple[Code, ...] = field(default_factory=lambda: (running_code(),))
    stopping: StoppingRule | None = None
    stopped: str = ""

    def __post_init__(self) -> None:
        edges = self.epoch_edges_years
        if self.instances < 1 or self.workload_periods < 1 or not self.kernels or not self.cases:
            raise ValueError("a campaign needs an instance, a workload period, a kernel, a case")
        if not self.codes:
            raise ValueError("a campaign needs a code that computes it")
        if len({case.label for case in self.cases}) < len(self.cases):
            raise ValueError("two cases of a campaign have the same label")
        if (
            len(edges) < 2
            or edges[0] != 0
            or any(later <= earlier for earlier, later in pairwise(edges))
        ):
            raise ValueError(f"epoch edges must rise from 0 to the horizon, got {edges}")
        if not math.isfinite(edges[-1]):
            raise ValueError(f"the horizon must be finite, got {edges[-1]}")

    @property
    def horizon_years(self) -> float:
        """End of the simulated time, years; lives that reach it are censored."""
        return self.epoch_edges_years[-1]

    def to_json(self) -> str:
        """Text from which `from_json` makes the same campaign again."""
        return json.dumps(asdict(self), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "SweepHeader":
        """Campaign out of the text of `to_json`.

        Raises
        ------
        ValueError
            It is another text; the message names the field.
        """
        try:
            return _campaign_type().validate_json(text, strict=True)
        except ValidationError as error:
            problem = error.errors()[0]
            field = ".".join(str(part) for part in problem["loc"])
            message = problem["msg"].removeprefix("Value error, ")
            raise ValueError(f"{field}: {message}" if field else message) from error

    def difference(self, other: "SweepHeader") -> str | None:
        """Say why results of ``other`` may not join those of this campaign; None if they may.

        Device and reason may differ (a sweep may continue on another machine); the engine may
        not, because the file names a single engine. A sweep that has ended by its stopping rule
        has fewer instances than while it runs. Of the codes that compute them, `other_codes` tells.
        """
        for name in ("spec_digest", "engine"):
            if getattr(self, name) != getattr(other, name):
                return f"{name} {shown(getattr(other, name))}, not {getattr(self, name)}"
        theirs = replace(
            other, device=self.device, engine_reason=self.engine_reason, codes=self.codes
        )
        if self.stopping:
            theirs = replace(theirs, instances=self.instances, stopped=self.stopped)
        return None if theirs == self else "another grid of cases, kernels or epochs"

    def other_codes(self, other: "SweepHeader") -> tuple[Code, ...]:
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

    def joined_by(self, other: "SweepHeader") -> "SweepHeader":
        """Return this campaign with the codes of ``other`` added to its own."""
        return replace(self, codes=tuple(dict.fromkeys((*self.codes, *other.codes))))


def code_in_words(codes: Iterable[Code]) -> str:
    """Codes as messages name them."""
    return "; ".join(map(str, codes))


@cache
def _campaign_type() -> TypeAdapter[SweepHeader]:
    return TypeAdapter(SweepHeader)
