"""A trace drawn from a profile."""

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.traces.model import ALLOC, READ, RELEASE, WRITE, Kernel, Trace
from mcage.traces.profiles.profile import Profile, Register, Value
from mcage.traces.profiles.synthesizing.accesses import Accesses, accesses_of
from mcage.traces.profiles.synthesizing.contents import Writes, contents_drawn
from mcage.traces.profiles.synthesizing.dispatch import Dispatched, dispatched
from mcage.traces.validation import MOST_CYCLES

MOST_WRITES = 4_000_000
"""Writes of the longest trace: their contents take 1 GiB."""
_ORDER_IN_CYCLE = np.array([0, 3, 1, 2])
_COLUMNS = ("window", "cycle", "kind", "reg", "exec_mask")
_AT_ONCE = 65536


def synthesize(
    profile: Profile, seed: int = 0, windows: int | None = None, cycles: int | None = None
) -> Trace:
    """Draw a trace.

    Parameters
    ----------
    profile : Profile
        What it is to be like.
    seed : int
        Equal seeds give equal traces.
    windows, cycles : int, optional
        About so many windows, or cycles of a pass; by default as many as in the profile. Whole
        work-groups are drawn, at least one for each launch.

    Raises
    ------
    UserError
        The profile makes a trace without writes, with too many, or a pass that is too long.
    """
    random = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
    placed = dispatched(profile, _work_groups(profile, windows, cycles), random)
    if int(placed.end.max()) + profile.rest > MOST_CYCLES:
        raise UserError(
            f"profile {profile.name!r}: makes a pass of {int(placed.end.max())} cycles, and at "
            f"most {MOST_CYCLES} can be replayed; ask for fewer windows"
        )
    parts: list[NDArray[np.uint64]] = []
    contents: list[NDArray[np.uint32]] = []
    for number, kernel in enumerate(profile.kernels):
        masks = np.array([int(mask, 16) for mask in kernel.lane_masks], np.uint64)
        for role, of_role in enumerate(kernel.roles):
            members = np.flatnonzero((placed.kernel == number) & (placed.role == role))
            if not len(members):
                continue
            of_registers = [
                accesses_of(register, placed.active[members], random)
                for register in of_role.registers
            ]
            kinds, writes = _writes(of_role.registers, of_registers, masks)
            contents.append(contents_drawn(kinds, writes, profile.slice, random))
            edges = np.cumsum([len(accesses.kind) for accesses in of_registers])[:-1]
            for reg, lanes in enumerate(np.split(writes.lanes, edges)):
                parts += _events(of_registers[reg], lanes, reg, members, placed)
    return _trace(profile, seed, placed, parts, np.concatenate(contents))


def _work_groups(profile: Profile, windows: int | None, cycles: int | None) -> tuple[int, ...]:
    """Work-groups of each launch."""
    in_profile = [
        launch.work_groups * float(np.mean(profile.kernels[launch.kernel].wavefronts))
        for launch in profile.launches
    ]
    scale = 1.0
    if windows is not None:
        scale = windows / sum(in_profile)
    elif cycles is not None:
        scale = cycles / max(int(profile.statistics.get("cycles", cycles)), 1)
    writes = [
        float(
            np.mean([sum(np.mean(reg.writes) for reg in role.registers) for role in kernel.roles])
        )
        for kernel in profile.kernels
    ]
    launched = zip(in_profile, profile.launches, strict=True)
    expected = scale * sum(count * writes[launch.kernel] for count, launch in launched)
    if expected > MOST_WRITES:
        raise UserError(
            f"profile {profile.name!r}: {expected:.3g} writes; at most {MOST_WRITES} are drawn"
        )
    return tuple(max(1, round(launch.work_groups * scale)) for launch in profile.launches)


def _events(
    accesses: Accesses,
    lanes: NDArray[np.uint64],
    reg: int,
    members: NDArray[np.int64],
    placed: Dispatched,
) -> list[NDArray[np.uint64]]:
    """Writes and reads of a register: [_COLUMNS, events] each."""
    parts = []
    for kind, window, cycle, mask in (
        (WRITE, accesses.window, accesses.cycle, lanes),
        (READ, accesses.read_window, accesses.read_cycle, None),
    ):
        columns = np.zeros((len(_COLUMNS), len(window)), np.uint64)
        columns[0] = members[window]
        columns[1] = placed.begin[members[window]] + cycle
        columns[2], columns[3] = kind, reg
        if mask is not None:
            columns[4] = mask
        parts.append(columns)
    return parts


