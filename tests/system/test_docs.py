"""Do the pages say what mcage does? Commands, links, examples and tables of README and docs."""

import contextlib
import csv
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from functools import cache

import keys_page
import list_instructions
import numpy as np
import pytest
import typer.main
from command_line import from_json, run_mcage
from gallery import FIGURES, PICTURES, RECORD, description, digest, few_instances
from places import ROOT, run_python, shown_files
from tables import each

import mcage
import mcage.cli.app as cli_app
from mcage.aging.nbti import MODEL_NAMES
from mcage.cli.app import app
from mcage.cli.spec_options import SpecArguments
from mcage.engines import ENGINES
from mcage.geometry import GCN
from mcage.spec import SweepSpec
from mcage.spec.keys import plug_ins
from mcage.techniques import TECHNIQUES
from mcage.traces.transforms import RELEASES

PAGES = sorted(
    [*ROOT.glob("*.md"), ROOT / "tests" / "README.md"]
    + [page for folder in ("docs", "results") for page in (ROOT / folder).glob("**/*.md")]
)
MCAGE = [sys.executable, "-c", "from mcage.cli.main import main; main()"]

FENCE = re.compile(r"^```([^`\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")


def name_of(page):
    return str(page.relative_to(ROOT))


def marked_command(marker):
    """The one line of the fenced block of the README after an HTML comment."""
    matched = re.findall(
        rf"^<!-- {marker} -->\n```bash\n([^\n]+)\n```$", (ROOT / "README.md").read_text(), re.M
    )
    assert len(matched) == 1
    return matched[0]


def prose(page):
    return FENCE.sub("", page.read_text())


BEFORE = {"$", "!", "srun", "time", "exec", "python", "python3", "-m"}
"""What may stand before a command in a line."""

NO_COMMANDS = {"recording"}
"""Words that follow `mcage` in the first line of a recording."""


def in_blocks(page):
    """Arguments of the mcage commands in the blocks of a page, as a shell would split them."""
    for _, code in FENCE.findall(page.read_text()):
        for line in code.replace("\\\n", " ").splitlines():
            yield from commands_of(line)


def in_text(page):
    """Arguments of the mcage commands that the text of a page, or of a module, mentions."""
    marks = "``?" if page.suffix in (".py", ".rst") else "`"
    for line in re.findall(rf"(?<!`){marks}([^`]+){marks}(?!`)", prose(page)):
        yield from commands_of(" ".join(line.split()))


def commands_of(line):
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # an apostrophe: it is no line of a shell
        return
    while words:
        length = next((n for n, word in enumerate(words) if set(word) <= set("|&;<>")), len(words))
        part, words = words[:length], words[length + 1 :]
        while part and (part[0] in BEFORE or re.fullmatch(r"[A-Z_]+=.*", part[0])):
            part = part[1:]
        name = part[0].removeprefix("!") if part else ""
        if re.fullmatch(r"(?:[\w.-]+/)*mcage", name) and part[1:] and part[1] not in NO_COMMANDS:
            yield part[1:]


def commands(page):
    """Arguments of every mcage command that a page shows."""
    return [*in_blocks(page), *in_text(page)]


MENTIONING = sorted([*(ROOT / "mcage").rglob("*.py"), *(ROOT / "docs").glob("*.rst")])
"""What mentions commands beside the pages: docstrings, messages and the two generated pages."""


class UnderstoodError(Exception):
    """A spec makes sense; nothing more is asked."""


def understand(arguments):
    """Parse a command line as a shell's, and check its values and its spec; nothing is run.

    Capitals stand for something else, and files need not be there.

    Raises
    ------
    Exception
        It is not understood.
    """
    command, context = typer.main.get_command(app), None
    rest = ["1" if each in ("K", "N") else each for each in arguments]
    name = "mcage"
    while True:
        context = command.make_context(name, rest, parent=context)
        if not hasattr(command, "commands"):
            break
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        name, command, rest = command.resolve_command(context, rest)
    for option, known in VALUES.items():
        given = context.params.get(option)
        for value in given if isinstance(given, list) else [given]:
            plain = isinstance(value, str) and not value.isupper() and ":" not in value
            assert not plain or value in known, f"{option} {value}"
    if "trust" in context.params:
        with contextlib.suppress(UnderstoodError):
            command.invoke(context)


VALUES = {
    "technique": TECHNIQUES,
    "engine": ENGINES,
    "progress": ("rich", "plain", "none"),
    "release": RELEASES,
    "model": (*MODEL_NAMES, "larger"),
}
"""Options that commands with and without a spec have, and their values."""


