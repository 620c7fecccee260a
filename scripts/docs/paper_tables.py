"""Tables of numbers behind the papers' figures, one table for each figure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mcage.costs.energy import Energy, Slowdown
from mcage.geometry import GCN
from mcage.papers import kernel_replays
from mcage.papers.register_files import OCCUPANCIES, Samples, dvth_volts, occupancies, spent
from mcage.techniques import technique
from mcage.traces import KERNELS
from mcage.variation.scenarios import PUBLISHED

Table = list[dict[str, Any]]

ALONE = ("baseline", "rar", "wc", "argo")
"""Techniques of Valero et al. that the delta limit does not change."""
COMPRESSING = ("rc", "rc+rar")


@dataclass(frozen=True)
class Plot:
    """A figure of a paper.

    Attributes
    ----------
    paper, number : str, int
        The paper, a key of `PAPERS`, and the number of the figure there.
    title : str
        Title of the figure.
    quantity : str
        What its values are percent of.
    table : callable
        Computes its numbers from replays.
    lowest : str
        Part at the bottom of the stacks, if not the first.
    """

    paper: str
    number: int
    title: str
    quantity: str
    table: Callable[[kernel_replays.KernelReplays], Table]
    lowest: str = ""

    @property
    def name(self) -> str:
        """Name of the files of the figure, without suffix."""
        return f"{self.paper}-fig{self.number:02}"


def _variants(
    study: kernel_replays.KernelReplays,
) -> list[tuple[str, int | None, dict[str, kernel_replays.SteadyPass]]]:
    """Techniques of Valero et al. with each delta limit that changes them."""
    variants: list[tuple[str, int | None]] = [
        (name, kernel_replays.PUBLISHED_LIMIT) for name in ALONE
    ]
    variants += [(name, limit) for name in COMPRESSING for limit in kernel_replays.LIMITS]
    return [(name, limit, study.runs(name, limit)) for name, limit in variants]


def _label(name: str, limit: int | None) -> str:
    """Technique with its delta limit, where that makes a difference."""
    if not technique(name).compresses or name == "wc":
        return name
    return f"{name}, {_limit_words(limit)}"


def _duties(pair: Sequence[float]) -> dict[str, float]:
    zeros, ones = (_rounded(duty) for duty in pair)
    return {"zero": zeros, "one": ones, "off": _rounded(1 - zeros - ones)}


def _rounded(value: float) -> float:
    """Round to six digits: more than a figure shows, fewer than those in which engines differ."""
    return float(f"{value:.6g}") + 0.0


def duty_of_bits(study: kernel_replays.KernelReplays) -> Table:
    """Mean duty cycles by bit position of a register, over the entries in use and the kernels."""
    table = []
    for name in ("baseline", "wc", "argo", "rc"):
        runs = study.runs(name).values()
        mean = np.mean([run.cells.of_bits for run in runs], axis=0)
        table += [
            {
                "technique": _label(name, kernel_replays.PUBLISHED_LIMIT),
                "bit": bit,
                **_duties(mean[bit]),
            }
            for bit in range(GCN.entry_bits)
        ]
    return table


def most_stressed(which: int) -> Callable[[kernel_replays.KernelReplays], Table]:
    """Duty cycles of the cell with the longest '0' or '1' of the slice."""

    def table(study: kernel_replays.KernelReplays) -> Table:
        return [
            {
                "kernel": kernel,
                "technique": _label(name, limit),
                **_duties(run.cells.most_stressed[which]),
            }
            for name, limit, runs in _variants(study)
            for kernel, run in runs.items()
        ]

    return table


def most_stressed_of_entries(
    which: int, kernel: str
) -> Callable[[kernel_replays.KernelReplays], Table]:
    """Duty cycles of the cell with the longest '0' or '1' of each entry in use."""

    def table(study: kernel_replays.KernelReplays) -> Table:
        return [
            {
                "technique": _label(name, limit),
                "entry": entry,
                **_duties(runs[kernel].cells.of_entries[entry, which]),
            }
            for name, limit, runs in _variants(study)
            for entry in np.flatnonzero(runs[kernel].cells.used).tolist()
        ]

    return table


def normalised_dvth(study: kernel_replays.KernelReplays) -> Table:
    """Largest threshold shift of T0 and T1 in the slice, over that of a cell that never changes."""
    most = dvth_volts(1.0)
    return [
        {
            "kernel": kernel,
            "technique": _label(name, limit),
            "t0": _rounded(dvth_volts(float(run.cells.longest[kernel_replays.ZERO])) / most),
            "t1": _rounded(dvth_volts(float(run.cells.longest[kernel_replays.ONE])) / most),
        }
        for name, limit, runs in _variants(study)
        for kernel, run in runs.items()
    ]


def occupied_entries(study: kernel_replays.KernelReplays) -> Table:
    """Entries that hold a register, by reliability and by compression, for the scenario Common."""
    return [
        {
            "kernel": kernel,
            "technique": _limit_words(limit),
            **{
                name: _rounded(float(occupancies(study, "common", limit, *kind)[kernel].mean()))
                for name, kind in OCCUPANCIES.items()
            },
        }
        for limit in kernel_replays.LIMITS
        for kernel in KERNELS
    ]


def kinds_of_writes(study: kernel_replays.KernelReplays) -> Table:
    """Writes that keep their row, or go to reliable entries, to faulty entries, or to the LDS."""
    table = []
    for limit in kernel_replays.LIMITS:
        for name in PUBLISHED:
            for kernel, run in study.runs("rrcd", limit, name).items():
                kinds = {
                    kind: _rounded(float(run.share(getattr(run.counters, kind)).mean()))
                    for kind in ("regular", "to_reliable", "to_faulty", "lds")
                }
                table.append({"kernel": kernel, "technique": _bar("rrcd", limit, name), **kinds})
    return table


def _variants_of_costs(paper: str) -> list[tuple[str, int | None, str]]:
    """Technique, delta limit and scenario of every bar of Figs. 20 and 21, or 5 and 6."""
    if paper == "002":
        return [("rrcd", limit, name) for limit in kernel_replays.LIMITS for name in PUBLISHED]
    alone: list[tuple[str, int | None, str]] = [
        (name, kernel_replays.PUBLISHED_LIMIT, "") for name in ("wc", "argo")
    ]
    return alone + [("rc+rar", limit, "") for limit in kernel_replays.LIMITS]


def parts(of: Energy | Slowdown, whole: Samples) -> dict[str, float]:
    """Means over dies of the parts of an energy or a slowdown, as fractions of a whole."""
    return {field.name: float((getattr(of, field.name) / whole).mean()) for field in fields(of)}


def slowdowns(paper: str) -> Callable[[kernel_replays.KernelReplays], Table]:
    """Extra execution time, by cause."""

    def table(study: kernel_replays.KernelReplays) -> Table:
        return [
            {
                "kernel": kernel,
                "technique": _bar(name, limit, faults),
                **{
                    cause: _rounded(share)
                    for cause, share in parts(costs.slowdown, np.ones(1)).items()
                },
            }
            for name, limit, faults in _variants_of_costs(paper)
            for kernel, costs in spent(study, paper, name, limit, faults).items()
        ]

    return table


def energies(paper: str) -> Callable[[kernel_replays.KernelReplays], Table]:
    """Energy of the slice and of what is added to it, over the conventional slice's, by part."""

    def table(study: kernel_replays.KernelReplays) -> Table:
        rows: Table = []
        for name, limit, faults in _variants_of_costs(paper):
            for kernel, costs in spent(study, paper, name, limit, faults).items():
                shares = parts(costs.energy, costs.conventional.total)
                rows.append(_energy_row(kernel, _bar(name, limit, faults), shares))
        references = {"conventional": "conventional", "smoothed": "smoothing, 0.6 V"}
        for attribute, label in references.items():
            for kernel, costs in spent(study, paper, *_variants_of_costs(paper)[0]).items():
                reference = getattr(costs, attribute)
                if reference is not None:
                    shares = parts(reference, costs.conventional.total)
                    rows.append(_energy_row(kernel, label, shares))
        return rows

    return table


