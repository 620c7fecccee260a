"""The formats that can be imported: one module each, with one value ``FORMAT``."""

from mcage.tracing.importing.formats import cutracer, gem5, mgpusim, nvbit, plain, recorder
from mcage.tracing.importing.formats import multi2sim as multi2sim
from mcage.tracing.importing.recording import Format

FORMATS: tuple[Format, ...] = (
    plain.FORMAT,
    recorder.FORMAT,
    gem5.FORMAT,
    multi2sim.FORMAT,
    cutracer.FORMAT,
    nvbit.FORMAT,
    mgpusim.FORMAT,
    nvbit.ACCELSIM_FORMAT,
)
"""Every format, in the order in which a file is tried to be recognised."""