def understood_spec(arguments, show_spec=False):
    """Check the spec of a command line, but for what is in a file that is not there."""
    file = arguments.file
    is_there = file is not None and file.is_file()
    defined = () if is_there or file is None else ("environments",)
    given = [
        (key, value, flag)
        for key, value, flag in arguments.values
        if not (isinstance(value, str) and value.isupper()) and key not in defined
    ]
    known = replace(arguments, file=file if is_there else None, values=given)
    spec = SPEC_OF(known, True)
    if isinstance(spec, SweepSpec) and (is_there or file is None) and not plug_ins(spec):
        spec.refuse_unused()
    raise UnderstoodError


SPEC_OF = SpecArguments.spec


def misunderstood(page, arguments, is_line):
    """What is wrong with a command line; None if nothing is."""
    if arguments[0].isupper():
        return None
    try:
        understand(arguments)
    except typer.Exit:  # of --help and --version
        return None
    except Exception as error:
        said = error.format_message() if hasattr(error, "format_message") else str(error)
        # Text mentions commands and options without what they need.
        is_part = said.startswith("Missing") or "requires an argument" in said or not said
        return None if is_part and not is_line else f"{name_of(page)}: {arguments}: {said}"
    return None


def test_commands_are_understood(monkeypatch, capsys):
    """Every command that is shown has options that exist, with values that make sense."""
    monkeypatch.setattr(SpecArguments, "spec", understood_spec)
    lines = [(page, each, True) for page in PAGES for each in in_blocks(page)]
    lines += [(page, each, False) for page in [*PAGES, *MENTIONING] for each in in_text(page)]
    wrong = [misunderstood(*line) for line in lines]
    absent = "there is no folder|cannot read|No such file"
    wrong = [problem for problem in wrong if problem and not re.search(absent, problem)]
    assert not wrong, "\n".join(wrong)
    assert len(lines) > 400
    assert (ROOT / "README.md", ["sweep", "--instances", "10000"], True) in lines
    for line, words in {
        "nbti facelift --duty 0.5": "extra argument",
        "sweep --no-such-option": "No such option",
        "sweep --instances 0": "instances = 0",
        "sweep --environment turbo --vdd 0.4": "vdd_volts",
        "replay Reduction --technique rrdc": "rrdc",
        "sensitivity --of median-life": "median-life",
        "swep": "swep",
        "trace emulate KERNEL.cl": "Missing",
        "inject KERNEL.cl --fault flap": "flap",
    }.items():
        assert words in misunderstood(PAGES[0], line.split(), True)


@each("page", PAGES)
def test_links_resolve(page):
    for target in LINK.findall(prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.M)
            slugs = [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings]
            assert anchor in slugs, target


@each("page", PAGES)
def test_files_named_exist(page):
    """Paths in code type, such as `scripts/docs/gallery.py`, are there."""
    for code in INLINE_CODE.findall(prose(page)):
        if re.fullmatch(r"(?:mcage|engines|kernels|scripts|tests|docs|aging)/[\w./*-]+", code):
            base = ROOT if code.split("/")[0] not in ("engines", "aging") else ROOT / "mcage"
            assert list(base.glob(code.rstrip("/"))), code


def test_the_two_commands_of_the_readme():
    install, run_main, run_tests = (
        r"python3 -m venv \.venv && \.venv/bin/pip install ",
        r"\. && \.venv/bin/mcage sweep --instances 10000",
        r"'\.\[test\]' && \.venv/bin/pytest -n 2",
    )
    assert re.fullmatch(install + run_main, marked_command("main job"))
    assert re.fullmatch(install + run_tests, marked_command("tests"))


@pytest.fixture
def ci(tmp_path):
    """A copy of .ci/run among tools that do nothing but say their arguments."""
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text(script.read_text())
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)

    def run(test_command):
        for tool in ("pip", "ruff", "mypy", "python3", "pytest"):
            (tools / tool).write_text('#!/bin/sh\necho "$(basename "$0") $*"\n')
            (tools / tool).chmod(0o755)
        (tmp_path / "README.md").write_text(f"<!-- tests -->\n```bash\n{test_command}\n```\n")
        return subprocess.run(
            ["bash", ".ci/run"],
            cwd=tmp_path,
            env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.parametrize(("command", "code"), [("echo the tests", 0), ("false; true", 1)])
def test_ci_runs_the_command_of_the_readme(ci, command, code):
    done = ci(command)
    assert done.returncode == code, done.stderr
    assert f"ruff check\nruff format --check\nmypy --strict\n{command}\n" in done.stdout
    both = "\nthe tests\npytest -n 2 -m slow\n"
    assert done.stdout.endswith(both) == (code == 0)


def test_the_page_of_keys_is_up_to_date():
    remedy = "docs/keys.md is stale: scripts/docs/keys_page.py writes it again"
    assert (ROOT / "docs" / "keys.md").read_text() == keys_page.page(), remedy


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which(list_instructions.DISASSEMBLER), reason="the tables are of LLVM 19"
)
def test_the_tables_of_instructions_are_up_to_date():
    for name, rows in list_instructions.tables().items():
        with open(ROOT / "results" / "instructions" / name, newline="") as file:
            stored = list(csv.reader(file))
        assert stored == [[str(field) for field in row] for row in rows], "list_instructions.py"


def test_techniques_of_the_page():
    """The table in docs/techniques.md is the catalogue."""
    page = (ROOT / "docs" / "techniques.md").read_text()
    rows = re.findall(r"^\| `([a-z+-]+)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", page, re.M)
    assert rows == [
        (
            item.name,
            item.placement.value + (", rotating" if item.rotating_selectors else ""),
            item.storage.value,
            item.gating.value,
            item.source,
        )
        for item in TECHNIQUES.values()
    ]


def test_own_technique_replays(tmp_path, monkeypatch):
    """The example runs, and shows what the page says: rotation gains from gating alone."""
    monkeypatch.chdir(tmp_path)
    for name, code in shown_files("techniques.md").items():
        (tmp_path / name).write_text(code)
        monkeypatch.setitem(sys.modules, name.removesuffix(".py"), None)  # forgotten afterwards
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"))
    (example,) = [
        command
        for command in commands(ROOT / "docs" / "techniques.md")
        if command[0] == "replay" and "rar_pg:RAR_PG" in command
    ]
    gated, plain = from_json(*example), mcage.replay("Reduction", "rar")
    assert gated["technique"] == "rar+pg"
    for key in ("longest_zero_duty", "longest_one_duty"):
        assert gated[key] < plain[key]


def test_a_replay_by_hand_begins_with_the_trace_that_is_played():
    text = (ROOT / "results" / "techniques.md").read_text()
    code = re.search(r"<!-- by hand -->\n```python\n(.*?)```", text, re.DOTALL)
    found = {}
    exec(code[1], found)
    as_recorded = mcage.replay(found["recorded"], "rc+rar", release="work-group")
    for report, said in ((found["as_played"], "0.46"), (as_recorded, "0.81")):
        assert f"{report['longest_zero_duty'][0]:.2f}" == said
        assert f" {said}" in text


def headings_and_cases(table):
    """Words of the headings, and the first word of each line below them."""
    above, below = re.split(r"^ *─+ *$", table, flags=re.M)
    cases = below.split("95% intervals")[0]
    return set(above.split("scenario common")[1].split()), re.findall(r"^ *(\S+)", cases, re.M)


@pytest.mark.slow
def test_main_job_and_the_python_that_reads_its_file(tmp_path, monkeypatch):
    """The main job, small and in a process of its own, and the Python that reads its file."""
    sweep = shlex.split(marked_command("main job").split("mcage ")[-1])
    sweep[sweep.index("--instances") + 1] = "2"
    line = [*MCAGE, *sweep, "--kernel", "Reduction"]
    narrow = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env=narrow)
    assert done.returncode == 0, done.stderr
    table = done.stdout
    assert "results/sweep.h5" in table
    (tmp_path / "results.h5").symlink_to("results/sweep.h5")
    sample = (ROOT / "README.md").read_text().split("<!-- sample table")[1].split("```")[1]
    (headings, cases), (printed, computed) = map(headings_and_cases, (sample, table))
    # Of two instances, numbers are shorter and columns may be more. Where none is dead on arrival,
    # the savings of all slices are those of the slices that worked.
    assert headings - {"of", "all", "slices"} <= printed
    assert cases == computed
    monkeypatch.chdir(tmp_path)
    for page in ("README.md", "docs/results-format.md"):
        run_python(page)


@pytest.mark.slow
def test_fault_maps_of_the_model_page(tmp_path, monkeypatch):
    """The maps are made and replayed, and BlackScholes fits on as many dies as the page says."""
    page = ROOT / "docs" / "model.md"
    monkeypatch.chdir(tmp_path)
    run_python("docs/model.md")
    (example,) = [item for item in commands(page) if item[0] == "replay" and "--fault-map" in item]
    report = json.loads(run_mcage(*example))
    assert report["instances"] == 100
    fits = np.array(report["peak_spilled_rows"]) <= GCN.lds_rows
    writes = {kind: np.array(counts) for kind, counts in report["writes"].items()}
    spilled = 100 * np.mean(writes["lds"] / sum(writes.values()))
    text = page.read_text()
    assert f"fits on {fits.sum()} of the first hundred Common dies" in text
    assert f"{spilled:.1f} % of its writes go to the LDS on average" in text


