"""Do conditions select what they say, and do those that select nothing say why?"""

import ast
import json
import re
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import fake_campaign
import pytest
from campaign_cases import CAMPAIGN
from places import ROOT
from tables import each

import mcage
from mcage.aging.nbti import MODEL_NAMES
from mcage.cli.reference import page_text, page_titles
from mcage.errors import UserError
from mcage.report.cases import Condition, names_for, places_where
from mcage.report.folder import CONTENTS, _digest, _new_folder, whole_folder
from mcage.report.references import AUTHORS, TITLE, YEAR, mcage_bibtex, references, references_of
from mcage.results.axes import find_point, label_of
from mcage.results.differences import keys_of, refuse_unmeant, spec_differences
from mcage.results.header import HEADERS
from mcage.spec import SweepSpec
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_gating.study import Gating
from mcage.techniques import TECHNIQUES

LINES = [
    {"technique": technique, "vdd": vdd}
    for technique in ("rrcd", "rrcd+rc", "base")
    for vdd in (0.4, 0.8)
]


def places(*texts):
    return places_where([Condition.parse(text) for text in texts], LINES)


@each(
    ("texts", "expected"),
    [
        (("technique=rrcd",), [0, 1]),
        (("technique = rrcd , base",), [0, 1, 4, 5]),
        (("technique!=rrcd,base",), [2, 3]),
        (("vdd=0.4", "technique=base"), [4]),
        (("vdd=.4000000000001",), [0, 2, 4]),
        (("vdd<0.8",), [0, 2, 4]),
        (("vdd<=0.8",), [0, 1, 2, 3, 4, 5]),
        (("vdd>0.4",), [1, 3, 5]),
        (("vdd>=8e-1",), [1, 3, 5]),
        ((), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_conditions_select(texts, expected):
    assert places(*texts) == expected


GUARDED = [
    {"technique": technique, "protection": guard, "environment": environment, "voltages": "1 V"}
    for technique, guard, environment in (
        ("rrcd", "secded32", "turbo"),
        ("rrcd+pg", "secded32", "turbo"),
        ("base", "ecp1", "turbo"),
        ("base", "none", "dvfs"),
        ("rrcd+pg", "secded32", "dvfs2"),
    )
]


@each(
    ("name", "place"),
    [
        ("rrcd turbo", 0),
        ("rrcd", 0),
        ("rrcd@secded32", 0),
        ("rrcd+pg turbo 1 V", 1),
        ("rrcd+pg dvfs2", 4),
        ("base@ecp1", 2),
        ("base@none dvfs", 3),
        ("rrcd+ dv", 4),
    ],
)
def test_a_case_is_found_by_its_values_on_axes(name, place):
    assert find_point(GUARDED, name) == place


@each(
    ("name", "words"),
    [
        ("base", "may be 'base ecp1 turbo 1 V', 'base none dvfs 1 V': say more"),
        ("rrcd+", "may be"),
        ("rrcd@none", "no case 'rrcd@none'; there are 'rrcd secded32 turbo 1 V', "),
        ("", "no case ''"),
    ],
)
def test_a_name_that_means_no_single_case_is_refused(name, words):
    with pytest.raises(UserError, match=re.escape(words)):
        find_point(GUARDED, name)


@each(
    ("texts", "words"),
    [
        (("=rrcd",), "KEY=VALUE is needed"),
        (("tech=rrcd",), "there is no key tech; the keys are technique, vdd"),
        (("technique=rrc",), "values of technique: rrcd, rrcd[+]rc, base"),
        (("vdd=0.5",), "values of vdd: 0.4, 0.8"),
        (("vdd<0.4,0.8",), "compares with one number"),
        (("vdd<low",), "compares with one number"),
        (("technique<1",), "technique is no number"),
        (("technique=rrcd", "technique=base"), "nothing has all of it; alternatives"),
    ],
)
def test_conditions_that_select_nothing_say_why(texts, words):
    with pytest.raises(UserError, match=words) as error:
        places(*texts)
    assert str(error.value).startswith(f"--where {texts[0]}")


# Are differences of specs named with both values, and refused unless they are meant?

FIRST = """
instances = 10
seed = 1
techniques = ["rrcd"]
[aging]
model = "facelift"
constants = {eta = 0.3}
[life]
horizon_years = 10.0
epochs = 6
"""


def other(*changes):
    text = FIRST
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


def test_cases_and_instances_are_no_differences():
    same = other(("= 10\n", "= 20\n"), ("seed = 1", "seed = 2"), ('["rrcd"]', '["rc", "rar"]'))
    assert spec_differences(FIRST, same) == []


def test_differences_have_both_values():
    second = other(('"facelift"', '"planar"'), ("{eta = 0.3}", "{A = 1}"), ("epochs = 6\n", ""))
    assert [str(difference) for difference in spec_differences(FIRST, second)] == [
        "aging.model ('facelift', 'planar')",
        "aging.constants.eta (0.3, not given)",
        "life.epochs (6, not given)",
        "aging.constants.A (not given, 1)",
    ]


def test_a_spec_that_is_no_toml_is_refused():
    with pytest.raises(UserError, match="is not TOML"):
        spec_differences(FIRST, "seed = ")


CHANGED = other(('"facelift"', '"planar"'), ("epochs = 6", "epochs = 7"))


@each("allowed", [("aging.model", "life.epochs"), ("aging", "life")])
def test_meant_differences_are_allowed(allowed):
    refuse_unmeant(spec_differences(FIRST, CHANGED), allowed, keys_of(FIRST, CHANGED))


@each(
    ("second", "allowed", "words"),
    [
        (CHANGED, (), "compare: --allow aging.model --allow life.epochs$"),
        (CHANGED, ("aging",), r"differ in life.epochs \(6, 7\); if this"),
        (CHANGED, ("aging.mod", "life"), "--allow aging.mod: neither spec has such a key"),
        (FIRST.replace("10.0", "5.0"), ("life",), r"life.horizon_years \(10.0, 5.0\): means up to"),
    ],
)
def test_other_differences_are_refused(second, allowed, words):
    with pytest.raises(UserError, match=words):
        refuse_unmeant(spec_differences(FIRST, second), allowed, keys_of(FIRST, second))


ZEROS, LATE = "0" * 32, "0" * 20 + "1" * 12


def spec_of(suite="modern", clang="clang 19", **kernels):
    """A spec with the digests of kernels."""
    programs = [f'"workload.kernels: {name}" = "{digest}"' for name, digest in kernels.items()]
    programs += [f'"program.source: compiler" = "{clang}"'] if kernels else []
    return "\n".join(["[workload]", f'suite = "{suite}"', "[programs]", *programs])


A, A_AND_B = spec_of(A=ZEROS), spec_of(A=ZEROS, B=ZEROS)


@each(
    ("first", "second", "words"),
    [
        (A, A, []),
        (
            A_AND_B,
            spec_of(A="1" * 32, B=LATE),
            [
                "workload.kernels: A (000000000000, 111111111111)",
                f"workload.kernels: B ({'0' * 21}, {'0' * 20}1)",
            ],
        ),
        # A kernel that one spec has alone: its suite has changed, or another suite was asked for.
        (A, A_AND_B, ["workload.kernels: B (not given, 000000000000)"]),
        (A, spec_of("old", B=ZEROS), ["workload.suite ('modern', 'old')"]),
        # One that both have is named in any case, and so is what is no digest.
        (
            A,
            spec_of("old", A=LATE, clang="clang 20"),
            [
                "workload.suite ('modern', 'old')",
                f"workload.kernels: A ({'0' * 21}, {'0' * 20}1)",
                "program.source: compiler (clang 19, clang 20)",
            ],
        ),
        (spec_of(), A, []),  # not known
    ],
)
def test_differences_of_programs(first, second, words):
    given = first, second, SweepSpec.decided_by
    assert [str(difference) for difference in spec_differences(*given)] == words
    back = [str(difference) for difference in spec_differences(second, first, *given[2:])]
    assert len(back) == len(words)
    for difference in spec_differences(*given):
        assert difference.key in keys_of(first, second)


def test_all_that_ships_rests_on_a_paper():
    papers = references()
    named = {name for paper in papers for name in paper.techniques}
    assert named == set(TECHNIQUES)
    kinds = {name.partition("-")[0] for name in MODEL_NAMES}
    assert {name for paper in papers for name in paper.models} == kinds
    assert {name for paper in papers for name in paper.studies} == set(
        entry_points(group=HEADERS).names
    ) - {"sweep", "vmin"}


def test_papers_of_the_citation_file_are_known_by_the_same_titles():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'title: "{TITLE}"' in text
    assert f'name: "{AUTHORS}"' in text
    cited = [line.split('"')[1] for line in text.splitlines() if line.startswith("    title:")]
    assert len(cited) == 4
    assert set(cited) <= {paper.title for paper in references()}


def cited(header):
    return {paper.key for paper in references_of(header)}


def test_a_sweep_cites_its_techniques_and_its_model():
    spec = SweepSpec(techniques=("gr-guard",), aging={"model": "bhardwaj"})
    of_sweep = {"toca-diaz-rrcd", "tan-2016", "chen-2014", "sarangi-2008", "schechter-2010"}
    assert cited(replace(CAMPAIGN, spec_toml=spec.to_toml())) == of_sweep | {"bhardwaj-2006"}
    variant = SweepSpec(techniques=("rc",), aging={"model": "finfet-common"})
    of_variant = cited(replace(CAMPAIGN, spec_toml=variant.to_toml()))
    assert "zhang-2015" in of_variant, "what the model cites of which it is a variant"
    assert "tiwari-2008" not in of_variant


def test_a_study_of_gpus_cites_neither_techniques_nor_error_correction():
    of_gpus = cited(Gating(GatingSpec()).header)
    assert "chen-2014" in of_gpus
    assert "schechter-2010" not in of_gpus


def test_entries_say_when_and_where():
    """The year of all but one paper, whose text says none, and what identifies most of them."""
    assert f"  year = {{{YEAR}}}," in mcage_bibtex()
    assert [paper.key for paper in references() if not paper.year] == ["toca-diaz-rrcd"]
    for paper in references():
        text = paper.bibtex()
        assert text.count("{") == text.count("}")
        assert "None" not in text
        assert re.fullmatch(r"10\.\d{4}/[\w.]+", paper.doi) or not paper.doi
        assert (f"  doi = {{{paper.doi}}}," in text) == bool(paper.doi)
        where = {"article": "journal", "inproceedings": "booktitle"}.get(paper.kind)
        assert (f"  {where} = {{{paper.published}}}," in text) == bool(paper.published)
    shown = re.findall(r"doi: (\S+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    shown += re.findall(r"doi\.org/(10\.1109/TC[^)]*)\)", (ROOT / "README.md").read_text())
    assert set(shown) <= {paper.doi for paper in references()}
    assert len(shown) == 3


def test_command(command):
    """Text and JSON hold the same entries."""
    entries = [paper.bibtex() for paper in references()]
    code, out, err = command("cite")
    assert (code, err) == (0, "")
    assert all(entry in out for entry in entries)
    as_json = json.loads(command("cite", "--json")[1])
    assert [paper["bibtex"] for paper in as_json["papers"]] == entries


# Pages that travel with the package, and messages that name them.

PACKAGE = Path(mcage.__file__).parent


def test_messages_and_docstrings_name_pages_that_there_are():
    """Messages in the words that every installation understands, docstrings as files."""
    printed, notes = [], []
    for path in PACKAGE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                (notes if id(node) in alone else printed).append(node.value)
    assert not [text for text in printed if re.search(r"docs/\w+\S*\.md", text)]
    for texts, name in ((printed, r"`mcage docs ([\w-]+)`"), (notes, r"docs/([\w-]+)\.md")):
        named = {page for text in texts for page in re.findall(name, text)}
        assert {"aging"} <= named <= set(page_titles())


def test_list(command):
    code, out, err = command("docs")
    assert (code, err) == (0, "")
    assert "aging" in out
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert len(out.splitlines()) == len(pages - {"changelog.md"})  # which only includes a file


@each("name", ["aging", "docs/aging.md", "aging.md"])
def test_page(command, name):
    assert command("docs", name)[:2] == (0, page_text("aging"))


@each("name", ["tutorials/first-sweep", "first-sweep", "docs/tutorials/first-sweep.md"])
def test_tutorials_are_shown_without_directions_to_the_site(name):
    text = page_text(name)
    assert text.startswith("# A first sweep\n")
    assert "```python\nimport mcage\n" in text
    assert not re.search("code-cell|mystnb|remove-cell|assert", text)


def test_what_pages_show_is_left_as_it_is():
    for path in (ROOT / "docs").glob("*.md"):
        if path.stem not in ("index", "changelog"):
            assert page_text(path.stem) == path.read_text(encoding="utf-8"), path
    assert "toctree" not in page_text("index")


@each("name", ["", "..", "../README", "figures/lifetimes", "x" * 1000])
def test_no_page(name):
    with pytest.raises(UserError, match=r"there is no page .*; the pages are aging, "):
        page_text(name)


# Is the folder of a report there and whole, or not there, and is nothing else lost for it?


def write(folder, **files):
    with whole_folder(folder) as place:
        (place / "part").mkdir()
        for name, text in files.items():
            (place / "part" / name).write_text(text)


def files_in(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != CONTENTS
    }


def test_a_report_replaces_a_report_or_nothing(tmp_path):
    (tmp_path / "r").mkdir()
    write(tmp_path / "r", first="1", second="2")
    assert files_in(tmp_path) == {"r/part/first": "1", "r/part/second": "2"}
    write(tmp_path / "r", first="3")
    assert files_in(tmp_path) == {"r/part/first": "3"}
    (tmp_path / "link").symlink_to(tmp_path / "r")
    write(tmp_path / "link", first="4")
    assert (tmp_path / "link").is_symlink()
    assert files_in(tmp_path / "r") == {"part/first": "4"}


@each("name", ["notes.txt", "part/notes.txt", "part/link"])
def test_what_is_not_of_the_report_stays(tmp_path_factory, name):
    tmp_path = tmp_path_factory.mktemp("stays")
    write(tmp_path / "r", first="1")
    other = tmp_path / "r" / name
    other.symlink_to("first") if name.endswith("link") else other.write_text("mine")
    before = files_in(tmp_path)
    with pytest.raises(UserError, match=f"holds {name}, which is not of a report"):
        write(tmp_path / "r", first="2")
    assert files_in(tmp_path) == before


def test_what_appears_meanwhile_stays(tmp_path):
    write(tmp_path / "r", first="1")
    with pytest.raises(UserError, match="which is not of a report"), whole_folder(tmp_path / "r"):
        (tmp_path / "r" / "late").write_text("mine")
    assert files_in(tmp_path) == {"r/part/first": "1", "r/late": "mine"}


def test_what_fails_leaves_the_old_report(tmp_path):
    write(tmp_path / "r", first="1")
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "r"):
        raise KeyboardInterrupt
    with pytest.raises(UserError, match="cannot write"), whole_folder(tmp_path / "r"):
        raise OSError(28, "No space left on device")
    assert files_in(tmp_path) == {"r/part/first": "1"}


def test_what_a_killed_process_left_is_removed_but_not_what_one_writes(tmp_path):
    abandoned = tmp_path / f".mcage-{_digest(tmp_path / 'r')}-{'0' * 16}.report"
    abandoned.mkdir()
    (abandoned / "half").write_text("x")
    in_work, _ = _new_folder(tmp_path / "r")  # which holds its lock
    write(tmp_path / "r", first="1")
    assert {path.name for path in tmp_path.iterdir()} == {"r", in_work.name}


def test_refusals(tmp_path, monkeypatch):
    for folder in ("here", "claims"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "file").write_text("x")
    (tmp_path / "claims" / CONTENTS).write_text('{"filetype": "another", "files": []}')
    before = files_in(tmp_path)
    for name, words in (
        ("file", "a file of this name is there already"),
        ("none/r", "there is no folder"),
        ("claims", "holds contents.json"),
        ("here", "is the current folder"),
        (".", "is the current folder"),
        ("x" * 300, "cannot write"),  # no folder can have such a name
        ("x" * 5000, "cannot write"),
    ):
        with pytest.raises(UserError, match=words), whole_folder(tmp_path / name):
            raise AssertionError
    assert files_in(tmp_path) == before


def test_a_label_of_a_technique_holds_with_any_protection():
    cases = [fake_campaign.case(name) for name in ("rrcd", "rrcd+pg")]
    cases.append(fake_campaign.case("rrcd", protection="none") | {"case": "rrcd none turbo"})
    header = fake_campaign.campaign(cases=tuple(cases))
    names = names_for([header], {"rrcd": "R"})
    shown = [axis for axis in header.axes if axis.name in ("technique", "protection", "scenario")]
    assert [label_of(case, shown, names) for case in cases] == [
        "R ecp1 common",
        "rrcd+pg ecp1 common",
        "R none common",
    ]
    assert label_of({"scenario": "rrcd"}, shown[2:], names) == "rrcd", "a scenario of that name"
    with pytest.raises(UserError, match="label of wc: there is none"):
        names_for([header], {"wc": "W"})
