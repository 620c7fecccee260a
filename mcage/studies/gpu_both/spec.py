"""The study of both levels: the spec of SM gating and that of a sweep, in a third.

What both could say is said once: the number of GPUs, the seed and the stopping rule in the spec
itself; horizon, guardband and NBTI model by the level of the SMs.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import tomli_w
from pydantic import Field, model_validator

from mcage.files.inputs import read_toml
from mcage.plain_text import shortened
from mcage.spec import SweepSpec
from mcage.spec.keys import COMPARED, Key, Option, StudySpec
from mcage.spec.sections import Name, Stopping
from mcage.studies.gpu_gating.spec import GatingSpec

DEFAULTS: dict[str, dict[str, Any]] = {
    "gating": {"policies": ["default", "round-robin"]},
    "sweep": {
        "techniques": ["baseline", "rc+rar"],
        "environments": ["turbo"],
        "spread": False,  # slices differ as their SMs do
        "low_vdd": "printed",  # one Vdd for all techniques of a GPU
    },
}
"""Keys in which the specs of the levels differ from those of studies of a single level."""

MOST_SLICES = 10**9
"""Slices of all GPUs together."""


class BothStopping(Stopping):
    """When a campaign may end before its last instance."""

    of: Annotated[Name, Option("--of VARIABLE")] = "cell_margin"
    """The variable whose mean --rel-ci looks at."""


class BothSpec(StudySpec):
    """Everything that decides the results of a study of both levels."""

    command: ClassVar[str] = "gpu both"
    decided_by: ClassVar = {
        f"sweep.{key}": tuple(f"sweep.{cause}" for cause in causes)
        for key, causes in SweepSpec.decided_by.items()
    }

    panel: ClassVar = "Registers"
    compared: ClassVar = [
        *("sweep.techniques", "gating.policies", "gating.aging.model", "gating.life.horizon_years"),
        *("gating.gpu", "instances", "seed"),
    ]

    instances: Annotated[int, Field(ge=1, le=10**8), Option("--instances N")] = 500
    """Number of sampled GPUs."""
    seed: Annotated[int, Field(ge=0, lt=2**63), Option("--seed N")] = 1
    """Seed of all random streams."""
    slices_per_sm: Annotated[
        int,
        Field(ge=1, le=64),
        Option("--slices-per-sm N", default="2, the 128 KB of a GTX580's SM"),
    ] = 2
    """Number of register-file slices of an SM."""
    cell_vt0: Annotated[Literal["sm", "nominal"], Option("--cell-vt0 WHICH")] = "sm"
    """Unaged threshold of cells: that of their SM (sm), or of the NBTI model (nominal)."""
    gating: GatingSpec = GatingSpec.from_mapping(DEFAULTS["gating"])
    """The level of the SMs; the first policy is the reference."""
    sweep: SweepSpec = SweepSpec.from_mapping(DEFAULTS["sweep"])
    """The level of the register files; the first technique is the reference."""
    stopping: BothStopping | None = None

    @classmethod
    def options(cls) -> list[Key]:
        """Return the keys that have options: nearly all of gating, and few of the sweep."""
        keys = (
            _in_both(key)
            for key in super().options()
            if key.name in _OF_SWEEP or not key.name.startswith(_WITHOUT_OPTIONS)
        )
        return sorted(keys, key=lambda key: key.panel == cls.panel)

    @classmethod
    def plain(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with the files of both levels read, and defaults filled in."""
        levels = {}
        for level, defaults in DEFAULTS.items():
            section = fields.get(level, {})
            if isinstance(section, str):
                section = read_toml(Path(section))
            if isinstance(section, dict):
                spec = SweepSpec if level == "sweep" else GatingSpec
                levels[level] = spec.plain(defaults | section)
        return fields | levels

    @model_validator(mode="after")
    def _each_key_once(self) -> Self:
        for key in (*_SAME_AS, *_DECIDED):
            value, source = _at(self, key), _SAME_AS.get(key)
            if _is_given(self, key) and not (source and value == _at(self, source)):
                reason = f"it is that of {source}" if source else _DECIDED[key]
                raise ValueError(f"{key} = {shortened(value)}: {reason}; leave it out")
        return self

    @model_validator(mode="after")
    def _a_single_environment(self) -> Self:
        sweep = self.sweep
        for key in ("protections", "environments", "scenarios", "vdd_volts"):
            values = getattr(sweep, key)
            if len(values) > 1:
                raise ValueError(f"sweep.{key} = {shortened(list(values))}: give at most 1 of them")
        if sweep.low_vdd != "printed":
            raise ValueError(
                f"sweep.low_vdd = {shortened(sweep.low_vdd)}: techniques of a GPU have one Vdd; "
                "give sweep.vdd_volts, or leave it out"
            )
        if self.gating.workload.idle != "gated":
            raise ValueError(
                f"gating.workload.idle = {shortened(self.gating.workload.idle)}: what cells hold "
                "on an idle GPU is not known; use gated"
            )
        return self

    def to_toml(self) -> str:
        """TOML text from which the same spec is read again; without keys that others decide."""
        fields = self.model_dump(mode="json", exclude_none=True)
        for key in (*_SAME_AS, *_DECIDED):
            *tables, name = key.split(".")
            holder = fields
            for table in tables:
                holder = holder[table]
            holder.pop(name, None)
        return tomli_w.dumps(fields)

    def sweep_of(self, sms: int, ranges: dict[str, tuple[float, float]]) -> SweepSpec:
        """Spec of the sweep over the slices of all GPUs.

        Parameters
        ----------
        sms : int
            SMs of a GPU.
        ranges : dict
            Lowest and highest ``activity``, ``temperature_kelvin`` and ``vt0_volts`` of any slice.

        Raises
        ------
        UserError
            The sweep makes no sense with these values.
        """
        fields = self.sweep.model_dump(mode="json", exclude_none=True)
        slices = sms * self.slices_per_sm
        aging = self.gating.aging
        fields |= {"instances": min(self.instances * slices, MOST_SLICES), "seed": self.seed}
        fields["life"] |= {
            "horizon_years": self.gating.life.horizon_years,
            "delay_guardband": self.gating.life.delay_guardband,
            "activity": _between(ranges["activity"]),
            "temperature_kelvin": _between(ranges["temperature_kelvin"]),
        }
        fields["aging"] |= {"model": aging.model, "vt0_volts": _between(ranges["vt0_volts"])}
        if aging.constants:
            numbers = {k: v for k, v in aging.constants.items() if k != "vt0_volts"}
            fields["aging"]["constants"] = numbers
        fields["faults"]["slices_per_chip"] = slices
        return SweepSpec.from_mapping(fields, f"{self.command}: sweep")

    def gating_of(self, report_years: tuple[float, ...]) -> GatingSpec:
        """Spec of the level of the SMs, which reports at the given ages."""
        fields = self.gating.model_dump(mode="json", exclude_none=True)
        fields |= {"instances": self.instances, "seed": self.seed}
        fields["life"]["report_years"] = list(report_years)
        if recorded := self.gating.workload.recorded:
            fields["workload"]["recorded"]["sources"] = recorded.sources
        return GatingSpec.from_mapping(fields, f"{self.command}: gating")


