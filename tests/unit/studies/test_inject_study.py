"""Injections as a study: functions of spec, seed and instance, whose chain hangs together."""

import numpy as np
import pytest
from amd_tools import needs_clang
from faulty_oracle import BLEND, BLEND_ARGUMENTS
from tables import each

from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.studies.inject.outcomes import DETECTED, SILENT, Fate
from mcage.studies.inject.spec import InjectSpec
from mcage.studies.inject.study import InjectStudy

pytestmark = needs_clang


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "blend.cl").write_text(BLEND)
    (folder / "blend.py").write_text(BLEND_ARGUMENTS)
    return {"source": str(folder / "blend.cl"), "args": str(folder / "blend.py"), "arch": "gfx900"}


def study(kernel, **fields):
    spec = InjectSpec.from_mapping({"program": kernel, "seed": 5, "instances": 60} | fields)
    return InjectStudy(spec, *select_engine("numba"))


CASES = {
    "flip": {"techniques": ["rrcd"], "protections": ["none", "secded32"]},
    "stuck": {"techniques": ["baseline"], "protections": ["ecp1", "secded32"]},
    "read": {"techniques": ["rrcd+rc+rar"], "protections": ["none"]},
}


@pytest.mark.parametrize(
    "fault", ["flip", *(pytest.param(it, marks=pytest.mark.slow) for it in ("stuck", "read"))]
)
def test_an_injection_is_a_function_of_spec_seed_and_instance(program, fault):
    given = CASES[fault] | {"inject": {"fault": fault, "ages_years": [0, 10.0]}}
    whole = study(program, **given)
    found = whole.compute(0, 12)
    again = study(program, **given)
    parts = [again.compute(8, 12), again.compute(0, 8)]
    for variable in whole.header.variables:
        array = found[variable.name]
        assert array.shape == variable.shape(
            {"case": len(whole.plan.cases), "instance": 12, "age": 2}
        )
        together = np.concatenate([part[variable.name] for part in parts[::-1]], axis=1)
        np.testing.assert_array_equal(array, together)
    other = study(program, **given | {"seed": 6}).compute(0, 12)
    assert any((found[name] != other[name]).any() for name in ("fate", "faulty_bits"))


def test_a_run_is_repeated(program):
    given = {"inject": {"fault": "flip"}, "techniques": ["wc"]}
    flips = study(program, **given)
    found = flips.compute(0, 40)
    seen = set()
    for instance in range(40):
        fate = Fate(found["fate"][0, instance, 0])
        ran = flips.rerun(0, instance, 0)
        if fate in SILENT:
            wrong = flips.kernel.wrong_outputs(ran)
            assert wrong.wrong_elements == found["wrong_elements"][0, instance, 0]
        else:
            assert ran is None or ran.end != 0 or not len(ran.place)
        seen.add(fate)
    assert set(SILENT) & seen
    assert Fate.MASKED in seen
    assert set(DETECTED) & seen


@pytest.mark.slow
def test_what_techniques_and_codes_are_good_for(program):
    """At the low Vdd of a technique that avoids faults, new faults alone do harm; a code helps."""
    of = study(
        program,
        techniques=["rrcd"],
        protections=["none", "secded32"],
        inject={"fault": "stuck", "test_interval_years": 1.0},
    )
    found = of.compute(0, 30)
    silent = found["silent_years"]
    assert np.isfinite(silent[0]).mean() > 0.1
    assert not np.isfinite(silent[1]).any()
    assert (found["silent_faults"][0] >= np.isfinite(silent[0])).all()
    assert (found["fate"][:, :, 0] == Fate.MASKED).all()  # the new slice has been tested
    # A test at once knows every fault.
    knows = study(
        program,
        techniques=["rrcd"],
        protections=["none"],
        inject={"fault": "stuck", "test_interval_years": 0.0},
    ).compute(0, 30)
    assert not np.isfinite(knows["silent_years"]).any()
    assert (np.isin(knows["fate"], [Fate.MASKED, Fate.RETIRED])).all()


def test_a_code_makes_flips_beside_faulty_cells_detected(program):
    given = {
        "techniques": ["baseline"],
        "environments": ["undervolted"],
        "protections": ["none", "secded32"],
        "inject": {"fault": "flip", "ages_years": [0.0, 10.0]},
    }
    found = study(program, vdd_volts=[0.43], **given).compute(0, 150)
    none, coded = found["fate"]
    assert np.isin(none, SILENT).mean() > 0.2
    assert (none[:, 0] == none[:, 1]).all()  # without a code, a flip does not know its neighbours
    assert not np.isin(coded, SILENT).any()
    assert (coded == Fate.CODE).sum() > 0
    assert ((coded == Fate.CODE)[:, 1] >= (coded == Fate.CODE)[:, 0]).all()  # cells stay faulty


@each(
    ("rows", "fields", "words"),
    [
        (None, {}, ("cells.npy", "no NumPy file")),
        ([[0, 5, 1]], {"inject": {"fault": "flip"}}, ("inject.fault", "'flip'")),
        ([[0, 5, 1]], {"inject": {"ages_years": [1.0]}}, ("inject.ages_years = [1.0]",)),
        ([[0, 5, 1]], {"scenarios": ["measured"]}, ("scenarios", "measured")),
        ([[0, 5, 1]], {"instances": 2}, ("instances = 2", "of 1 instances")),
        ([[0, 5, 1], [2, 5, 1]], {}, ("cells.npy", "no cell of instance 1")),
        ([[1, 5, 1]], {}, ("cells.npy", "no cell of instance 0")),
        ([[0, 256 * 2048, 1]], {}, ("cells.npy", "row 0: cell 524288", "524287")),
        ([[0, 5, 1], [0, 5, 0]], {}, ("cells.npy", "row 1: cell 5")),
        ([[0, 5]], {}, ("cells.npy", "(1, 2)", "(cells, 3)")),
        ([[0, 5, 1.0]], {}, ("cells.npy", "integers")),
    ],
)
def test_chosen_cells_that_make_no_sense_are_refused(program, tmp_path, rows, fields, words):
    if rows:
        np.save(tmp_path / "cells.npy", np.array(rows))
    inject = {"fault": "stuck", "stuck_cells": str(tmp_path / "cells.npy")}
    fields = {"program": program, **fields, "inject": inject | fields.get("inject", {})}
    with pytest.raises(UserError) as error:
        InjectStudy(InjectSpec.from_mapping(fields), *select_engine("numba"))
    assert all(word in str(error.value) for word in ("inject.stuck_cells", *words))
    assert str(error.value).count("\n") < 2


@each(
    ("fields", "words"),
    [
        ({"techniques": ["disable"]}, ("disable", "fault map")),
        ({"program": {}}, ("program.source", "missing")),
        ({"inject": {"ages_years": [1.0, 11.0]}}, ("inject.ages_years", "11", "horizon")),
        ({"inject": {"ages_years": [1.0, 1.0]}}, ("ages_years", "rise")),
        ({"workload": {"kernels": ["DCT"]}}, ("workload.kernels", "program.source")),
        ({"techniques": ["rrcd"], "registers": {"delta_limit": "none"}}, ("delta_limit", "none")),
        ({"stopping": {"rel_ci": 0.1, "of": "median_life"}}, ("stopping.of", "sdc")),
    ],
)
def test_what_makes_no_sense_is_refused(program, fields, words):
    with pytest.raises(UserError) as error:
        study(program, **fields)
    assert all(word in str(error.value) for word in words)
    assert str(error.value).count("\n") < 2
