"""``--set KEY=VALUE``: sets any key, and is refused by name where it cannot be meant."""

import tomllib
from unittest import mock

import pytest
from tables import each
from typer.testing import CliRunner

from mcage.cli.app import app
from mcage.cli.set_option import parse_set
from mcage.errors import UserError

POINTS = """
environments = ["phone"]
[[operating_points.phone]]
vdd_volts = 0.9
share = 0.25
[[operating_points.phone]]
vdd_volts = "scenario"
"""


@each(
    ("text", "path", "value"),
    [
        ("seed=3", ("seed",), 3),
        ("life.epochs = 9", ("life", "epochs"), 9),
        ("faults.mu_volts=0.31", ("faults", "mu_volts"), 0.31),
        ("faults.spread_blocks=true", ("faults", "spread_blocks"), True),
        ("aging.model=planar", ("aging", "model"), "planar"),
        ("aging.model=my.models:OWN", ("aging", "model"), "my.models:OWN"),
        ("costs.technology=28nm", ("costs", "technology"), "28nm"),
        ("workload.mix=dirichlet(2)", ("workload", "mix"), "dirichlet(2)"),
        ("life.activity=uniform(0.5, 1)", ("life", "activity"), "uniform(0.5, 1)"),
        ('workload.kernels=["DCT", "Reduction"]', ("workload", "kernels"), ["DCT", "Reduction"]),
        ("stopping={rel_ci = 0.1}", ("stopping",), {"rel_ci": 0.1}),
        ("aging.constants.eta=0.3", ("aging", "constants", "eta"), 0.3),
        ('workload.mix."a.b"=2', ("workload", "mix", "a.b"), 2),
        ('workload.kernels=["a=b"]', ("workload", "kernels"), ["a=b"]),
        ("operating_points.phone.0.share=0.5", ("operating_points", "phone", "0", "share"), 0.5),
    ],
)
def test_keys_and_values(text, path, value):
    assert parse_set(text) == (path, value)


@each(
    ("text", "word"),
    [
        ("seed", "KEY=VALUE is needed"),
        ("=3", "KEY=VALUE is needed"),
        ("seed=", "KEY=VALUE is needed"),
        ("", "KEY=VALUE is needed"),
        ("life epochs=3", "KEY=VALUE is needed"),
        ("life..epochs=3", "KEY=VALUE is needed"),
        ("life.\nepochs=3", "KEY=VALUE is needed"),
        ("a" * 5000 + "=3", "KEY=VALUE is needed"),
        (".".join("a" * 200) + "=3", "KEY=VALUE is needed"),
        ("environments=[nominal, dvfs]", "not a TOML value"),
        ("workload.mix={a", "not a TOML value"),
        ('aging.model="facelift', "not a TOML value"),
        ("seed=[1]\nlife=2", "one KEY=VALUE is needed"),
        ("seed=" + "[" * 5000 + "]" * 5000, "nested too deep"),
        ("seed=" + "9" * 400, "2**64"),
        ("life.epochs=nan", "must be a finite number"),
    ],
)
def test_what_is_no_key_and_value(text, word):
    with pytest.raises(UserError) as caught:
        parse_set(text)
    assert str(caught.value).startswith("--set ")
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def shown(*arguments):
    """The spec of a command line as plain values."""
    with mock.patch("mcage.cli.sweep._check"):
        result = CliRunner().invoke(app, ["sweep", *arguments, "--show-spec"])
    if result.exception is not None:
        raise result.exception
    return tomllib.loads(result.stdout)


def test_a_key_with_and_without_an_option(tmp_path):
    assert shown("--set", "life.epochs=9")["life"]["epochs"] == 9
    assert shown("--set", "stopping={rel_ci = 0.1}")["stopping"]["rel_ci"] == 0.1
    assert shown("--set", "aging.constants.eta=0.3")["aging"]["constants"] == {"eta": 0.3}
    both = shown("--set", "life.epochs=9", "--set", "faults.mode=table", "--seed", "5")
    assert (both["life"]["epochs"], both["faults"]["mode"], both["seed"]) == (9, "table", 5)
    path = tmp_path / "phone.toml"
    path.write_text(POINTS)
    in_file = shown(str(path))
    changed = shown(str(path), "--set", "operating_points.phone.0.share=0.5")
    in_file["operating_points"]["phone"][0]["share"] = 0.5
    assert changed == in_file


def test_an_environment_from_the_command_line_alone():
    points = 'operating_points.low=[{vdd_volts = 0.7, share = 0.5}, {vdd_volts = "scenario"}]'
    spec = shown("--set", points, "--environment", "low")
    assert spec["operating_points"]["low"][0] == {
        "vdd_volts": 0.7,
        "share": 0.5,
        "temperature_offset_kelvin": 0.0,
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "life.epochs=0"], ["sweep: life.epochs = 0: input should be"]),
        (["--set", "faults.mode=drawn"], ["faults.mode = 'drawn'"]),
        (["--set", "environments=dvfs"], ["environments = 'dvfs'"]),
        (["--set", "life.epoch=9"], ["unknown key 'life.epoch'", "is life.epochs meant?"]),
        (["--set", "lif.epochs=9"], ["unknown key 'lif'", "is life meant?"]),
        (["--set", "environment=dvfs"], ["unknown key 'environment'", "environments = [...]"]),
        (["--set", "environments.x.y=9"], ["places 0 ... 0, not x"]),
        (["--set", "life.epochs.x=9", "--set", "seed=1"], ["life.epochs = {'x': 9}"]),
        (["--set", "seed.x=9", "--seed", "1"], ["--seed and --set seed.x=9", "both set seed"]),
        (["--set", "operating_points.phone.2.share=1"], ["operating_points.phone has places 0"]),
        (["--set", "operating_points.phone.x.share=1"], ["places 0 ... 1, not x"]),
        (["--set", "environments.7=dvfs"], ["environments has places 0 ... 0, not 7"]),
        (["--epochs", "9", "--set", "life.epochs=9"], ["--epochs", "both set life.epochs"]),
        (["--set", "life.epochs=9", "--set", "life.epochs=8"], ["both set life.epochs"]),
        (["--set", "life={epochs = 9}", "--horizon", "4"], ["--horizon and --set", "both set"]),
        (["--constant", "eta=1", "--set", "aging.constants.xi1=1"], ["both set aging.constants"]),
    ],
)
def test_what_is_refused(arguments, words, tmp_path):
    path = tmp_path / "phone.toml"
    path.write_text(POINTS)
    about_file = any("phone" in word or "environments." in word for word in arguments)
    file = [str(path)] if about_file else []
    with pytest.raises(UserError) as caught:
        shown(*file, *arguments)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_a_message_about_a_file_and_a_setting_names_both(tmp_path):
    path = tmp_path / "phone.toml"
    path.write_text(POINTS)
    with pytest.raises(UserError, match=r"phone\.toml and --set: life\.epochs = 0"):
        shown(str(path), "--set", "life.epochs=0")


@pytest.mark.parametrize("command", ["rare", "sensitivity"])
def test_commands_of_one_case_take_it_too(command):
    result = CliRunner().invoke(app, [command, "--set", "life.epoch=9"])
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith(f"{command}: unknown key 'life.epoch'")
