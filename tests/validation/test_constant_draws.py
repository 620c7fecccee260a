"""Joint draws of constants: each instance lives as in a sweep with the constants of its row."""

import json
import tomllib
from copy import deepcopy

import numpy as np
import pytest
from sweep_cases import small_sweep

from mcage.aging.draws import ConstantDraws
from mcage.engines.select import select_engine
from mcage.results.reader import open_results, read_header
from mcage.spec import SweepSpec
from mcage.sweep.header import SweepHeader
from mcage.sweep.run import run_sweep
from mcage.sweep.study import Sweep

INSTANCES = 9

FACELIFT = {
    "aging.constants.amplitude": (190_000, 200_000, 180_000),
    "aging.constants.eta": (0.35, 0.3, 0.4),
    "aging.constants.activation_energy_ev": (0.13, 0.131, 0.128),
    "aging.constants.vt0_volts": (0.3, 0.28, 0.31),
    "aging.constants.alpha": (1.3, 1.4, 1.2),
    "life.vmin_coefficient": (1.0, 0.7, 0.9),
    "life.delay_guardband": (0.139, 0.12, 0.15),
    "life.temperature_kelvin": (353.15, 343.15, 363.15),
    "life.activity": (1.0, 0.8, 0.9),
    "aging.shift_factor": (1.0, 1.1, 0.9),
}
BHARDWAJ = {
    "aging.constants.scale": (0.0185, 0.02, 0.015),
    "aging.constants.xi1": (0.9, 0.8, 0.95),
    "aging.constants.period_seconds": (0.01, 0.02, 0.005),
    "aging.constants.oxide_thickness_nm": (1.75, 1.7, 1.8),
    "life.vmin_coefficient": (1.0, 0.7, 0.9),
}
FINFET = {
    "aging.constants.xi2": (0.5, 0.4, 0.6),
    "aging.constants.delta": (0.5, 0.4, 0.6),
    "aging.constants.diffusion_seconds_per_nm2": (1e-8, 2e-8, 5e-9),
}
CASES = {
    "facelift": (FACELIFT, {"environments": ["dvfs", "nominal"]}),
    "bhardwaj": (
        BHARDWAJ,
        {
            "techniques": ["rrcd"],
            "environments": ["dvfs"],
            "aging": {"model": "bhardwaj"},
            "life": {"epochs": 3},
        },
    ),
    "finfet": (FINFET, {"environments": ["nominal"], "aging": {"model": "finfet"}}),
    "facelift, whose temperature swings": (
        {"aging.constants.eta": (0.35, 0.3, 0.4), "life.temperature_kelvin": (350, 340, 360)},
        {
            "environments": ["nominal"],
            "life": {"epochs": 3, "temperature_swing_kelvin": "uniform(-5, 5)"},
        },
    ),
    "facelift, whose transistors differ by their luck": (
        {
            "aging.constants.eta": (0.35, 0.3, 0.4),
            "life.vmin_coefficient": (1.0, 0.7, 0.9),
            "life.delay_guardband": (0.139, 0.12, 0.15),
        },
        {
            "techniques": ["rrcd"],
            "environments": ["dvfs", "nominal"],
            "aging": {"nbti_spread_mv": 1.5},
        },
    ),
    "faults of each row": (
        {
            "faults.mu_volts": (0.14, 0.15, 0.13),
            "faults.sigma_random_volts": (0.06, 0.055, 0.062),
            "faults.sigma_systematic_volts": (0.02, 0.03, 0.025),
            "life.vmin_coefficient": (1.0, 0.7, 0.9),
        },
        {"techniques": ["rrcd"], "environments": ["dvfs"]},
    ),
    "facelift, fitted again for each row": (
        {"aging.constants.field_volts_per_nm": (0.2, 0.25, 0.18)},
        {
            "environments": ["dvfs"],
            "aging": {"constants": {"amplitude": "calibrated"}},
            "faults": {"slices_per_chip": 2},
        },
    ),
}


