"""What do today's kernels hold in their registers, beside those of 2011? Tables of a page.

    python scripts/experiments/kernel_suites.py [SUITE@SLICE|TRACE|FOLDER ...]
        [--latency FACTOR=FOLDER ...] [--dies 20] [--out FOLDER] [--page]

Ranks compression algorithms, replays every technique that ships, and says how far the numbers
depend on the assumed latencies and, where an entry is one block, on blocks. Takes bundled suites
on a slice, such as modern@cdna2 (by default sdk-2011@gcn and modern on every slice), names of
bundled traces, files, and folders of files. Traces that were emulated make a suite for each slice.
`--latency` names a folder with the same kernels recorded with other latencies. Prints the tables,
writes all numbers to `--out` (results/kernel-suites), and with `--page` puts the tables between
the comments of results/kernel-suites/tables.md. Takes two to ten seconds a trace. To record such a
folder:

    python scripts/record_modern_kernels.py FOLDER --arch gfx90a --latency 2
"""

import argparse
import csv
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import numpy as np
from compressors import ALGORITHMS, BEST, BEST_TITLE, sizes_of, tag_bits
from doc_tables import bring_up_to_date, markdown

import mcage
from mcage.engines.interface import fault_free_maps
from mcage.geometry import SliceGeometry
from mcage.replays.schedule import writes_of
from mcage.techniques import TECHNIQUES, technique
from mcage.traces import KERNELS, Trace, open_trace, summarize_trace
from mcage.traces.library import SUITES, ApproximateTraceWarning
from mcage.traces.transforms import released
from mcage.variation.fault_models import fault_map, fault_model

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "results" / "kernel-suites" / "tables.md"

SEED, SCENARIO = 2019, "common"
"""Dies of the fault maps."""

OF_2011 = "sdk-2011"
"""The ten bundled traces of the papers."""

DEFAULTS = (f"{OF_2011}@gcn", *(f"modern@{name}" for name in ("gcn", "cdna2", "rdna3")))
"""Suites that are looked at if none is named."""

NARROW_BLOCK = 16
"""Components of a block, where the second reading divides an entry that is one block."""

BLOCK_TECHNIQUES = ("rc+rar", "rrcd", "rrcd+pg", "rrcd+rc+rar")
"""Techniques of that reading."""

CAUSES = ("pipeline", "misprediction", "wakeup", "mov", "refresh")
"""What slows slices without faults down."""

SLOWED = "rrcd+rc+rar"
"""The technique whose slowdown is shown kernel by kernel."""

LIMIT = 0.1
"""Slowdown that ends a life by default."""

DUTY_TECHNIQUES = ("baseline", "rc", "rc+rar", "argo", "wc", "rrcd+rc+rar")
"""Techniques whose longest duty cycles are shown kernel by kernel."""

KERNEL_ALGORITHMS = ("rc", "warped", "affine", "byte planes", BEST, "coded bytes")
"""Algorithms that are shown kernel by kernel."""

SHORT_TECHNIQUES = ("rc", "rc+rar", "argo")
"""Techniques of the first table."""

FAULTY_TECHNIQUES = ("disable", "gr-guard", "rrcd")
"""Techniques that are replayed on slices with faults; other kinds of RRCD spill as it does."""

PRODUCTS = {
    *("attention", "convolution", "fp8_gemm", "gemm", "gemm_mfma", "gemv_int4", "moe_gemm"),
    *("paged_attention", "triton_attention", "triton_gemm", "triton_gemv"),
}
"""Kernels of today that are matrix products, attention and convolution among them."""

WEIGHTS = ("writes", "time")