def _energy_row(kernel: str, label: str, shares: dict[str, float]) -> dict[str, Any]:
    rounded = {part: _rounded(share) for part, share in shares.items()}
    return {"kernel": kernel, "technique": label, **rounded}


def _bar(name: str, limit: int | None, faults: str) -> str:
    return f"{faults}, {_limit_words(limit)}" if faults else _label(name, limit)


def _limit_words(limit: int | None) -> str:
    return "no limit" if limit is None else f"limit {limit}"


TIME = "share of the time [%]"
ENERGY = "energy [% of the conventional slice's]"
SLOWDOWN = "extra execution time [% of the conventional slice's]"

PLOTS = (
    Plot("000", 12, "Mean duty cycles by bit position", TIME, duty_of_bits),
    Plot(
        "000",
        13,
        "Cell with the longest '0' of the slice",
        TIME,
        most_stressed(kernel_replays.ZERO),
    ),
    Plot(
        "000",
        14,
        "Cell with the longest '0' of each entry, BlackScholes",
        TIME,
        most_stressed_of_entries(kernel_replays.ZERO, "BlackScholes"),
    ),
    Plot(
        "000",
        15,
        "Cell with the longest '0' of each entry, DCT",
        TIME,
        most_stressed_of_entries(kernel_replays.ZERO, "DCT"),
    ),
    Plot(
        "000",
        16,
        "Cell with the longest '1' of the slice",
        TIME,
        most_stressed(kernel_replays.ONE),
        "one",
    ),
    Plot(
        "000",
        17,
        "Cell with the longest '1' of each entry, BlackScholes",
        TIME,
        most_stressed_of_entries(kernel_replays.ONE, "BlackScholes"),
        "one",
    ),
    Plot(
        "000",
        18,
        "Cell with the longest '1' of each entry, DCT",
        TIME,
        most_stressed_of_entries(kernel_replays.ONE, "DCT"),
        "one",
    ),
    Plot(
        "000",
        19,
        "Largest threshold shift of the slice after three years",
        "shift [% of that of a cell that never changes]",
        normalised_dvth,
    ),
    Plot("000", 20, "Slowdown", SLOWDOWN, slowdowns("000")),
    Plot("000", 21, "Energy", ENERGY, energies("000")),
    Plot(
        "002",
        2,
        "Occupied entries, scenario common",
        "share of all entries of the slice [%]",
        occupied_entries,
    ),
    Plot("002", 4, "Register writes under RRCD", "share of the writes [%]", kinds_of_writes),
    Plot("002", 5, "Slowdown under RRCD", SLOWDOWN, slowdowns("002")),
    Plot("002", 6, "Energy under RRCD", ENERGY, energies("002")),
)