def _writes(
    registers: tuple[Register, ...], accesses: list[Accesses], masks: NDArray[np.uint64]
) -> tuple[list[Value], Writes]:
    """Kinds of values of all registers of a role, and the writes of them."""
    kinds = [value for register in registers for value in register.values]
    starts = np.cumsum([0, *(len(register.values) for register in registers)])
    kind = np.concatenate(
        [each.kind + start for each, start in zip(accesses, starts[:-1], strict=True)]
    )
    number = np.concatenate([each.number for each in accesses])
    lanes = masks[[value.lanes for value in kinds]][kind]
    return kinds, Writes(kind, number, lanes)


def _trace(
    profile: Profile,
    seed: int,
    placed: Dispatched,
    parts: list[NDArray[np.uint64]],
    contents: NDArray[np.uint32],
) -> Trace:
    windows = np.arange(len(placed.begin), dtype=np.uint64)
    sizes = np.array([kernel.window_size for kernel in profile.kernels], np.uint64)
    nothing = np.zeros_like(windows)
    boundaries = [
        np.stack(
            [
                windows,
                placed.begin.astype(np.uint64),
                nothing + ALLOC,
                sizes[placed.kernel],
                nothing,
            ]
        ),
        np.stack([windows, placed.end.astype(np.uint64), nothing + RELEASE, nothing, nothing]),
    ]
    window, cycle, kind, reg, mask = np.concatenate([*parts, *boundaries], axis=1)
    order = np.lexsort((_ORDER_IN_CYCLE[kind.astype(np.int64)], cycle))
    written = np.flatnonzero(kind == WRITE)
    rows, row = _distinct(contents)
    value = np.full(len(kind), -1, np.int32)
    value[written] = row
    kind = kind[order].astype(np.uint8)
    if not len(written):
        raise UserError(f"profile {profile.name!r}: makes a trace without register writes")
    group_size = int(np.bincount(placed.launch * (placed.group.max() + 1) + placed.group).max())
    return Trace(
        name=profile.name,
        source={**profile.source, "synthesized": profile.title, "seed": seed},
        kernels=tuple(Kernel(kernel.name, kernel.window_size) for kernel in profile.kernels),
        cycles=int(cycle.max()) + profile.rest,
        cycle=cycle[order].astype(np.int64),
        kind=kind,
        slot=placed.slot[window[order].astype(np.int64)].astype(np.uint16),
        reg=reg[order].astype(np.uint8),
        exec_mask=mask[order],
        value=value[order],
        values=rows,
        alloc_event=np.flatnonzero(kind == ALLOC).astype(np.uint32),
        alloc_kernel=placed.kernel.astype(np.uint8),
        alloc_launch=placed.launch.astype(np.uint32),
        alloc_work_group=placed.group.astype(np.uint32),
        alloc_wavefront=_wavefronts(placed, group_size).astype(np.uint32),
        geometry=profile.slice,
    )


def _wavefronts(placed: Dispatched, group_size: int) -> NDArray[np.int64]:
    """Number of each wavefront in its launch: by work-group, and by slot in it."""
    order = np.lexsort((placed.slot, placed.group, placed.launch))
    group = (placed.launch * (placed.group.max() + 1) + placed.group)[order]
    starts = np.searchsorted(group, group)
    wavefront: NDArray[np.int64] = np.empty_like(group)
    wavefront[order] = placed.group[order] * group_size + np.arange(len(group)) - starts
    return wavefront


def _distinct(
    contents: NDArray[np.uint32],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Contents without repetition, and the row of each: equal ones are told by a hash."""
    factors = np.random.default_rng(0).integers(0, 1 << 63, contents.shape[1], np.uint64) * 2 + 1
    keys = np.concatenate(
        [
            (contents[start : start + _AT_ONCE] * factors).sum(axis=1, dtype=np.uint64)
            for start in range(0, len(contents), _AT_ONCE)
        ]
    )
    _, first, row = np.unique(keys, return_index=True, return_inverse=True)
    rows = contents[first]
    if not np.array_equal(rows[row], contents):  # two contents with one hash
        return contents, np.arange(len(contents))
    return rows, row.reshape(-1)
