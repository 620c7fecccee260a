"""Whatever stands on the command line or in a spec: refused in a line or two, or understood."""

import io
import random
import re
import sys

import grammars
import numpy as np
import pytest
from environment_cases import points
from one_case import engine
from one_case import spec_of as rare_spec_of
from small_traces import small_trace
from sweep_cases import assert_same_arrays, small_spec, small_sweep
from tables import each

import mcage
from mcage import run_sweep
from mcage.errors import UserError
from mcage.files.inputs import read_toml
from mcage.methods.rare_events import failure_probability
from mcage.methods.sensitivity import SensitivityStudy
from mcage.plain_text import LONGEST_MESSAGE
from mcage.spec import SweepSpec
from mcage.spec.keys import keys_below
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.inject.spec import InjectSpec
from mcage.studies.vmin.spec import VminSpec
from mcage.traces import save_trace


def assert_refused(ended, *words):
    """Exit code 2, one or two short lines on stderr, nothing else printed."""
    code, out, error = ended
    assert code == 2, error
    assert not out
    assert 1 <= len(error.splitlines()) <= 2
    assert len(error) < LONGEST_MESSAGE + 200
    assert all(word in error for word in words), error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("instances = " + "9" * 400, ["instances = an integer of about 40", "2**64"]),
        ("x = " + "[" * 500 + "]" * 500, ["nested too deep"]),
        (".".join("a" * 3000) + " = 1", ["more than a hundred parts"]),
        (".".join("a" * 50) + " = 1", ["nested too deep"]),
        ("x" * 100_000 + " = 1", ["unknown key", "..."]),
        (f"techniques = [{', '.join(f'{i!r}' for i in range(10_000))}, 0]", ["techniques"]),
        ("[workload.mix]\na = 1e308\nb = 1e308", ["workload.mix", "sum"]),
        (
            "[[operating_points.x]]\nvdd = 0.9\nshare = 1.0",
            ["'operating_points.x.0.vdd'", "vdd_volts"],
        ),
        ("#" * (4 << 20) + "#", ["at most 4 MiB"]),
    ],
    ids=lambda given: given[:30] if isinstance(given, str) else "",
)
def test_a_spec_is_refused_in_one_short_line(text, words, command, tmp_path):
    (tmp_path / "s.toml").write_text(text)
    assert_refused(command("sweep", "s.toml", "--show-spec"), "s.toml", *words)


@pytest.mark.parametrize("depth", [100, 990, 5000])
def test_python_values_nested_deep(depth):
    with pytest.raises(UserError, match="nested too deep"):
        SweepSpec.from_mapping({"techniques": grammars.nested(depth)})


