"""How fast the engines are: each phase apart, all engines on the same work.

    python scripts/benchmarks/bench_engines.py [--engines numpy,numba] [--techniques ...]
        [--traces ...] [--budget-s 240] [--scale-to 10000] [--json FILE]

Three tables. *Replays*: for each trace and technique, the engines take turns on the same fault
maps (of the scenario "common"), new ones each time; medians of core time (wall-clock time for
`cuda`), and the median of the ratios of one turn. A write event is a register write of one pass
of one slice, with all that follows for the 2,048 cells of its entry; techniques whose placement
rotates are summed over several passes, and the events of each pass count. Engines may remember:
"counting" of a technique whose counts depend on little is mostly a look-up, as in a sweep.
*Sweep*: where the time of a sweep goes. *Scale*: time and peak memory of whole `mcage sweep`
processes of a cheap spec, and the cost of one more instance.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
# One core for each engine: threads of a library that wait for work would count as its work.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np
from phases import run_timed_sweep

from mcage.cli.doctor import versions
from mcage.concurrency import usable_cores
from mcage.engines import device_of, select_engine
from mcage.engines.interface import fault_free_maps
from mcage.engines.stress import FaultFreeDuties, TrackedCells, Turns
from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.protection.policy import ECP
from mcage.replays.most_stressed import duty_cycles
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces import KERNELS, open_trace
from mcage.variation.fault_models import EntryFaults, FaultModel
from mcage.variation.scenarios import scenario

TRACES = ("MatrixTranspose", "ScanLargeArrays", "BlackScholes")
SWEPT = ("baseline", "rc+rar", "rrcd", "rrcd+rc+rar")
YEAR_SECONDS = 3.0e7
TRACKED_CELLS = 1024
TURNS = 5
CHEAP_SPEC = """
techniques = ["baseline"]
environments = ["turbo"]
[workload]
kernels = ["MatrixTranspose"]
periods = 1
generations = 1
[life]
epochs = 1
"""
CHILD = """
import atexit, json, pathlib, sys, time
from mcage.cli.main import main
from phases import peak_bytes
told = pathlib.Path(sys.argv.pop(1))
atexit.register(lambda: told.write_text(json.dumps([time.process_time(), peak_bytes()])))
main()
"""


def main():
    options = _options()
    engines = {name: select_engine(name)[0] for name in _engine_names(options.engines)}
    report = {"machine": machine(engines), "write_event": "a register write of one pass of a slice"}
    for key, value in report["machine"].items():
        print(f"{key}: {value}")
    report["replays"] = list(replays(engines, options))
    report["sweeps"] = list(sweeps(engines, options))
    report["scale"] = list(scale(engines, options.scale_to))
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


def _options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = {"type": lambda text: text.split(","), "metavar": "A,B"}
    parser.add_argument("--engines", **names, help="default: all that run here")
    parser.add_argument("--techniques", **names, default=list(TECHNIQUES))
    parser.add_argument("--traces", **names, default=list(TRACES), help=f"of {', '.join(KERNELS)}")
    parser.add_argument("--instances", type=int, default=32, help="slices of compiled engines")
    parser.add_argument("--same-work", type=int, default=2, help="slices for the ratios to numpy")
    parser.add_argument("--sweep-instances", type=int, default=100, help="0: no sweep")
    parser.add_argument("--scale-to", type=int, default=10_000, help="up to 1000000; 0: none")
    parser.add_argument("--budget-s", type=float, default=150, help="for the replays")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def _engine_names(asked):
    if asked:
        return asked
    try:
        select_engine("cuda")
    except UserError:
        return ["numpy", "numba"]
    return ["numpy", "numba", "cuda"]


def machine(engines=None):
    """What the numbers were measured on."""
    facts = {
        "processor": _processor(),
        "cores": usable_cores(),
        "system": platform.platform(),
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "commit": commit(),
        "versions": ", ".join(
            f"{name} {version}" for name, version in versions().items() if version
        ),
    }
    return facts | {f"engine {name}": device_of(engine) for name, engine in (engines or {}).items()}


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit():
    """Commit measured, with a mark if files differ from it; None outside a clone."""
    command = ["git", "-C", str(Path(__file__).parents[2]), "describe"]
    try:
        done = subprocess.run(
            [*command, "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


# ---- replays ---------------------------------------------------------------------------------


class Work:
    """A trace under a technique, and slices with faults to replay it on.

    Attributes
    ----------
    replay : PreparedReplay
        Both.
    duties : SharedDuties
        Duty cycles without faults.
    events_per_slice : int
        Write events.
    """

    def __init__(self, trace, technique, engine):
        self.replay = prepare(trace, technique)
        clean = engine.cell_times(self.replay, fault_free_maps())
        period = np.full(1, clean.period)
        groups = (duty_cycles(at.reshape(1, -1), period, 64) for at in (clean.zeros, clean.ones))
        self.duties = FaultFreeDuties((self.replay,), *groups)
        self.events_per_slice = self.replay.passes * self.replay.schedule.writes

    @property
    def phases(self):
        """Phases that depend on the fault map; what all slices share is done once."""
        return ("cell times", "counting", "stress")[: 3 if self.replay.technique.redirects else 1]

    def slices(self, phase, slices):
        """Slices that a phase is measured on: times of all cells are not for many."""
        return 1 if phase == "cell times" else slices

    def seconds(self, engine, phase, maps):
        """Time of an engine for a phase."""
        if phase == "cell times":
            return _timed(engine, lambda: engine.cell_times(self.replay, maps))
        if phase == "counting":
            return _timed(engine, lambda: engine.count(self.replay, maps))
        stress = self.new_slices(engine, len(maps))
        # What happens once: from the shared past to times of their own.
        self.run(stress, maps[:, ::-1].copy())
        return _timed(engine, lambda: self.run(stress, maps))

    def new_slices(self, engine, count):
        """Exposure of slices that have not run yet."""
        cells = np.random.default_rng(1).integers(GCN.cells, size=count * TRACKED_CELLS)
        tracked = TrackedCells(np.repeat(np.arange(count), TRACKED_CELLS), cells)
        return engine.stress(self.duties, tracked, count)

    def run(self, stress, maps):
        """Let each slice run on its fault map for about a year."""
        turns = Turns.single(np.zeros(len(maps), dtype=np.int64))
        stress.add(np.arange(len(maps)), turns, maps, YEAR_SECONDS)


def _timed(engine, work):
    clock = time.perf_counter if engine.name == "cuda" else time.process_time
    start = clock()
    work()
    return clock() - start


def sampled_maps(first, count, name="common"):
    """Fault maps of fresh instances at their scenario's Vdd: uint8[count, 256]."""
    where = scenario(name)
    tail = FaultModel(where).sample(1, np.arange(first, first + count), where.vdd_volts)
    faulty = tail.vmin_volts > where.vdd_volts
    return EntryFaults.none(count, ECP).more(tail, faulty).maps