Rows = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Subject:
    """A trace and how tables call it.

    Attributes
    ----------
    suite, kernel : str
        Suite, and name of the kernel in it.
    trace : Trace
        As recorded.
    """

    suite: str
    kernel: str
    trace: Trace

    @classmethod
    def of(cls, trace: Trace) -> "Subject":
        source = trace.source
        if "emulated" not in source:
            return cls(OF_2011 if trace.name in KERNELS else "others", trace.name, trace)
        file = Path(str(source["file"]).partition(",")[0]).stem
        on = str(source["emulated"]).partition("(")[2].partition(")")[0]
        return cls(f"modern on {on}", file, trace)

    @cached_property
    def played(self) -> Trace:
        """The trace whose windows are released with their wavefronts, as in every replay."""
        return released(self.trace)

    @property
    def inputs(self) -> str:
        """What the kernel computed on, as the trace says."""
        source = self.trace.source
        given = source.get("inputs", {})
        said = given.get("what they are") if isinstance(given, dict) else None
        return str(said or f"{source.get('benchmark', '')} {source.get('arguments', '')}".strip())


def subjects_of(names: Iterable[str]) -> Iterator[Subject]:
    """Traces of suites, names, files and folders."""
    for name in names:
        suite, _, on = str(name).partition("@")
        files: Sequence[str | Path] = [name]
        if suite in SUITES:
            files = SUITES[suite][on or "gcn"]
        elif Path(name).is_dir():
            files = sorted(Path(name).glob("*.h5"))
        for file in files:
            yield Subject.of(open_trace(file))


# Compression.


def compression(subject: Subject) -> Rows:
    """Shares and sizes under every algorithm, weighted by writes and by the time of residence.

    A divergent write is stored as it is, whatever the register then holds, as mcage does. A value
    resides until the next write of its register, or until its window is released.
    """
    trace, writes = subject.played, writes_of(subject.played)
    used, row = np.unique(writes.value, return_inverse=True)
    raw, full = trace.geometry.entry_bytes, ~writes.divergent
    weights = dict(zip(WEIGHTS, (np.ones(len(row)), writes.end_cycle - writes.cycle), strict=True))
    of_rows = {
        key: np.bincount(row[full], weight[full], minlength=len(used))
        for key, weight in weights.items()
    }
    lines, tags = [], tag_bits()
    for name, sizes in sizes_of(trace.values[used]).items():
        line = {"suite": subject.suite, "kernel": subject.kernel, "algorithm": name}
        for key, weight in weights.items():
            total = weight.sum()
            saved = ((raw - sizes) * of_rows[key]).sum() / total
            line[f"compressed_by_{key}"] = of_rows[key][sizes < raw].sum() / total
            line[f"bytes_by_{key}"] = raw - saved + tags[name] / 8
            line[f"stored_by_{key}"] = line[f"bytes_by_{key}"] / raw
        lines.append(line)
    return lines


# Techniques.


def fault_maps(geometry: SliceGeometry, dies: int) -> np.ndarray:
    """A map without faults, then those of new dies at the voltage of the scenario."""
    model = fault_model(SCENARIO, geometry=geometry)
    vdd_volts = model.scenario.vdd_volts
    cells = model.sample(SEED, np.arange(dies), vdd_volts)
    with_faults = fault_map(cells, cells.vmin_volts > vdd_volts)
    return np.concatenate([fault_free_maps(geometry=geometry), with_faults])


