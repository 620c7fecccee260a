"""``mcage trace import`` as a user runs it, and what results say of approximate traces."""

import json
import re

import pytest
from import_samples import files_of
from typer.testing import CliRunner

from mcage.cli.app import app
from mcage.cli.main import main
from mcage.results.reader import read_header
from mcage.traces.library import ApproximateTraceWarning, open_trace

TEXT = str(files_of("multi2sim/matrixtranspose-made")[0])
"""Of which only the order is known."""


def run(*arguments):
    """Output of a command that must succeed."""
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def run_badly(monkeypatch, capsys, *arguments):
    """Message of a command that must fail as the user's mistake."""
    monkeypatch.setattr("sys.argv", ["mcage", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.fixture
def imported(tmp_path):
    run("trace", "import", TEXT, "--out", tmp_path / "traces")
    return tmp_path / "traces" / "matrixtranspose-made.cu0.simd0.h5"


def test_the_table_says_what_was_there_and_what_was_not(tmp_path):
    text = run("trace", "import", TEXT, "--out", tmp_path)
    for words in (
        "approximate",
        "time: only the order is known",
        "contents: 3 writes were printed as floats",
        "in the file",
        "inferred",
        "19.35% of 93 reads: 18 before any write",
        "matrixtranspose-made.cu0.simd0.h5",
    ):
        assert words in text


def test_json_has_the_facts_of_every_window_and_trace(tmp_path):
    facts = json.loads(run("trace", "import", TEXT, "--out", tmp_path, "--json"))
    assert facts["format"] == "multi2sim"
    assert [window["wavefront"] for window in facts["windows"]] == [0, 40, 80]
    assert facts["traces"][0]["windows"] == 3
    assert set(facts["approximate"]) == {"time", "contents"}


def test_what_a_trace_keeps_of_its_source_is_shown_in_words(imported):
    text = run("trace", "show", imported)
    assert re.search("^approximate: time +only the order is known", text, re.M)
    assert re.search("^files +matrixtranspose-made.txt.zst *$", text, re.M)
    assert re.search("^gaps: share +0.1935 *$", text, re.M)
    assert not re.search("[][{}│┃]", text)


def test_only_a_part_is_imported(tmp_path):
    sample = str(files_of("gem5/matrixtranspose-all-flags")[0])
    part = ("--slice", "cu0.simd1", "--cycles", "0:2000", "--ticks-per-cycle", 1000)
    facts = json.loads(run("trace", "import", sample, "-o", tmp_path, "--json", *part))
    (made,) = facts["traces"]
    assert (made["slice"], made["windows"], made["cycles"]) == ("cu0.simd1", 3, 2001)
    facts = json.loads(run("trace", "import", sample, "-o", tmp_path, "--json", "--windows", 2))
    assert len(facts["windows"]) == 2


def test_the_word_approximate_comes_through(imported, tmp_path):
    caveat = "matrixtranspose-made cu0.simd0: approximate in contents, time"
    with pytest.warns(ApproximateTraceWarning, match="is approximate in contents, time"):
        assert open_trace(imported).caveat == "approximate in contents, time"
    results = tmp_path / "r.h5"
    sweep = ("sweep", "--engine", "numpy", "--kernel", imported, "--instances", 2)
    sweep += ("--technique", "rrcd", "--environment", "nominal", "--scenario", "common")
    with pytest.warns(ApproximateTraceWarning):
        assert caveat in run(*sweep, "--out", results)
    assert read_header(results).caveats == (caveat,)
    assert caveat in run("show", results)


def test_what_cannot_be_imported_is_refused(monkeypatch, capsys, tmp_path):
    out = ("--out", tmp_path / "out")
    (tmp_path / "notes.txt").write_text("hello\n")
    for arguments, words in (
        ((tmp_path / "notes.txt", *out), "its format is not recognised; give it with --format"),
        ((tmp_path / "notes.txt", *out, "--format", "gem5"), "no register write"),
        ((tmp_path / "notes.txt", *out, "--format", "vhdl"), "no format 'vhdl'; there are auto"),
        ((tmp_path / "absent.txt", *out), "absent.txt: No such file"),
        ((TEXT, *out, "--cycles", "5"), "--cycles '5': must be FROM:TO"),
        ((TEXT, *out, "--slice", "cu7.simd3"), "no window lies in cu7.simd3"),
        ((TEXT, TEXT, *out), "an import takes one ISA text"),
        ((TEXT, *out, "--values", "during"), "must be before or after"),
    ):
        assert words in run_badly(monkeypatch, capsys, "trace", "import", *arguments)
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_a_trace_is_not_replaced(monkeypatch, capsys, imported):
    imported.write_text("precious")
    message = run_badly(monkeypatch, capsys, "trace", "import", TEXT, "--out", imported.parent)
    assert "is not a trace, and is not replaced" in message
    assert imported.read_text() == "precious"
