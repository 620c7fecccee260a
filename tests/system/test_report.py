"""Reports of all studies: what lies in the folder, what stands side by side, what is refused."""

import csv
import json
import re

import darts
import fake_campaign
import numpy as np
import pytest
from gpu_cases import gating

from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.errors import UserError
from mcage.report import folder as report_folder
from mcage.report.folder import ReportOptions, write_report
from mcage.spec import SweepSpec


@pytest.fixture(scope="module")
def pi(tmp_path_factory):
    """Results of a study of a user."""
    return run_campaign(darts.pi_by_darts(30), tmp_path_factory.mktemp("pi") / "pi.h5", 30)


def gpus(folder, seed):
    """Results of whole GPUs."""
    study = gating(policies=["default", "round-robin"], seed=seed).study
    return run_campaign(study, folder / "gpus.h5", 12)


def names_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def rows_of(path):
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_a_study_of_a_user_has_a_report(tmp_path, pi, command):
    code, out, said = command("report", str(pi), "--out", str(tmp_path / "r"), "--width", "85")
    assert (code, said) == (0, "")
    assert "index.html" in out
    names = names_in(tmp_path / "r")
    assert names >= {"index.html", "contents.json", "pi.toml", "table.csv", "variable-1-pi.pdf"}
    page = (tmp_path / "r" / "index.html").read_text(encoding="utf-8")
    assert "The study pi by darts with 30 instances" in page
    assert "ships with no command of mcage" in page
    listed = json.loads((tmp_path / "r" / "contents.json").read_text())["files"]
    assert {*listed, "contents.json"} == names
    for name in names:
        head = (tmp_path / "r" / name).read_bytes()[:8]
        assert head.startswith({"pdf": b"%PDF-", "png": b"\x89PNG"}.get(name[-3:], b""))


def test_files_of_a_study_stand_side_by_side_and_studies_apart(tmp_path, pi, monkeypatch):
    monkeypatch.setattr(report_folder, "FORMATS", ())
    (tmp_path / "more").mkdir()
    first, second = gpus(tmp_path, 1), gpus(tmp_path / "more", 2)
    write_report([first, pi, second], tmp_path / "r")
    page = (tmp_path / "r" / "index.html").read_text(encoding="utf-8")
    for words in ("Summary of the study pi by darts", "Summary of the study gpu-gating"):
        assert words in page
    files = [row["file"] for row in rows_of(tmp_path / "r" / "gpu-gating-table.csv")]
    assert files == [str(first)] * 2 + [str(second)] * 2
    cases = re.findall('data-case="(.*)" data-at', page)
    assert cases == ["0 0", "0 1", "2 0", "2 1"]
    (survival,) = re.findall('id="figure-1-survival">(.*?)</article>', page, re.DOTALL)
    assert re.findall('data-source="(.)"', survival) == ["0", "2"]
    assert survival.count('"cases":[1]') == 2
    assert page.count("<strong>round-robin:</strong> delay margin that half of the GPUs need") == 2
    assert page.count("What this rests on") == 2
    names = {"gpus/gpus.toml", "pi/pi.toml", "gpus-2/gpus-2.toml", "gpus-2/survival.csv"}
    assert names_in(tmp_path / "r") >= names


