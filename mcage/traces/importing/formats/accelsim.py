"""Accel-Sim's instruction traces: recognised, and refused, since they hold no register values."""

from collections.abc import Sequence

from mcage.traces.importing.formats.format import Format
from mcage.traces.importing.limits import Options
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.sources import Source

_ENDINGS = (".trace", ".traceg", ".tracez")
_SIGNS = (b"-kernel name =", b"#traces format", b"-accelsim tracer version")


def _recognises(source: Source) -> bool:
    head = source.head[: 1 << 14]
    if any(sign in head for sign in _SIGNS):
        return True
    name = source.path.name.lower()
    for compressed in (".gz", ".zst", ".xz"):
        name = name.removesuffix(compressed)
    return name.endswith(_ENDINGS[1:]) or (name.endswith(_ENDINGS[0]) and b"#BEGIN_TB" in head)


def _read(sources: Sequence[Source], recording: Recording, options: Options) -> None:
    sources[0].refuse(
        "a trace of Accel-Sim holds instructions and addresses, but no register values; record the "
        "program with CUTracer or scripts/nvbit (`mcage docs recording`)"
    )


FORMAT = Format("accelsim", "an instruction trace of Accel-Sim", _recognises, _read)
