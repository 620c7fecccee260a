"""The traces that ship with mcage, in suites.

``sdk-2011``: one slice of each of the ten kernels of the papers, recorded in a cycle-level model of
a GPU.
``modern``: today's kernels, recorded by mcage's emulator on slices of three GPUs,
and AMD's code on the slice of a fourth, NVIDIA's.
"""

import hashlib
import json
import lzma
import os
import shutil
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass
from importlib.resources import as_file, files
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Lazy
from mcage.errors import UserError
from mcage.files.disk_cache import kept_on_disk
from mcage.files.inputs import named_file
from mcage.geometry import GCN, SliceGeometry, preset
from mcage.traces.model import WRITE, Trace
from mcage.traces.storage import load_own_trace, load_trace
from mcage.version import code_digest

SHORT_NAMES = {
    "BlackScholes": "BlackS",
    "DCT": "DCT",
    "Histogram": "Histog",
    "MatrixMultiplication": "MatrixM",
    "MatrixTranspose": "MatrixT",
    "QuasiRandomSequence": "QRandS",
    "RadixSort": "RadixS",
    "Reduction": "Reduct",
    "ScanLargeArrays": "ScanLArr",
    "SimpleConvolution": "SimConv",
}
"""Names of the bundled traces, with those in the tables of Valero et al., IEEE TC 2019."""

KERNELS = tuple(SHORT_NAMES)
"""Names of the bundled traces."""

_ON_EVERY_SLICE = (
    *("attention", "gemm", "lds_histogram", "rope", "saxpy", "scan", "softmax", "spmv"),
    *("stencil", "tree_reduction"),
)
_NOT_ON_GCN = (
    *("convolution", "gemm_mfma", "gemv_int4", "random_numbers", "rmsnorm", "swiglu"),
    *("triton_attention", "triton_gemm", "triton_gemv", "triton_softmax"),
)
_ON_NVIDIA = ("gemm_mfma", "rope", "scan", "softmax", "spmv", "stencil", "tree_reduction")
_TODAY = tuple(sorted((*_ON_EVERY_SLICE, *_NOT_ON_GCN)))
MODERN = {
    "gcn": tuple(f"{kernel}.gcn" for kernel in _ON_EVERY_SLICE),
    "cdna2": tuple(f"{kernel}.cdna2" for kernel in _TODAY),
    "rdna3": tuple(f"{kernel}.rdna3" for kernel in _TODAY),
    "nvidia": tuple(f"{kernel}.nvidia" for kernel in _ON_NVIDIA),
}
"""Names of today's kernels by the slice on which they were recorded: gfx900, gfx90a and gfx1100.

GCN has no matrix cores, Triton does not compile for it, and five others had no room in the package.
On ``nvidia`` they are approximate: code for gfx1100, whose waves have 32 lanes as NVIDIA's warps,
on a slice of NVIDIA's. Seven kernels had room.
"""

SUITES: dict[str, dict[str, tuple[str, ...]]] = {
    "sdk-2011": {"gcn": KERNELS},
    "modern": MODERN,
    "all": MODERN | {"gcn": (*KERNELS, *MODERN["gcn"])},
}
"""Kernels of each suite by the slice that they were recorded on."""

_NAMES = (
    f"{', '.join(KERNELS)}, and of today's kernels "
    f"{', '.join(names[0] for names in MODERN.values())} and so on"
)


def kernels_of_suite(suite: str, entries: int, components: int) -> tuple[str, ...]:
    """Names of the kernels of a suite that were recorded on a slice.

    Parameters
    ----------
    suite : str
        A name in `SUITES`.
    entries, components : int
        Of the slice.

    Raises
    ------
    UserError
        The suite has no kernel for such a slice.
    """
    slices = {name: preset(name).shape[:2] for name in SUITES["all"]}
    alike = [name for name, shape in slices.items() if shape == (entries, components)]
    for name in alike:
        if name in SUITES[suite]:
            return SUITES[suite][name]
    others = [each for each, kernels in SUITES.items() if alike and alike[0] in kernels]
    raise UserError(
        f"suite {suite} has no kernel for a slice of {entries} x {components}; it has some for "
        f"{', '.join(SUITES[suite])}: name one with --geometry, "
        + (f"another suite with --suite ({', '.join(others)}), " if others else "")
        + "or traces of yours with --kernel"
    )


HALF = GCN.components // 2
"""Lanes of the narrower warps that a padded trace comes from."""


class PaddedTraceWarning(UserWarning):
    """A trace looks like one of narrower warps, padded."""


class ApproximateTraceWarning(UserWarning):
    """A trace says less than others: it is approximate, or of outputs that nobody compared."""


def bundled_trace(name: str) -> Trace:
    """Load a bundled trace.

    Parameters
    ----------
    name : str
        One of ``KERNELS`` or ``MODERN``, or a short name in the papers, in any case.

    Raises
    ------
    UserError
        If there is no such trace.
    """
    kernel = bundled_name(name)
    if kernel is None:
        raise UserError(f"no bundled trace {name!r}; there are {_NAMES}")
    with (
        path_of_bundled(kernel) as path,
        NamedTemporaryFile(suffix=".h5") as unpacked,
        lzma.open(path) as packed,
    ):
        shutil.copyfileobj(packed, unpacked)
        unpacked.flush()
        return load_own_trace(unpacked.name)


