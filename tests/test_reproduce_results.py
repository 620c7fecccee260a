"""The committed figures against what mcage computes now, and the command that prints them."""

import csv
import json
import sys

import pytest
from reproduce import PAGE, RESULTS, with_tables

from mcage.cli.main import main
from mcage.engines.native import NativeEngine
from mcage.reproduce.plots import PLOTS
from mcage.reproduce.published import Reasons
from mcage.reproduce.study import LIMITS, Study
from mcage.reproduce.table import Row, as_json, reproduce

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study() -> Study:
    return Study(NativeEngine())


@pytest.fixture(scope="module")
def rows(study) -> list[Row]:
    return reproduce(study)


def test_the_table_is_what_mcage_computes(rows):
    _same(as_json(rows), json.loads((RESULTS / "table.json").read_text(encoding="utf-8")))


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


def test_the_page_has_the_tables(rows):
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page, rows)


def test_every_difference_has_a_reason_and_no_reason_is_left_over(rows):
    assert [row.figure for row in rows if not row.agrees_always and not row.why] == []
    given = {row.why for row in rows}
    assert [entry["why"] for entry in Reasons.read().entries if entry["why"] not in given] == []


def _value(rows: list[Row], limit: int | None, metric: str, technique: str, **others) -> float:
    keys = {"metric": metric, "technique": technique, "kernel": "mean", **others}
    (row,) = [r for r in rows if all(getattr(r.figure, key) == keys[key] for key in keys)]
    return row.measured[limit].value


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
        (("--paper", "001"), "paper '001' is unknown; choose from 000, 002"),
        (("--engine", "abacus"), "engine 'abacus' is unknown"),
        (("--out", "nowhere"), "--out nowhere: no such folder"),
    ],
)
def test_bad_input_is_refused(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mcage", "reproduce", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    said = capsys.readouterr().err
    assert exit_.value.code == 2
    assert message in said
    assert len(said.splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []
