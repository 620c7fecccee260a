"""The folder of a report: what lies in it, what it replaces, and what is refused."""

import csv
import json

import darts
import fake_campaign
import pytest
from gpu_cases import gating

from mcage.campaign.run import run_campaign
from mcage.errors import UserError
from mcage.report import folder as report_folder
from mcage.report.folder import write_report
from mcage.report.whole_folder import _digest
from mcage.results.conform import conforming
from mcage.results.writer import write_results


@pytest.fixture(scope="module")
def pi(tmp_path_factory):
    """Results of a study of a user."""
    return run_campaign(darts.pi_by_darts(30), tmp_path_factory.mktemp("pi") / "pi.h5", 30)


@pytest.fixture(scope="module")
def gpus(tmp_path_factory):
    """Results of whole GPUs."""
    study = gating(policies=["default", "round-robin"]).study
    return run_campaign(study, tmp_path_factory.mktemp("gpus") / "gpus.h5", 12)


def names_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_study_of_a_user_has_a_report(tmp_path, pi, command):
    code, out, said = command("report", str(pi), "--out", str(tmp_path / "r"))
    assert (code, said) == (0, "")
    assert "index.html" in out
    assert names_in(tmp_path / "r") >= {"index.html", "contents.json", "pi.toml", "table.csv"}
    page = (tmp_path / "r" / "index.html").read_text(encoding="utf-8")
    assert "The study pi by darts with 30 instances" in page
    assert "ships with no command of mcage" in page
    listed = json.loads((tmp_path / "r" / "contents.json").read_text())["files"]
    assert {*listed, "contents.json"} == names_in(tmp_path / "r")


def test_different_studies_have_sections_of_their_own(tmp_path, pi, gpus):
    write_report([pi, gpus], tmp_path / "r")
    page = (tmp_path / "r" / "index.html").read_text(encoding="utf-8")
    for words in ("Summary of the study pi by darts", "Summary of the study gpu-gating"):
        assert words in page
    assert "Margin after 10 years:" in page
    assert names_in(tmp_path / "r") >= {"pi/pi.toml", "gpus/gpus.toml", "gpu-gating-table.csv"}


def test_files_of_a_study_share_the_table(tmp_path, pi):
    other = run_campaign(darts.pi_by_darts(20), tmp_path / "pi.h5", 20)
    write_report([pi, other], tmp_path / "r")
    with (tmp_path / "r" / "table.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["file"] for row in rows] == [str(pi), str(other)]
    assert names_in(tmp_path / "r") >= {"pi/pi.toml", "pi-2/pi-2.toml"}


def test_a_report_replaces_a_report_and_nothing_else(tmp_path, pi):
    place = tmp_path / "r"
    place.mkdir()
    write_report([pi], place)
    first = (place / "index.html").read_bytes()
    write_report([pi], place)
    assert (place / "index.html").read_bytes() == first
    (place / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds notes\.txt, which is not of a report"):
        write_report([pi], place)
    assert (place / "notes.txt").read_text() == "mine"
    assert (place / "index.html").read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_refusals(tmp_path, pi, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "file").write_text("x")
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "contents.json").write_text('{"filetype": "another", "files": []}')
    for paths, out, words in (
        ([pi], tmp_path / "file", "a file of this name is there already"),
        ([pi], tmp_path / "here", "is the current folder"),
        ([pi], tmp_path / "none" / "r", "there is no folder"),
        ([pi], tmp_path / "claims", "holds contents.json"),
        ([pi, pi.parent / ".." / pi.parent.name / "pi.h5"], tmp_path / "r", "are the same file"),
        ([tmp_path / "absent.h5"], tmp_path / "r", "absent.h5"),
        ([tmp_path / "file"], tmp_path / "r", "file"),
    ):
        with pytest.raises(UserError, match=words):
            write_report(paths, out)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "claims", "here"}


def test_what_fails_leaves_the_old_report(tmp_path, pi, monkeypatch):
    write_report([pi], tmp_path / "r")
    first = names_in(tmp_path)

    def fail(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(report_folder, "page_of", fail)
    with pytest.raises(KeyboardInterrupt):
        write_report([pi], tmp_path / "r")
    assert names_in(tmp_path) == first
    abandoned = tmp_path / f".mcage-{_digest(tmp_path / 'r')}-{'0' * 16}.report"
    abandoned.mkdir()
    (abandoned / "half").write_text("x")
    monkeypatch.undo()
    write_report([pi], tmp_path / "r")
    assert names_in(tmp_path) == first


def test_a_foreign_spec_is_refused_by_name(tmp_path):
    header = fake_campaign.campaign(instances=5, spec_toml="techniques = 3\n")
    arrays = conforming(header, fake_campaign.compute(0, 5), 5)
    write_results(tmp_path / "r.h5", header, [arrays])
    with pytest.raises(UserError, match=r"r\.h5: attribute spec: is not the spec of a sweep"):
        write_report([tmp_path / "r.h5"], tmp_path / "r")