@each(
    ("arguments", "words"),
    [
        (["sweep", "--delta-limit", "9" * 5000], ["delta_limit"]),
        (["sweep", "--devices", "9" * 5000], ["--devices"]),
        (["sweep", "--technique", "\udcff"], ["techniques", "UTF-8"]),
        (["sweep", "--technique", "x" * 100_000], ["technique 'xxx", "is unknown", "..."]),
        (["sweep", "--constant", "x" * 5000], ["--constant", "NAME=VALUE"]),
        (["swep"], ["No such command 'swep'", "mcage --help"]),
        (["faults", "--maps", "1000000000000"], ["--maps", "10000000"]),
        (["replay", "x", "--technique", "rrcd", "--delta-limit", "9" * 5000], ["delta limit"]),
        (["merge", ""], ["is a folder"]),
    ],
)
def test_a_command_line_is_refused_in_one_short_line(arguments, words, command):
    assert_refused(command(*arguments), *words)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--kernel", "NoSuchKernel"], "NoSuchKernel"),
        (["--fault-mode", "table", "--environment", "turbo"], "table"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_show_spec_refuses_what_the_sweep_refuses(arguments, word, command):
    of_sweep = command("sweep", *arguments)
    assert_refused(of_sweep, word)
    assert command("sweep", *arguments, "--show-spec") == of_sweep


@pytest.mark.parametrize(
    "arguments",
    [[], ["sweep"], ["trace"], ["trace", "show"]],
    ids=" ".join,
)
def test_h_is_help(arguments, command):
    code, out, error = command(*arguments, "-h")
    assert (code, error) == (0, "")
    assert f"Usage: {' '.join(['mcage', *arguments])}" in out
    assert command(*arguments, "--help") == (0, out, "")


def test_version(command):
    code, out, error = command("--version")
    mcage, engine, libraries = out.splitlines()
    assert (code, error) == (0, "")
    assert re.match(r"mcage \d+\.\d+\.\d+", mcage)
    assert re.fullmatch(r"engine (numba|cuda) \(.+\)", engine)
    for name in ("Python", "NumPy", "SciPy", "Numba", "h5py", "CuPy"):
        assert re.search(rf"\b{name} (\d+\.\d+|none)", libraries), name


def test_completion(command, monkeypatch):
    assert "--install-completion" in command("--help")[1]
    monkeypatch.setenv("_MCAGE_COMPLETE", "source_bash")
    code, out, _ = command()
    assert code == 0
    assert "complete -o default -F _mcage_completion mcage" in out
    monkeypatch.setenv("_MCAGE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "mcage sweep --sigma-")
    monkeypatch.setenv("COMP_CWORD", "2")
    code, out, _ = command("sweep", "--sigma-")
    assert (code, set(out.split())) == (0, {"--sigma-die", "--sigma-random", "--sigma-systematic"})


def test_text_that_the_terminal_cannot_encode(command, monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    code, _, error = command("techniques")
    assert (code, error) == (0, "")
    assert "rrcd" in terminal.buffer.getvalue().decode()


def test_mutated_specs_are_understood_or_refused(tmp_path):
    path = tmp_path / "s.toml"
    understood, refusals = 0, []
    for seed in range(300):
        path.write_bytes(grammars.SPEC.draw(random.Random(seed)))
        typed = grammars.SPEC.tree(random.Random(seed))
        for fields_of in (lambda: read_toml(path), lambda fields=typed: fields):
            try:
                spec = SweepSpec.from_mapping(fields_of(), str(path))
            except UserError as error:
                refusals.append(str(error))
            else:
                understood += 1
                path.write_text(spec.to_toml())
                assert SweepSpec.from_toml(path) == spec
    assert understood > 20
    assert len(refusals) > 200
    for refusal in refusals:
        assert refusal.startswith(f"{path}: ")
        assert "\n" not in refusal


@pytest.mark.parametrize(
    "line",
    [
        *("sweep {}", "status {}", "merge r.h5 {}", "show {}", "verify {}", "trace validate {}"),
        "report {} --out report",
    ],
)
def test_names_that_no_file_can_have(command, line, tmp_path):
    """Longer than file systems allow, with a character that ends names, a link to itself."""
    (tmp_path / "self").symlink_to("self")
    for name in ("x" * 5000, "x" * 300, "a\0b", "self"):
        code, out, err = command(*line.format(name).split(" "))
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert len(err) < 1000


# A value that can change nothing is refused by name, and only such a value is.

ALONE = {"kernels": ["MatrixTranspose"], "periods": 2, "generations": 1}
QUICK_FIELDS = {
    "techniques": ["baseline"],
    "environments": ["turbo"],
    "workload": ALONE,
    "life": {"epochs": 2},
}
LOW = {"environments": ["undervolted"]}
FIXED = {
    "operating_points": {"own": points((0.9, 0.5), (0.5,))},
    "environments": ["turbo", "own"],
}

UNUSED = {
    "vdd_volts = [0.9]: environment 'turbo' has fixed voltages": (
        {},
        {"vdd_volts": [0.9]},
    ),
    "vdd_volts = [0.6]: environments 'turbo', 'own' have fixed voltages": (
        FIXED,
        {"vdd_volts": [0.6]},
    ),
    "workload.mix = 'dirichlet(0.5)': a sweep of one kernel (MatrixTranspose) has nothing": (
        {},
        {"workload": {**ALONE, "mix": "dirichlet(0.5)"}},
    ),
    "life.idle = 'held': slices are never idle, since life.activity = 1": (
        {"life": {"epochs": 2}},
        {"life": {"epochs": 2, "idle": "held"}},
    ),
    "life.spill_limit = 0.0: no technique of this sweep (baseline, disable) spills": (
        {"techniques": ["baseline", "disable"], **LOW},
        {"life": {"epochs": 2, "spill_limit": 0.0}},
    ),
    "life.vmin_coefficient = 0.5: faults of mode 'table' do not grow": (
        {"techniques": ["rrcd"], **LOW, "faults": {"mode": "table"}},
        {"life": {"epochs": 2, "vmin_coefficient": 0.5}},
    ),
    "faults.spread_blocks = True: no technique of this sweep (gr-guard, rrcd+rc+rar) uses": (
        {"techniques": ["gr-guard", "rrcd+rc+rar"], **LOW},
        {"faults": {"spread_blocks": True}},
    ),
    "faults.spread_blocks = True: mode 'table-exact' puts each faulty bit": (
        {"techniques": ["rrcd"], **LOW, "faults": {"mode": "table-exact"}},
        {"faults": {"mode": "table-exact", "spread_blocks": True}},
    ),
    "faults.slices_per_chip = 4: dies do not differ": (
        {"techniques": ["rrcd"], **LOW},
        {"faults": {"slices_per_chip": 4}},
    ),
    "faults.phi = 0.25: no deviation is correlated over a slice": (
        {"techniques": ["rrcd"], **LOW, "scenarios": ["dispersed"]},
        {"faults": {"phi": 0.25}},
    ),
    "faults.arrays = '128x256': arrays do not differ": (
        {"techniques": ["rrcd"], **LOW, "scenarios": ["dispersed"]},
        {"faults": {"arrays": "128x256"}},
    ),
    "registers.delta_limit = 'none': no technique of this sweep (baseline, gr-guard) compresses": (
        {"techniques": ["baseline", "gr-guard"], **LOW},
        {"registers": {"delta_limit": "none"}},
    ),
    "registers.lds_rows = 1: no technique of this sweep (rc+rar, disable) spills": (
        {"techniques": ["rc+rar", "disable"], **LOW},
        {"registers": {"lds_rows": 1}},
    ),
    "registers.selector_offsets = 4: no technique of this sweep (rc+rar, rrcd) rotates": (
        {"techniques": ["rc+rar", "rrcd"], **LOW},
        {"registers": {"selector_offsets": 4}},
    ),
}
"""The message, a sweep, and what it has no use for."""


@pytest.mark.parametrize("message", UNUSED)
def test_what_can_change_nothing_is_refused(message, tmp_path):
    """Nor would it change a bit of what a `Sweep` by itself computes."""
    fields, unused = UNUSED[message]
    used = QUICK_FIELDS | fields
    small_spec(**used).refuse_unused()
    with pytest.raises(UserError) as caught:
        run_sweep(small_spec(**(used | unused)), tmp_path / "r.h5")
    assert str(caught.value).startswith(message)
    assert "leave it out" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    both = (small_sweep(**given).compute(0, 2) for given in (used | unused, used))
    assert_same_arrays(*both)


USED = [
    {"environments": ["turbo", "dvfs"], "vdd_volts": [0.45, 0.6]},
    {**LOW, "operating_points": {"own": points((0.9, 0.5), ("scenario",))}, "vdd_volts": [0.45]},
    {"life": {"epochs": 4, "idle": "held", "activity": 0.5}},
    {"techniques": ["baseline", "rrcd"], "life": {"epochs": 4, "spill_limit": 0.0}},
    {"techniques": ["gr-guard"], "registers": {"lds_rows": 1}},
    {"techniques": ["rrcd+pg"], "faults": {"spread_blocks": True}},
    {"faults": {"slices_per_chip": 4, "sigma_die_volts": 0.01}},
    {"faults": {"slices_per_chip": 4}, "stopping": {"rel_ci": 0.1}},
    {"scenarios": ["dispersed", "common"], "faults": {"phi": 0.25}},
    {"scenarios": ["dispersed"], "faults": {"phi": 0.25, "sigma_systematic_volts": 0.01}},
    {"techniques": ["baseline", "wc"], "registers": {"delta_limit": "none"}},
    {"techniques": ["rrcd", "rrcd+rc+rar"], "registers": {"selector_offsets": 4}},
    {"workload": {"kernels": ["DCT", "Reduction"], "periods": 2, "mix": "one"}},
]


@each("fields", USED)
def test_what_one_case_has_a_use_for_is_taken(fields):
    small_spec(**fields).refuse_unused()


@each("technique", ["baseline", "argo", "disable", "rrcd"])
def test_a_default_is_taken_though_it_is_written_out(technique, tmp_path):
    """What --show-spec prints runs."""
    spec = SweepSpec.from_mapping({"techniques": [technique], "environments": ["turbo"]})
    path = tmp_path / "sweep.toml"
    path.write_text(spec.to_toml())
    assert "selector_offsets" in path.read_text()
    SweepSpec.from_toml(path).refuse_unused()


def test_rare_events_and_studies_refuse_it_too():
    words = r"vdd_volts = \[0\.9\]: environment 'turbo' has fixed voltages"
    spec = rare_spec_of("baseline", vdd_volts=0.9, environments=["turbo"])
    with pytest.raises(UserError, match=words):
        failure_probability(spec, 0.0, 10, engine=engine())
    with pytest.raises(UserError, match=words):
        SensitivityStudy(spec, "rmst", engine())


def test_a_study_may_vary_what_turns_out_not_to_matter():
    spec = rare_spec_of("baseline", instances=3)
    study = SensitivityStudy(spec, "rmst", engine())
    base, changed = study.values([{}, {"registers.lds_rows": 0}])
    assert np.array_equal(base, changed)


UNITS = {
    "volts": "volts, such as 0.421",
    "kelvin": "kelvin",
    "years": "years",
    "days": "days",
    "mv": "millivolts",
}


@pytest.mark.parametrize("kind", [SweepSpec, VminSpec, InjectSpec, GatingSpec])
def test_a_number_with_a_unit_is_asked_for_by_its_unit(kind):
    tried = 0
    for key, _ in keys_below(kind):
        unit = UNITS.get(key.rpartition("_")[2])
        *tables, name = key.split(".")
        fields = {name: "421mV"}
        for table in reversed(tables):
            fields = {table: fields}
        if unit:
            with pytest.raises(UserError) as refused:
                kind.from_mapping(fields)
            said = str(refused.value)
            assert unit in said or re.search(r"\b(V|K|mV)\b|leave it out|is missing", said), said
            tried += 1
    assert tried > 7


@pytest.mark.slow
def test_a_trace_is_no_results_file(command, tmp_path):
    save_trace(small_trace(), tmp_path / "trace.h5")
    run_sweep(small_spec(instances=1), tmp_path / "results.h5", "numpy")
    for line in ("show {}", "report {} --out r", "verify {}", "merge {}", "cite {}", "pareto {}"):
        said = command(*line.format("trace.h5").split())
        assert_refused(said, "trace.h5 is a trace, not results")
    small = ("--kernel", "MatrixTranspose", "--instances", "1")
    assert_refused(command("sweep", *small, "--out", "trace.h5"), "trace.h5 is a trace")
    assert_refused(command("replay", "results.h5", "--technique", "rrcd"), "not a trace")


@each("wrong", [io.BytesIO(b"x"), 3, None, b"r.h5", ["r.h5"], io.StringIO("x")])
def test_a_file_is_named_by_a_text_or_a_path(wrong):
    """In Python, too, a mistake says what would be right."""
    opened = [mcage.open_results, mcage.open_trace, mcage.load_trace]
    opened += [lambda path: mcage.run_sweep(SweepSpec(), path)]
    opened += [lambda path: mcage.run(GatingSpec(), path)]
    opened += [lambda path: mcage.write_report("r.h5", path)]
    opened += [lambda path: mcage.import_traces("r.csv", path)]
    opened += [lambda path: mcage.save_trace(small_trace(), path)]
    opened += [lambda path: mcage.replay(path, "rrcd")]
    for function in opened:
        with pytest.raises(UserError, match=rf"{type(wrong).__name__}: a file is needed"):
            function(wrong)
    for function in (mcage.write_report, mcage.import_traces):
        for files in (wrong, [io.BytesIO()]):
            if not isinstance(files, list) or not isinstance(files[0], str):
                with pytest.raises(UserError, match="a file is needed"):
                    function(files, "out")
