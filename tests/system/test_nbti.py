"""`mcage nbti`, and how a user's own model is found, or refused."""

import json
import math
import re

import pytest
from nbti_cases import MODELS
from places import ROOT
from tables import each
from typer.testing import CliRunner

from mcage.aging.nbti import MODEL_NAMES, constants, nbti_model
from mcage.cli.app import app
from mcage.errors import UserError

OWN = """
import dataclasses
from mcage.aging.nbti import AdditiveModel, facelift

NO_RECOVERY = dataclasses.replace(facelift(), eta=0.0)
NUMBER = 3
class Unfinished(AdditiveModel):
    root = 4
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """A module of the user's, where Python finds it."""
    (tmp_path / "my_nbti.py").write_text(OWN)
    (tmp_path / "broken_nbti.py").write_text("import there_is_no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)


def run(*arguments):
    result = CliRunner().invoke(app, ["nbti", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_shift_and_delay_of_one_model():
    (row,) = json.loads(
        run("--model", "facelift", "--duty", "1", "--years", "3", "--vdd", "1.0", "--json")
    )
    assert row["model"] == "facelift"
    assert row["dvth_mv"] == pytest.approx(66.6872, rel=1e-5)
    assert row["delay_increase_percent"] == pytest.approx(13.9, abs=1e-4)


def test_shift_and_delay_of_all_models():
    options = ["--duty", "0.4", "--years", "7", "--vdd", "0.9", "--temperature", "353.15"]
    rows = {row["model"]: row for row in json.loads(run(*options, "--json"))}
    assert list(rows) == list(MODEL_NAMES)
    assert rows["finfet"]["dvth_mv"] == pytest.approx(39.9893, rel=1e-5)
    assert rows["planar"]["dvth_mv"] == pytest.approx(1.21963, rel=1e-5)
    text = run(*options)
    assert all(name in text for name in MODEL_NAMES)
    assert "39.989" in text
    assert "7.7" in text


def test_without_overdrive_a_transistor_does_not_switch():
    (row,) = json.loads(run("--model", "facelift", "--vdd", "0.25", "--json"))
    assert row == {"model": "facelift", "dvth_mv": 0, "delay_increase_percent": None}
    assert "does not switch" in run("--model", "facelift", "--vdd", "0.25")


def test_constants_as_json():
    rows = json.loads(run("--list", "--json"))
    listed = {(row["model"], row["constant"]): row for row in rows}
    assert len(listed) == len(rows) == sum(len(constants(name)) for name in MODEL_NAMES)
    assert listed["planar", "vt0_volts"] == {
        "model": "planar",
        "constant": "vt0_volts",
        "value": 0.3,
        "unit": "V",
        "status": "printed",
        "source": "Zhang et al., INTEGRATION 2015, Table 3",
    }


def test_constants_as_text():
    text = run("--list", "--model", "bhardwaj")
    for name, constant in constants("bhardwaj").items():
        assert name in text
        assert constant.status in text
    assert "CICC 2006" in text
    assert "facelift\n" not in text
    # A variant states its differences only.
    assert "oxide_thickness_nm" not in run("--list", "--model", "finfet-thermal")


@each(
    ("arguments", "message"),
    [
        (["--duty", "1.5"], "duty 1.5: a fraction of the time, 0 ... 1, is needed"),
        (["--duty", "nan"], "duty nan"),
        (["--years", "-1"], "years -1: an age of 0 ... 1000 years is needed"),
        (["--temperature", "80"], "kelvin, not degrees Celsius"),
        (["--vdd", "0"], "vdd_volts = 0.0 must be above 0"),
        (["--model", "face"], "NBTI model 'face' is unknown; choose from facelift, bhardwaj,"),
        (["--list", "--model", "my:OWN"], "only models that ship with mcage are listed"),
    ],
)
def test_bad_options(arguments, message):
    result = CliRunner().invoke(app, ["nbti", *arguments])
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


@each("name", MODEL_NAMES)
def test_found_by_name(name):
    assert nbti_model(name) == MODELS[name]


def test_a_users_own(own_module):
    defined = nbti_model("my_nbti:NO_RECOVERY")
    assert defined.eta == 0
    (row,) = json.loads(run("--model", "my_nbti:NO_RECOVERY", "--duty", "0.5", "--json"))
    assert row["dvth_mv"] == pytest.approx(66.6872 * math.sqrt(math.sqrt(0.5)), rel=1e-5)


def test_the_example_of_the_documentation(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "aging.md").read_text()
    ((name, code),) = re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / f"documented_{name}").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert nbti_model("documented_my_nbti:NO_RECOVERY").eta == 0
    assert "--model my_nbti:NO_RECOVERY" in page


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:X", "cannot import 'no_such_module' (ModuleNotFoundError"),
        ("broken_nbti:X", "cannot import 'broken_nbti' (ModuleNotFoundError"),
        ("my_nbti:X", "'my_nbti' has nothing under 'X', where a mcage.aging.nbti.NbtiModel"),
        ("my_nbti:NUMBER", "'my_nbti' has a int under 'NUMBER'"),
        ("my_nbti:Unfinished", "has a class, not an instance of it, under 'Unfinished'"),
        (":X", "cannot import ''"),
    ],
)
def test_a_users_own_refused(own_module, name, message):
    with pytest.raises(UserError) as refused:
        nbti_model(name)
    assert message in str(refused.value)
