"""Do results of other code neither continue nor stand for a campaign, unless the user says so?"""

import json

import fake_campaign
import h5py
import pytest
from campaign_cases import CAMPAIGN, Computer, ExecutorOf, Listener, interrupt, refused
from typer.testing import CliRunner

from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shard_folder import shard_folder
from mcage.campaign.study import Study
from mcage.cli.app import app
from mcage.errors import UserError
from mcage.results.reader import read_header
from mcage.version import Code, running_code

OTHER = Code("0.1.0+gabcdef0", "0123456789abcdef")
PLUG_IN = Code(running_code().version, running_code().digest, "my_techniques 0011223344556677")


def by(*codes):
    return fake_campaign.campaign(instances=20, codes=codes)


def interrupted_by(code, out):
    with pytest.raises(KeyboardInterrupt):
        run_campaign(Study(by(code), Computer(2)), out, 3)


@pytest.mark.parametrize("code", [OTHER, PLUG_IN])
def test_shards_and_files_of_other_code_are_refused(code, tmp_path):
    out = tmp_path / "r.h5"
    interrupted_by(code, out)
    words = r"was computed by other code \(.*digest.*\): use that mcage, .*--accept-other-code"
    refused(out, words)
    refused(out, code.plug_ins or "gabcdef0, digest 0123456789abcdef, not ")
    run_campaign(Study(by(code), fake_campaign.compute), out, 5)
    refused(out, words)


def test_the_same_code_at_another_commit_continues(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    interrupted_by(Code("0.1.0+gabcdef0", running_code().digest), out)
    run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 5)
    header = read_header(out)
    assert [code.version for code in header.codes] == ["0.1.0+gabcdef0", running_code().version]
    assert not header.accepted_other_code


def test_one_code_is_one_code_however_often_it_was_interrupted(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    interrupt(out)
    run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 5, accept_other_code=True)
    assert out.read_bytes() == uninterrupted
    with h5py.File(out) as file:
        assert json.loads(file.attrs["codes"]) == [
            {"version": running_code().version, "digest": running_code().digest, "plug_ins": ""}
        ]
        assert file.attrs["mcage_version"] == running_code().version
        assert file.attrs["code_digest"] == running_code().digest
        assert file.attrs["accepted_other_code"] == 0


def test_other_code_is_continued_when_told_to_and_the_file_says_so(tmp_path):
    out = tmp_path / "r.h5"
    interrupted_by(OTHER, out)
    computer, listener = Computer(), Listener()
    run_campaign(Study(CAMPAIGN, computer), out, 7, listener, accept_other_code=True)
    assert computer.ranges == [(6, 13), (13, 20)]
    assert f"accepted: results of other code ({OTHER})" in listener.said
    assert read_header(out).codes == (OTHER, running_code())
    with h5py.File(out) as file:
        assert file.attrs["accepted_other_code"] == 1
        assert len(json.loads(file.attrs["codes"])) == 2
    refused(out, "computed by other code")


def test_a_finished_file_of_other_code_stands_when_told_to(tmp_path):
    out = tmp_path / "r.h5"
    run_campaign(Study(by(OTHER), fake_campaign.compute), out, 20)
    before = out.read_bytes()
    computer, listener = Computer(), Listener()
    run_campaign(Study(CAMPAIGN, computer), out, 7, listener, accept_other_code=True)
    assert computer.ranges == []
    assert listener.said == [
        f"{out} already holds this campaign, computed by other code ({OTHER}): nothing to compute"
    ]
    assert out.read_bytes() == before


def test_shards_of_two_codes_are_merged_only_when_told_to(tmp_path):
    out = tmp_path / "r.h5"
    interrupted_by(OTHER, out)
    with pytest.raises(KeyboardInterrupt):
        run_campaign(
            Study(CAMPAIGN, Computer()),
            out,
            7,
            None,
            ExecutorOf(stopped_before_the_merge),
            accept_other_code=True,
        )
    with pytest.raises(UserError, match=r"computed by other code .*--accept-other-code"):
        merge(out)
    assert not out.exists()
    command = ["merge", str(out), "--accept-other-code"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert read_header(out).codes == (OTHER, running_code())
    assert not shard_folder(out).exists()


def test_shards_of_one_other_code_are_merged_and_keep_its_name(tmp_path):
    out, whole = tmp_path / "r.h5", tmp_path / "whole.h5"
    run_campaign(Study(by(OTHER), fake_campaign.compute), whole, 20)
    with pytest.raises(KeyboardInterrupt):
        run_campaign(
            Study(by(OTHER), Computer(2)), out, 10, executor=ExecutorOf(stopped_before_the_merge)
        )
    merge(out)
    assert out.read_bytes() == whole.read_bytes()


def stopped_before_the_merge(study, tasks):
    for task in tasks:
        task.run(study)
    raise KeyboardInterrupt
    yield


@pytest.fixture(scope="module")
def of_this_code(tmp_path_factory):
    out = tmp_path_factory.mktemp("this") / "r.h5"
    return run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 20)


@pytest.fixture(scope="module")
def of_other_code(tmp_path_factory):
    out = tmp_path_factory.mktemp("other") / "r.h5"
    return run_campaign(Study(by(OTHER), fake_campaign.compute), out, 20)


@pytest.mark.parametrize("options", [[], ["--json"], ["--causes"]])
def test_show_names_the_code_of_a_file_unless_it_is_this_one(options, of_this_code, of_other_code):
    assert (
        "computed by" not in CliRunner().invoke(app, ["show", str(of_this_code), *options]).output
    )
    shown = CliRunner().invoke(app, ["show", str(of_other_code), *options])
    note = f"computed by {OTHER}; this is {running_code()}"
    assert note in shown.output.splitlines()
    assert (note in shown.stdout) is (options != ["--json"])
