"""The recorder for NVIDIA GPUs: does it compile, and does what it records come back?

No GPU takes part. Its two halves run as one program of the host against a simulated NVBit, whose
program says what registers hold; the real compilers take the halves apart.
"""

import atexit
import json
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
from host_gpu.compiler import host_compiler
from kernel_resources import compile_kernels, oldest_of_generations
from sass_widths import UNKNOWN, WIDTHS

from mcage.traces.model import READ, WRITE
from mcage.tracing.importing.recorder import FORMAT
from mcage.tracing.importing.sass import instruction_of
from mcage.tracing.importing.sources import ImportOptions, Source

RECORDER = Path(__file__).parents[2] / "scripts" / "nvbit"
STAND_INS = Path(__file__).parents[1] / "support" / "nvbit"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not host_compiler(), reason="no C++ compiler of Linux"),
]


# ------------------------------------------------------------------------------------- compilers


@pytest.mark.skipif(sys.platform != "linux", reason="NVRTC's wheel is for Linux")
@pytest.mark.parametrize("architecture", oldest_of_generations())
def test_injected_functions_compile(architecture):
    """By NVRTC, in a kernel that calls both, since it leaves out what nothing calls."""
    packets = (RECORDER / "packets.h").read_text().replace("#pragma once", "")
    text = (RECORDER / "inject.cu").read_text().replace('#include "packets.h"', packets)
    text += """
        extern "C" __global__ void both(int predicate, unsigned long long control, unsigned value) {
            mcage_mark(predicate, 0, control, 0);
            mcage_write(predicate, 1, control, value);
        }"""
    cubin, _ = compile_kernels(text, "inject.cu", architecture)
    for name in (b"mcage_mark", b"mcage_write"):
        assert name in cubin


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no CUDA toolkit")
@pytest.mark.parametrize("half", ["inject.cu", "recorder.cu"])
def test_nvcc_takes_both_halves(half, tmp_path):
    """With CUDA's own headers, and the flags of the Makefile; only NVBit's are stand-ins."""
    makefile = (RECORDER / "Makefile").read_text()
    injected = re.search(r"^INJECTED = (.*)$", makefile, re.MULTILINE)[1].split()
    flags = ["-c", *injected] if half == "inject.cu" else ["-dc", "-Xptxas=-cloning=no"]
    command = ["nvcc", "-std=c++17", "-arch=sm_80", "-Xcompiler=-Wall,-fPIC", *flags]
    command += [f"-I{STAND_INS}", str(RECORDER / half), "-o", str(tmp_path / "half.o")]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "warning" not in made.stderr


# --------------------------------------------------------------------- a simulated NVBit, and back


@cache
def simulated():
    """Program of the host in which the recorder runs against a simulated NVBit."""
    folder = tempfile.mkdtemp(prefix="mcage-recorder-")
    atexit.register(shutil.rmtree, folder)
    includes = [f"-I{STAND_INS}", f"-I{STAND_INS / 'cuda'}", f"-I{RECORDER}"]
    return compiled(Path(folder, "simulated"), STAND_INS / "simulated.cpp", "c++20", *includes)


def compiled(program, source, standard, *options):
    """A program of the host, of a source without warnings."""
    command = [host_compiler(), f"-std={standard}", "-O0", "-Wall", "-Wextra", "-Werror"]
    command += [*options, "-x", "c++", str(source), "-o", str(program)]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return program