def replays(subject: Subject, dies: int, names: Sequence[str]) -> Rows:
    """A steady pass under techniques: duties without faults, and what faulty slices spill."""
    trace = subject.trace
    maps, writes = fault_maps(trace.geometry, dies), trace.writes
    lines = []
    for name in names:
        heeds = technique(name).heeds_faults and name in FAULTY_TECHNIQUES and dies > 0
        result = mcage.replay(trace, name, fault_maps=maps if heeds else None)
        line = {
            "suite": subject.suite,
            "kernel": subject.kernel,
            "technique": name,
            "longest_zero_duty": result["longest_zero_duty"][0],
            "longest_one_duty": result["longest_one_duty"][0],
            "compressible_write_share": result["compressible_write_share"],
            "slowdown": result["slowdown"]["total"][0],
            **{f"slowdown_{cause}": result["slowdown"][cause][0] for cause in CAUSES},
        }
        if heeds:
            lds = np.array(result["writes"]["lds"][1:]) / writes
            regular = np.array(result["writes"]["regular"]) / writes
            most = np.array(result["peak_spilled_rows"][1:])
            waits = np.array(result["slowdown"]["waiting"][1:], dtype=float)
            runs = np.isfinite(waits)
            line |= {
                "lds_write_share": lds[runs].mean() if runs.any() else np.nan,
                "regular_write_share": regular[0],
                "to_faulty_share": np.mean(result["writes"]["to_faulty"][1:]) / writes,
                "beyond_lds_share": (most > trace.geometry.lds_rows).mean(),
                "waiting": waits[runs].mean() if runs.any() else np.nan,
                "cannot_run_share": 1 - runs.mean(),
            }
        lines.append(line)
    return lines


def readings(subject: Subject, dies: int) -> Rows:
    """Replays where an entry is one block, and where it is divided into blocks of 16 components."""
    geometry = subject.trace.geometry
    if geometry.blocks > 1:
        return []
    lines = []
    for components in (geometry.block_components, NARROW_BLOCK):
        divided = replace(subject.trace, geometry=replace(geometry, block_components=components))
        for row in replays(Subject(subject.suite, subject.kernel, divided), dies, BLOCK_TECHNIQUES):
            lines.append({"block_components": components} | row)
    return lines


def facts(subject: Subject) -> dict[str, Any]:
    """What the trace is like."""
    trace, source = subject.played, subject.trace.source
    summary = summarize_trace(trace)
    return {
        "suite": subject.suite,
        "kernel": subject.kernel,
        "slice": subject.trace.geometry.name,
        "writes": trace.writes,
        "reads": trace.reads,
        "cycles": trace.cycles,
        "windows": trace.windows,
        "window_size": "/".join(map(str, trace.window_sizes)),
        "concurrent_windows": trace.concurrent_windows,
        "mean_utilisation": summary.mean_utilisation,
        "divergent_share": summary.divergent_share,
        **{f"{name}_share": share for name, share in summary.pattern_shares.items()},
        "compressible_share": summary.compressible_shares["64"],
        "compressible_share_any_delta": summary.compressible_shares["none"],
        "approximate": "; ".join(source.get("approximate", ())),
        "seed": source.get("seed", ""),
        "inputs": subject.inputs,
    }


# Latencies.


def timed(subject: Subject, sizes: Rows, under: Rows) -> dict[str, Any]:
    """The numbers of a kernel that depend on time."""
    this = {"suite": subject.suite, "kernel": subject.kernel}
    compressed = {line["algorithm"]: line for line in chosen(sizes, **this)}
    replayed = {line["technique"]: line for line in chosen(under, **this)}
    duties = {
        f"{name}_{which}": replayed[name][f"longest_{which}_duty"]
        for name in ("rc", "rc+rar", "argo")
        for which in ("zero", "one")
    }
    return (
        this
        | duties
        | {
            "rc_by_time": compressed["rc"]["compressed_by_time"],
            "warped_stored_by_time": compressed["warped"]["stored_by_time"],
            "rrcd_lds": replayed["rrcd"]["lds_write_share"],
            "utilisation": summarize_trace(subject.played).mean_utilisation,
            "slowdown": replayed[SLOWED]["slowdown"],
            "rrcd_slowdown": replayed["rrcd"]["slowdown"],
        }
    )


# Tables.


def percent(share: float, digits: int = 0) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.{digits}f}"


def mean(rows: Iterable[dict[str, Any]], key: str) -> float:
    """Mean over kernels, each of which counts once."""
    return float(np.mean([row[key] for row in rows]))


def suites_of(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["suite"] for row in rows))


