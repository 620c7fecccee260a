"""Kernels as SM gating knows them: SMs that each needs, and how long it takes on them.

Either the number of SMs is given, as in Table 2 of Chen et al. (DAC 2014), or characteristics are,
from which the time model and Algorithm 1 compute it. Two sets ship with mcage: `chen-2014`, and
`chen-2014-sizes` with execution times by problem size. Any other set is a TOML file with a table
for each kernel.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from mcage.errors import UserError
from mcage.gpu.gating.time_model import KernelTiming, Machine, TimeModel
from mcage.plain_text import shortened
from mcage.spec.sections import Section
from mcage.spec.study_spec import first_problem
from mcage.spec.toml_files import read_toml

KERNEL_SETS = ("chen-2014", "chen-2014-sizes")
"""Sets of kernels that ship with mcage."""

Cycles = Annotated[float, Field(gt=0, le=1e15)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class GatedKernel:
    """A kernel on a GPU that gates SMs.

    Parameters
    ----------
    name : str
        Its name.
    sms : int
        SMs that it needs.
    time_ratio : float
        Time that it takes on them relative to all SMs.
    """

    name: str
    sms: int
    time_ratio: float


class KernelTable(Section):
    """Table of a kernel: its SMs, or the characteristics of `KernelTiming`."""

    sms: Annotated[int, Field(ge=1, le=127)] | None = None
    time_ratio: Annotated[float, Field(gt=0, le=1e3)] | None = None
    global_latency_cycles: Cycles | None = None
    cache_latency_cycles: Cycles | None = None
    miss: Share | tuple[Share, ...] | None = None
    load_bytes_per_thread: Annotated[float, Field(ge=0, le=1e6)] | None = None
    comp_cycles: Cycles | None = None
    total_warps: Cycles | None = None
    total_workload_warps: Cycles | None = None

    @model_validator(mode="after")
    def _counted_or_measured(self) -> Self:
        missing = [name for name in _MEASURED if getattr(self, name) is None]
        if self.sms is not None and len(missing) < len(_MEASURED):
            raise ValueError("gives both sms and measured characteristics: give one of them")
        if self.sms is None and len(missing) == len(_MEASURED):
            raise ValueError("needs sms, or the measured characteristics of the kernel")
        if self.sms is None and missing:
            raise ValueError(f"lacks {', '.join(missing)}")
        if self.sms is None and self.time_ratio is not None:
            raise ValueError("time_ratio follows from the measured characteristics: leave it out")
        return self

    def timing(self) -> KernelTiming:
        """Return the measured characteristics."""
        return KernelTiming(**{name: getattr(self, name) for name in _MEASURED})


_MEASURED = tuple(KernelTiming.__dataclass_fields__)


class _KernelFile(Section):
    """Keys of a file of kernels."""

    kernels: Annotated[dict[str, KernelTable], Field(min_length=1, max_length=10_000)]


def gated_kernels(
    name: str, names: Sequence[str], machine: Machine, model: TimeModel
) -> tuple[GatedKernel, ...]:
    """Kernels of a set, with the SMs that each needs on a GPU.

    Parameters
    ----------
    name : str
        A set that ships with mcage, or a TOML file.
    names : sequence of str
        Kernels of the set; empty: all.
    machine : Machine
        The GPU.
    model : TimeModel
        Chooses SMs of kernels whose characteristics are given.

    Raises
    ------
    UserError
        There is no such set or kernel; the file cannot be read, a key is missing or wrong; a kernel
        needs more SMs than the GPU has.
    """
    if name in KERNEL_SETS:
        path = Path(str(files("mcage") / "data" / "kernels" / f"{name}.toml"))
    elif name.endswith(".toml"):
        path = Path(name)
    else:
        raise UserError(
            f"kernels {shortened(name)} are unknown; choose from {', '.join(KERNEL_SETS)}, or name "
            "a TOML file"
        )
    fields = read_toml(path)
    try:
        tables = _KernelFile.model_validate_json(json.dumps(fields)).kernels
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error, _KernelFile)}") from error
    for kernel in names:
        if kernel not in tables:
            raise UserError(f"{path}: there is no kernel {shortened(kernel)} in it")
    chosen = {kernel: tables[kernel] for kernel in (names or tables)}
    return tuple(_gated(k, table, machine, model, str(path)) for k, table in chosen.items())


def _gated(
    name: str, table: KernelTable, machine: Machine, model: TimeModel, source: str
) -> GatedKernel:
    if table.sms is not None:
        if table.sms > machine.sms:
            raise UserError(
                f"{source}: kernels.{shortened(name)}.sms = {table.sms}, but the GPU has "
                f"{machine.sms} SMs"
            )
        return GatedKernel(name, table.sms, table.time_ratio or 1.0)
    try:
        timing = table.timing()
        cycles = model.cycles(timing, machine)
        best = model.optimum(timing, machine)
    except UserError as error:
        raise UserError(f"{source}: kernels.{shortened(name)}: {error}") from error
    return GatedKernel(name, best, float(cycles[best - 1] / cycles[-1]))
