"""``scripts/gpu_check.py`` without a GPU: on the host device and a pretended CuPy."""

import itertools
import json
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import gpu_ceilings
import gpu_check
import numpy as np
import pytest
from gpu_ceilings import TimedDevice, kernels_of
from host_gpu.compiler import needs_host_compiler
from host_gpu.host_device import HostDevice
from places import ROOT

from mcage.engines.cuda_engine import CudaEngine
from mcage.engines.cuda_engine.devices import NoDeviceError
from mcage.engines.cuda_engine.programs import compilations, place_program
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.parity import Parity, excerpt
from mcage.geometry import GCN
from mcage.techniques import TECHNIQUES

FEW = {name: TECHNIQUES[name] for name in ("baseline", "rrcd")}


class PretendedCard(HostDevice):
    """A host device with what the script asks of CuPy's devices."""

    @contextmanager
    def current(self):
        yield SimpleNamespace(stream=None)

    def module(self, source, constants):
        module = super().module(source, constants)
        kernel = SimpleNamespace(
            num_regs=40, shared_size_bytes=512, local_size_bytes=0, kernel=SimpleNamespace(ptr=0)
        )
        module._module = SimpleNamespace(get_function=lambda name: kernel)
        return module


def pretended_cupy():
    moments = itertools.count()

    class Event:
        def record(self, stream):
            self.moment = next(moments)

        def synchronize(self):
            pass

    def launch(grid, block, arguments):
        if len(arguments) == 4:  # `rate` says how many cycles it took
            arguments[1].view(np.ndarray)[:] = 1000

    return SimpleNamespace(
        __version__="0",
        RawModule=lambda code, backend: SimpleNamespace(get_function=lambda name: launch),
        cuda=SimpleNamespace(
            Event=Event,
            get_elapsed_time=lambda begun, ended: ended.moment - begun.moment,
            runtime=SimpleNamespace(
                deviceSynchronize=lambda: None, runtimeGetVersion=lambda: 13000
            ),
            driver=SimpleNamespace(
                occupancyMaxActiveBlocksPerMultiprocessor=lambda function, threads, shared: 4
            ),
            Device=lambda: SimpleNamespace(
                attributes={"MultiProcessorCount": 2, "MaxThreadsPerMultiProcessor": 512}
            ),
        ),
    )


@pytest.fixture
def card(monkeypatch):
    """A machine with a card, as far as the script can tell, and little to do."""
    device = PretendedCard()
    check = gpu_check.Check(CudaEngine([device]), pretended_cupy(), device)
    monkeypatch.setattr(gpu_check, "_open", lambda kind: check)
    monkeypatch.setattr(gpu_check, "open_trace", lambda name: excerpt())
    monkeypatch.setattr(gpu_check, "KERNELS", ("MatrixTranspose",))
    monkeypatch.setattr(gpu_check, "TECHNIQUES", FEW)
    monkeypatch.setattr(gpu_check, "SANITIZED", ("rrcd",))
    monkeypatch.setattr(gpu_check, "TIMED_TECHNIQUES", ("rrcd",))
    monkeypatch.setattr(gpu_check, "INSTANCES", 3)
    monkeypatch.setattr(gpu_check, "REPETITIONS", 1)
    monkeypatch.setattr(gpu_check, "HOST_THREADS", 1)
    monkeypatch.setattr(gpu_ceilings, "_COPY_BYTES", 1 << 16)
    # The first program of each source: that all of them compile is tested with NVRTC.
    programs = dict(reversed([*gpu_ceilings.compilations()]))
    monkeypatch.setattr(gpu_ceilings, "compilations", programs.items)
    monkeypatch.setattr(
        gpu_check, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(1)
    )
    monkeypatch.setattr(gpu_check, "sampled_maps", lambda first, n: gpu_check.demanding_maps(3))
    return check


def run(monkeypatch, tmp_path, stages, *options):
    out = tmp_path / "check.json"
    arguments = [*options, "--out", str(out), "--stages", stages]
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", *arguments])
    code = gpu_check.main()
    return code, json.loads(out.read_text())["stages"]


@needs_host_compiler
def test_parity_and_rates_on_a_pretended_card(card, monkeypatch, tmp_path):
    code, stages = run(monkeypatch, tmp_path, "parity,throughput,ceilings")
    assert code == 0
    assert [row["technique"] for row in stages["parity"]["result"]] == list(FEW)
    assert all(row["bit_equal"] and row["against"] == "numpy" for row in stages["parity"]["result"])
    for row in stages["throughput"]["result"]:
        assert row["wall_seconds"] > 0
        assert row["times_numba_per_instance"] > 0
    ceilings = stages["ceilings"]["result"]
    assert len({kernel["kernel"] for kernel in ceilings["resources"]}) == 17
    assert set(ceilings["kernels"][0]["kernel_seconds"]) >= {
        "place",
        "sort_occupants",
        "log_epoch",
        "work_out",
        "track",
    }


