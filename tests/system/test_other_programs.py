"""Are two programs of the same name told apart, whoever sets their results side by side?"""

import re
from functools import partial

import numpy as np
import pytest
from amd_tools import needs_clang
from faulty_oracle import BLEND, BLEND_ARGUMENTS
from trace_strategies import alloc, read, release, trace_of, write

import mcage
from mcage.errors import UserError
from mcage.results.reader import read_header
from mcage.traces import save_trace

SWEEP = ("sweep", "--environment", "undervolted", "--technique", "rrcd", "--kernel", "t.h5")
OF_TRACE = {
    "sweep": (SWEEP, "workload.kernels: t.h5"),
    "vmin": (("vmin", "--technique", "baseline", "--kernel", "t.h5"), "workload.kernels: t.h5"),
    "gpu both": (
        ("gpu", "both", "--slices-per-sm", "1", "--periods", "1", "--replay", "t.h5"),
        "sweep.workload.kernels: t.h5",
    ),
}
INJECT = ("inject", "blend.cl", "--args", "blend.py", "--arch", "gfx900")
SOURCE, CODE = "program.source: file", "program.source: code object"
VALUES, COMPILER = "program.args: values", "program.source: compiler"
LAUNCH = "program.grid: launch"
CELLS = "inject.stuck_cells: file"


def write_trace(value):
    """A trace of one name that is another one for each value."""
    events = [alloc(0, 0, 2), write(1, 0, 1, value), read(20, 0, 1), release(30, 0)]
    save_trace(trace_of(events, cycles=40), "t.h5")


def write_cells(value):
    """A stuck cell of each of five instances, all in registers that many threads write."""
    np.save("cells.npy", [[instance, 2048 * instance + 3, value] for instance in range(5)])


def edit(name, *change):
    """Replace a part of a file of the working folder."""

    def edited():
        with open(name, "r+") as file:
            text = file.read().replace(*change)
            file.seek(0)
            file.truncate()
            file.write(text)

    return edited


def is_refused(said, files, keys):
    """Whether each key is named with the digests of both files, in their order."""
    programs = [read_header(file).programs for file in files]
    for key in keys:
        first, second = (of[key] if key == LAUNCH else of[key][:12] for of in programs)
        assert first != second
        assert f"{key} ({first}, {second})" in said
    assert said.count("\n") <= 2, said
    assert not re.search("[0-9a-f]{13}", said), said


def tell_apart(command, run, changed, keys):
    """Compute a file, change the program, compute another one; what sets both together refuses."""
    run = (*run, "--instances")
    assert command(*run, "3", "--out", "a.h5")[0] == 0
    changed()
    # The same command on the same file, with more instances, and from the spec in the file.
    words = [command(*run, count, "--out", "a.h5") for count in ("3", "5")]
    again = [part for part in run[:-1] if part in ("gpu", "both", run[0])]
    trusted = ["--trust"] if run[0] == "inject" else []
    words.append(command(*again, "a.h5", *trusted, "--out", "c.h5"))
    table = "sweep.programs={}" if keys[0].startswith("sweep.") else "programs={}"
    assert f"--set {table}\n" in words[-1][2]
    assert command(*again, "a.h5", *trusted, "--set", table, "--out", "d.h5")[0] == 0
    assert command(*run, "4", "--out", "b.h5")[0] == 0
    assert read_header("d.h5").programs == read_header("b.h5").programs
    words.append(command("compare", "a.h5", "b.h5"))
    words.append(command("merge", "m.h5", "b.h5", "a.h5"))  # a.h5 differs from the first
    for code, out, said in words:
        assert (code, out) == (2, ""), said
        is_refused(said, ("a.h5", "b.h5"), keys)
    allowed = [part for key in keys for part in ("--allow", key)]
    code, out, said = command("compare", "a.h5", "b.h5", *allowed)
    assert code == 0, said
    assert all(f"differs: {key}" in out for key in keys)
    first, second = (mcage.open_results(name) for name in ("a.h5", "b.h5"))
    with first, second:
        case = next(str(first[dim].values[0]) for dim in ("case", "policy") if dim in first.dims)
        if "technique" in first.dims:
            case = f"{case} {first['technique'].values[0]}"
        with pytest.raises(UserError) as refusal:
            first.mcage.paired(case, case, second)
        is_refused(f"{refusal.value}", ("a.h5", "b.h5"), keys)
        first.mcage.paired(case, case, second, allow=keys)
        assert first.mcage.programs() == read_header("a.h5").programs


