"""A native trace as a user may write it down: a table."""

import numpy as np

from mcage.traces import ALLOC, RELEASE, WRITE

EVENTS = ("alloc", "release", "write", "read")


def plain_table(trace):
    """CSV of a trace."""
    lanes = trace.geometry.components
    window_of_event = trace.window_of_event()
    lines = [f"# lanes: {lanes}", "# recorder: 1.0"]
    lines.append(
        "cycle,event,window,register,lanes,values,size,kernel,launch,work_group,wavefront,"
        "unit,part,entry"
    )
    for row in range(len(trace.kind)):
        kind, window = trace.kind[row], window_of_event[row]
        fields = [trace.cycle[row], EVENTS[kind], f"w{window}", "", "", "", *[""] * 8]
        if kind == ALLOC:
            size = int(trace.reg[row])
            fields[6:] = [
                *(size, f'"{trace.kernels[trace.alloc_kernel[window]].name}"'),
                *(trace.alloc_launch[window], trace.alloc_work_group[window]),
                *(trace.alloc_wavefront[window], 3, 1, size * int(trace.slot[row])),
            ]
        elif kind != RELEASE:
            fields[3] = trace.reg[row]
        if kind == WRITE:
            fields[4] = f"{trace.exec_mask[row]:x}"
            values = trace.values[trace.value[row]][lanes_of(trace, row)]
            fields[5] = " ".join(f"{value:08x}" for value in values)
        lines.append(",".join(map(str, fields)))
    return "\n".join(lines) + "\n"


def lanes_of(trace, row):
    """Lanes of a write."""
    lanes = np.arange(trace.geometry.components, dtype=np.uint64)
    return np.flatnonzero(trace.exec_mask[row] >> lanes & 1)
