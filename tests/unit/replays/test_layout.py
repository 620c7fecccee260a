"""Layouts of windows: arrays of one kind for all traces."""

from tables import each
from trace_strategies import alloc, release, trace_of, write

from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES


@each("name", ["baseline", "rar", "argo"])
@each("size", [1, 3])
def test_arrays_are_writable_whatever_the_size_of_windows(name, size):
    """Numba takes those that are not for another type, and would compile the engine again."""
    trace = trace_of([alloc(0, 0, size), write(1, 0, 0, 5), release(9, 0)])
    layout = prepare(trace, TECHNIQUES[name]).layout
    for array in (layout.base, layout.rotation, layout.step, layout.orbits):
        assert array.flags.writeable
        assert array.flags.c_contiguous