@needs_host_compiler
def test_an_engine_that_is_wrong(card, monkeypatch, tmp_path, capsys):
    right = card.engine.count

    def wrong(replay, fault_maps):
        counters = right(replay, fault_maps)
        counters.lds[-1] += 1
        return counters

    card.engine.count = wrong
    monkeypatch.setitem(gpu_check.STAGES, "sweep", (0.1, lambda check: {"went": "on"}))
    code, stages = run(monkeypatch, tmp_path, "parity,sweep")
    assert code == 1
    assert stages["parity"]["status"] == "failed"
    assert stages["parity"]["error"] == "2 of 2 comparisons disagree"
    assert not any(row["integers_equal"] for row in stages["parity"]["result"])
    assert stages["sweep"]["result"] == {"went": "on"}
    assert "FAILED: parity" in capsys.readouterr().out


class GoneOnError(Exception):
    pass


def gone_on(monkeypatch):
    """The command with which a new program would go on."""
    commands = []

    def replace(program, command):
        commands.append(command[1:])
        raise GoneOnError

    monkeypatch.setattr(gpu_check.os, "closerange", lambda first, last: None)
    monkeypatch.setattr(gpu_check.os, "execv", replace)
    return commands


def test_what_was_compared_before_an_error_is_kept(card, monkeypatch, tmp_path):
    def ask(engine, replay, maps):
        if engine is card.engine and replay.technique.redirects:
            raise gpu_check.CheckError("it fell silent", None)
        return []

    monkeypatch.setattr(gpu_check, "ask", ask)
    monkeypatch.setattr(gpu_check, "compare", lambda answers, reference: SAME)
    code, stages = run(monkeypatch, tmp_path, "parity")
    assert code == 1
    first, second = stages["parity"]["result"]
    assert first["agrees"]
    assert not second["agrees"]
    assert second["technique"] == "rrcd"
    assert second["error"] == "CheckError: it fell silent"


SAME = Parity((), 0.0)


def test_after_a_device_fell_silent_a_new_process_goes_on(card, monkeypatch, tmp_path):
    commands = gone_on(monkeypatch)

    def fault(check):
        check.found = {"until": "then"}
        check.device.zeros = None  # whatever is asked of it fails
        raise RuntimeError("an illegal memory access")

    monkeypatch.setitem(gpu_check.STAGES, "parity", (0.2, fault))
    out = tmp_path / "check.json"
    with pytest.raises(GoneOnError):
        run(monkeypatch, tmp_path, "parity,sweep,ceilings")
    parity = json.loads(out.read_text())["stages"]["parity"]
    assert parity["status"] == "failed"
    assert parity["error"] == "RuntimeError: an illegal memory access"
    assert parity["result"] == {"until": "then"}
    (command,) = commands
    expected = [str(gpu_check.__file__), "--go-on", "--out", str(out), "--stages", "sweep,ceilings"]
    assert command[:6] == expected

    monkeypatch.setitem(gpu_check.STAGES, "sweep", (0.1, lambda check: {"went": "on"}))
    monkeypatch.setitem(gpu_check.STAGES, "ceilings", (0.1, lambda check: {"went": "on"}))
    del card.device.zeros
    code, stages = run(monkeypatch, tmp_path, "sweep,ceilings", "--go-on")
    assert code == 1  # of the stage that failed before
    assert list(stages) == ["parity", "sweep", "ceilings"]
    assert stages["parity"] == parity
    assert stages["ceilings"]["result"] == {"went": "on"}


def test_the_new_process_says_that_the_device_does_not_come_back(monkeypatch, tmp_path, capsys):
    """The stages that it was to do are in the file nevertheless."""
    no_device(monkeypatch)
    failed = {"status": "failed", "error": "RuntimeError: a fault"}
    (tmp_path / "check.json").write_text(json.dumps({"stages": {"parity": failed}}))
    code, stages = run(monkeypatch, tmp_path, "sweep", "--go-on")
    assert code == 1
    assert capsys.readouterr().out.rstrip().endswith("FAILED: parity, sweep")
    assert stages["parity"] == failed
    assert stages["sweep"]["error"].startswith("the device does not come back: ")


def test_a_stage_that_does_not_end_is_given_up(card, monkeypatch, tmp_path):
    commands = gone_on(monkeypatch)
    monkeypatch.setattr(gpu_check.threading, "excepthook", lambda given: None)
    monkeypatch.setattr(gpu_check, "PATIENCE_S", -1000.0)
    told = []

    def hang(check):
        check.found = [1, 2]
        while not commands:
            time.sleep(0.01)
        told.append(json.loads((tmp_path / "check.json").read_text())["stages"])
        return "the end"

    monkeypatch.setitem(gpu_check.STAGES, "parity", (0.2, hang))
    monkeypatch.setitem(gpu_check.STAGES, "sweep", (0.1, lambda check: {"went": "on"}))
    run(monkeypatch, tmp_path, "parity,sweep")
    assert told[0]["parity"]["error"] == "given up after 1 s"
    assert told[0]["parity"]["result"] == [1, 2]
    assert commands[0][commands[0].index("--stages") + 1] == "sweep"


