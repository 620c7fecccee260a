"""The committed figures against what mcage computes now, and the command that prints them."""

import csv
import json

import pytest
from paper_tables import PLOTS
from published_runs import replays
from reproduce import LINES, OTHER_TABLE, PAGE, RESULTS, TABLE, with_tables, with_verdicts

from mcage.papers.kernel_replays import LIMITS, PUBLISHED_LIMIT, KernelReplays, Reasons
from mcage.papers.table import Row, as_json, reproduce, reproduce_gpus
from mcage.traces.transforms import WORK_GROUP


@pytest.fixture(scope="module")
def study() -> KernelReplays:
    return replays()


@pytest.fixture(scope="module")
def rows(study) -> list[Row]:
    return reproduce(study)


@pytest.fixture(scope="module")
def rows_by_work_group() -> list[Row]:
    return reproduce(replays(WORK_GROUP))


def test_the_table_is_what_mcage_computes(rows):
    _same(as_json(rows), json.loads((RESULTS / TABLE).read_text(encoding="utf-8")))


def test_the_table_by_work_group_is_what_mcage_computes(rows_by_work_group):
    then = json.loads((RESULTS / OTHER_TABLE).read_text(encoding="utf-8"))
    _same(as_json(rows_by_work_group), then)


def _same(now, then):
    if isinstance(then, dict):
        assert list(now) == list(then)
        for key in then:
            _same(now[key], then[key])
    elif isinstance(then, list):
        assert len(now) == len(then)
        for pair in zip(now, then, strict=True):
            _same(*pair)
    elif isinstance(then, float):
        assert now == pytest.approx(then, rel=1e-9, abs=1e-9)
    else:
        assert now == then


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
def test_a_figure_shows_what_mcage_computes(study, plot):
    with (RESULTS / f"{plot.name}.csv").open(encoding="utf-8", newline="") as file:
        then = list(csv.DictReader(file))
    now = plot.table(study)
    assert [list(row) for row in now] == [list(row) for row in then]
    for row, old in zip(now, then, strict=True):
        for key, value in row.items():
            if isinstance(value, float):
                assert value == pytest.approx(float(old[key]), rel=1e-5, abs=1e-6)
            else:
                assert str(value) == old[key]
    assert (RESULTS / f"{plot.name}.png").is_file()


def test_the_pages_have_the_tables(rows, rows_by_work_group):
    page, lines = (path.read_text(encoding="utf-8") for path in (PAGE, LINES))
    assert page == with_verdicts(page, rows, rows_by_work_group)
    assert lines == with_tables(lines, rows, rows_by_work_group)


def test_the_page_counts_the_lines_that_agree_with_the_published_limit(rows, rows_by_work_group):
    by_default, by_work_group = (
        sum(row.agrees(PUBLISHED_LIMIT) for row in of) for of in (rows, rows_by_work_group)
    )
    said = (
        f"With the published limit, {by_default} lines agree if windows are released with their "
        f"wavefronts, and {by_work_group} if with their work-groups."
    )
    assert said in PAGE.read_text(encoding="utf-8")


def test_every_difference_has_a_reason_and_no_reason_is_left_over(rows, rows_by_work_group):
    both = [*rows, *rows_by_work_group, *reproduce_gpus()]
    assert [row.figure for row in both if not row.agrees_always and not row.why] == []
    # An entry is of use if it is the first that fits some line which does not agree.
    reasons = Reasons.read().entries
    used = {
        next(i for i, entry in enumerate(reasons) if Reasons((entry,)).why(row.figure, row.release))
        for row in both
        if not row.agrees_always
    }
    assert [entry for i, entry in enumerate(reasons) if i not in used] == []


@pytest.mark.parametrize(
    ("metric", "technique", "kernel", "by_default", "by_work_group"),
    [
        ("longest_zero_duty_reduction", "argo", "mean", 0.6, 5.9),
        ("longest_one_duty_reduction", "argo", "mean", 1.0, 7.4),
        ("lds_writes", "rrcd", "BlackScholes", 0, 26),
        ("slowdown", "rrcd", "BlackScholes", 4.1, 59),
    ],
)
def test_wavefronts_that_release_bring_the_papers_values(
    rows, rows_by_work_group, metric, technique, kernel, by_default, by_work_group
):
    """Points off the printed value with the published limit: at most, and at least."""

    def off(of: list[Row]) -> float:
        row = _row(of, metric, technique, kernel=kernel)
        return abs(row.figure.difference(row.measured[PUBLISHED_LIMIT].value))

    assert off(rows) <= by_default
    assert off(rows_by_work_group) >= by_work_group


def _row(rows: list[Row], metric: str, technique: str, **others) -> Row:
    keys = {"metric": metric, "technique": technique, "kernel": "mean", **others}
    (row,) = [r for r in rows if all(getattr(r.figure, key) == keys[key] for key in keys)]
    return row


def _value(rows: list[Row], limit: int | None, metric: str, technique: str, **others) -> float:
    return _row(rows, metric, technique, **others).measured[limit].value


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("transistor", ["t0", "t1"])
def test_techniques_age_in_the_order_of_the_paper(rows, limit, transistor):
    """Valero et al., section 6.4: RC+RAR saves more of the shift than ARGO."""
    metric = f"dvth_{transistor}_saving"
    assert _value(rows, limit, metric, "rc+rar") > _value(rows, limit, metric, "argo") > 0


@pytest.mark.parametrize("limit", LIMITS)
def test_rotation_adds_to_compression(rows, limit):
    """Sections 6.2 and 6.3: RC+RAR reduces the longest duties more than RC alone."""
    for metric in ("longest_zero_duty_reduction", "longest_one_duty_reduction"):
        assert _value(rows, limit, metric, "rc+rar") > _value(rows, limit, metric, "rc") > 0


def test_techniques_reduce_duties_in_the_order_of_the_paper(rows):
    """Sections 6.2 and 6.3, with the published limit: RC+RAR most, then ARGO, then RC."""
    for metric in ("longest_zero_duty_reduction", "longest_one_duty_reduction"):
        both, argo, alone = (_value(rows, 64, metric, name) for name in ("rc+rar", "argo", "rc"))
        assert both > argo > alone


def test_techniques_save_energy_in_the_order_of_the_paper(rows):
    """Section 6.6: WC a little more than RC+RAR, ARGO least."""
    wc, both, argo = (_value(rows, 64, "energy_saving", n) for n in ("wc", "rc+rar", "argo"))
    assert wc > both > argo > 0


@pytest.mark.parametrize("limit", LIMITS)
def test_scenarios_slow_down_in_the_order_of_the_paper(rows, limit):
    """RRCD, section V.A.2: Common less than Clustered and Dispersed."""
    common, clustered, dispersed = (
        _value(rows, limit, "slowdown", "rrcd", scenario=name)
        for name in ("common", "clustered", "dispersed")
    )
    assert common < clustered < dispersed


@pytest.mark.parametrize(
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
