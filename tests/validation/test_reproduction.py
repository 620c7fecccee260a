"""The committed figures against what mcage computes now, and the command that prints them."""

import csv
import json
from functools import cache
from pathlib import Path

import pytest
from mitigation_by_age import ages
from paper_drawings import GPU_PLOTS
from paper_tables import PLOTS
from published_runs import replays
from reproduce import LINES, OTHER_TABLE, PAGE, RESULTS, TABLE, with_tables, with_verdicts
from reproduce_gpus import LINES as GPU_LINES
from reproduce_gpus import RESULTS as GPU_RESULTS
from reproduce_gpus import TABLE as GPU_TABLE
from reproduce_gpus import with_tables as with_gpu_tables
from tables import each

from mcage.papers.kernel_replays import PUBLISHED_LIMIT, Reasons
from mcage.papers.table import as_json, reproduce, reproduce_gpus
from mcage.traces.transforms import WORK_GROUP

COMMITTED = {
    "wavefronts": (lambda: reproduce(replays()), RESULTS / TABLE),
    "work-groups": (lambda: reproduce(replays(WORK_GROUP)), RESULTS / OTHER_TABLE),
    "GPUs": (reproduce_gpus, GPU_RESULTS / GPU_TABLE),
}


@cache
def rows_of(name):
    compute, _ = COMMITTED[name]
    return compute()


@pytest.mark.parametrize(
    "name", [*(pytest.param(it, marks=pytest.mark.slow) for it in [*COMMITTED][:2]), "GPUs"]
)
def test_the_table_is_what_mcage_computes(name):
    _same(as_json(rows_of(name)), json.loads(COMMITTED[name][1].read_text(encoding="utf-8")))


def _same(now, then):
    if isinstance(then, dict):
        assert list(now) == list(then)
        for key in then:
            _same(now[key], then[key])
    elif isinstance(then, list):
        for pair in zip(now, then, strict=True):
            _same(*pair)
    elif isinstance(then, float):
        assert now == pytest.approx(then, rel=1e-9, abs=1e-9)
    else:
        assert now == then


def _drawn():
    slow = [pytest.mark.slow]
    for plot in PLOTS:
        path, table = RESULTS / plot.name, lambda of=plot: of.table(replays())
        yield pytest.param(path, table, id=plot.name, marks=slow)
    for plot in GPU_PLOTS:
        marks = slow if plot.name == "003-by-age" else []
        yield pytest.param(GPU_RESULTS / plot.name, plot.table, id=plot.name, marks=marks)


@pytest.mark.parametrize(("path", "table"), [*_drawn()])
def test_a_figure_shows_what_mcage_computes(path, table):
    with Path(f"{path}.csv").open(encoding="utf-8", newline="") as file:
        then = list(csv.DictReader(file))
    for row, old in zip(table(), then, strict=True):
        assert list(row) == list(old)
        for key, value in row.items():
            if isinstance(value, float):
                assert value == pytest.approx(float(old[key]), rel=1e-5, abs=1e-6)
            else:
                assert ("" if value is None else str(value)) == old[key]
    assert Path(f"{path}.png").is_file()


@pytest.mark.slow
def test_the_pages_have_the_tables():
    rows, by_work_group = rows_of("wavefronts"), rows_of("work-groups")
    pages = (PAGE, LINES, GPU_LINES)
    page, lines, of_gpus = (path.read_text(encoding="utf-8") for path in pages)
    assert page == with_verdicts(page, rows, by_work_group)
    assert lines == with_tables(lines, rows, by_work_group)
    assert of_gpus == with_gpu_tables(of_gpus, rows_of("GPUs"), ages())
    by_default, other = (
        sum(row.agrees(PUBLISHED_LIMIT) for row in of) for of in (rows, by_work_group)
    )
    said = (
        f"With the published limit, {by_default} lines agree if windows are released with their "
        f"wavefronts, and {other} if with their work-groups."
    )
    assert said in page


def test_every_difference_on_gpus_has_a_reason():
    assert [row for row in rows_of("GPUs") if not row.agrees_always and not row.why] == []


@pytest.mark.slow
def test_every_difference_has_a_reason_and_no_reason_is_left_over():
    """An entry is of use if it is the first that fits some line which does not agree."""
    all_rows = [row for name in COMMITTED for row in rows_of(name)]
    assert [row.figure for row in all_rows if not row.agrees_always and not row.why] == []
    reasons = Reasons.read().entries
    used = {
        next(i for i, entry in enumerate(reasons) if Reasons((entry,)).why(row.figure, row.release))
        for row in all_rows
        if not row.agrees_always
    }
    assert [entry for i, entry in enumerate(reasons) if i not in used] == []


@each(
    ("arguments", "message"),
    [
        (
            ("--paper", "001"),
            "paper '001' is unknown; choose from valero-2019, "
            "toca-diaz-rrcd, chen-2014, zhang-2015",
        ),
        (("--engine", "abacus"), "engine 'abacus' is unknown"),
        (("--release", "never"), "release 'never' is unknown; choose from wavefront, work-group"),
    ],
)
def test_bad_input_is_refused(arguments, message, tmp_path, refusal):
    said = refusal("reproduce", *arguments)
    assert message in said
    assert len(said.splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []
