"""``mcage avf``: figures of traces, forms of output, and files that are refused."""

import csv
import io
import json
from itertools import product

import numpy as np
import pytest
from command_line import invoke, run_mcage
from tables import each

import mcage
from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.soft_errors.ace import needs_of, vulnerability
from mcage.soft_errors.stuck import drawn_values, load_stuck_cells
from mcage.traces import bundled_trace


def rows_of(name, **asked):
    return mcage.avf(name, asked.pop("techniques", "baseline"), **asked)


def saved(folder, table, name="cells.npy"):
    np.save(folder / name, np.array(table))
    return folder / name


def test_a_row_for_each_technique_and_order():
    rows = rows_of("Reduction", techniques=["baseline", "rc"], release="work-group")
    assert [(row["technique"], row["order"]) for row in rows] == [
        *product(["baseline", "rc"], ["writes first", "reads first"])
    ]
    trace = bundled_trace("Reduction")
    whole = vulnerability(trace, needs_of(trace))
    for key in ("avf", "avf_of_allocated", "allocated", "resident", "writes", "dead_writes"):
        assert rows[0][key] == pytest.approx(getattr(whole, key))
    by_register = vulnerability(trace, needs_of(trace, by_lane=False)).avf
    assert rows[0]["avf_of_registers"] == pytest.approx(by_register)
    assert rows[2]["avf"] < rows[0]["avf"]
    assert rows[2]["in_file"] + rows[2]["in_table"] == pytest.approx(1)


def test_by_entry_and_by_bit():
    whole = rows_of("DCT")
    for by, count in {"entry": 256, "bit": 2048}.items():
        rows = rows_of("DCT", by=by)
        assert len(rows) == 2 * count
        for order, row in enumerate(whole):
            parts = rows[order * count :][:count]
            assert [part[by] for part in parts] == [*range(count)]
            assert np.mean([part["avf"] for part in parts]) == pytest.approx(row["avf"])


def test_instances_of_fault_maps_and_stuck_cells(tmp_path):
    maps = np.zeros((2, 256), dtype=np.uint8)
    maps[1] = 15
    fault_map = saved(tmp_path, maps, "maps.npy")
    stuck = saved(tmp_path, [[1, cell, 0] for cell in range(0, 5000, 50)])
    rows = rows_of("Reduction", techniques=["rrcd"], fault_map=fault_map, stuck_cells=stuck)
    assert [row["instance"] for row in rows] == [0, 0, 1, 1]
    assert rows[0]["avf"] > 0 == rows[2]["avf"] == rows[2]["in_file"]
    assert [row["stuck_cells"] for row in rows] == [0, 0, 100, 100]
    assert rows[2]["wrong_reads"] == 0  # nothing is left in the file
    conventional = rows_of("Reduction", stuck_cells=stuck)
    assert [row["instance"] for row in conventional] == [1, 1]
    assert conventional[0]["wrong_reads"] > 0


def test_values_of_stuck_cells_are_given_or_drawn(tmp_path):
    cell = np.arange(100)
    table = np.stack([np.full(100, 3), cell, np.where(cell < 50, -1, 1)], axis=1)
    (instance, stuck), *_ = load_stuck_cells(saved(tmp_path, table), GCN, seed=5).items()
    assert instance == 3
    assert stuck.at_one[50:].all()
    assert np.array_equal(stuck.at_one[:50], drawn_values(5, 3, cell[:50]))
    assert 0 < stuck.at_one[:50].sum() < 50


@each(
    "table, message",
    [
        ([[0, 1]], r"has shape \(1, 2\), must be \(cells, 3\)"),
        ([[0, 1.0, 1]], r"integers of shape \(cells, 3\) are needed"),
        ([0, 1, 1], r"integers of shape \(cells, 3\) are needed"),
        (np.zeros((0, 3), dtype=np.int64), "with at least a cell"),
        ([[0, 524288, 1]], r"row 0: cell 524288, must be 0 \.\.\. 524287"),
        ([[0, 5, 1], [0, 5, 2]], r"row 1: value 2, must be -1 \.\.\. 1"),
        ([[-1, 5, 1]], "row 0: instance -1"),
        ([[0, 5, 1], [1, 5, 1], [0, 5, 0]], "row 2: cell 5 of instance 0 stands in a row before"),
    ],
)
def test_bad_files_of_stuck_cells(table, message, tmp_path):
    with pytest.raises(UserError, match=message):
        load_stuck_cells(saved(tmp_path, table), GCN, 1)


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "text").write_text("0, 1, 1\n")
    for path in (tmp_path / "text", tmp_path / "nothing", tmp_path):
        with pytest.raises(UserError, match="no NumPy file with stuck cells"):
            load_stuck_cells(path, GCN, 1)
    stuck, maps = saved(tmp_path, [[4, 5, 1]]), saved(tmp_path, np.zeros((1, 256), np.uint8), "m")
    with pytest.raises(UserError, match=r"cells of instance 4, but .* has maps of 1 instances"):
        rows_of("Reduction", stuck_cells=stuck, fault_map=maps.with_name("m.npy"))


def test_forms_of_output():
    as_json = json.loads(run_mcage("avf", "Reduction", "--technique", "rc", "--json"))
    text = run_mcage("avf", "Reduction", "--technique", "rc", "--csv")
    as_csv = [*csv.DictReader(io.StringIO(text))]
    assert as_json == rows_of("Reduction", techniques=["rc"])
    assert [float(row["avf"]) for row in as_csv] == [row["avf"] for row in as_json]
    shown = run_mcage("avf", "Reduction")
    assert "upper bound" in " ".join(shown.split())
    assert len(run_mcage("avf", "--help").splitlines()) <= 120


@each(
    "arguments, message",
    [
        (["Reduction", "--csv", "--json"], "--csv and --json are two forms"),
        (["Reduction", "--by", "byte"], "'byte' is not one of"),
    ],
)
def test_what_is_refused(arguments, message):
    refused = invoke("avf", *arguments)
    assert message in f"{refused.exception} {refused.output}"
