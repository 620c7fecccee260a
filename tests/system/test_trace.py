"""``mcage trace list|show|validate`` as a user runs it."""

import re
from dataclasses import replace

import pytest
from command_line import from_json, run_mcage
from import_samples import files_of
from places import run_python
from trace_strategies import alloc, release, trace_of, write

from mcage.results.reader import read_header
from mcage.traces.library import KERNELS, ApproximateTraceWarning, open_trace, recorded_trace
from mcage.traces.storage import load_trace, save_trace


@pytest.fixture
def trace_file(tmp_path):
    trace = trace_of([alloc(0, 0, 2), write(0, 0, 1, 7), release(9, 0)])
    save_trace(trace, tmp_path / "mine.h5")
    return tmp_path / "mine.h5"


@pytest.mark.slow
def test_list():
    text = run_mcage("trace", "list")
    assert all(name in text for name in KERNELS)
    assert re.search(r"RadixSort +RadixS +19, 22 +8 +64 +8 +197,504 +38,280,452", text)
    entries = from_json("trace", "list")
    assert [entry["name"] for entry in entries] == list(KERNELS)
    radix_sort = {"short_name": "RadixS", "window_sizes": [19, 22], "concurrent_windows": 8}
    radix_sort |= {"windows": 64, "generations": 8, "writes": 197_504, "cycles": 38_280_452}
    assert entries[6].items() >= radix_sort.items()


def test_show(trace_file):
    text = run_mcage("trace", "show", str(trace_file))
    assert "kernel2 (2 registers)" in text
    assert re.search(r"pattern: constant .* 100\.0", text)


def test_show_as_json():
    numbers = from_json("trace", "show", "matrixt")
    assert numbers["name"] == "MatrixTranspose"
    assert numbers["kernels"] == [{"name": "matrixTranspose", "window_size": 4}]
    assert numbers["compressible_shares"]["none"] == pytest.approx(0.923, abs=5e-4)
    assert numbers["source"]["arguments"] == "-q -x 1024 -y 1024 -b 8"


def test_validate_stops_at_the_first_violation(trace_file, command):
    missing = trace_file.with_name("missing.h5")
    assert command("trace", "validate", trace_file, trace_file, missing) == (
        2,
        f"{trace_file}: ok\n" * 2,
        f"error: cannot read {missing}: No such file or directory\n",
    )


def test_show_of_nothing(refusal):
    said = refusal("trace", "show", "Mandelbrot")
    assert said.startswith("error: no trace 'Mandelbrot': neither a file nor one of Black")


def test_example_of_the_format_page(tmp_path, monkeypatch, capsys):
    """The Python example in docs/trace-format.md runs and writes the trace that it describes."""
    monkeypatch.chdir(tmp_path)
    run_python("docs/trace-format.md")
    trace = load_trace("ramp.h5")
    assert (trace.windows, trace.writes, trace.reads, trace.cycles) == (4, 8, 4, 400)
    assert "0.5" in capsys.readouterr().out


# ``mcage trace import`` as a user runs it, and what results say of approximate traces.

TIMING, TEXT = map(str, files_of("multi2sim/matrixtranspose-made"))
"""A run with floats, of which six digits are known."""


@pytest.fixture
def imported(tmp_path):
    """The table says what was there and what was not."""
    text = run_mcage("trace", "import", TIMING, TEXT, "--out", tmp_path / "traces")
    for words in (
        *("approximate", "contents: 3 writes were printed as floats", "in the file", "inferred"),
        *("19.35% of 93 reads: 18 before any write", "matrixtranspose-made.cu0.simd0.h5"),
    ):
        assert words in text
    return tmp_path / "traces" / "matrixtranspose-made.cu0.simd0.h5"


def test_what_a_trace_keeps_of_its_source_is_shown_in_words(imported):
    text = run_mcage("trace", "show", imported)
    assert re.search("^approximate: contents +3 writes were printed", text, re.M)
    assert re.search(
        "^files +matrixtranspose-made.m2s-trace.zst, matrixtranspose-made.txt.zst *$", text, re.M
    )
    assert re.search("^gaps: share +0.1935 *$", text, re.M)
    assert not re.search("[][{}│┃]", text)


def test_only_a_part_is_imported(tmp_path):
    sample = str(files_of("gem5/matrixtranspose-all-flags")[0])
    part = ("--slice", "cu0.simd1", "--ticks-per-cycle", 1000)
    facts = from_json("trace", "import", sample, "-o", tmp_path, *part)
    (made,) = facts["traces"]
    assert (made["slice"], made["windows"], made["cycles"]) == ("cu0.simd1", 3, 11060)
    facts = from_json("trace", "import", sample, "-o", tmp_path, "--windows", 2)
    assert len(facts["windows"]) == 2


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line(command, imported):
    said = command("trace", "show", imported)[2]
    assert said.startswith("warning: trace 'matrixtranspose-made cu0.simd0' is approximate in ")
    assert said.count("\n") == 1


def test_the_word_approximate_comes_through(imported, tmp_path):
    caveat = "matrixtranspose-made cu0.simd0: approximate in contents"
    with pytest.warns(ApproximateTraceWarning, match="is approximate in contents"):
        assert open_trace(imported).caveat == "approximate in contents"
    results = tmp_path / "r.h5"
    sweep = ("sweep", "--engine", "numpy", "--kernel", imported, "--instances", 2)
    sweep += ("--technique", "rrcd", "--environment", "turbo", "--scenario", "common")
    with pytest.warns(ApproximateTraceWarning):
        assert caveat in run_mcage(*sweep, "--out", results)
    assert read_header(results).caveats == (caveat,)
    assert caveat in run_mcage("show", results)


def test_what_cannot_be_imported_is_refused(refusal, tmp_path):
    out = ("--out", tmp_path / "out")
    (tmp_path / "notes.txt").write_text("hello\n")
    for arguments, words in (
        ((tmp_path / "notes.txt", *out), "its format is not recognised; give it with --format"),
        ((tmp_path / "notes.txt", *out, "--format", "gem5"), "no register write"),
        ((tmp_path / "notes.txt", *out, "--format", "vhdl"), "no format 'vhdl'; there are auto"),
        ((tmp_path / "absent.txt", *out), "absent.txt: No such file"),
        ((TIMING, TEXT, *out, "--slice", "cu7.simd3"), "no window lies in cu7.simd3"),
        ((TEXT, TEXT, *out), "an import takes one ISA text"),
        ((TIMING, TEXT, *out, "--values", "during"), "must be before or after"),
    ):
        assert words in refusal("trace", "import", *arguments)
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_a_trace_is_not_replaced(refusal, imported):
    imported.write_text("precious")
    message = refusal("trace", "import", TIMING, TEXT, "--out", imported.parent)
    assert "is not a trace, and is not replaced" in message
    assert imported.read_text() == "precious"


# Kernels of a narrower slice.


@pytest.mark.parametrize("name", ["Reduction", pytest.param("rope.gcn", marks=pytest.mark.slow)])
def test_what_a_bundled_trace_is_like_is_kept(monkeypatch, tmp_path, name):
    """It is unpacked once; later, only for its events, which are those of the trace."""
    monkeypatch.setenv("MCAGE_CACHE", str(tmp_path / "cache"))
    trace, opened = open_trace(name), []
    monkeypatch.setattr(
        "mcage.traces.library.bundled_trace", lambda kernel: opened.append(kernel) or trace
    )
    longer = replace(trace, cycles=trace.cycles + 1)
    for _ in range(2):
        known = recorded_trace(name, lambda whole: longer, "longer")
        assert known.name == name
        assert (known.cycles, known.geometry) == (longer.cycles, trace.geometry)
        assert (known.caveat, known.digest()) == (trace.caveat, longer.digest())
        assert known.recorded == trace.digest()
        assert opened == [name]
    assert known.whole is longer
    assert opened == [name, name]