def chosen(rows: Rows, **wanted: Any) -> Rows:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def short_table(of_traces: Rows, sizes: Rows, duties: Rows) -> str:
    """Means over the kernels of a suite, and over those of it that are matrix products."""
    lines = []
    for suite in suites_of(of_traces):
        names = [row["kernel"] for row in chosen(of_traces, suite=suite)]
        groups = {"all": names}
        if suite != OF_2011:
            groups["matrix products"] = [name for name in names if name in PRODUCTS]
            groups["others"] = [name for name in names if name not in PRODUCTS]
        for title, kernels in groups.items():
            if kernels:
                lines.append([suite, title, str(len(kernels))])
                here = [
                    [row for row in chosen(rows, suite=suite) if row["kernel"] in kernels]
                    for rows in (of_traces, sizes, duties)
                ]
                lines[-1] += _in_short(*here)
    return markdown(
        [
            *("suite", "kernels", "number", "entries in use, %", "constant or delta: writes, %"),
            *("rc by time, %", "Warped-Compression, ratio"),
            *(f"`{name}` '0' / '1'" for name in SHORT_TECHNIQUES),
        ],
        lines,
    )


def _in_short(of_traces: Rows, sizes: Rows, duties: Rows) -> list[str]:
    warped = [1 / row["stored_by_writes"] for row in chosen(sizes, algorithm="warped")]
    longest = [chosen(duties, technique=name) for name in SHORT_TECHNIQUES]
    return [
        percent(mean(of_traces, "mean_utilisation")),
        percent(mean(of_traces, "compressible_share")),
        percent(mean(chosen(sizes, algorithm="rc"), "compressed_by_time")),
        f"{np.mean(warped):.2f}",
        *(
            " / ".join(f"{mean(rows, f'longest_{which}_duty'):.2f}" for which in ("zero", "one"))
            for rows in longest
        ),
    ]


def ranking_table(rows: Rows) -> str:
    """Algorithms in the order of what they store on average over time, suite by suite."""
    bits, bounds = tag_bits(), {each.name for each in ALGORITHMS if each.is_bound}
    text = ""
    for suite in suites_of(rows):
        lines = []
        of_suite = {name: chosen(rows, suite=suite, algorithm=name) for name in bits}
        for name in sorted(bits, key=lambda name: mean(of_suite[name], "stored_by_time")):
            of_algorithm = of_suite[name]
            by_writes, by_time = (mean(of_algorithm, f"stored_by_{key}") for key in WEIGHTS)
            lines.append(
                [
                    f"*{name}*" if name in bounds else name,
                    str(bits[name]),
                    *(percent(mean(of_algorithm, f"compressed_by_{key}")) for key in WEIGHTS),
                    f"{percent(by_writes)} ({1 / by_writes:.2f})",
                    f"{percent(by_time)} ({1 / by_time:.2f})",
                    _range(row["stored_by_time"] for row in of_algorithm),
                ]
            )
        text += f"**{suite}**, {len(of_suite[BEST])} kernels:\n\n"
        text += markdown(
            [
                "algorithm",
                "tag, bits",
                "writes that compress, %",
                "the same by time, %",
                "stored bytes by writes, % (ratio)",
                "by time, % (ratio)",
                "kernels from … to, %",
            ],
            lines,
        )
        text += "\n"
    return text.removesuffix("\n")


def _range(shares: Iterable[float]) -> str:
    shares = list(shares)
    return f"{percent(min(shares))} … {percent(max(shares))}"


def algorithms_table() -> str:
    lines = [[each.name, str(each.tag_bits), each.title] for each in ALGORITHMS]
    lines.append([BEST, str(tag_bits()[BEST]), BEST_TITLE])
    return markdown(["algorithm", "tag, bits", "what it stores"], lines)


