"""Does a campaign end in the same file however it was cut, stopped, damaged and continued?"""

import shutil
from pathlib import Path

import fake_campaign
import pytest
from campaign_cases import CAMPAIGN, STUDY, Computer, ExecutorOf, Listener, interrupt, refused
from command_line import invoke
from fake_campaign import write_shards

from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import shard_folder, shard_name
from mcage.campaign.study import Study
from mcage.errors import UserError
from mcage.results import writer
from mcage.results.reader import read_header
from mcage.results.writer import write_results
from mcage.spec import SweepSpec
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.version import Code, running_code


def test_shard_size_does_not_matter(uninterrupted, tmp_path):
    listener = Listener()
    out = run_campaign(STUDY, tmp_path / "r.h5", 7, listener)
    assert out.read_bytes() == uninterrupted
    assert list(tmp_path.iterdir()) == [out]
    assert (listener.begin, listener.advanced, listener.finished) == ((20, 0), 20, True)


def test_a_stopped_campaign_continues_with_what_is_missing(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    listener = Listener()
    with pytest.raises(KeyboardInterrupt):
        run_campaign(Study(CAMPAIGN, Computer(stop_after=2)), out, 3, listener)
    assert "the same command continues" in listener.said[-1]
    assert not out.exists()
    computer = Computer()
    run_campaign(Study(CAMPAIGN, computer), out, 5, listener)
    assert computer.ranges == [(6, 11), (11, 16), (16, 20)]
    assert listener.begin == (20, 6)
    assert out.read_bytes() == uninterrupted
    assert not shard_folder(out).exists()


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_a_damaged_shard_is_computed_again_with_a_warning(damage, uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    victim = interrupt(out) / shard_name(CAMPAIGN.spec_digest, range(3, 6))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 4
    spoiled = {"truncate": content[:-100], "flip": content, "empty": b""}
    victim.write_bytes(spoiled[damage])
    computer, listener = Computer(), Listener()
    run_campaign(Study(CAMPAIGN, computer), out, 100, listener)
    assert computer.ranges == [(3, 20)]
    assert "warning" in listener.said[0]
    assert victim.name in listener.said[0]
    assert sum("warning" in line for line in listener.said) == 1
    assert out.read_bytes() == uninterrupted
    assert list(tmp_path.iterdir()) == [out]


def test_half_written_files_of_a_kill_are_swept_away(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    fake_campaign.abandoned(interrupt(out) / "half.h5")
    fake_campaign.abandoned(out)
    run_campaign(STUDY, out, 5)
    assert out.read_bytes() == uninterrupted
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("spec_digest", "fedcba98" * 8, "spec_digest 0123456789.*, not fedcba98"),
        ("engine", "numpy", "engine numba, not numpy"),
        ("kernels", ("Reduction",), "another grid"),
    ],
)
def test_another_sweep_is_not_overwritten(field, value, message, uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    other = fake_campaign.campaign(instances=20, **{field: value})
    out.write_bytes(uninterrupted)
    refused(out, f"already holds another campaign .{message}", other)
    out.unlink()
    interrupt(out)
    refused(out, f"shard of another campaign .{message}", other)


def test_a_file_of_something_else_is_not_overwritten(tmp_path):
    (tmp_path / "r.h5").write_text("my notes")
    refused(tmp_path / "r.h5", "not written by mcage")


def test_a_destination_that_cannot_be_written(tmp_path):
    refused(tmp_path / "none" / "r.h5", "there is no folder .*none")
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder", "is a folder")
    with pytest.raises(UserError, match=r"cannot write into /proc/r\.h5\.shards"):
        run_campaign(STUDY, Path("/proc/r.h5"), 5)
    (tmp_path / "r.h5.shards").write_text("a file")
    refused(tmp_path / "r.h5", "cannot write into .*shards")


FIRST = shard_name(CAMPAIGN.spec_digest, range(3))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda folder: write_shards(folder, CAMPAIGN, range(5, 8)),
            "overlap .instances 3-5 and 5-7",
        ),
        (
            lambda folder: write_shards(folder, CAMPAIGN, range(18, 23)),
            "reaches beyond the 20 instances",
        ),
        (lambda folder: shutil.copy(folder / FIRST, folder / f"copy of {FIRST}"), "is not a shard"),
        (
            lambda folder: (folder / FIRST).rename(folder / FIRST.replace("002", "003")),
            "renamed copy",
        ),
        (
            lambda folder: shutil.copy(
                folder / FIRST, folder / FIRST.replace("-000000000-", "-00-")
            ),
            "hold the same instances",
        ),
    ],
)
def test_shards_that_do_not_belong_are_refused(spoil, words, tmp_path):
    spoil(interrupt(tmp_path / "r.h5"))
    refused(tmp_path / "r.h5", words)