def record(path, launches=2, **environment):
    """Run the simulated program; what its registers did on the recorded SM, as a list of dicts."""
    done = subprocess.run(
        [simulated(), str(launches)],
        env={"RECORD_FILE": str(path), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def imported(*paths):
    """What an import reads of recordings."""
    sources = [Source(path) for path in paths]
    assert all(FORMAT.recognises(source) for source in sources)
    return FORMAT.reader(sources, ImportOptions()).read_all()


def accesses(recording, kind):
    """Accesses of one kind: launch, CTA, warp, cycle, register, lanes, contents of each lane."""
    columns, values = recording.columns(), recording.values()
    for row in (columns["kind"] == kind).nonzero()[0]:
        facts = recording.windows[columns["window"][row]].facts
        origin = recording.windows[columns["window"][row]].origin
        mask, value = int(columns["exec_mask"][row]), columns["value"][row]
        held = values[value] if kind == WRITE else []
        contents = [int(held[lane]) if mask >> lane & 1 else 0 for lane in range(len(held))]
        time, register = int(columns["time"][row]), int(columns["reg"][row])
        yield (
            *(origin.launch, origin.work_group, facts["warp_in_cta"]),
            *(time, register, mask, contents),
        )


def found_writes(recording):
    return [
        (launch, cta, warp, register, mask, held)
        for launch, cta, warp, _, register, mask, held in accesses(recording, WRITE)
    ]


def writes_of(events):
    return [
        (*key_of(event), event["register"], event["mask"], event["values"])
        for event in events
        if event["event"] == "write"
    ]


def key_of(event):
    return event["launch"], event["cta"], event["warp"]


def test_what_registers_did_comes_back(tmp_path):
    events, said = record(tmp_path / "values.mcr")
    recording = imported(tmp_path / "values.mcr")
    assert not said
    assert sorted(found_writes(recording)) == sorted(writes_of(events))
    assert set(recording.approximate) == {"time"}
    windows = {
        (window.origin.launch, window.origin.work_group, window.facts["warp_in_cta"]): window
        for window in recording.windows
    }
    assert set(windows) == {key_of(event) for event in events if event["event"] == "begin"}
    for event in events:
        window = windows[key_of(event)]
        assert window.place.unit == 0
        if event["event"] == "begin":
            assert window.lanes == event["mask"].bit_count()
    assert recording.approximate["time"]
    assert recording.tools["recorder: gpu"] == 'Simulated "GPU"'
    assert recording.windows[0].origin.kernel == 'ramp(float*, "é")'
    assert not recording.skipped


@pytest.mark.parametrize(
    ("program", "launches", "words"),
    [
        # What is captured runs later, and waiting for the GPU would break the capture.
        ("capture", {1, 2, 3, 4}, ["CUDA graphs are", "while another stream is captured are"]),
        ("threads", {0, 1, 2, 3}, []),  # they launch at the same time
        # A second on the same GPU, one on another, one at the address of one that has ended.
        ("contexts", {0, 1, 2, 3, 5, 6}, ["a second GPU are"]),
    ],
)
def test_programs_of_several_streams_threads_and_contexts(tmp_path, program, launches, words):
    events, said = record(tmp_path / "values.mcr", program, RECORD_BUFFER="1")
    assert all(f"{what} not recorded" in said for what in words), said
    assert {event["launch"] for event in events} == launches
    assert sorted(found_writes(imported(tmp_path / "values.mcr"))) == sorted(writes_of(events))


def test_cycles_are_those_of_the_sm(tmp_path):
    """Within a launch; between launches only a thousand remain."""
    events, _ = record(tmp_path / "values.mcr")
    recording = imported(tmp_path / "values.mcr")
    cycles = {}
    for event in events:
        if event["event"] == "write":
            cycles.setdefault(event["launch"], []).append(event["cycle"])
    times = {}
    for launch, _, _, time, *_ in accesses(recording, WRITE):
        times.setdefault(launch, []).append(time)
    for launch, of_launch in cycles.items():
        first, begin = min(of_launch), min(times[launch])
        assert sorted(c - first for c in of_launch) == sorted(t - begin for t in times[launch])
    assert min(times[1]) - max(times[0]) <= 1100


def test_reads_are_the_sources_of_what_ran(tmp_path):
    record(tmp_path / "values.mcr", launches=1)
    reads = list(accesses(imported(tmp_path / "values.mcr"), READ))
    of_first = [register for *key, _, register, _, _ in reads if key == [0, 0, 0]]
    # ISETP R0; IMAD.WIDE R0, R0; IADD3 R0; SHFL R1; STG [R2.64], R5.
    assert of_first == [0, 0, 0, 1, 2, 3, 5]


def test_wishes(tmp_path):
    """Kernels, launches, SMs."""
    record(tmp_path / "some.mcr", RECORD_KERNELS="^ends", RECORD_LAUNCHES="2-", RECORD_SMS="0-1")
    recording = imported(tmp_path / "some.mcr")
    assert {(w.origin.kernel, w.origin.launch) for w in recording.windows} == {("ends()", 3)}
    assert (tmp_path / "some.mcr").read_text().count('{"type":"packets"') == 1
    record(tmp_path / "both.mcr", RECORD_SMS="0-1")
    assert {w.place.unit for w in imported(tmp_path / "both.mcr").windows} == {0, 1}


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"RECORD_SMS": "3-1"}, "RECORD_SMS=3-1"),
        ({"RECORD_LAUNCHES": "first"}, "RECORD_LAUNCHES=first"),
        ({"RECORD_KERNELS": "("}, "RECORD_KERNELS=("),
        ({"RECORD_FILE": "/nowhere/at.mcr"}, "/nowhere/at.mcr"),
    ],
)
def test_wishes_that_make_no_sense_are_refused(environment, named, tmp_path):
    environment = {"RECORD_FILE": str(tmp_path / "a.mcr"), **environment}
    done = subprocess.run([simulated(), "1"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert named in done.stderr


def test_a_buffer_that_is_too_small(tmp_path):
    """What does not fit is counted; what fits is whole."""
    _, said = record(tmp_path / "cut.mcr", RECORD_BUFFER="0")
    assert "did not fit into the buffer" in said
    lines = (tmp_path / "cut.mcr").read_text().splitlines()
    lost = [json.loads(line) for line in lines if line.startswith('{"type":"packets"')]
    assert [entry["packets"] for entry in lost] == [0, 0, 0, 0]
    assert all(entry["lost_bytes"] for entry in lost)


# ------------------------------------------------------------------------------ what SASS writes

SASS = """\
@!P0 IMAD.WIDE R2, R0, R3.reuse, c[0x0][0x160] ;
RED.E.ADD.STRONG.GPU [R2.64], R5 ;
@P0 SHFL.IDX P0, R5, R1, RZ, 0x1f ;
@!P2 IADD3 R0, P2, R1, R2, RZ ;
@P0 SEL R1, R2, R3, P0 ;
S2UR UR4, SR_CTAID.X ;
R2P PR, R2, 0x7f ;
P2R R3, PR, RZ, 0x7f ;
LDGSTS.E.BYPASS.128 [R4], [R2.64] ;
WARPSYNC R3 ;
BRX R2 -0x40 ;
RET.REL.NODEC R20 0x0 ;
BAR.SYNC.DEFER_BLOCKING 0x0 ;
LDG.E.128 R252, [R2.64] ;
EXIT ;
@P0 EXIT ;
BSSY B0, 0x1a0 ;
MOV R1, c[0x0][0x28]
FFMA R3, -R2, |R1|, 1.5 ;
nonsense
"""

LOSE_THEIR_GUARD = {"@P0 SHFL.IDX P0, R5, R1, RZ, 0x1f ;", "@!P2 IADD3 R0, P2, R1, R2, RZ ;"}


def test_both_readers_of_sass_agree(tmp_path):
    """The C++ of the recorder and the Python of the importers, and both with what is known."""
    (tmp_path / "says.cpp").write_text(
        '#include "sass.h"\n#include <iostream>\n'
        "int main() { std::string line; while (std::getline(std::cin, line)) {"
        "  mcage::Sass sass = mcage::parse_sass(line);"
        "  mcage::Written written = mcage::written_by(sass);"
        "  std::cout << written.known << ' ' << mcage::reads_registers(sass)"
        "  << ' ' << mcage::overwrites_its_guard(sass);"
        "  for (int number : written.registers) std::cout << ' ' << number;"
        "  std::cout << std::endl; } }\n"
    )
    program = compiled(tmp_path / "says", tmp_path / "says.cpp", "c++17", f"-I{RECORDER}")
    texts = [*SASS.splitlines(), *(text for _, text in WIDTHS), *UNKNOWN]
    run = subprocess.run([program], input="\n".join(texts), capture_output=True, text=True)
    for line, answer in zip(texts, run.stdout.splitlines(), strict=True):
        known, reads, loses_guard, *written = map(int, answer.split())
        read = instruction_of(line)
        assert (tuple(written), bool(known)) == (read.written, not read.unknown), line
        assert reads or not read.read, line
        assert loses_guard == (line in LOSE_THEIR_GUARD), line
