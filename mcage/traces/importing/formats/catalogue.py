"""The formats that can be imported: one module each, with one value ``FORMAT``."""

from mcage.traces.importing.formats import accelsim, cutracer, gem5, mgpusim, nvbit, recorder
from mcage.traces.importing.formats.format import Format
from mcage.traces.importing.formats.multi2sim import text as multi2sim
from mcage.traces.importing.formats.plain import arrays, table

FORMATS: tuple[Format, ...] = (
    table.FORMAT,
    arrays.FORMAT,
    recorder.FORMAT,
    gem5.FORMAT,
    multi2sim.FORMAT,
    cutracer.FORMAT,
    nvbit.FORMAT,
    mgpusim.FORMAT,
    accelsim.FORMAT,
)
"""Every format, in the order in which a file is tried to be recognised."""