DOCS_PAGES = sorted((ROOT / "docs").rglob("*.md"))
"""Pages of docs/, without those of results/, to which a link in docs/ leads."""


LOOKED_FOR = {
    "aging": "nbti temperature",
    "analysis": "jupyter pandas xarray",
    "clusters": "dask kubernetes slurm",
    "continuing": "resume",
    "emulation": "opencl triton",
    "gpus": "cuda",
    "importing": "csv gem5",
    "install": "apptainer docker",
    "keys": "seed",
    "pareto": "pareto",
    "protection": "ecp secded",
    "recording": "cutracer nvbit",
    "report": "bibtex booktabs latex",
    "results-format": "checksum hdf5 matlab",
    "soft-errors": "avf fit",
    "statistics": "censored json weibull",
    "vmin": "vmin",
}
"""Words that readers type into the search of the site, by the page that says what to do."""


@each("page", LOOKED_FOR)
def test_words_that_readers_look_for_lead_to_the_page_that_answers(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    index = set(re.findall(r"[a-z0-9]+", text.lower()))
    assert not set(LOOKED_FOR[page].split()) - index


def test_pages_are_short_enough_to_be_read():
    words = {page: len(page.read_text(encoding="utf-8").split()) for page in DOCS_PAGES}
    long = {
        name_of(page): number
        for page, number in words.items()
        if number > 5_000 and "generated" not in page.read_text(encoding="utf-8").splitlines()[0]
    }
    assert not long
    assert sum(words.values()) <= 60_000


READERS = sorted((ROOT / "docs" / "readers").glob("*.md"))


@each("page", READERS)
def test_pages_of_readers_answer_each_question_in_a_sentence_with_a_link(page):
    title, *questions = page.read_text(encoding="utf-8").strip().split("\n- ")
    assert title.startswith("# I ")
    assert len(page.read_text(encoding="utf-8").split()) <= 280
    for question in questions:
        asked, answer = re.fullmatch(r"\*\*(.+?[?.])\*\* (.+)", question).groups()
        assert LINK.search(answer), asked
        assert not re.search(r"\.\s", answer), asked
    assert f"readers/{page.name}" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def test_pages_name_no_machine():
    """No path of the machine on which a page was written."""
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(?:home|work|tmp|root|Users)/", page.read_text()), page


# Are the pictures of the README and of the page on getting started those of today's figures?

REMEDY = "it is stale: scripts/docs/gallery.py draws it again"


@pytest.mark.slow
def test_the_gallery_shows_what_its_figures_show_now(tmp_path):
    results = cache(lambda name: few_instances(name, tmp_path))
    record = json.loads(RECORD.read_text())
    assert set(record) == set(FIGURES)
    for name, (file, figure) in FIGURES.items():
        assert digest(PICTURES / f"{name}.png") == record[name]["digest"], name
        then, now = record[name]["figure"], description(results(file), figure)
        for part in ("words", "caption"):
            assert now[part] == then[part], f"{name}: {REMEDY}"
        for (label, colour, numbers), (*look, others) in zip(
            now["curves"], then["curves"], strict=True
        ):
            assert [label, colour] == look, f"{name}: {REMEDY}"
            for part, other in zip(numbers, others, strict=True):
                assert np.allclose(part, other, rtol=1e-3), f"{name}, {label}: {REMEDY}"


def test_variables_and_exit_codes_stand_on_the_page_of_the_command_line():
    page = (ROOT / "docs" / "command-line.md").read_text()
    shown = set(re.findall(r"^\| `(MCAGE_[A-Z_]+)` \|", page, re.M))
    sources = [*MENTIONING, *(ROOT / "kernels").rglob("*.*"), ROOT / "Dockerfile"]
    text = "".join(path.read_text() for path in sources)
    assert shown == set(re.findall(r"(?<![A-Z_])MCAGE_[A-Z_]+", text))
    codes = set(re.findall(r"\d+", " ".join(re.findall(r"^\| ([\d, ]+) \|", page, re.M))))
    said = set(re.findall(r"\b(\d{1,3})\b", cli_app.__doc__.partition("Exit codes:")[2]))
    assert said - {"128"} <= codes
    for name in ("index.md", "commands.rst", "results-format.md"):
        assert "command-line" in (ROOT / "docs" / name).read_text(), name