@pytest.mark.parametrize(
    "study",
    [name if name == "sweep" else pytest.param(name, marks=pytest.mark.slow) for name in OF_TRACE],
)
def test_a_trace_that_was_replaced_under_its_name(command, tmp_path, study):
    run, key = OF_TRACE[study]
    write_trace(5)
    tell_apart(command, run, partial(write_trace, 6), [key])
    if study == "sweep":
        for others in (("pareto", "a.h5", "b.h5"), ("rare", "a.h5", "--vdd", "0.5")):
            code, out, said = command(*others)
            assert (code, out) == (2, "")
            is_refused(said, ("a.h5", "b.h5"), [key])
        assert command("pareto", "a.h5", "b.h5", "--allow", key)[0] == 0
        (tmp_path / "report.toml").write_text(read_header(tmp_path / "a.h5").spec_toml)
        code, _, said = command("sweep", "report.toml", "--out", "d.h5")
        assert code == 2
        is_refused(said, ("a.h5", "b.h5"), [key])


@pytest.mark.slow
@needs_clang
@pytest.mark.parametrize(
    ("changed", "keys"),
    [
        (edit("blend.cl", "sum * 0.5f", "sum * 0.25f"), [SOURCE, CODE]),
        (edit("scale.h", "(k + 1)", "(k + 2)"), [SOURCE, CODE]),
        (edit("blend.py", "normal(0, 1", "normal(0, 2"), [VALUES]),
        (edit("blend.py", "(8,)", "(7,)"), [LAUNCH]),
    ],
)
def test_a_kernel_that_was_edited_between_two_runs(command, tmp_path, changed, keys):
    (tmp_path / "scale.h").write_text("#define SCALE (k + 1)\n")
    (tmp_path / "blend.cl").write_text('#include "scale.h"\n' + BLEND.replace("(k + 1)", "SCALE"))
    (tmp_path / "blend.py").write_text(BLEND_ARGUMENTS)
    tell_apart(command, INJECT, changed, keys)


@needs_clang
@pytest.mark.slow
def test_stuck_cells_that_were_replaced_under_their_name(command, tmp_path):
    """Whichever they are: results know them apart, and their file from sampled cells."""
    (tmp_path / "blend.cl").write_text(BLEND)
    (tmp_path / "blend.py").write_text(BLEND_ARGUMENTS)
    write_cells(0)
    sampled = (*INJECT, "--fault", "stuck")
    run = (*sampled, "--stuck-cells", "cells.npy")
    tell_apart(command, run, partial(write_cells, 1), [CELLS])
    assert command(*sampled, "--age", "0", "--instances", "2", "--out", "sampled.h5")[0] == 0
    code, _, said = command("compare", "a.h5", "sampled.h5")
    assert code == 2
    assert "inject.stuck_cells ('cells.npy', not given)" in said
    assert CELLS not in said  # the name says it
    # Without --instances, all of the file; the page has no curve against a single age.
    assert command(*run, "--out", "all.h5")[0] == 0
    assert read_header(tmp_path / "all.h5").holds == 5
    assert command("report", "all.h5", "--out", "page")[0] == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "All slices are looked at when they are new." in page
    assert "Those of a file" in page


@needs_clang
@pytest.mark.slow
def test_options_that_make_a_program_another_one(command, tmp_path):
    """They need no word; but the source is that of the file."""
    (tmp_path / "blend.cl").write_text(BLEND.replace("(k + 1)", "(k + STEP)"))
    (tmp_path / "blend.py").write_text(BLEND_ARGUMENTS)
    run = (*INJECT, "--instances", "2", "--flags", "-DSTEP=1", "--out", "a.h5")
    assert command(*run)[0] == 0
    changed = ("inject", "a.h5", "--trust", "--flags", "-DSTEP=2", "--inputs", "3")
    assert command(*changed, "--out", "b.h5")[0] == 0
    first, second = (read_header(tmp_path / name).programs for name in ("a.h5", "b.h5"))
    assert {key for key in first if first[key] != second[key]} == {CODE, VALUES}
    assert COMPILER in first
    allowed = ("--allow", "program.flags", "--allow", "program.inputs")
    assert command("compare", "a.h5", "b.h5", *allowed)[0] == 0
    assert command("show", "a.h5", "--wide")[1].count(first[SOURCE]) == 1
    assert command("report", "a.h5", "--out", "page", "--figure", "outcome-by-bit")[0] == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert all(fact in page for fact in first.values())
    edit("blend.cl", "0.5f", "0.25f")()
    said = command(*changed, "--out", "c.h5")[2]
    assert SOURCE in said
    assert CODE not in said
    said = command("inject", "page/a.toml", "--out", "c.h5")[2]
    assert f"{SOURCE} ({first[SOURCE][:12]}, " in said
    assert f"{CODE} ({first[CODE][:12]}, " in said
