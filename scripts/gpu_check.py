"""Everything to be known of the CUDA engine on a machine with a GPU, in one call.

    python scripts/gpu_check.py [--out FILE] [--budget-s 540] [--stages parity,...] [--skip ...]
    python scripts/gpu_check.py --list

It needs no installation: a clone, mcage's default dependencies and CuPy. Stages:

parity      every technique on every bundled trace against the reference: integers, floats
sweep       a small sweep against the same by the CPU engines
sanitizer   compute-sanitizer (memcheck, racecheck, synccheck) on a small case, if there is one
throughput  10,000 instances of a trace through replay and stress; ratio to the CPU engine
default     the default sweep, start-up apart; ratio to the CPU engine
ceilings    bytes and operations per second of the card; registers, memory, occupancy of kernels;
            how far the kernels are from the floor that they set

A stage that fails does not keep the others from running: where a kernel has gone wrong, so that
the device answers this process no more, or a stage does not end, a fresh process goes on with the
next stage. The file is written before and after each stage. Exit code 0: all is well; 1: a stage
failed or engines disagree; 2: there is no GPU. `--device host` runs parity and sweep on the
host device of the tests instead, small and without any timing.
"""

import argparse
import json
import os
import pickle
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooSlow
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path

SCRIPTS = Path(__file__).parent
BENCHMARKS = SCRIPTS / "benchmarks"
sys.path[:0] = [str(SCRIPTS.parent), str(BENCHMARKS), str(BENCHMARKS / "gpu")]

# ruff: noqa: E402
import numpy as np
from bench_engines import TRACKED_CELLS, Work, commit, machine, sampled_maps
from phases import run_timed_sweep

from mcage.concurrency import Lazy, usable_cores
from mcage.engines.cuda_engine import CudaEngine
from mcage.engines.cuda_engine.devices import CupyDevice, NoDeviceError
from mcage.engines.cuda_engine.opening import ask_driver, open_devices
from mcage.engines.cuda_engine.programs import PROBE
from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.parity import ask, compare, demanding_maps, excerpt, largest_difference
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces import KERNELS, open_trace

ROOT = Path(__file__).parents[1]
INSTANCES = 10_000
TRACE = "QuasiRandomSequence"
"""Of the bundled traces the one whose 17,460 writes are nearest to 20,000."""
TIMED_TECHNIQUES = ("rrcd", "rrcd+rc+rar")
REPETITIONS = 5
PART = 1024
"""Instances of the first part of the default sweep."""
BUSY_THREADS = (1, 2, 3, 4, 8, 16)
"""Numbers of threads of the host whose sweeps are compared."""
HOST_THREADS = 4
SANITIZER_TOOLS = ("memcheck", "racecheck", "synccheck")
SANITIZED = ("baseline", "rrcd", "rrcd+pg", "rrcd+rc+rar", "gr-guard")
"""Techniques that ask for every kernel and every kind of home."""
NOT_DONE = "not done in time, nothing found until then"
PATIENCE_S = 90.0
"""Seconds beyond its share after which a stage is given up."""
LAST_PATIENCE_S = 40.0
"""The same beyond the budget of all stages."""
FOUND_IN = ("/usr/local/cuda/bin", "/opt/cuda/bin")


class CheckError(Exception):
    """A stage found something wrong; `result` is all that it found."""

    def __init__(self, message, result):
        super().__init__(message)
        self.result = result


@dataclass
class Check:
    """What the stages work with.

    Attributes
    ----------
    engine : CudaEngine
        What is checked.
    cupy, device
        CuPy and the first device, both None on the host device.
    deadline : float
        Moment by `time.monotonic` at which the running stage should be done.
    found : list or dict
        What the running stage has found so far; kept if it fails.
    """

    engine: CudaEngine
    cupy: object = None
    device: object = None
    deadline: float = 0.0
    found: object = None

    @property
    def left_s(self):
        """Seconds that the running stage has left."""
        return max(0.0, self.deadline - time.monotonic())