def with_row(fields, columns, row):
    """The fields of a spec with the constants of a row."""
    changed = deepcopy({"life": {"epochs": 4}} | fields)
    for key, values in columns.items():
        *tables, name = key.split(".")
        holder = changed
        for table in tables:
            holder = holder.setdefault(table, {})
        holder[name] = values[row]
    return changed


@pytest.mark.parametrize("name", CASES)
def test_an_instance_lives_with_the_constants_of_its_row(name):
    """To the last bit, whatever floor the other rows ask of the tail of Vmin."""
    columns, fields = CASES[name]
    fields = {"techniques": ["rrcd", "rrcd+rc+rar"]} | fields
    together = small_sweep(**fields, draws={"columns": columns}).compute(0, INSTANCES)
    for row in range(3):
        alone = small_sweep(**with_row(fields, columns, row))
        expected, here = alone.compute(0, INSTANCES), together["draw"] == row
        assert here.any()
        assert np.nanmax(together["max_dvth_mv"][:, here]) > 0
        for variable in alone.header.variables:
            if variable.per_instance:
                arrays = (
                    np.compress(here, each[variable.name], variable.instance_axis)
                    for each in (together, expected)
                )
                np.testing.assert_array_equal(*arrays, err_msg=variable.name)


def test_rows_are_dealt_evenly_and_whatever_the_batch():
    draws = ConstantDraws(7, {}, {}, group_size=3)
    rows = draws.row_of(5, np.arange(3 * 7 * 4))
    assert (np.bincount(rows) == 12).all()
    assert (rows.reshape(-1, 3) == rows[::3, None]).all()
    assert np.array_equal(draws.row_of(5, np.arange(40, 50)), rows[40:50])
    assert len({tuple(draws.row_of(seed, np.arange(0, 21, 3))) for seed in range(20)}) > 15


def test_a_file_of_draws_goes_on_and_holds_the_table(tmp_path, command):
    """Continued with more instances, it holds what a single run does; the CSV is not needed."""
    table = tmp_path / "draws.csv"
    table.write_text("life.vmin_coefficient,aging.constants.eta\n1,0.3\n0.5,0.40\n0.7,0.35\n\n")
    fields = {
        "techniques": ["rrcd"],
        "environments": ["dvfs"],
        "workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1},
        "life": {"epochs": 1},
    }
    spec = SweepSpec.from_mapping(fields | {"instances": 4, "draws": str(table)})
    path = tmp_path / "results.h5"
    run_sweep(spec, path, "numba")
    table.unlink()
    again = SweepSpec.from_mapping(tomllib.loads(read_header(path).spec_toml) | {"instances": 7})
    assert again.digest() == spec.digest()
    run_sweep(again, path, "numba")
    of_a_single_run = Sweep(again, *select_engine("numba")).compute(0, 7)
    with open_results(path) as results:
        for name, array in of_a_single_run.items():
            stored = results[name].values
            np.testing.assert_array_equal(stored, array.astype(stored.dtype), err_msg=name)
        assert sorted(results["draw"].values[:3]) == [0, 1, 2]
        assert list(results["aging.constants.eta"].values) == [0.3, 0.4, 0.35]
        assert results["aging.constants.eta"].dims == ("row",)
    code, out, _ = command("show", path, "--json")
    assert code == 0
    (case,) = json.loads(out)
    assert (case["instances"], case["by_draw"]["draws"]) == (7, 3)
    shift = case["by_draw"]["max_dvth_mv"]
    assert shift["lot"]["value"] > 10
    assert shift["band"] == {"value": None, "lower": None, "upper": None}


@pytest.mark.parametrize(
    "text", [3, "", "[" * 100_000, "[]", '{"life.activity": 1}', '{"life_years": "1"}']
)
def test_columns_that_no_sweep_has_declared(text):
    with pytest.raises(ValueError, match=r"drawn|line 1|Expecting"):
        SweepHeader.declared("sweep", {"drawn_constants": text})