_SAME_AS = {
    "gating.instances": "instances",
    "gating.seed": "seed",
    "sweep.instances": "instances",
    "sweep.seed": "seed",
    "sweep.life.horizon_years": "gating.life.horizon_years",
    "sweep.life.delay_guardband": "gating.life.delay_guardband",
    "sweep.aging.model": "gating.aging.model",
    "sweep.aging.constants": "gating.aging.constants",
}
"""Keys of the levels that have the value of another key."""

_DECIDED = {
    "gating.life.report_years": "ages are the ends of the epochs of the sweep",
    "gating.stopping": "the study has a stopping rule of its own, stopping",
    "sweep.life.activity": "the share of the time is that of the SM under the policy",
    "sweep.life.idle": "the cells of a gated SM are off",
    "sweep.life.temperature_kelvin": "temperatures are those of the SMs",
    "sweep.life.temperature_swing_kelvin": "temperatures are those of the SMs",
    "sweep.aging.vt0_volts": "cell_vt0 and gating.variation decide it",
    "sweep.draws": "SMs and their cells have the same constants",
    "sweep.faults.slices_per_chip": "slices_per_sm and the GPU decide it",
    "sweep.stopping": "the study has a stopping rule of its own, stopping",
}
"""Keys of the levels that are no keys of this study, and why."""


_OF_SWEEP = (
    *("sweep.techniques", "sweep.environments", "sweep.scenarios", "sweep.vdd_volts"),
    *("sweep.workload.kernels", "sweep.workload.periods", "sweep.life.epochs"),
)
"""Keys of the sweep that have an option here, too."""

_WITHOUT_OPTIONS = (
    *("gating.instances", "gating.seed", "gating.stopping", "gating.workload.idle", "sweep."),
)
"""Beginnings of keys of the levels, all other of which have none."""


def _in_both(key: Key) -> Key:
    """Option of a level as it is here: register files are alike but for their technique."""
    if key.name not in _OF_SWEEP or key.panel == COMPARED:
        return key
    if key.name == "sweep.workload.kernels":
        said = "Bundled kernel that register files replay, or a trace file."
        option = replace(key.option, usage="--replay NAME")
        key = replace(key, option=option, help=said)
    return replace(key, panel=BothSpec.panel, once=key.option.is_axis)


def _at(section: Any, key: str) -> Any:
    for name in key.split("."):
        section = getattr(section, name)
    return section


def _is_given(section: Any, key: str) -> bool:
    """Whether a key stands in the file or in an option."""
    for name in key.split("."):
        if name not in section.model_fields_set:
            return False
        section = getattr(section, name)
    return True


def _between(ends: tuple[float, float]) -> float | str:
    """Distribution between two ends, as specs write it."""
    low, high = ends
    return low if low == high else f"uniform({low!r}, {high!r})"