def path_of_bundled(kernel: str) -> AbstractContextManager[Path]:
    """Path of the file of a bundled trace, by its name, while it is in use."""
    return as_file(files("mcage") / "data" / "traces" / f"{kernel}.h5.xz")


def open_trace(name_or_path: str | os.PathLike[str]) -> Trace:
    """Load a bundled trace by name, or any other by its path.

    Of a file that looks like warps of 32 lanes padded to 64, a `PaddedTraceWarning` is given, of
    a trace that is approximate, or whose outputs nobody compared, an `ApproximateTraceWarning`.

    Parameters
    ----------
    name_or_path : str or path
        A name as in ``bundled_trace``, which goes first, or the path of a trace file.

    Raises
    ------
    UserError
        If it is neither, or the file is no valid trace.
    """
    named_file(name_or_path)  # a path would lose the ./ that tells a file from a bundled trace
    text = os.fspath(name_or_path)
    if bundled_name(text):
        return bundled_trace(text)
    if not os.path.exists(text):
        raise UserError(f"no trace {text!r}: neither a file nor one of {_NAMES}")
    trace = load_trace(text)
    warn_of_padding(trace)
    if trace.source.get("approximate") or trace.source.get("not_compared"):
        warnings.warn(
            f"trace {trace.name!r} is {trace.caveat}; mcage trace show {text} says why",
            ApproximateTraceWarning,
            stacklevel=2,
        )
    return trace


def bundled_name(name: str) -> str | None:
    """Name of a bundled trace that a long or short name in any case stands for."""
    for modern in chain.from_iterable(MODERN.values()):
        if name.casefold() == modern:
            return modern
    for kernel, short in SHORT_NAMES.items():
        if name.casefold() in (kernel.casefold(), short.casefold()):
            return kernel
    return None


def uses_lower_half_only(trace: Trace) -> bool:
    """Whether no write reaches the upper 32 lanes, or none leaves a value there."""
    masks = trace.exec_mask[trace.kind == WRITE]
    if trace.geometry.components != GCN.components:
        return False
    if not (masks >> np.uint64(HALF)).any():
        return True
    return not trace.values[:, HALF:].any() and bool(trace.values[:, :HALF].any())


def warn_of_padding(trace: Trace) -> None:
    """Warn of a trace that looks like warps of 32 lanes padded to 64.

    The warning is a `PaddedTraceWarning`; the command line prints it in one line.
    """
    if uses_lower_half_only(trace):
        warnings.warn(
            f"trace {trace.name!r} writes the lower {HALF} of {GCN.components} lanes only, like "
            f"warps of {HALF} lanes padded to {GCN.components}: a padded register is neither "
            "constant nor delta, so that hardly any write is compressible; a trace file may have "
            f"{HALF} lanes itself, with values of {HALF} columns",
            PaddedTraceWarning,
            stacklevel=3,
        )


# Traces of which only name, length and digest are known until their events are asked for.


@dataclass(frozen=True)
class RecordedTrace:
    """A trace that is read when its events are asked for.

    Parameters
    ----------
    name : str
        What users call it.
    cycles : int
        Length of one pass.
    geometry : SliceGeometry
        The slice.
    caveat : str
        What must be said of its results: as of `Trace`.
    content : str
        Hash of its content.
    recorded : str
        Hash of its content before it was changed for the replay.
    events : Lazy
        Gives the trace.
    """

    name: str
    cycles: int
    geometry: SliceGeometry
    caveat: str
    content: str
    recorded: str
    events: Lazy[Trace]

    @classmethod
    def of(cls, trace: Trace, recorded: str) -> Self:
        """A trace that has been read, and the hash of its content before it was changed."""
        known = trace.name, trace.cycles, trace.geometry, trace.caveat, trace.digest()
        return cls(*known, recorded, Lazy(lambda: trace))

    @property
    def whole(self) -> Trace:
        """The trace with all its events."""
        return self.events.get()

    def digest(self) -> str:
        """See `Trace.digest`."""
        return self.content


def recorded_trace(name: str, changed: Callable[[Trace], Trace], how: str) -> RecordedTrace:
    """A trace by its name or path, as it is changed before it is replayed.

    What a bundled trace is like is kept on disk, since most sweeps need no events of it; any other
    trace is read and checked.

    Parameters
    ----------
    name : str
        As in `open_trace`.
    changed : callable
        Changes the trace.
    how : str
        All that decides how.

    Raises
    ------
    UserError
        As `open_trace`.
    """
    kernel = bundled_name(name)
    if kernel is None:
        opened = open_trace(name)
        return RecordedTrace.of(changed(opened), opened.digest())
    with path_of_bundled(kernel) as path:
        content = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    recorded = Lazy(lambda: bundled_trace(kernel))
    events = Lazy(lambda: changed(recorded.get()))

    def described() -> dict[str, NDArray[Any]]:
        trace = RecordedTrace.of(events.get(), recorded.get().digest())
        facts = trace.cycles, astuple(trace.geometry), trace.caveat, trace.content, trace.recorded
        return {"facts": np.frombuffer(json.dumps(facts).encode(), np.uint8)}

    kept = kept_on_disk(f"trace {content} {how} {code_digest()}", described)
    cycles, geometry, caveat, digest, before = json.loads(kept["facts"].tobytes())
    known = kernel, cycles, SliceGeometry(*geometry), caveat, digest, before
    return RecordedTrace(*known, events)