def replays(engines, options):
    """Measure every phase of every trace under every technique."""
    pairs = [(trace, name) for trace in options.traces for name in options.techniques]
    compiled = [name for name in engines if name != "numpy"]
    sizes = {name: options.same_work if name == "numpy" else options.instances for name in engines}
    maps = [sampled_maps(i * options.instances, options.instances) for i in range(TURNS + 1)]
    print(
        f"\nReplays: {max(sizes.values())} slices; ratios to numpy on {options.same_work} slices; "
        "cell times on one\n"
        f"{'trace':<22}{'technique':<13}{'phase':<11}{'engine':<7}{'turns':>6}{'inst/s':>11}"
        f"{'Mevents/s':>11}{'ns/event':>10}  x numpy"
    )
    started = time.monotonic()
    for number, (trace, name) in enumerate(pairs):
        left = options.budget_s - (time.monotonic() - started)
        share = max(0.0, left) / (len(pairs) - number)
        fastest = engines[compiled[0] if compiled else "numpy"]
        work = Work(open_trace(trace), TECHNIQUES[name], fastest)
        for row in _pair(work, engines, sizes, options.same_work, maps, share):
            row = {"trace": trace, "technique": name} | row
            _print_replay(row)
            yield row


def _pair(work, engines, sizes, same_work, maps, share_s):
    """Rows of one trace and technique; the engines take turns, and who begins changes."""
    until = time.monotonic() + share_s
    for phase in work.phases:
        for name, size in sizes.items():  # whatever is compiled and made once
            if name == "numpy":
                continue
            work.seconds(engines[name], phase, maps[-1][: work.slices(phase, size)])
    taken = {(phase, name): [] for phase in work.phases for name in sizes}
    ratios = {key: [] for key in taken}
    for turn in range(TURNS):
        for phase in work.phases:
            slices, same = (work.slices(phase, size) for size in (len(maps[0]), same_work))
            order = list(engines) if turn % 2 == 0 else list(engines)[::-1]
            of_same = {}
            if "numpy" in engines:
                of_same = {
                    name: work.seconds(engines[name], phase, maps[turn][-same:]) for name in order
                }
                taken[phase, "numpy"].append(of_same["numpy"])
            for name in order:
                if name == "numpy":
                    continue
                taken[phase, name].append(work.seconds(engines[name], phase, maps[turn][:slices]))
                if of_same:
                    ratios[phase, name].append(of_same["numpy"] / of_same[name])
        if time.monotonic() > until:
            break
    for (phase, name), seconds in taken.items():
        slices = work.slices(phase, sizes[name])
        events, median = slices * work.events_per_slice, statistics.median(seconds)
        yield {
            "phase": phase,
            "engine": name,
            "clock": "wall" if name == "cuda" else "core",
            "turns": len(seconds),
            "slices": slices,
            "write_events": events,
            "seconds": median,
            "seconds_of_turns": seconds,
            "instances_per_second": slices / median,
            "write_events_per_second": events / median,
            "ns_per_write_event": 1e9 * median / events,
            "times_numpy_on_the_same_work": (
                statistics.median(ratios[phase, name]) if ratios[phase, name] else None
            ),
        }


