"""The check of the oldest versions installs what pyproject.toml declares."""

import re
import tomllib
from importlib.metadata import version

import pytest
from check_oldest_versions import EXTRAS, oldest_versions
from places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_each_dependency_of_users_has_an_oldest_version():
    oldest = dict(constraint.split("==") for constraint in oldest_versions(PROJECT))
    extras = PROJECT["optional-dependencies"]
    declared = [*PROJECT["dependencies"], *(text for name in EXTRAS for text in extras[name])]
    assert list(oldest) == [re.match(r"[\w.-]+", text)[0] for text in declared]
    users = {name for name in extras if name not in {"docs", "test", "dev"}}
    assert users - set(EXTRAS) == {"cuda12", "cuda13"}, "CuPy is not installed without a GPU"
    for name, bound in oldest.items():
        numbers = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version(name), bound))
        here, least = numbers
        assert here >= least, name


def test_below_these_files_differ_and_help_is_too_wide():
    oldest = oldest_versions(PROJECT)
    assert "h5py==3.15" in oldest
    assert "typer==0.26" in oldest


@pytest.mark.parametrize("text", ["numpy", "numpy>=1,<2", "numpy==1.26"])
def test_other_bounds_are_refused(text):
    with pytest.raises(SystemExit, match="a lower bound is needed"):
        oldest_versions(PROJECT | {"dependencies": [text]})