def kernels_table(sizes: Rows, of_traces: Rows) -> str:
    """Kernel by kernel: bytes stored by time."""
    lines = []
    for row in of_traces:
        here = {key: row[key] for key in ("suite", "kernel")}
        by_name = {line["algorithm"]: line for line in chosen(sizes, **here)}
        lines.append(
            [
                row["suite"],
                row["kernel"],
                percent(row["divergent_share"]),
                *(percent(by_name["rc"][f"compressed_by_{key}"]) for key in WEIGHTS),
                *(percent(by_name[name]["stored_by_time"]) for name in KERNEL_ALGORITHMS),
            ]
        )
    headings = ["suite", "kernel", "divergent writes, %", "rc: writes, %", "rc: time, %"]
    return markdown([*headings, *(f"{name}, %" for name in KERNEL_ALGORITHMS)], lines)


def traces_table(of_traces: Rows) -> str:
    return markdown(
        [
            "suite",
            "kernel",
            "slice",
            "windows × registers",
            "open",
            "in use, %",
            "writes",
            "inputs",
        ],
        [
            [
                row["suite"],
                row["kernel"],
                row["slice"],
                f"{row['windows']} × {row['window_size']}",
                str(row["concurrent_windows"]),
                percent(row["mean_utilisation"]),
                f"{row['writes']:,}",
                row["inputs"],
            ]
            for row in of_traces
        ],
    )


def duties_table(rows: Rows) -> str:
    """Longest duty cycles, mean over the kernels of a suite."""
    suites = suites_of(rows)
    lines = []
    for name in dict.fromkeys(row["technique"] for row in rows):
        line = [f"`{name}`"]
        for suite in suites:
            here, base = (chosen(rows, suite=suite, technique=t) for t in (name, "baseline"))
            zero, one = (mean(here, f"longest_{which}_duty") for which in ("zero", "one"))
            less = [
                1 - np.mean([a[key] / b[key] for a, b in zip(here, base, strict=True)])
                for key in ("longest_zero_duty", "longest_one_duty")
            ]
            line += [f"{zero:.2f} / {one:.2f}", " / ".join(map(percent, less))]
        lines.append(line)
    headings = [heading for suite in suites for heading in (f"{suite}: '0' / '1'", "less by, %")]
    return markdown(["technique", *headings], lines)


def kernel_duties_table(rows: Rows) -> str:
    lines = []
    for suite in suites_of(rows):
        for kernel in dict.fromkeys(row["kernel"] for row in chosen(rows, suite=suite)):
            by_name = {r["technique"]: r for r in chosen(rows, suite=suite, kernel=kernel)}
            duties = (by_name[name] for name in DUTY_TECHNIQUES)
            lines.append([suite, kernel, *map(_both_duties, duties)])
    return markdown(["suite", "kernel", *(f"`{name}`" for name in DUTY_TECHNIQUES)], lines)


def _both_duties(row: dict[str, Any]) -> str:
    return f"{row['longest_zero_duty']:.2f} / {row['longest_one_duty']:.2f}"


def spills_table(rows: Rows) -> str:
    """What slices with faults do, mean over kernels and dies."""
    suites = suites_of(rows)
    lines = []
    heeding = [row for row in rows if "lds_write_share" in row]
    for name in dict.fromkeys(row["technique"] for row in heeding):
        for suite in suites:
            here = chosen(heeding, suite=suite, technique=name)
            known = [row for row in here if not np.isnan(row["lds_write_share"])]
            worst = max(known, key=lambda row: row["lds_write_share"])
            shown = f"{worst['kernel']}, {percent(worst['lds_write_share'], 1)}"
            lines.append(
                [
                    f"`{name}`",
                    suite,
                    percent(mean(here, "regular_write_share")),
                    percent(mean(known, "lds_write_share"), 1),
                    shown if worst["lds_write_share"] > 0 else "–",
                    percent(mean(here, "beyond_lds_share")),
                    percent(mean(here, "cannot_run_share")),
                    percent(np.nanmean([row["waiting"] for row in here])),
                ]
            )
    return markdown(
        [
            "technique",
            "suite",
            "regular writes without faults, %",
            "writes to the LDS, %",
            "most of them, %",
            "slices whose part of the LDS is too small, %",
            "slices that cannot run, %",
            "time spent on waits, %",
        ],
        lines,
    )


