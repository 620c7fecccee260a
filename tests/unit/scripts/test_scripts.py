"""Scripts take from mcage what mcage has."""

import ast
import re
import tomllib
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec

import check_triton_versions
import numpy as np
import pytest
from check_default_sweep import failures
from check_oldest_versions import EXTRAS, oldest_versions
from half_cell import SHARES, HalfCell, Widths
from margins import margin
from places import ROOT
from scipy.optimize import brentq
from tables import each
from weak_cells import sigmas

SCRIPTS = sorted((ROOT / "scripts").rglob("*.py"))


@each("script", SCRIPTS)
def test_names_that_scripts_import(script):
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "mcage":
            module = import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or find_spec(f"{node.module}.{name}"), name


# The check of the oldest versions installs what pyproject.toml declares.

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_each_dependency_of_users_has_an_oldest_version():
    oldest = dict(constraint.split("==") for constraint in oldest_versions(PROJECT))
    extras = PROJECT["optional-dependencies"]
    declared = [*PROJECT["dependencies"], *(text for name in EXTRAS for text in extras[name])]
    assert list(oldest) == [re.match(r"[\w.-]+", text)[0] for text in declared]
    users = {name for name in extras if name not in {"docs", "test", "dev"}}
    assert users - set(EXTRAS) == {"cuda12", "cuda13", "triton"}, "needed by GPUs, or large"
    for name, bound in oldest.items():
        numbers = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version(name), bound))
        here, least = numbers
        assert here >= least, name


def test_triton_has_an_oldest_and_a_newest_version():
    """Of a version that nobody has tried, it is not known whether its code objects can be read."""
    assert check_triton_versions.supported(PROJECT) == ("triton==3.7.0", "triton>=3.7,<3.10")
    extras = PROJECT["optional-dependencies"] | {"triton": ["triton>=3.7"]}
    with pytest.raises(SystemExit, match="a lower and an upper bound are needed"):
        check_triton_versions.supported({"optional-dependencies": extras})


@pytest.mark.parametrize("text", ["numpy", "numpy>=1,<2", "numpy==1.26"])
def test_other_bounds_are_refused(text):
    with pytest.raises(SystemExit, match="a lower bound is needed"):
        oldest_versions(PROJECT | {"dependencies": [text]})


# Margins of cells from curves: ideal inverters, whose squares are known.

WIDTH = 0.03


def output(vin, at, low=0.0, high=1.0):
    """Output of an inverter at 1 V that switches at an input, from one level to another."""
    return low + (high - low) / (1 + np.exp(np.clip((vin - at) / WIDTH, -200, 200)))


def step(at, low=0.0, high=1.0):
    return output(SHARES, at, low, high)


def largest_square(at_qb, at_q, low=0.0):
    """Side of the largest square in the lobe of '0': from a corner on each of the two curves."""

    def side(qb):
        q = output(qb, at_q, low)
        return brentq(lambda s: output(q + s, at_qb) - (qb + s), -1, 1)

    return max(map(side, np.linspace(0.3, 1, 800)))


@pytest.mark.parametrize("kind", ["read", "hold"])
@pytest.mark.parametrize(("at_qb", "low"), [(0.3, 0.0), (0.5, 0.0), (0.5, 0.2)])
def test_the_margin_is_the_side_of_the_largest_square(kind, at_qb, low):
    square = largest_square(at_qb, 0.5, low)
    assert 0.15 < square < 0.45
    assert margin(kind, 1.0, step(at_qb), step(0.5, low)) == pytest.approx(square, abs=1e-3)


def test_a_node_that_rises_beyond_the_trip_point_is_lost():
    assert not margin("read", 1.0, step(0.4), step(0.5, low=0.45)) > 0


def test_a_cell_is_written_if_the_other_value_cannot_stay():
    # The bit line holds Q below the trip point of QB's inverter, or it does not.
    assert margin("write", 1.0, step(0.5), step(0.5, high=0.3)) > 0.1
    assert margin("write", 1.0, step(0.5), step(0.5, high=0.8)) < -0.1


def test_a_shift_weakens_also_a_pmos():
    lines = HalfCell(0.5, 1.0, 1.0, 0.02, 0.03, -0.01).lines("7", Widths(70, 90, 150))
    assert "Mp7 o7 i7 d7 d7 pmos l=45n w=70n delvto=-0.02" in lines
    assert "Mn7 o7 i7 0 0 nmos l=45n w=150n delvto=0.03" in lines
    assert "Ma7 b7 w7 o7 0 nmos l=45n w=90n delvto=-0.01" in lines
    assert sigmas(Widths(), 2.0) == pytest.approx(
        [0.0356, 0.0356, 0.0243, 0.0243, 0.0314, 0.0314], abs=1e-4
    )


# The check of the default sweep finds cases that say nothing, and calendars.

RNG = np.random.default_rng(1)
SPREAD = RNG.uniform(0, 10, 1000)
SHIFTS = RNG.uniform(5, 50, 1000)


def with_deaths_at(age, number):
    years = SPREAD.copy()
    years[:number] = age
    return years


@pytest.mark.parametrize(
    ("years", "died", "shifts", "said"),
    [
        (SPREAD, True, SHIFTS, ""),
        (np.full(1000, 10.0), False, SHIFTS, ""),
        (with_deaths_at(0.0, 600), True, SHIFTS, ""),
        (with_deaths_at(5e-5, 100), True, SHIFTS, ""),
        (with_deaths_at(2.0, 15), True, SHIFTS, ""),
        (with_deaths_at(2.0, 40), True, SHIFTS, "4.0% of 1000 deaths fall on the age of 2.000 y"),
        (np.zeros(1000), True, np.full(1000, np.nan), "100.0% of the slices are dead on arrival"),
        (np.full(1000, 3.0), True, SHIFTS, "all slices die at 3.00 years; 100.0% of 1000 deaths"),
        (np.full(1000, 10.0), False, np.full(1000, 9.0), "all slices live 10.00 years, and all"),
    ],
)
def test_what_a_case_fails_in(years, died, shifts, said):
    found = "; ".join(failures(years, np.full(1000, died), shifts))
    assert found.startswith(said)
    assert bool(found) == bool(said)