# Does a finished file get more instances without computing those that it holds?

FEW = fake_campaign.campaign(instances=8, spec_toml="instances = 8\n")
MORE = fake_campaign.study(instances=20, spec_toml="instances = 20\n")
MANY = MORE.header


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "r.h5"
    return run_campaign(MORE, out, 20).read_bytes()


@pytest.fixture
def few(tmp_path):
    return run_campaign(Study(FEW, fake_campaign.compute), tmp_path / "r.h5", 20)


def test_only_what_is_new_is_computed(few, whole):
    computer, listener = Computer(), Listener()
    assert run_campaign(Study(MANY, computer), few, 7, listener) == few
    assert computer.ranges == [(8, 15), (15, 20)]
    assert listener.begin == (20, 8)
    assert listener.said[0] == f"continuing: 8 of 20 instances are in {few}"
    assert few.read_bytes() == whole
    assert list(few.parent.iterdir()) == [few]


def test_chunk_by_chunk(few, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "INSTANCES_PER_CHUNK", 5)
    monkeypatch.setattr("mcage.campaign.finished.INSTANCES_PER_CHUNK", 5)
    whole = run_campaign(MORE, tmp_path / "whole.h5", 20)
    run_campaign(MORE, few, 7)
    assert few.read_bytes() == whole.read_bytes()


def test_a_stopped_one_leaves_the_old_file_and_continues(few, whole):
    old = few.read_bytes()
    interrupt(few, campaign=MANY)
    assert few.read_bytes() == old
    computer, listener = Computer(), Listener()
    run_campaign(Study(MANY, computer), few, 100, listener)
    assert computer.ranges == [(14, 20)]
    assert listener.said[0].endswith(f"are in {few} and {shard_folder(few)}")
    assert few.read_bytes() == whole


def test_fewer_instances_than_the_file_holds_are_refused(few, whole):
    few.write_bytes(whole)
    refused(few, r"holds instances up to 19, and this campaign ends with 8 of them: .* --out", FEW)


def test_a_file_that_appears_meanwhile_is_not_replaced(few, monkeypatch):
    other = fake_campaign.campaign(instances=3, spec_digest="fedcba98" * 8)
    another = run_campaign(Study(other, fake_campaign.compute), few.with_name("other.h5"), 20)

    def appear():
        few.write_bytes(another.read_bytes())

    def computing(first, last):
        appear()
        return fake_campaign.compute(first, last)

    def writing(*arguments):
        appear()
        return write_results(*arguments)

    old = few.read_bytes()
    with pytest.raises(UserError, match="is not the file that was there before"):
        run_campaign(Study(MANY, computing), few, 20)
    assert few.read_bytes() == another.read_bytes()
    few.write_bytes(old)
    monkeypatch.setattr("mcage.campaign.merge.write_results", writing)
    with pytest.raises(UserError, match="is not the file that was there before, and is not repl"):
        run_campaign(MORE, few, 20)
    assert few.read_bytes() == another.read_bytes()


@pytest.mark.parametrize("kind", [SweepSpec, GatingSpec, HeterogeneitySpec, BothSpec])
def test_the_digest_says_what_decides_an_instance(kind):
    def digest(**fields):
        return kind.from_mapping(fields).digest("more")

    plain = digest()
    assert digest(instances=77) == plain
    assert digest(instances=77, stopping={"rel_ci": 0.05}) == plain
    assert digest(seed=77) != plain
    assert kind.from_mapping({}).digest("other") != plain


def test_the_digest_of_both_levels_forgets_what_both_repeat():
    given = {"gating": {"instances": 77}, "sweep": {"instances": 77}}
    assert BothSpec.from_mapping({"instances": 77} | given).digest() == BothSpec().digest()


# Do results of other code neither continue nor stand for a campaign, unless the user says so?