TIMED = {
    "rc_zero": "`rc` '0'",
    "rc_one": "`rc` '1'",
    "rc+rar_zero": "`rc+rar` '0'",
    "rc+rar_one": "`rc+rar` '1'",
    "argo_zero": "`argo` '0'",
    "argo_one": "`argo` '1'",
    "rc_by_time": "rc compresses, of the time",
    "warped_stored_by_time": "warped stores, by time",
    "rrcd_lds": "`rrcd` writes to the LDS",
    "utilisation": "entries in use",
    "rrcd_slowdown": "slowdown under `rrcd`",
    "slowdown": f"slowdown under `{SLOWED}`",
}


def latencies_table(rows: Rows) -> str:
    """Means of kernels, and how far a single kernel moves, in points."""
    lines = []
    for suite in suites_with_latencies(rows):
        factors = list(dict.fromkeys(row["factor"] for row in chosen(rows, suite=suite)))
        by_factor = {
            factor: {row["kernel"]: row for row in chosen(rows, suite=suite, factor=factor)}
            for factor in factors
        }
        common = set.intersection(*(set(kernels) for kernels in by_factor.values()))
        for key, title in TIMED.items():
            line = [suite, title]
            for factor in sorted(factors, key=float):
                kernels = by_factor[factor]
                shown = percent(mean([kernels[name] for name in common], key), 1)
                if factor != "1":
                    moved = {
                        name: kernels[name][key] - by_factor["1"][name][key] for name in common
                    }
                    most = max(sorted(moved), key=lambda name: abs(moved[name]))
                    shown += f" ({most} {100 * moved[most]:+.1f})"
                line.append(shown)
            lines.append(line)
    factors = sorted({row["factor"] for row in rows}, key=float)
    headings = [f"latencies × {factor}, %" for factor in factors]
    return markdown(["suite", "number", *headings], lines)


def suites_with_latencies(rows: Rows) -> list[str]:
    """Suites that were recorded with every factor."""
    factors = {row["factor"] for row in rows}
    return [
        suite
        for suite in suites_of(rows)
        if {row["factor"] for row in chosen(rows, suite=suite)} == factors
    ]


def blocks_table(rows: Rows) -> str:
    """Slices whose entries are one block, and the same with blocks of 16 components."""
    lines = []
    for suite, name in dict.fromkeys((row["suite"], row["technique"]) for row in rows):
        for components in sorted({row["block_components"] for row in rows}, reverse=True):
            here = chosen(rows, suite=suite, technique=name, block_components=components)
            spills = [row for row in here if "lds_write_share" in row]
            line = [suite, f"`{name}`", str(components)]
            line += [
                " / ".join(
                    f"{mean(here, f'longest_{which}_duty'):.2f}" for which in ("zero", "one")
                )
            ]
            for key in ("to_faulty_share", "lds_write_share", "beyond_lds_share"):
                line.append(percent(mean(spills, key), 1) if spills else "–")
            lines.append(line)
    return markdown(
        [
            *("suite", "technique", "components of a block", "longest '0' / '1' without faults"),
            *("writes to faulty entries, %", "writes to the LDS, %"),
            "slices whose part of the LDS is too small, %",
        ],
        lines,
    )


def slowdowns_table(rows: Rows) -> str:
    """By suite: causes, means over kernels; and how many kernels are beyond the limit alone."""
    lines = []
    for suite in suites_of(rows):
        for name in ("rc+rar", "rrcd", SLOWED):
            here = chosen(rows, suite=suite, technique=name)
            most = max(here, key=lambda row: row["slowdown"])
            lines.append(
                [
                    suite,
                    f"`{name}`",
                    percent(mean(here, "slowdown"), 1),
                    *(percent(mean(here, f"slowdown_{cause}"), 1) for cause in CAUSES),
                    f"{most['kernel']}, {percent(most['slowdown'], 1)}",
                    str(sum(row["slowdown"] > LIMIT for row in here)),
                ]
            )
    return markdown(
        [
            *("suite", "technique", "slowdown, %"),
            *("pipeline", "mispredictions", "wake-ups", "moves", "refresh"),
            *("most of it, %", "kernels beyond 10 %"),
        ],
        lines,
    )