def main():
    options = _options()
    if options.list:
        for name, (share, _) in STAGES.items():
            print(f"{name:<12}{share * options.budget_s:>5.0f} s")
        return 0
    if options.small:
        return _small_check(options.small)
    until = time.monotonic() + options.budget_s
    try:
        check = _open(options.device)
    except NoDeviceError as error:
        driver = ask_driver()
        reason = f"{driver.problem}; {error.why}" if driver.problem else str(error)
        print(f"no GPU to check: {reason}", flush=True)
        if driver.cards:
            _tell_why()
        if not options.go_on:
            return 2
        report = json.loads(Path(options.out).read_text())
        gone = {"status": "failed", "error": f"the device does not come back: {reason}"}
        report["stages"] |= dict.fromkeys(options.stages, gone)
        _write(report, options, None)
        return _conclude(report)
    if options.go_on:
        report = json.loads(Path(options.out).read_text())
    else:
        report = {"what": "mcage, check of the CUDA engine"} | _header(check, options)
        report["stages"] = {}
        for key, value in report.items():
            print(f"{key}: {value}")
    stages = list(options.stages)
    while stages:
        name = stages.pop(0)
        share = _share_s(name, stages, options.budget_s, until - time.monotonic())
        with _Watch(report, name, check, options, stages, until, share):
            report["stages"][name] = _run_stage(name, check, share)
            _write(report, options, check)
        if stages and not _answers(check):
            print("-- the device answers no more: a fresh process goes on", flush=True)
            _go_on(report, options, stages, until)
    return _conclude(report)


def _share_s(name, later, budget_s, left_s):
    """Seconds of a stage: its share, or less if the stages before it took longer than theirs."""
    of_all = sum(STAGES[each][0] for each in (name, *later))
    share = STAGES[name][0]
    return max(0.0, min(share * budget_s, share / of_all * left_s))


class _Watch:
    """While a stage runs: the file says so, and a stage that does not end is given up."""

    def __init__(self, report, name, check, options, later, until, share_s):
        self._report, self._name, self._check, self._options = report, name, check, options
        self._later, self._until = later, until
        left_s = until - time.monotonic() + LAST_PATIENCE_S
        self._limit_s = max(1.0, min(share_s + PATIENCE_S, left_s))
        self._timer = threading.Timer(self._limit_s, self._give_up)
        self._timer.daemon = True

    def __enter__(self):
        self._report["stages"][self._name] = {"status": "failed", "error": "it has not ended"}
        _write(self._report, self._options, self._check)
        if self._check.cupy is not None:
            self._timer.start()

    def __exit__(self, *error):
        self._timer.cancel()

    def _give_up(self):
        words = f"given up after {self._limit_s:.0f} s"
        print(f"-- {self._name}: {words}", flush=True)
        self._report["stages"][self._name] = {
            "status": "failed",
            "error": words,
            "result": self._check.found,
            "seconds": self._limit_s,
        }
        _write(self._report, self._options, self._check)
        for process in active_children():
            process.terminate()
        if self._later:
            _go_on(self._report, self._options, self._later, self._until)
        _conclude(self._report)
        sys.stdout.flush()
        os._exit(1)


def _answers(check):
    """Whether the device computes: after a kernel that went wrong, only new processes can."""
    if check.cupy is None:
        return True
    try:
        check.device.download(check.device.zeros((1,), np.int32))
    except Exception:
        return False
    return True


def _go_on(report, options, stages, until):
    """Let a new program take this one's place, which goes on with the stages that are left."""
    command = [sys.executable, str(Path(__file__).resolve()), "--go-on"]
    command += ["--out", str(_path(report, options)), "--stages", ",".join(stages)]
    command += ["--budget-s", f"{max(0.0, until - time.monotonic()):.0f}"]
    sys.stdout.flush()
    sys.stderr.flush()
    os.closerange(3, 4096)  # the driver's files, too: nothing of the old program stays there
    os.execv(sys.executable, command)


def _tell_why():
    """Open the first device step by step, so that whatever is raised is shown as a whole."""
    try:
        import cupy

        device = CupyDevice(cupy, 0)
        print(f"device 0: {device.description}, {device.free_bytes()} bytes free", flush=True)
        numbers = device.upload(np.arange(64, dtype=np.int32))
        doubled = device.empty((64,), np.int32)
        device.module(*PROBE).launch("probe", (1, 1, 1), (64, 1, 1), [numbers, doubled])
        print(f"its probe: {device.download(doubled)}", flush=True)
    except Exception:
        traceback.print_exc()