OTHER = Code("0.1.0+gabcdef0", "0123456789abcdef")
PLUG_IN = Code(running_code().version, running_code().digest, "my_techniques 0011223344556677")


def by(*codes):
    return fake_campaign.campaign(instances=20, codes=codes)


@pytest.mark.parametrize("code", [OTHER, PLUG_IN])
def test_shards_and_files_of_other_code_are_refused(code, tmp_path):
    out = tmp_path / "r.h5"
    interrupt(out, campaign=by(code))
    words = r"was computed by other code \(.*digest.*\): use that mcage, .*--accept-other-code"
    refused(out, words)
    refused(out, code.plug_ins or "gabcdef0, digest 0123456789abcdef, not ")
    run_campaign(Study(by(code), fake_campaign.compute), out, 5)
    refused(out, words)


def test_the_same_code_at_another_commit_continues(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    interrupt(out, campaign=by(Code("0.1.0+gabcdef0", running_code().digest)))
    run_campaign(STUDY, out, 5)
    header = read_header(out)
    assert [code.version for code in header.codes] == ["0.1.0+gabcdef0", running_code().version]
    assert not header.accepted_other_code


def test_other_code_is_continued_when_told_to_and_the_file_says_so(tmp_path):
    out = tmp_path / "r.h5"
    interrupt(out, campaign=by(OTHER))
    computer, listener = Computer(), Listener()
    run_campaign(Study(CAMPAIGN, computer), out, 7, listener, accept_other_code=True)
    assert computer.ranges == [(6, 13), (13, 20)]
    assert f"accepted: results of other code ({OTHER})" in listener.said
    assert read_header(out).codes == (OTHER, running_code())
    assert read_header(out).accepted_other_code
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
    interrupt(out, campaign=by(OTHER))
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
    assert invoke(*command).exit_code == 0
    assert read_header(out).codes == (OTHER, running_code())
    assert not shard_folder(out).exists()


def stopped_before_the_merge(study, tasks):
    for task in tasks:
        task.run(study)
    raise KeyboardInterrupt
    yield


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_show_names_the_code_of_a_file_unless_it_is_this_one(options, tmp_path):
    this, other = tmp_path / "this.h5", tmp_path / "other.h5"
    run_campaign(STUDY, this, 20)
    run_campaign(Study(by(OTHER), fake_campaign.compute), other, 20)
    assert "computed by" not in invoke("show", this, *options).output
    shown = invoke("show", other, *options)
    note = f"computed by {OTHER}; this is {running_code()}"
    assert note in shown.output.splitlines()
    assert (note in shown.stdout) is (options != ["--json"])


# Does `mcage verify` say what is whole, and does the same command make the rest again?


@pytest.fixture
def out(uninterrupted, tmp_path):
    path = tmp_path / "r.h5"
    path.write_bytes(uninterrupted)
    return path


def spoil(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def test_a_whole_file(out):
    run = invoke("verify", out)
    assert run.exit_code == 0
    assert f"{out} is whole: 20 instances of sweep, seed 7" in run.output
    assert list(out.parent.iterdir()) == [out]


def test_a_damaged_file_is_refused_and_stays_until_it_is_moved_away(out, uninterrupted):
    spoil(out, 3000)
    run = invoke("verify", out)
    assert str(run.exception).endswith("move it away, and the same command computes it again")
    refused(out, "to rely on; move it away to compute it again")
    out.rename(out.with_name("aside.h5"))
    run_campaign(STUDY, out, 7)
    assert out.read_bytes() == uninterrupted


def test_folders_and_shards(tmp_path):
    folder = shard_folder(tmp_path / "x.h5")
    paths = write_shards(folder, CAMPAIGN, range(3), range(3, 8), range(12, 20))
    run = invoke("verify", folder)
    assert run.exit_code == 0
    assert "16 of 20 instances are in 3 whole shards (0-7, 12-19)" in run.output
    assert "is whole: a shard of sweep" in invoke("verify", paths[0]).output
    spoil(paths[1], 3000)
    run = invoke("verify", folder)
    assert "11 of 20 instances are in 2 whole shards (0-2, 12-19)" in run.output
    assert "1 shards are damaged: the same command computes them again" in str(run.exception)
    damaged = invoke("verify", paths[1])
    assert str(damaged.exception).endswith(": the same command computes it again")