def slow_kernels_table(rows: Rows, by_latency: Rows) -> str:
    """Kernels that slow a slice without faults by more than 5 %, with all latencies."""
    factors = sorted({row["factor"] for row in by_latency}, key=float)
    lines = []
    for row in chosen(rows, technique=SLOWED):
        this = {key: row[key] for key in ("suite", "kernel")}
        at = {line["factor"]: line["slowdown"] for line in chosen(by_latency, **this)}
        if max([row["slowdown"], *at.values()]) > LIMIT / 2:
            shown = [percent(at.get(factor, np.nan), 1) for factor in factors if factor != "1"]
            causes = (percent(row[f"slowdown_{cause}"], 1) for cause in CAUSES)
            lines.append([*this.values(), percent(row["slowdown"], 1), *causes, *shown])
    return markdown(
        [
            *("suite", "kernel", "slowdown, %"),
            *("pipeline", "mispredictions", "wake-ups", "moves", "refresh"),
            *(f"latencies × {factor}, %" for factor in factors if factor != "1"),
        ],
        lines,
    )


def write_csv(path: Path, rows: Rows) -> None:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, keys, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _written(value) for key, value in row.items()})


def _written(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="*", default=DEFAULTS, metavar="TRACE")
    parser.add_argument("--latency", action="append", default=[], metavar="FACTOR=FOLDER")
    parser.add_argument("--dies", type=int, default=20)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "kernel-suites")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ApproximateTraceWarning)

    of_traces, sizes, duties, by_latency, blocks = [], [], [], [], []
    for subject in subjects_of(options.traces):
        print(f"{subject.suite} {subject.kernel}", file=sys.stderr)
        of_traces.append(facts(subject))
        sizes += compression(subject)
        duties += replays(subject, options.dies, list(TECHNIQUES))
        blocks += readings(subject, options.dies)
        if options.latency and subject.suite != OF_2011:
            by_latency.append({"factor": "1"} | timed(subject, sizes, duties))
    for factor, _, folder in (each.partition("=") for each in options.latency):
        for subject in subjects_of([folder]):
            print(f"{subject.suite} {subject.kernel}, latencies x {factor}", file=sys.stderr)
            under = replays(subject, options.dies, ("rc", "rc+rar", "argo", "rrcd", SLOWED))
            by_latency.append({"factor": factor} | timed(subject, compression(subject), under))

    texts = {
        "in short": short_table(of_traces, sizes, duties),
        "traces": traces_table(of_traces),
        "algorithms": algorithms_table(),
        "ranking": ranking_table(sizes),
        "compression by kernel": kernels_table(sizes, of_traces),
        "duties": duties_table(duties),
        "duties by kernel": kernel_duties_table(duties),
        "spills": spills_table(duties),
        "slowdowns": slowdowns_table(duties),
        "slow kernels": slow_kernels_table(duties, by_latency),
    }
    if blocks:
        texts["blocks"] = blocks_table(blocks)
    if by_latency:
        texts["latencies"] = latencies_table(by_latency)
    options.out.mkdir(parents=True, exist_ok=True)
    files = {
        "latencies": by_latency,
        "traces": of_traces,
        "compression": sizes,
        "techniques": duties,
        "blocks": blocks,
    }
    for name, rows in files.items():
        if rows:
            write_csv(options.out / f"{name}.csv", rows)
    print("\n".join(texts.values()))
    if options.page:
        bring_up_to_date(TABLES, texts)


if __name__ == "__main__":
    main()