def _options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stages", type=_stages, default=list(STAGES), metavar="A,B")
    parser.add_argument("--skip", type=_stages, default=[], metavar="A,B")
    parser.add_argument("--list", action="store_true", help="list stages and their seconds")
    parser.add_argument("--budget-s", type=float, default=540, help="seconds of all stages")
    parser.add_argument("--out", metavar="FILE", help="default: results/gpu/<card>-<date>.json")
    parser.add_argument("--commit", help="what is measured, if this is no clone")
    parser.add_argument("--device", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--small", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--go-on", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.stages = [name for name in options.stages if name not in options.skip]
    if options.device == "host":
        options.stages = [name for name in options.stages if name in ("parity", "sweep")]
    return options


def _stages(text):
    names = text.split(",")
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no stage {unknown[0]}; there are {', '.join(STAGES)}")
    return names


def _open(kind):
    if kind == "host":
        sys.path.insert(0, str(ROOT / "tests" / "support"))
        from host_gpu.host_device import HostDevice

        return Check(CudaEngine([HostDevice(seed=1)]))
    (device,) = open_devices((0,))
    import cupy

    return Check(CudaEngine([device], HOST_THREADS), cupy, device)


def _header(check, options):
    header = machine() | {"commit": options.commit or commit(), "device": check.engine.device}
    if check.cupy is None:
        return header | {"note": "host device: the kernels' results only, nothing is timed"}
    driver = ask_driver()
    runtime = check.cupy.cuda.runtime.runtimeGetVersion()
    card = driver.cards[0] if driver.cards else None
    return header | {
        "card": card.name if card else check.engine.device,
        "memory_bytes": card.memory_bytes if card else None,
        "driver": _driver_version(),
        "driver_cuda": driver.cuda_version,
        "runtime_cuda": f"{runtime // 1000}.{runtime % 1000 // 10}",
        "cupy": check.cupy.__version__,
    }


def _driver_version():
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    match = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return match[1] if match else None


def _run_stage(name, check, budget_s):
    stage = STAGES[name][1]
    print(f"\n== {name} (up to {budget_s:.0f} s)", flush=True)
    started = time.monotonic()
    check.deadline, check.found = started + budget_s, None
    try:
        result = {"status": "passed", "result": stage(check)}
    except CheckError as error:
        result = {"status": "failed", "error": str(error), "result": error.result}
    except ModuleNotFoundError as error:
        missing = f"the package {error.name} is not installed, and mcage needs it for this"
        result = {"status": "failed", "error": missing, "result": check.found}
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        result = {"status": "failed", "error": words, "result": check.found}
        traceback.print_exc()
    if check.cupy is not None:
        result["seconds"] = time.monotonic() - started
    print(f"-- {name}: {result['status']} {result.get('error', '')}", flush=True)
    return result


def _path(report, options):
    """Where the results are written."""
    if options.out:
        return Path(options.out)
    card = re.sub(r"[^a-z0-9]+", "-", report["card"].lower()).strip("-")
    return ROOT / "results" / "gpu" / f"{card}-{report['date'][:10]}.json"


def _write(report, options, check):
    """Before and after every stage, so that what was found is not lost with what comes next."""
    if not options.out and check.cupy is None:
        return
    path = _path(report, options)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(report, indent=1, default=_plain) + "\n")
    beside.replace(path)


