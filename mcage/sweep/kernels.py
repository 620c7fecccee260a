"""Which kernels a sweep draws from, and their traces as its slices replay them."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.geometry import GCN, NVIDIA
from mcage.plain_text import shortened
from mcage.spec import SweepSpec
from mcage.spec.sections import Geometry, Workload
from mcage.spec.workload_mix import draw_kernels
from mcage.traces import Trace, first_generations
from mcage.traces.library import KERNELS, PROFILES
from mcage.traces.recorded import RecordedTrace, recorded_trace
from mcage.traces.transforms import on_slice, released


def kernels_of(spec: SweepSpec) -> tuple[str, ...]:
    """Names of the kernels of a sweep: those that it names, or all bundled ones of its slice.

    Parameters
    ----------
    spec : SweepSpec
        The sweep.
    """
    given = spec.registers.geometry
    if spec.workload.kernels or given is None:
        return spec.workload.kernels or KERNELS
    try:
        narrow = given.of(GCN).shape[:2] == NVIDIA.shape[:2]
    except UserError:  # refused with its reason where the traces are looked at
        narrow = False
    return PROFILES if narrow else KERNELS


def kernels_of_periods(spec: SweepSpec, instances: NDArray[np.int64]) -> NDArray[np.int64]:
    """Kernel of every workload period: int64[instances, periods], indices into the kernels.

    Parameters
    ----------
    spec : SweepSpec
        The sweep.
    instances : int64[instances]
        Their ids.
    """
    workload = spec.workload
    return draw_kernels(workload.mix, spec.seed, instances, kernels_of(spec), workload.periods)


def check_weights(spec: SweepSpec) -> None:
    """Refuse a mix that leaves out a kernel of the sweep or names another, and a kernel twice.

    Raises
    ------
    UserError
        One line that names the kernel.
    """
    weights, kernels = spec.workload.mix, kernels_of(spec)
    if twice := next((name for name in kernels if kernels.count(name) > 1), None):
        raise UserError(
            f"workload.kernels: names {shortened(twice)} twice; to run a kernel more often than "
            "others, give workload.mix weights"
        )
    if isinstance(weights, dict) and set(weights) != set(kernels):
        unknown = sorted(set(weights) - set(kernels))
        raise UserError(
            f"workload.mix: {unknown[0]!r} is no kernel of this sweep; name it in workload.kernels"
            if unknown
            else f"workload.mix: no weight for {min(set(kernels) - set(weights))!r}; give it one, "
            "or leave it out of workload.kernels"
        )


def traces_of(spec: SweepSpec) -> tuple[RecordedTrace, ...]:
    """What the slices of a sweep replay, a trace for each kernel.

    Parameters
    ----------
    spec : SweepSpec
        The sweep.

    Raises
    ------
    UserError
        A kernel has no trace, or the traces are not of slices of the same geometry.
    """
    workload = spec.workload
    changed = partial(_as_replayed, workload=workload, given=spec.registers.geometry)
    how = f"{workload.release} {workload.generations} {spec.registers.geometry!r}"
    traces = tuple(recorded_trace(name, changed, how) for name in kernels_of(spec))
    _check_geometry(traces, spec.registers.selector_offsets)
    return traces


def _as_replayed(trace: Trace, workload: Workload, given: Geometry | None) -> Trace:
    trace = on_slice(trace, given.of(trace.geometry)) if given else trace
    # Ends of wavefronts are told from whole work-groups: an excerpt may keep parts of one.
    trace = released(trace, workload.release)
    return first_generations(trace, workload.generations) if workload.generations else trace


def _check_geometry(traces: Sequence[RecordedTrace], selector_offsets: int) -> None:
    """Refuse traces of different slices, and more offsets than entries."""
    first = traces[0]
    for trace in traces:
        if trace.geometry.shape != first.geometry.shape:
            raise UserError(
                f"workload.kernels: {first.name!r} is of a slice {first.geometry.name}, "
                f"{trace.name!r} of {trace.geometry.name}; a sweep has slices of a single geometry"
            )
    if first.geometry.entries % selector_offsets:
        raise UserError(
            f"registers.selector_offsets = {selector_offsets}: must divide the "
            f"{first.geometry.entries} entries of the slice"
        )