OURS = "ours, to the letter"


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Results of a sweep with a technique of a user, which has a name of its own."""
    cases = tuple(
        fake_campaign.case(name, volts=(volts,), highest_vdd_volts=1.0)
        for name in ("baseline", "rrcd", "my:IDEA")
        for volts in (0.9, 1.0)
    )
    campaign = fake_campaign.campaign(
        cases=cases,
        technique_names=(("my:IDEA", OURS),),
        operating_points=1,
        spec_toml=SweepSpec(techniques=["baseline", "rrcd", "my:IDEA"]).to_toml(),
    )

    def compute(first, last):
        arrays = fake_campaign.of_cases([0, 1, 2] * 2, first, last)
        return arrays | {"operating_point_share": np.ones((6, last - first, 1))}

    return run_campaign(Study(campaign, compute), tmp_path_factory.mktemp("s") / "s.h5", 100)


def test_a_report_shows_what_is_chosen_under_the_names_that_people_read(
    swept, tmp_path, command, monkeypatch
):
    monkeypatch.setattr(report_folder, "FORMATS", ("pdf",))
    wanted = ("--where", "technique=rrcd,my:IDEA", "--where", "vdd=1", "--label", "rrcd=RRCD")
    drawn = ("--figure", "survival", "--figure", "pareto", "--no-title")
    code, _, said = command("report", str(swept), "--out", str(tmp_path / "r"), *wanted, *drawn)
    assert (code, said) == (0, "")
    figures = {path.stem for path in (tmp_path / "r").glob("*.pdf")}
    assert figures == {"survival", "pareto"}
    page = (tmp_path / "r" / "index.html").read_text(encoding="utf-8")
    assert "in 2 cases (techniques RRCD and ours, to the letter;" in page
    assert "Only cases with technique=rrcd,my:IDEA and vdd=1 are shown." in page
    assert re.findall('data-case="(.*)" data-at', page) == ["0 0", "0 1"]
    lines = rows_of(tmp_path / "r" / "survival.csv")
    assert {line["series"] for line in lines} == {"RRCD", OURS}
    assert {line["case"].split()[0] for line in lines} == {"rrcd", "my:IDEA"}
    techniques = [line["technique"] for line in rows_of(tmp_path / "r" / "table.csv")]
    assert techniques == ["rrcd", "my:IDEA"]
    table, *_ = re.findall("<table.*?</table>", page, re.DOTALL)
    assert OURS in table
    assert "my:IDEA</td>" not in table


def test_sentences_about_gpus_have_the_names_that_people_read(tmp_path):
    wanted = ReportOptions(figures=("survival",), labels={"default": "one by one"})
    write_report([gpus(tmp_path, 1)], tmp_path / "r", wanted)
    page = (tmp_path / "r" / "index.html").read_text(encoding="utf-8")
    assert "<strong>one by one:</strong> delay margin that half of the GPUs need" in page
    assert "<strong>default:</strong>" not in page


def test_tables_have_the_names_that_people_read_and_files_those_of_the_spec(
    swept, command, refusal
):
    _, table, _ = command("show", str(swept), "--label", "rrcd=RRCD (theirs)")
    rows = table.partition("──\n")[2].partition("\n\n")[0]
    assert OURS in rows
    assert "RRCD (theirs)" in rows
    assert "my:IDEA" not in rows  # the line below the table says what options call it
    assert "my:IDEA" in command("show", str(swept), "--csv")[1]
    pair = ("my:IDEA turbo common 1 V", "rrcd turbo common 1 V")
    _, compared, _ = command("show", str(swept), "--compare", *pair)
    assert f"A: {OURS} turbo common 1 V" in compared
    for options, message in (
        (("--label", "rrcd=R", "--label", "rrcd=S"), "--label rrcd=S: rrcd is given twice"),
        (("--label", "rrcd"), "--label rrcd: TECHNIQUE=NAME is needed, such as rrcd=RRCD"),
    ):
        assert message in refusal("show", swept, *options)


def test_what_a_report_cannot_show_is_refused_and_nothing_is_written(swept, pi, tmp_path, refusal):
    for path, options, message in (
        (pi, ("--figure", "lives"), "--figure lives: there is none; there are variable-1-pi"),
        (swept, ("--where", "vdd=2"), "values of vdd: 0.9, 1"),
        (pi, ("--where", "vdd=2"), "there is no key vdd; the keys are quadrant"),
    ):
        assert message in refusal("report", path, "--out", tmp_path / "r", *options)
    assert not [*tmp_path.iterdir()]


def test_refusals(tmp_path, pi):
    fake_campaign.write(tmp_path / "foreign.h5", (5,), spec_toml="techniques = 3\n")
    (tmp_path / "text").write_text("x")
    for paths, words in (
        ([pi, pi.parent / ".." / pi.parent.name / "pi.h5"], "are the same file"),
        ([tmp_path / "absent.h5"], r"absent\.h5"),
        ([pi, tmp_path / "text"], "text"),
        ([tmp_path / "foreign.h5"], r"foreign\.h5: attribute spec: is not the spec of a sweep"),
    ):
        with pytest.raises(UserError, match=words):
            write_report(paths, tmp_path / "r")
    assert {path.name for path in tmp_path.iterdir()} == {"foreign.h5", "text"}
