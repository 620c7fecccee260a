"""Traces of a few events, written by hand."""

from trace_strategies import alloc, read, release, trace_of, write


def small_trace():
    return trace_of(
        [
            alloc(0, 0, 2),
            alloc(0, 2, 2),
            write(1, 0, 1, 5),
            write(1, 0, 0, 9, lanes=1 << 63),
            read(2, 0, 1),
            release(3, 0),
            release(3, 2),
            alloc(9, 1, 3),
            release(9, 1),
        ],
        cycles=12,
    )