def _plain(value):
    """A number of NumPy as one of Python; anything else in words."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _conclude(report):
    failed = [name for name, stage in report["stages"].items() if stage["status"] != "passed"]
    print(f"\n{'FAILED: ' + ', '.join(failed) if failed else 'all stages passed'}")
    return 1 if failed else 0


# ---- parity ----------------------------------------------------------------------------------


def _parity(check):
    """Whole traces; the reference computes on all cores, the CPU engine stands in if it is late."""
    maps = demanding_maps(4)
    rows = check.found = []
    if check.cupy is None:
        for name, technique in TECHNIQUES.items():
            replay = prepare(excerpt(), technique)
            expected = ask(NumpyEngine(), replay, maps[:3])
            rows.append(_compared(check, replay, name, "excerpt", expected, "numpy", maps[:3]))
        return _judged(rows)
    workers = min(12, max(1, usable_cores() - 2))
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        pairs = [(trace, name) for trace in KERNELS for name in TECHNIQUES]
        answers = [pool.submit(_reference, *pair, len(maps)) for pair in pairs]
        numba = NumbaEngine()
        for number, (trace, name) in enumerate(pairs):
            try:
                replay = prepare(open_trace(trace), TECHNIQUES[name])
                expected, by = _meant(answers[number], numba, replay, maps, 0.8 * check.left_s)
                rows.append(_compared(check, replay, name, trace, expected, by, maps))
            except Exception as error:
                rows.append(_broken(error, {"trace": trace, "technique": name}))
                if not _answers(check):
                    break
            answers[number] = None  # its memory
    finally:
        processes = list((pool._processes or {}).values()) if hasattr(pool, "_processes") else []
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:  # late references would take the cores of the next stages
            process.terminate()
    return _judged(rows)


def _broken(error, about):
    """A comparison that was not made, because of an error."""
    traceback.print_exc()
    print(f"FAIL  {' '.join(about.values())}: {error}", flush=True)
    return about | {"error": f"{type(error).__name__}: {error}", "agrees": False}


def _reference(trace, technique, instances):
    """In a process of its own."""
    replay = prepare(open_trace(trace), TECHNIQUES[technique])
    return ask(NumpyEngine(), replay, demanding_maps(instances))


def _meant(answer: Future, numba, replay, maps, patience_s):
    try:
        return answer.result(timeout=patience_s), "numpy"
    except (TooSlow, BrokenExecutor):
        answer.cancel()
        return ask(numba, replay, maps), "numba"


def _compared(check, replay, technique, trace, expected, by, maps):
    parity = compare(ask(check.engine, replay, maps), expected)
    row = {
        "trace": trace,
        "technique": technique,
        "against": by,
        "instances": len(maps),
        "writes": replay.schedule.writes,
        "integers_equal": not parity.unequal_integers,
        "largest_relative_difference": parity.largest_difference,
        "bit_equal": parity.bit_equal,
        "agrees": parity.agrees,
    }
    mark = "ok  " if parity.agrees else "FAIL"
    print(f"{mark}  {trace:<22}{technique:<13}{by:<7}{parity.in_words}", flush=True)
    return row


def _judged(rows):
    bad = [row for row in rows if not row["agrees"]]
    if bad:
        raise CheckError(f"{len(bad)} of {len(rows)} comparisons disagree", rows)
    return rows


# ---- sweep -----------------------------------------------------------------------------------


def _sweep_parity(check):
    """Two instances by the reference; more, and more work, by the CPU engine."""
    cases = [("numpy", NumpyEngine(), 2, 1)]
    if check.cupy is not None:
        cases.append(("numba", NumbaEngine(), 64, 4))
    rows = check.found = []
    for case in cases:
        try:
            rows.append(_compared_sweep(check, *case))
        except ModuleNotFoundError:
            raise
        except Exception as error:
            rows.append(_broken(error, {"against": case[0]}))
    return _judged(rows)


def _compared_sweep(check, by, other, instances, generations):
    from mcage.spec import SweepSpec
    from mcage.studies.sweep.study import Sweep

    spec = SweepSpec.from_mapping(
        {
            "instances": instances,
            "techniques": ["baseline", "rrcd", "rrcd+pg", "rrcd+rc+rar"],
            "environments": ["undervolted"],
            "scenarios": ["clustered"],
            "workload": {
                "kernels": ["MatrixTranspose", "ScanLargeArrays"][:generations],
                "periods": 2,
                "generations": generations,
            },
            "life": {"epochs": 2},
        }
    )
    computed, expected = (
        Sweep(spec, engine).compute(0, instances) for engine in (check.engine, other)
    )
    unequal = [
        name
        for name, array in expected.items()
        if array.dtype.kind in "iu" and not np.array_equal(computed[name], array)
    ]
    largest = max(
        largest_difference(computed[name], array)
        for name, array in expected.items()
        if array.dtype.kind == "f"
    )
    agrees = not unequal and largest <= 1e-5
    bits = not unequal and largest == 0
    words = "equal to the last bit" if bits else f"floats {largest:.1g}, unequal: {unequal}"
    mark = "ok  " if agrees else "FAIL"
    print(f"{mark}  {instances} instances, {len(expected)} arrays, against {by}: {words}")
    return {
        "against": by,
        "instances": instances,
        "unequal_integers": unequal,
        "largest_relative_difference": largest,
        "bit_equal": bits,
        "agrees": agrees,
    }


# ---- sanitizer -------------------------------------------------------------------------------


def _sanitizer(check):
    path = os.pathsep.join([os.environ.get("PATH", ""), *FOUND_IN])
    program = shutil.which("compute-sanitizer", path=path)
    if program is None:
        print("compute-sanitizer is not on this machine: not checked")
        return {"compute-sanitizer": None}
    rows = check.found = []
    with tempfile.TemporaryDirectory() as folder:
        expected = Path(folder) / "expected.pickle"
        answers = {name: ask(NumpyEngine(), *given) for name, *given in _small_cases()}
        expected.write_bytes(pickle.dumps(answers))
        for number, tool in enumerate(SANITIZER_TOOLS):
            patience_s = check.left_s / (len(SANITIZER_TOOLS) - number)
            rows.append(_sanitized(program, tool, expected, patience_s))
            print(f"{tool}: {rows[-1]['verdict']} ({rows[-1]['seconds']:.0f} s)", flush=True)
    # A tool that is not done has found nothing so far: that is said, and is no failure.
    if any(row["verdict"] not in ("no errors", NOT_DONE) for row in rows):
        raise CheckError("; ".join(f"{row['tool']}: {row['verdict']}" for row in rows), rows)
    return rows


def _sanitized(program, tool, expected, patience_s):
    command = [program, "--tool", tool, "--error-exitcode", "99", sys.executable, __file__]
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as told:
        # A session of its own, so that what the tool has started ends with it.
        running = subprocess.Popen(
            [*command, "--small", str(expected)],
            stdout=told,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = running.wait(timeout=patience_s)
            verdict = "no errors" if status == 0 else f"exit code {status}"
        except BaseException as error:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            verdict = NOT_DONE
        told.seek(0)
        output = told.read()
    return {
        "tool": tool,
        "verdict": verdict,
        "patience_s": patience_s,
        "seconds": time.monotonic() - started,
        "output_begin": output[:-2000][:4000],  # the first errors say most
        "output_end": output[-2000:],
    }


def _small_cases():
    """A trace under techniques that ask for every kernel, and maps for it."""
    maps = demanding_maps(3)[1:]
    for name in SANITIZED:
        yield name, prepare(excerpt(), TECHNIQUES[name]), maps


def _small_check(expected):
    """What runs under compute-sanitizer; every array is an allocation of its own.

    Results are compared with those in the file ``expected``, so that no other engine need be
    started here.
    """
    check = _open("cuda")
    each_alone(check.cupy, check.device)
    answers = pickle.loads(expected.read_bytes())
    for name, replay, maps in _small_cases():
        if not compare(ask(check.engine, replay, maps), answers[name]).agrees:
            print(f"{name}: wrong results")
            return 1
    return 0


def each_alone(cupy, device):
    """Let every array be an allocation of its own, so that what is beyond it is found."""

    class Alone:
        @staticmethod
        def malloc(size_bytes):
            return cupy.cuda.memory.MemoryPointer(cupy.cuda.memory.Memory(size_bytes), 0)

        @staticmethod
        def free_bytes():
            return 0

        @staticmethod
        def free_all_blocks():
            pass

    cupy.cuda.set_allocator(Alone.malloc)
    device._tables = Lazy(lambda: Alone)
    device.upload_together = lambda *arrays: tuple(map(device.upload, arrays))


# ---- throughput ------------------------------------------------------------------------------


def _throughput(check):
    maps = sampled_maps(0, INSTANCES)
    numba, threads = NumbaEngine(), usable_cores()
    rows = check.found = []
    for number, name in enumerate(TIMED_TECHNIQUES):
        until = time.monotonic() + check.left_s / (len(TIMED_TECHNIQUES) - number)
        work = Work(open_trace(TRACE), TECHNIQUES[name], numba)
        with ThreadPoolExecutor(HOST_THREADS) as pool:
            # The first compiles, and fills the memory that streams keep for later batches.
            taken = [_live(check.engine, work, maps, pool) for _ in range(REPETITIONS + 1)][1:]
        on_cpu, instances = _live_as_many(numba, work, maps, threads, until)
        seconds = statistics.median(taken)
        row = {
            "trace": TRACE,
            "technique": name,
            "writes_of_trace": work.replay.schedule.writes,
            "passes": work.replay.passes,
            "instances": INSTANCES,
            "wall_seconds": seconds,
            "wall_seconds_of_repetitions": taken,
            "instances_per_second": INSTANCES / seconds,
            "write_events_per_second": INSTANCES * work.events_per_slice / seconds,
            "wall_seconds_scaled_to_20000_writes": seconds * 20_000 / work.replay.schedule.writes,
            "numba_threads": threads,
            "numba_instances_measured": instances,
            "numba_wall_seconds_measured": on_cpu,
            "times_numba_per_instance": on_cpu / instances * INSTANCES / seconds,
        }
        rows.append(row)
        print(
            f"{name}: {INSTANCES} instances x {row['writes_of_trace']} writes x {row['passes']} "
            f"passes in {seconds:.3f} s ({1e-9 * row['write_events_per_second']:.2f} G write "
            f"events/s); numba on {threads} cores: {instances} instances in {on_cpu:.2f} s; "
            f"ratio per instance {row['times_numba_per_instance']:.1f}",
            flush=True,
        )
    return rows


def _live(engine, work, maps, pool):
    """Wall-clock seconds of replay and stress of all instances; what they are given is ready."""
    from mcage.studies.sweep.batch import batches, share_of_work

    threads = pool._max_workers
    size = min(engine.batch, share_of_work(len(maps), threads * engine.batches_of_thread))
    parts = [maps[instances] for instances in batches(0, len(maps), size)]
    given = [(part, work.new_slices(engine, len(part))) for part in parts]
    started = time.perf_counter()
    for answer in [pool.submit(_live_batch, engine, work, *given.pop()) for _ in parts]:
        answer.result()
    return time.perf_counter() - started


def _live_batch(engine, work, maps, stress):
    with engine.working():
        engine.count(work.replay, maps)
        work.run(stress, maps)
        return stress.longest, stress.tracked_seconds.now


def _live_as_many(engine, work, maps, threads, until):
    """Seconds and number of the instances that fit into the time."""
    few = maps[: 2 * threads * engine.batch]
    with ThreadPoolExecutor(threads) as pool:
        _live(engine, work, few, pool)
        seconds = _live(engine, work, few, pool)
        left = until - time.monotonic()
        many = min(len(maps), int(0.7 * left / seconds * len(few)))
        if many <= 2 * len(few):
            return seconds, len(few)
        return _live(engine, work, maps[:many], pool), many


# ---- the default sweep -----------------------------------------------------------------------


def _default_sweep(check):
    """A part of it first; all of it if that promises to fit. The engines have the same cores.

    Times are those of the wall clock; of processor time, waiting for the device takes none.
    Start-up is apart: it takes as long whatever the number of instances.
    """
    from gpu_ceilings import TimedDevice

    from mcage.spec import SweepSpec

    cores = usable_cores()
    engines = {"cuda": CudaEngine([check.device], cores), "numba": NumbaEngine()}
    runs, part, whole = [], SweepSpec(instances=PART), SweepSpec()
    check.found = {"cores": cores, "runs": runs}
    last = {}
    for name, share in (("cuda", 0.5), ("numba", 0.7)):  # of what is left
        until = time.monotonic() + share * check.left_s
        run_timed_sweep(SweepSpec(instances=cores), engines[name])  # compiles
        last[name] = _timed_sweep(part, name, engines[name])
        runs.append(last[name])
        start, compute = (last[name][key] for key in ("start_seconds", "compute_seconds"))
        left = 0.9 * (until - time.monotonic()) - start
        count = int(min(1.0, left / (compute * whole.instances / PART)) * whole.instances)
        if count >= 2 * PART:
            spec = whole.model_copy(update={"instances": count})
            last[name] = _timed_sweep(spec, name, engines[name])
            runs.append(last[name])
        if name == "cuda":
            compared = part.model_copy(update={"instances": last[name]["instances"]})
            by_threads = check.found["cuda_compute_seconds_by_threads"] = {}
            _by_threads(by_threads, engines[name], compared, until)
    per_instance = {name: row["compute_seconds"] / row["instances"] for name, row in last.items()}
    ratio = per_instance["numba"] / per_instance["cuda"]
    print(f"wall-clock time per instance, without start-up: numba / cuda = {ratio:.1f}")
    timed = TimedDevice(check.cupy, check.device)
    run_timed_sweep(part, CudaEngine([timed], cores))
    busy = timed.busy_seconds()
    print(f"cuda: {PART} instances keep the device busy for {busy:.3f} s (events slow it down)")
    return {
        "cores": cores,
        "runs": runs,
        "cuda_compute_seconds_by_threads": by_threads,
        "times_numba_wall_per_instance": ratio,
        "device_busy_seconds": {"instances": PART, "seconds": busy},
        "extrapolated_to_10000_wall_seconds": {
            name: row["start_seconds"] + whole.instances * per_instance[name]
            for name, row in last.items()
            if row["instances"] < whole.instances
        },
    }


def _by_threads(seconds, engine, spec, until):
    """Seconds of a sweep, start-up apart, for as many numbers of threads as there is time for."""
    usual = engine.busy_threads
    for number in BUSY_THREADS:
        engine.busy_threads = number
        begun = time.monotonic()
        seconds[number] = run_timed_sweep(spec, engine)["compute_seconds"]
        print(f"cuda: {spec.instances} instances with {number} threads: {seconds[number]:.2f} s")
        if 2 * time.monotonic() - begun > until:
            break
    engine.busy_threads = usual


def _timed_sweep(spec, name, engine):
    row = {"engine": name} | run_timed_sweep(spec, engine)
    print(
        f"{name}: {spec.instances} instances, {row['wall_seconds']:.2f} s wall, of them "
        f"{row['start_seconds']:.2f} s start-up; {row['core_seconds_total']:.2f} s processor time",
        flush=True,
    )
    return row


# ---- ceilings --------------------------------------------------------------------------------


def _ceilings(check):
    from gpu_ceilings import TimedDevice, floors_of_stress, kernel_resources, measure_ceilings

    ceilings = measure_ceilings(check.cupy, check.device)
    check.found = {"ceilings": ceilings}
    print(f"copy: {1e-12 * ceilings['copy']['bytes_per_second']:.3f} TB/s, read and written")
    for name in ("add", "lop3", "dp2a"):
        ceiling = ceilings[name]
        print(
            f"{name}: {1e-12 * ceiling['operations_per_second']:.2f} T operations/s, "
            f"{ceiling['per_clock_and_multiprocessor']:.1f} per clock and multiprocessor"
        )
    resources = check.found["resources"] = list(kernel_resources(check.cupy, check.device))
    for kernel in resources:
        print(
            f"{kernel['source']} {kernel['kernel']:<12}{_macros(kernel['constants']):<45}"
            f"{kernel['registers_per_thread']:>4} registers "
            f"{kernel['shared_bytes_per_block']:>6} B shared "
            f"{kernel['local_bytes_per_thread']:>4} B local, {100 * kernel['occupancy']:.0f} %"
        )
    timed = TimedDevice(check.cupy, check.device)
    engine, numba = CudaEngine([timed]), NumbaEngine()
    kernels = check.found["kernels"] = []
    for name in TIMED_TECHNIQUES:
        work = Work(open_trace(TRACE), TECHNIQUES[name], numba)
        maps = sampled_maps(0, engine.batch)
        _live_batch(engine, work, maps, work.new_slices(engine, len(maps)))
        timed.forget()
        _live_batch(engine, work, maps, work.new_slices(engine, len(maps)))
        seconds = timed.kernel_seconds()
        tracked = TRACKED_CELLS * len(maps)
        floors = floors_of_stress(work.replay, len(maps), tracked, ceilings)
        times = {kernel: seconds[kernel] / floor["seconds"] for kernel, floor in floors.items()}
        kernels.append(
            {
                "technique": name,
                "trace": TRACE,
                "instances": len(maps),
                "kernel_seconds": seconds,
                "empty_launch_seconds": timed.empty_seconds(),
                "floors": floors,
                "times_floor": times,
            }
        )
        listed = ", ".join(f"{kernel} {1e3 * taken:.2f} ms" for kernel, taken in seconds.items())
        compared = ", ".join(f"{kernel} {ratio:.2f} x" for kernel, ratio in times.items())
        print(f"{name}, {len(maps)} instances: {listed}; {compared} its floor", flush=True)
    spilling = [kernel for kernel in resources if kernel["local_bytes_per_thread"]]
    if spilling:
        raise CheckError(f"{len(spilling)} kernels use local memory", check.found)
    return check.found


def _macros(constants):
    return " ".join(f"{key}={value}" for key, value in constants.items())


STAGES: dict[str, tuple[float, Callable]] = {
    "parity": (0.22, _parity),
    "sweep": (0.08, _sweep_parity),
    "sanitizer": (0.30, _sanitizer),
    "throughput": (0.10, _throughput),
    "default": (0.24, _default_sweep),
    "ceilings": (0.06, _ceilings),
}
"""Share of the budget and what is done."""


if __name__ == "__main__":
    sys.exit(main())
