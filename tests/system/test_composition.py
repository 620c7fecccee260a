"""Every study, technique, protection, cell, slice, suite and environment meets every reader.

A covering array: any two values of different axes meet in a row, which is a tiny results file and
one thing that is done with it. That works, or is refused in words; what does, this file says.
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import tomli_w
from amd_tools import has_clang
from covering import Covering, each_value_once, pairs_in, readings
from engine_cases import daily
from faulty_oracle import BLEND, BLEND_ARGUMENTS

import mcage
from mcage.analysis import grid
from mcage.errors import UserError
from mcage.report import folder as report_folder
from mcage.report.folder import figures_of
from mcage.report.presentation import presentation_of
from mcage.results.reader import read_header
from mcage.studies.inject.outcomes import Fate
from mcage.traces.library import SUITES

NONE = "none of it"
"""Value of an axis that a study does not have."""

AXES = {
    "study": (
        *("sweep", "vmin", "flip", "stuck", "gating", "heterogeneity", "both"),
        *("rare", "sensitivity"),
    ),
    "technique": (NONE, "baseline rrcd", "rc+rar gr-guard argo", "wc rrcd+rc+rar", "rar disable"),
    "protection": (
        NONE,
        "none",
        "ecp1",
        "secded32",
        "none secded64x4",
        "ecp1+spare8 secded32+ecp1",
    ),
    "cell": (NONE, "6t", "8t"),
    "geometry": (NONE, "gcn", "cdna2", "rdna3", "nvidia"),
    "suite": (NONE, "sdk-2011", "modern"),
    "environment": (NONE, "dvfs", "turbo", "undervolted"),
}
"""Values of each axis: what a file holds, all of the names in a text."""

OF_GPUS, INJECTIONS = ("gating", "heterogeneity"), ("flip", "stuck")
OF_ONE_CASE = ("rare", "sensitivity")
"""What writes no results file, and looks at one technique and protection: the last."""

ARCHITECTURES = {"gcn": "gfx900", "cdna2": "gfx90a", "rdna3": "gfx1100"}
SHORT = ("QuasiRandom", "scan.")
"""What the names of the smallest kernels of a suite begin with."""

COMMANDS = {
    "flip": ["inject"],
    "stuck": ["inject"],
    "gating": ["gpu", "gating"],
    "heterogeneity": ["gpu", "heterogeneity"],
    "both": ["gpu", "both"],
    "sensitivity": ["sensitivity", "--json", "--parameter", "sigma_random"],
    "rare": ["rare", "--json"],
}
"""How studies are called, where not by their name."""

POINTERS_ALONE = "know entries with a pointer alone"
ONE_PROTECTION = "at most 1 of them"


REFUSED = {
    ("vmin", "8t"): "faults.cell",
    ("flip", "nvidia"): "program.arch",
    ("stuck", "nvidia"): "program.arch",
    ("flip", "rar disable"): "which kernels wait for room",
    ("stuck", "rar disable"): "which kernels wait for room",
    ("both", "8t"): "sweep.faults.cell",
    ("both", "undervolted"): "must stay below the highest Vdd",
    ("both", "none secded64x4"): ONE_PROTECTION,
    ("both", "ecp1+spare8 secded32+ecp1"): ONE_PROTECTION,
    ("rare", "turbo"): "no slice dies by 0 years",
    ("rare", "none"): POINTERS_ALONE,
    ("rare", "secded32"): POINTERS_ALONE,
    ("rare", "none secded64x4"): POINTERS_ALONE,
    ("rare", "ecp1+spare8 secded32+ecp1"): POINTERS_ALONE,
}
"""Values that cannot stand together, and what is said of it."""


def refused(pair):
    """What is said of two values that cannot stand together: empty if they can.

    None where nobody can ask for it, since the study does not have the axis.
    """
    (axis, value), (other_axis, other) = pair
    if axis == "study":
        has_axis = value not in OF_GPUS and not (other_axis == "suite" and value in INJECTIONS)
        return None if has_axis == (other == NONE) else REFUSED.get((value, other), "")
    if (axis, other_axis) == ("geometry", "suite") and NONE not in (value, other):
        return "" if value in SUITES[other] else "has no kernel for a slice"
    return ""


def in_words(value):
    """Name of a test by a row, or by a part of one."""
    return " | ".join(value.values()) if isinstance(value, dict) else str(value)


COVERING = Covering(AXES, lambda pair: refused(pair) == "")
ROWS = COVERING.rows
SLOW = [row for row in ROWS if (row["study"], row["suite"]) == ("vmin", "modern")]
DAILY = each_value_once([row for row in ROWS if row not in SLOW], SLOW)
"""Rows of the daily tests: they have every value of every axis."""


PROGRAM = {"source": "blend.cl", "args": "blend.py"}


def fields_of(row, folder):
    """Keys of the spec of a tiny study."""
    study, geometry = row["study"], row["geometry"]
    levels = {"gating": {"policies": ["default", "round-robin"]}}
    if study == "gating":
        return levels["gating"] | {"instances": 2, "sensors": {"interval_days": 73.0}}
    if study == "heterogeneity":
        return {"instances": 4}
    first = -1 if study in OF_ONE_CASE else 0
    fields = {
        "techniques": row["technique"].split()[first:],
        "protections": row["protection"].split()[first:],
        "environments": [row["environment"]],
        "faults": {"cell": row["cell"]},
    }
    if study in INJECTIONS:
        program = {key: str(folder / name) for key, name in PROGRAM.items()}
        program["arch"] = ARCHITECTURES.get(geometry, "gfx900")
        inject = {"fault": study, "ages_years": [0, 5]}
        registers = {} if geometry in ARCHITECTURES else {"registers": {"geometry": geometry}}
        return fields | registers | {"instances": 6, "program": program, "inject": inject}
    kernels = [name for name in SUITES[row["suite"]].get(geometry, ()) if name.startswith(SHORT)]
    workload = {"kernels": kernels, "generations": 2} if kernels else {"suite": row["suite"]}
    fields |= {
        "low_vdd": "printed",
        "spread": False,
        "registers": {"geometry": geometry},
        "workload": workload,
    }
    if study == "both":
        return {"instances": 2, "sweep": fields} | levels
    if study == "rare" and row["environment"] != "turbo":
        fields["vdd_volts"] = [0.37]  # where dead slices need not be looked for
    extent = {"rare": 20, "sensitivity": 8, "vmin": 2}
    fields |= {"instances": extent.get(study, 4), "seed": 5, "life": {"epochs": 2}}
    return fields | ({"vmin": {"ages_years": [0, 10]}} if study == "vmin" else {})


class Place:
    """Folder of the files of all rows.

    Parameters
    ----------
    folder : Path
        The folder.
    """

    def __init__(self, folder):
        self.folder, self._ended = folder, {}
        (folder / "blend.cl").write_text(BLEND)
        (folder / "blend.py").write_text(BLEND_ARGUMENTS)

    def words(self, row):
        """Command line that computes a row; and, next to its spec, where the results go."""
        if row["study"] in INJECTIONS and not has_clang:
            pytest.skip("compiling kernels needs clang-19, lld-19 and llvm-19")
        name = "-".join(value for value in row.values() if value != NONE)
        path = self.folder / f"{name.replace(' ', '-')}.toml"
        path.write_text(tomli_w.dumps(fields_of(row, self.folder)))
        return [*COMMANDS.get(row["study"], [row["study"]]), path], path.with_suffix(".h5")

    def output(self, row, command):
        """Results file of a row; or what the command prints that writes none."""
        code, _, err = self.compute(row, command)
        assert code == 0, err
        return self.words(row)[1]

    def compute(self, row, command):
        """How the command of a row ends, which is run once."""
        words, out = self.words(row)
        if row["study"] not in OF_ONE_CASE:
            words += ["--out", out]
        if out not in self._ended:
            self._ended[out] = command(*words)
        return self._ended[out]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("files"))


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def answer(code, out, err):
    """What a command prints; None if it refuses, in an error of two lines at most."""
    assert code in (0, 2), err
    assert "Traceback" not in err
    if code == 0:
        return out
    assert out == ""
    _, error = err.rsplit("error: ", 1)
    assert 1 <= len(error.splitlines()) <= 2, err
    return None


def succeeds(code, out, err):
    """What a command prints that ends well."""
    assert code == 0, err
    return out


def test_every_pair_of_values_meets_or_is_refused():
    met = set().union(*(pairs_in(row, AXES) for row in ROWS))
    assert met == set(COVERING.pairs)
    assert {value for row in ROWS for value in row.items()} == {
        (axis, value) for axis, values in AXES.items() for value in values
    }


@pytest.mark.parametrize("row", daily(ROWS, DAILY), ids=in_words)
def test_every_row_is_computed(row, place, command):
    place.output(row, command)


@pytest.mark.parametrize(
    "pair", [pair for pair in COVERING.apart if refused(pair)], ids=lambda p: in_words(dict(p))
)
def test_what_cannot_stand_together_is_refused_in_words(pair, place, command):
    ended = place.compute(COVERING.row_with(pair), command)
    assert answer(*ended) is None
    assert refused(pair) in ended[-1]


@pytest.mark.parametrize(
    "study",
    daily(AXES["study"][: -len(OF_ONE_CASE)], ("sweep", "flip", "gating")),
)
def test_what_may_stop_a_study_is_what_is_offered(study, place, command, tmp_path):
    words, _ = place.words(next(row for row in DAILY if row["study"] == study))
    precision = (*words, "--rel-ci", "0.9", "--of")
    code, _, err = command(*precision, "nothing", "--show-spec")
    offered = re.split("choose from |must be one of |input should be ", err)[-1]
    names = [name for name in re.findall(r"\w+", offered) if name != "or"]
    assert (code, len(names) > 1) == (2, True), err
    for name in names:
        assert f'"{name}"' in succeeds(*command(*precision, name, "--show-spec"))
    succeeds(*command(*precision, names[-1], "--out", tmp_path / "r.h5"))


# What reads results files.

KEYS = ("technique", "protection", "environment", "scenario", "policy", "reading", "design")


@dataclass(frozen=True)
class Reading:
    """A results file, and what reads it.

    Parameters
    ----------
    row : dict
        Its row.
    path : Path
        The file.
    command : callable
        Runs a command of mcage.
    folder : Path
        An empty folder.
    place : Place
        Where the spec lies.
    """

    row: dict
    path: Path
    command: Callable
    folder: Path
    place: Place

    def says(self, *words):
        """What a command prints."""
        return succeeds(*self.command(*words))

    def lines(self, *options):
        """Lines of the table as CSV."""
        return list(csv.DictReader(io.StringIO(self.says("show", self.path, "--csv", *options))))

    def conditions(self):
        """Conditions that lines fulfil, as values by key."""
        lines = self.lines()
        for key in [key for key in KEYS if key in lines[0]]:
            yield {key: lines[-1][key]}
        if "protection" in lines[0]:
            for technique in self.row["technique"].split():
                for protection in self.row["protection"].split():
                    yield {"technique": technique, "protection": protection}


def options_of(where):
    """Options of conditions."""
    return [word for key, value in where.items() for word in ("--where", f"{key}={value}")]


def shows(of):
    narrow, wide = (of.says("show", of.path, *form).splitlines() for form in ((), ("--wide",)))
    assert max(map(len, wide)) >= max(map(len, narrow)) > 0


def prints_forms(of):
    lines = of.lines()
    assert lines
    assert json.loads(of.says("show", of.path, "--json"))
    by_column = of.lines("--sort", f"-{next(iter(lines[0]))}")
    assert sorted(map(str, by_column)) == sorted(map(str, lines))


def selects(of):
    lines = of.lines()
    for where in of.conditions():
        chosen = [line for line in lines if where.items() <= line.items()]
        answered = of.lines(*options_of(where))
        keys = [[line.get(key) for key in KEYS] for line in answered]
        assert keys == [[line.get(key) for key in KEYS] for line in chosen] != [], where
    code, _, err = of.command("show", of.path, "--where", "nothing=1")
    assert (code, "the keys are" in err) == (2, True)
    key = next(key for key in KEYS if key in lines[0])
    code, _, err = of.command("show", of.path, "--where", f"{key}=nothing")
    values = ", ".join(dict.fromkeys(line[key] for line in lines))
    assert (code, f"values of {key}: {values}" in err) == (2, True)


def names_of(path):
    """Names of the cases of a file."""
    with mcage.open_results(path) as results:
        return [case.name for case in grid.cases_of(results)]


def pairs(of):
    names = names_of(of.path)
    assert of.says("show", of.path, "--compare", names[0], names[-1])


def compares(of):
    (compared,) = json.loads(of.says("compare", of.path, of.path, "--json"))
    assert compared
    assert of.says("compare", of.path, of.path, "--csv")
    *_, where = of.conditions()
    (part,) = json.loads(of.says("compare", of.path, of.path, "--json", *options_of(where)))
    assert 0 < len(str(part)) < len(str(compared))


def reports(of):
    of.says("report", of.path, "--out", of.folder / "page")
    page = (of.folder / "page" / "index.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "cannot be drawn again" not in page


def reports_in_part(of):
    *_, where = of.conditions()
    of.says("report", of.path, "--out", of.folder / "page", *options_of(where))
    page = (of.folder / "page" / "index.html").read_text(encoding="utf-8")
    assert all(f"{key}={value}" in page for key, value in where.items())


CALLS = {
    "case": lambda of, names: of.case(names[0]),
    "paired": lambda of, names: of.paired(names[0], names[-1]),
    "outliving": lambda of, names: of.outliving(names[0], names[-1]),
    "rate_at": lambda of, _: of.rate_at(5.0),
    "plot_against": lambda of, _: of.plot_against("vdd"),
    "iter_pandas": lambda of, _: list(of.iter_pandas()),
}
"""Methods of `results.mcage` that need arguments, or give them one by one."""


def answers_in_python(of):
    names = names_of(of.path)
    with mcage.open_results(of.path) as results:
        analysis = results.mcage
        frame = analysis.summary()
        assert len(frame) > 0
        assert not frame.columns.has_duplicates
        for method in [method for method in dir(analysis) if not method.startswith("_")]:
            call = CALLS.get(method, lambda of, _, method=method: getattr(of, method)())
            try:
                table = call(analysis, names)
            except UserError:
                continue
            if isinstance(table, pd.DataFrame):
                assert len(table) > 0, method
        check_latex(analysis.latex())


def check_latex(table):
    """Check that a table has as many cells in each line, and no character bare that LaTeX eats."""
    lines = table.splitlines()
    assert (lines[1], lines[-2]) == (r"\toprule", r"\bottomrule")
    for line in (lines[2], *lines[4:-2]):
        bare = re.sub(r"\\[&%#_{}$]|\$[^$]*\$|\{\}", "", line.removesuffix(r" \\"))
        assert bare.count("&") == len(lines[0].rpartition("{")[2]) - 2
        assert not set(bare) & set("%#_{}$^~±≤–>")
        assert line is lines[2] or not re.search(r"\b(inf|nan)\b", bare.lower()), bare


OBJECTIVES = ("--objective", "rmst_years", "--objective", "dead_on_arrival:min")
"""Known of every slice of a sweep; other studies have their own by default."""


def finds_front(of):
    objectives = OBJECTIVES if of.row["study"] == "sweep" else ()
    front = ("pareto", of.path, "--csv", "--resamples", "100", *objectives)
    ended = of.command(*front)
    everything = answer(*ended)
    if everything is None:  # Vmin may lie below all that is tried, and all register files may fail
        assert of.row["study"] in ("vmin", "both")
        assert "no case has a value of it; choose other objectives" in ended[-1]
        return
    rows = values_of(everything)
    assert len(rows) == len(names_of(of.path))
    *_, where = of.conditions()
    selected = values_of(of.says(*front, *options_of(where)))
    assert selected == [row for row in rows if where.items() <= row.items()] != []


def values_of(front):
    """Lines of a front in CSV, without what depends on the other cases."""
    lines = list(csv.DictReader(io.StringIO(front)))
    others = ("on_front", "front_probability", "dominated_by")
    return [{key: line[key] for key in line if key not in others} for line in lines]


def finds_exchanges(of):
    out = of.says("gpu", "exchange", of.path, "--csv", "--at", "5")
    assert out.count("\n") > 1


def is_spec(of):
    """The file is a spec of its own study, and no other command takes it amiss."""
    *words, _ = of.place.words(of.row)[0]
    again = of.folder / "again.h5"
    of.says(*words, of.path, "--trust", "--out", again)
    assert_same_results(again, of.path)
    for other in ("sweep", "vmin", "inject", "rare", "sensitivity"):
        if other not in words:
            technique = ("--technique", "baseline", "--instances", "2")
            out = () if other in OF_ONE_CASE else ("--out", of.folder / f"{other}.h5")
            answer(*of.command(other, of.path, *technique, *out))


def assert_same_results(one, other):
    with mcage.open_results(one) as first, mcage.open_results(other) as second:
        assert list(first.data_vars) == list(second.data_vars)
        for name in first.data_vars:
            assert first[name].equals(second[name]), name


def goes_on(of):
    words, _ = of.place.words(of.row)
    out = of.folder / "parts.h5"
    of.says(*words, "--out", out, "--part", "1/2")
    assert not out.exists()
    of.says(*words, "--out", out)
    assert out.read_bytes() == of.path.read_bytes()


def merges(of):
    words, _ = of.place.words(of.row)
    out = of.folder / "parts.h5"
    for part in ("1/2", "2/2"):
        of.says(*words, "--out", out, "--part", part)
    of.says("merge", out)
    assert out.read_bytes() == of.path.read_bytes()
    assert "is whole" in of.says("verify", out)
    assert "finished" in of.says("status", out)


READERS = {
    "show": shows,
    "csv and json": prints_forms,
    "where": selects,
    "pair": pairs,
    "compare": compares,
    "report": reports,
    "report of a part": reports_in_part,
    "python": answers_in_python,
    "pareto": finds_front,
    "exchange": finds_exchanges,
    "spec": is_spec,
    "resume": goes_on,
    "merge": merges,
}

OF_SWEEPS = {
    "pair": "--compare is for sweeps",
    "exchange": "these are not the results of a sweep",
}
"""Readers of sweeps alone, and what they say of other files."""

OF_ALL_CASES = ("heterogeneity", "both")
"""Studies that compare all of their cases, so that a report has all."""


def reader_refuses(reader, row):
    """What a reader says that does not read a file; empty if it reads it."""
    if row["study"] != "sweep" and reader in OF_SWEEPS:
        return OF_SWEEPS[reader]
    if reader == "exchange" and "secded" not in row["protection"]:
        return "no case of these results has a code"
    if reader == "report of a part" and row["study"] in OF_ALL_CASES:
        return "compare all of its cases"
    return ""


FILES = [row for row in ROWS if row["study"] not in OF_ONE_CASE]
DEAR = ("compare", "report", "report of a part", "spec")
"""Readers that take longest, and whose commands have daily tests of their own."""

READINGS = readings(READERS, FILES, lambda reader, row: not reader_refuses(reader, row))


@pytest.mark.parametrize(
    ("reader", "row"),
    daily(READINGS, [of for of in READINGS if of[0] not in DEAR and of[1] in DAILY]),
    ids=in_words,
)
@pytest.mark.filterwarnings("ignore::mcage.analysis.grid.DependentSlicesWarning")
def test_every_reader_reads_or_refuses(reader, row, place, command, tmp_path, monkeypatch):
    monkeypatch.setattr(report_folder, "FORMATS", ())
    if reader == "report of a part":
        drawn = report_folder.figures_of
        monkeypatch.setattr(report_folder, "figures_of", lambda *given: islice(drawn(*given), 1))
    path = place.output(row, command)
    of = Reading(row, path, command, tmp_path, place)
    words = reader_refuses(reader, row)
    if not words:
        READERS[reader](of)
        return
    with pytest.raises(AssertionError, match=f"error: .*{re.escape(words)}"):
        READERS[reader](of)


# Unknown is not zero, and drops out of no mean.


SLICES = {
    "technique": "baseline rrcd",
    "protection": "ecp1",
    "cell": "6t",
    "geometry": "gcn",
    "suite": "sdk-2011",
    "environment": "dvfs",
}


def presented(path, **replaced):
    """Results of a file in which variables are replaced, how they are shown, and their figures."""
    header = read_header(path)
    with mcage.open_results(path) as opened:
        results = opened.load().assign(
            {name: opened[name].copy(data=values) for name, values in replaced.items()}
        )
    return presentation_of(header), header, results


def energy_of(path, saved):
    shown, header, results = presented(path, energy_saving_nominal=saved)
    figures = {figure.name: figure for figure in figures_of(header, results)}
    return shown.summarize(results), figures["vmin-energy"]


def test_unknown_energy_of_slices_that_work_is_drawn_nowhere(place, command):
    path = place.output(SLICES | {"study": "vmin"}, command)
    with mcage.open_results(path) as results:
        saved = results["energy_saving_nominal"].values.copy()
        works = results["vmin_volts"].values[..., -1:] <= results["vdd"].values
    rows, figure = energy_of(path, np.full_like(saved, np.nan))
    assert all(math.isnan(row.energy_saved.value) for row in rows)
    assert [panel.title.split(": ")[1] for panel in figure.panels] == ["work until 10 years"]
    assert "is not known" in figure.caption
    # One slice is enough, where it works; where it does not, it saves nothing.
    saved[0, 0] = np.nan
    rows, figure = energy_of(path, saved)
    curves = {series.cases: series.y for series in figure.panels[0].series}
    first, *others = curves.values()
    np.testing.assert_array_equal(np.isnan(first), works[0, 0])
    assert not np.isnan(others).any()
    assert any("unknown at some Vdd" in note for note in figure.panels[0].notes)


def test_slices_whose_fate_is_unknown_are_not_harmless(place, command):
    path = place.output(SLICES | {"study": "stuck", "suite": NONE}, command)
    with mcage.open_results(path) as results:
        fate = results["fate"].values.copy()
    fate[0] = Fate.NOT_EMULATED
    shown, _, results = presented(path, fate=fate)
    rows = shown.summarize(results)
    unknown, known = rows[:2], rows[2:]  # at both ages
    assert all(math.isnan(row.silent_until.value) for row in unknown)
    assert not any(math.isnan(row.silent_until.value) for row in known)
    # What is counted over a life stands beside its last age.
    last = [row.age_years == 5 for row in rows]
    assert [row.before_exchange is not None for row in rows] == last
    frame = results.mcage.summary()
    assert frame["before_exchange"].notna().tolist() == [False, False, *last[2:]]


def test_a_figure_without_a_value_does_not_say_zero(place, command):
    path = place.output(dict.fromkeys(AXES, NONE) | {"study": "gating"}, command)
    with mcage.open_results(path) as results:
        names = [name for name in results.data_vars if "age" in results[name].dims]
        unknown = {name: np.full(results[name].shape, np.nan) for name in names}
    _, header, results = presented(path, **unknown)
    absent = [figure for figure in figures_of(header, results) if hasattr(figure, "reason")]
    assert absent
    assert all(figure.reason.startswith("no GPU has a value: default") for figure in absent)
