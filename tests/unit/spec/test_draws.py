"""Joint draws of constants: what a table of them says, and how a bad one is refused."""

import re

import pytest

from mcage.engines.select import select_engine
from mcage.errors import UserError
from mcage.spec import SweepSpec
from mcage.sweep.study import Sweep
from mcage.sweep.unused_keys import refuse_unused

GOOD = "life.temperature_kelvin, aging.constants.eta\n340,0.3\n350.0,3.5e-1\n"

BAD_FILES = {
    "": "draws.csv: there is no row",
    "\n1,2\n0.3,0.4\n": "draws.csv: '1' is no constant that can be drawn",
    "aging.constants.eta\n": "draws.csv: there is no row",
    "aging.eta\n1\n": "draws.csv: 'aging.eta' is no constant that can be drawn",
    "aging.constants.\n1\n": "draws.csv: 'aging.constants.' is no constant",
    "aging.model\n1\n": "draws.csv: aging.model cannot be drawn: instances",
    "aging.constants.time_exponent\n1\n": "time_exponent cannot be drawn: the exponent",
    "life.activity,life.activity\n1,1\n": "line 1: the column 'life.activity' stands there twice",
    "life.activity\n1\nmuch\n": "draws.csv: line 3: life.activity = 'much' must be a finite number",
    "life.activity\nnan\n": "line 2: life.activity = 'nan' must be a finite number",
    "life.activity\n1\n\n1_0\n": "line 4: life.activity = '1_0' must be a finite number",
    "life.activity\n1,2\n": "line 2: 2 values, but 1 columns",
    "life.vmin_coefficient\n1e-320\n": "vmin_coefficient = '1e-320' must be a finite number",
    "life.activity\n1\n1.5\n": "line 3: life.activity = 1.5: must stay within 0.001 ... 1 of",
    "life.vmin_coefficient\n-1\n": "line 2: life.vmin_coefficient = -1.0: input should be greater",
    "life.temperature_kelvin\n80\n": "line 2: life.temperature_kelvin = 80.0: must stay within 200",
    '"life.activity\n1\n': "draws.csv: line 1: no CSV (unexpected end of data)",
    "aging.vt0_volts,aging.constants.vt0_volts\n0.3,0.3\n": "give one of them",
    "life.activity\n" + "1\n" * 10_001: "line 10002: more than 10,000 rows",
}

BAD_MODELS = {
    "aging.constants.eta\n0.3\n1.5\n": "line 3: aging.constants.eta = 1.5: must be 0 ... 1",
    "aging.constants.xi1\n0.3\n": "line 2: aging.constants.xi1: NBTI model 'facelift' has no such",
    "faults.mu_volts\n0.14\n0.5\n": r"draws.csv: line 3: vdd = 0.\d+ V: every entry of a slice",
    "faults.sigma_random_volts\n-1\n": "line 2: scenario 'common': sigma_random_volts = -1",
    "aging.constants.vt0_volts\n1.0\n": "must exceed|must stay below|threshold",
}

BAD_SPECS = (
    (
        {"life": {"temperature_kelvin": 340.0}},
        "life.temperature_kelvin is drawn, and the spec",
    ),
    ({"aging": {"constants": {"eta": 0.3}}}, "aging.constants.eta is drawn, and the spec gives it"),
    ({"life": {"temperature_swing_kelvin": 120.0}}, "they add up to 460 ... 470 K"),
)


@pytest.fixture
def file_of(tmp_path):
    """Makes the file draws.csv of a text."""

    def write(text):
        path = tmp_path / "draws.csv"
        path.write_text(text)
        return str(path)

    return write


def test_values_count_and_not_the_file(file_of, tmp_path):
    first = SweepSpec.from_mapping({"draws": file_of(GOOD)})
    assert first.draws.columns == {
        "life.temperature_kelvin": (340, 350),
        "aging.constants.eta": (0.3, 0.35),
    }
    other = tmp_path / "other.csv"
    other.write_bytes(
        b"\xef\xbb\xbfaging.constants.eta,life.temperature_kelvin\r\n.3,340\r\n.35,350"
    )
    assert SweepSpec.from_mapping({"draws": str(other)}).digest() == first.digest()
    assert "draws.csv" not in first.to_toml()
    assert first.digest() != SweepSpec().digest()
    changed = SweepSpec.from_mapping({"draws": file_of(GOOD.replace("0.3", "0.31"))})
    assert changed.digest() != first.digest()


@pytest.mark.parametrize("text", BAD_FILES)
def test_bad_files_are_refused(file_of, text):
    with pytest.raises(UserError, match=re.escape(BAD_FILES[text])) as refused:
        SweepSpec.from_mapping({"draws": file_of(text)})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", BAD_MODELS)
def test_constants_that_the_model_refuses(file_of, text):
    spec = SweepSpec.from_mapping({"draws": file_of(text), "techniques": ["baseline"]})
    with pytest.raises(UserError, match=BAD_MODELS[text]):
        Sweep(spec, *select_engine("numpy"))


@pytest.mark.parametrize(("fields", "message"), BAD_SPECS)
def test_a_spec_that_contradicts_its_draws(file_of, fields, message):
    with pytest.raises(UserError, match=re.escape(message)):
        SweepSpec.from_mapping(fields | {"draws": file_of(GOOD)})


def test_a_spec_without_a_file():
    ragged = {"columns": {"life.activity": [1.0], "aging.shift_factor": [1.0, 2.0]}}
    for columns, message in (
        (ragged, "columns of 1 and of 2 values"),
        ({"columns": {}}, "at least 1 item"),
        ({"columns": {"faults": [1.0]}}, "'faults' is no constant"),
        ("nowhere.csv", "nowhere.csv: cannot read the table"),
        ({"columns": {"life.activity": [0.5, 2.0]}}, "draws.columns: row 1: life.activity = 2.0"),
        (
            {"columns": {"life.activity": [0.5, 2.0]}, "sources": ["draws.csv: line 2"]},
            "draws.columns: row 1: life.activity = 2.0",
        ),
    ):
        with pytest.raises(UserError, match=message):
            SweepSpec.from_mapping({"draws": columns})


def test_a_constant_that_nothing_uses(file_of):
    fields = {"draws": file_of("life.vmin_coefficient\n0.5\n"), "faults": {"mode": "table"}}
    with pytest.raises(UserError, match=r"life\.vmin_coefficient = 'drawn': faults of mode"):
        refuse_unused(SweepSpec.from_mapping(fields))