@pytest.mark.slow
def test_parity_needs_no_package_but_those_of_engines():
    """The script begins where what only sweeps need is missing."""
    blocked = "import sys; sys.modules.update(dict.fromkeys(('pydantic', 'h5netcdf', 'rich')))"
    code = f"{blocked}; sys.path[:0] = [{str(ROOT / 'scripts')!r}]; import gpu_check"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_default_sweep_is_extrapolated_only_where_it_says_so(card, monkeypatch, tmp_path):
    def timed(spec, engine):
        compute = (2e-2 if engine.name == "numba" else 1e-4) * spec.instances
        return {
            "instances": spec.instances,
            "wall_seconds": 20 + compute,
            "start_seconds": 20,
            "compute_seconds": compute,
            "core_seconds_total": 3.0,
        }

    monkeypatch.setattr(gpu_check, "run_timed_sweep", timed)
    monkeypatch.setattr(gpu_check, "time", SimpleNamespace(monotonic=lambda: 0.0))
    code, stages = run(monkeypatch, tmp_path, "default")
    default = stages["default"]["result"]
    assert code == 0
    on_cuda, on_numba = (
        [row["instances"] for row in default["runs"] if row["engine"] == name]
        for name in ("cuda", "numba")
    )
    assert on_cuda == [1024, 10_000]
    of_time = 0.9 * 0.7 * gpu_check.STAGES["default"][0] * 540 - 20  # that is left, less start-up
    assert on_numba == [1024, int(of_time / 2e-2)]
    assert default["times_numba_wall_per_instance"] == pytest.approx(200)
    assert default["extrapolated_to_10000_wall_seconds"] == {"numba": pytest.approx(220)}
    by_threads = default["cuda_compute_seconds_by_threads"]
    assert list(by_threads) == [str(number) for number in gpu_check.BUSY_THREADS]
    assert card.engine.busy_threads == 3
    assert default["device_busy_seconds"] == {"instances": 1024, "seconds": 0}


@pytest.mark.parametrize(("status", "verdict"), [(0, "no errors"), (99, "exit code 99")])
def test_the_sanitizer(card, monkeypatch, tmp_path, status, verdict):
    program = tmp_path / "compute-sanitizer"
    # The file of what is expected is there, and the script is asked for the small case.
    program.write_text(f'#!/bin/sh\ntest "$7" = --small -a -s "$8" && echo $2\nexit {status}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    code, stages = run(monkeypatch, tmp_path, "sanitizer")
    rows = stages["sanitizer"]["result"]
    assert code == (1 if status else 0)
    assert [row["verdict"] for row in rows] == [verdict] * 3
    assert [row["output_end"].strip() for row in rows] == ["memcheck", "racecheck", "synccheck"]


def no_device(monkeypatch):
    def refuse(kind):
        raise NoDeviceError("CuPy is not installed")

    monkeypatch.setattr(gpu_check, "_open", refuse)


def test_without_a_gpu(monkeypatch, capsys):
    no_device(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["gpu_check.py"])
    assert gpu_check.main() == 2
    output = capsys.readouterr().out
    assert output.startswith("no GPU to check: ")
    assert output.count("\n") == 1


# ---- ceilings --------------------------------------------------------------------------------


def test_kernels_and_their_blocks_are_known():
    names = {name for source, _ in compilations() for name in kernels_of(source)}
    assert names == set(gpu_ceilings.BLOCK_THREADS)


def test_times_of_kernels_that_overlap():
    timed = TimedDevice(pretended_cupy(), PretendedCard())
    spans = [("a", 0.0, 2.0), ("b", 1.0, 3.0), ("a", 5.0, 6.0)]
    timed.spans, timed.empty_seconds = lambda: spans, lambda: 0.25
    assert timed.busy_seconds() == 4
    assert timed.kernel_seconds() == {"a": 2.5, "b": 1.75}


def test_a_tool_that_is_not_done_has_found_nothing(monkeypatch, tmp_path):
    program = tmp_path / "compute-sanitizer"
    program.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/pid\nwait\n")
    program.chmod(0o755)
    row = gpu_check._sanitized(str(program), "memcheck", tmp_path / "none", 0.5)
    assert row["verdict"] == gpu_check.NOT_DONE
    # What it started does not take the device from the stages that follow.
    status = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    while status.exists() and status.read_text().split()[2] != "Z":
        time.sleep(0.01)  # until the child, which would sleep for a long time, is gone


@needs_host_compiler
def test_the_small_case_compares_with_what_was_computed_before(card, monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_check, "each_alone", lambda cupy, device: None)
    answers = {
        name: gpu_check.ask(NumpyEngine(), *given) for name, *given in gpu_check._small_cases()
    }
    expected = tmp_path / "expected.pickle"
    expected.write_bytes(pickle.dumps(answers))
    assert gpu_check._small_check(expected) == 0
    answers["rrcd"].integers["lds"] += 1
    expected.write_bytes(pickle.dumps(answers))
    assert gpu_check._small_check(expected) == 1


def test_what_is_sanitized_asks_for_every_kernel_of_redirection():
    techniques = [TECHNIQUES[name] for name in gpu_check.SANITIZED]
    asked = [place_program(technique, GCN) for technique in techniques if technique.redirects]
    assert all(program in asked for program in compilations() if program[0] == "place.cu")