def _print_replay(row):
    ratio = row["times_numpy_on_the_same_work"]
    print(
        f"{row['trace']:<22}{row['technique']:<13}{row['phase']:<11}{row['engine']:<7}"
        f"{row['turns']:>6}{row['instances_per_second']:>11,.0f}"
        f"{1e-6 * row['write_events_per_second']:>11.2f}{row['ns_per_write_event']:>10.1f}  "
        + (f"{ratio:.1f}" if ratio else ""),
        flush=True,
    )


# ---- sweeps ----------------------------------------------------------------------------------


def sweeps(engines, options):
    """Where the time of a sweep goes, for each engine; numpy computes one instance of it."""
    if not options.sweep_instances:
        return
    from mcage.spec import SweepSpec

    techniques = [name for name in options.techniques if name in SWEPT] or options.techniques
    for name, engine in engines.items():
        count = options.sweep_instances if name != "numpy" else 1
        spec = SweepSpec.from_mapping(
            {
                "instances": count,
                "techniques": techniques,
                "workload": {"kernels": options.traces},
            }
        )
        tiny = {"instances": 1} | ({"techniques": ("baseline",)} if name == "numpy" else {})
        run_timed_sweep(
            spec.model_copy(update=tiny), engine
        )  # whatever is compiled and loaded once
        row = {"engine": name, "cases": 2 * len(techniques)} | run_timed_sweep(spec, engine)
        print(
            f"\nSweep of {count} instances x {row['cases']} cases by {name}: "
            f"{row['wall_seconds']:.2f} s wall, {row['core_seconds_total']:.2f} s core, "
            f"{row['engine_wall_seconds']:.2f} s wall in the engine, peak {_megabytes(row)}"
        )
        for phase, seconds in sorted(row["core_seconds"].items(), key=lambda item: -item[1]):
            share = seconds / row["core_seconds_total"]
            print(f"  {phase:<32}{seconds:>8.3f} s core {100 * share:>5.1f} %")
        sys.stdout.flush()
        yield row


def _megabytes(row):
    return "unknown" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:,.0f} MB"


# ---- scale -----------------------------------------------------------------------------------


def scale(engines, most):
    """Whole processes, from 100 instances up; the cost of one more between neighbours."""
    compiled = [name for name in engines if name != "numpy"]
    if not compiled or not most:
        return
    print(f"\nScale: a cheap sweep by {compiled[-1]}, whole processes")
    previous = None
    _process(1, compiled[-1])  # whatever is compiled once
    counts = [count for count in (100, 1000, 10_000, 100_000, 1_000_000) if count < most]
    for count in [*counts, most]:
        row = _process(count, compiled[-1])
        line = f"{count:>9,} instances {row['wall_seconds']:>8.2f} s wall "
        line += f"{row['core_seconds']:>8.2f} s core, peak {_megabytes(row)}"
        if previous:
            row["core_ms_per_further_instance"] = (
                1e3 * (row["core_seconds"] - previous["core_seconds"])
            ) / (count - previous["instances"])
            line += f", {row['core_ms_per_further_instance']:.3f} ms core for each further one"
        print(line, flush=True)
        previous = row
        yield row


def _process(instances, engine):
    with tempfile.TemporaryDirectory() as folder:
        spec, told = Path(folder, "cheap.toml"), Path(folder, "told.json")
        spec.write_text(CHEAP_SPEC)
        command = [sys.executable, "-c", CHILD, str(told), "sweep", str(spec), "--engine", engine]
        command += ["--instances", str(instances), "--out", str(Path(folder, "sweep.h5"))]
        environment = os.environ | {"PYTHONPATH": _import_path()}
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        wall = time.perf_counter() - start
        if done.returncode:
            raise SystemExit(f"mcage sweep exits with {done.returncode}: {done.stderr}")
        core_seconds, peak = json.loads(told.read_text())
    return {
        "instances": instances,
        "engine": engine,
        "wall_seconds": wall,
        "core_seconds": core_seconds,
        "peak_bytes": peak,
    }


def _import_path():
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    return os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])


if __name__ == "__main__":
    main()
