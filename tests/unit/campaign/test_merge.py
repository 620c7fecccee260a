"""Does ``mcage merge`` make the same file from shards computed anywhere, and refuse the rest?"""

import errno
import fcntl
import shlex
import shutil

import fake_campaign
import numpy as np
import pytest
from campaign_cases import CAMPAIGN, STUDY, Computer, contents
from command_line import invoke
from damaged_files import attribute, forge

from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import LOCK_NAME, shard_folder, shard_name, write_shard
from mcage.campaign.study import Study
from mcage.errors import UserError
from mcage.report.cases import summarized
from mcage.results.header import StoppingRule
from mcage.results.reader import open_results, read_header
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.studies.gpu_heterogeneity.study import Heterogeneity
from mcage.studies.sweep.tables import summarize_chips
from mcage.version import Code


def test_a_damaged_shard_is_refused(tmp_path):
    folder = shards(shard_folder(tmp_path / "r.h5"), range(4), range(4, 20))
    with (folder / shard_name(CAMPAIGN.spec_digest, range(4))).open("r+b") as stream:
        stream.seek(3000)
        stream.write(b"x")
    with pytest.raises(UserError, match=r"damaged.*: run the same campaign again to recompute it"):
        merge(tmp_path / "r.h5")
    assert not (tmp_path / "r.h5").exists()


def test_no_shards(tmp_path):
    with pytest.raises(UserError, match="nothing to merge"):
        merge(tmp_path / "r.h5")
    shard_folder(tmp_path / "r.h5").mkdir()
    with pytest.raises(UserError, match="no finished shard"):
        merge(tmp_path / "r.h5")


# Does merging count each instance once, whatever lies where, and refuse what does not belong?

FEW = fake_campaign.campaign(instances=5)


def shards(folder, *ranges, campaign=CAMPAIGN):
    fake_campaign.write_shards(folder, campaign, *ranges)
    return folder


@pytest.fixture(scope="module")
def of_machines(tmp_path_factory):
    """A results file of five instances, and two folders with the others, as three machines do."""
    folder = tmp_path_factory.mktemp("machines")
    few = run_campaign(Study(FEW, fake_campaign.compute), folder / "few.h5", 5)
    first = shards(folder / "a.h5.shards", range(5, 7), range(12, 14))
    second = shards(folder / "copy of b", range(7, 12), range(14, 20))
    return [few, first, second]


@pytest.fixture
def places(of_machines, tmp_path):
    """Copies of them."""
    shutil.copytree(of_machines[0].parent, tmp_path, dirs_exist_ok=True)
    return [tmp_path / path.name for path in of_machines]


def test_in_any_order(places, uninterrupted, tmp_path):
    there = contents(tmp_path)
    for order in (places, [places[2], places[0], places[1]]):
        out = tmp_path / "r.h5"
        assert merge(out, order) == out
        assert out.read_bytes() == uninterrupted
        assert not shard_folder(out).exists()
        out.unlink()
    assert contents(tmp_path) == there


@pytest.mark.slow
def test_again(places, uninterrupted, tmp_path):
    out = merge(tmp_path / "r.h5", places)
    written = out.stat().st_mtime_ns
    assert merge(out, places) == merge(out) == merge(out, [out]) == out
    assert merge(out, [*places, *places, tmp_path / "few.h5"]) == out
    assert out.stat().st_mtime_ns == written
    assert not shard_folder(out).exists()


def test_places_that_are_named_twice_as_by_a_pattern_of_the_shell(places, uninterrupted, tmp_path):
    few, first, second = places
    named = [few, first, tmp_path / "a.h5", second, second, few]
    assert merge(tmp_path / "r.h5", named).read_bytes() == uninterrupted


def test_the_own_folder_and_others(places, uninterrupted, tmp_path):
    few, first, second = places
    out = tmp_path / "r.h5"
    shutil.move(second, shard_folder(out))
    assert merge(out, [few, first, shard_folder(out)]).read_bytes() == uninterrupted
    assert not shard_folder(out).exists()


def test_a_file_brings_its_folder(places, uninterrupted, tmp_path):
    """A file that was being topped up: its name stands for both."""
    few, first, second = places
    (tmp_path / "x").mkdir()
    shutil.move(few, tmp_path / "x/few.h5")
    shutil.move(first, tmp_path / "x/few.h5.shards")
    assert merge(tmp_path / "r.h5", [tmp_path / "x/few.h5", second]).read_bytes() == uninterrupted


@pytest.mark.slow
def test_copies_count_once(places, uninterrupted, tmp_path):
    few, first, _ = places
    shutil.copytree(first, tmp_path / "copy of a")
    shutil.copy(few, tmp_path / "copy of few.h5")
    shards(tmp_path / "c", range(2), range(3, 5), range(8, 10))
    copies = [tmp_path / name for name in ("c", "copy of few.h5", "copy of a")]
    assert merge(tmp_path / "r.h5", [*copies, *places]).read_bytes() == uninterrupted


def test_shards_of_other_devices_in_any_order(uninterrupted, tmp_path):
    here, there = (
        shards(tmp_path / name, range(20), campaign=fake_campaign.campaign(instances=20, device=d))
        for name, d in (("a", "a device"), ("b", "b device"))
    )
    one_way = merge(tmp_path / "1.h5", [here, there]).read_bytes()
    assert merge(tmp_path / "2.h5", [there, here]).read_bytes() == one_way


def refused(out, elsewhere, match, **options):
    before = contents(out.parent)
    with pytest.raises(UserError, match=match):
        merge(out, elsewhere, **options)
    assert contents(out.parent) == before
    assert not shard_folder(out).exists()


def test_what_does_not_belong_is_refused(places, tmp_path):
    out = tmp_path / "r.h5"
    few, first, _ = places
    other = fake_campaign.campaign(instances=20, spec_digest="fedcba98" * 8)
    strange = shards(tmp_path / "s", range(5, 9), campaign=other)
    refused(out, [few, strange], "is a shard of another campaign .spec_digest")
    code = fake_campaign.campaign(instances=20, codes=(Code("0.1.0+gabcdef0", "0123456789abcdef"),))
    refused(out, [few, shards(tmp_path / "o", range(14, 16), campaign=code)], "by other code")
    refused(out, [few, shards(tmp_path / "v", range(4, 8))], "overlap .instances 0-4 and 4-7")
    refused(out, [first, shards(tmp_path / "w", range(6, 9))], "overlap .instances 5-6 and 6-8")
    refused(out, [tmp_path / "none.h5"], "there is no results file and no shard folder")
    refused(out, [tmp_path], "is not a shard")
    (tmp_path / "text.h5").write_text("my notes")
    refused(out, [tmp_path / "text.h5"], "not written by mcage")


def test_other_results_of_the_same_instances_are_refused(places, tmp_path):
    folder = tmp_path / "w"
    folder.mkdir()
    arrays = fake_campaign.compute(5, 7)
    arrays["end_cause"] = 1 - arrays["end_cause"]
    write_shard(folder, CAMPAIGN, range(5, 7), arrays)
    refused(tmp_path / "r.h5", [*places, folder], "different end_cause of the same instances .5-6.")


def test_another_schema_is_refused(places, tmp_path):
    forge(next(places[1].glob("*-000000005-*")), attribute("/", "schema_version", 6))
    refused(tmp_path / "r.h5", places, "has schema 6")


def test_a_folder_in_which_another_works_is_refused(places, tmp_path):
    with (places[1] / LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused(tmp_path / "r.h5", places, "another mcage is working on .*a.h5.shards")


@pytest.mark.parametrize("call", ["fcntl.flock", "os.fsync"])
def test_no_folder_stays_where_it_cannot_be_locked(places, tmp_path, monkeypatch, call):
    def fails(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(call, fails)
    before = set(tmp_path.iterdir())
    with pytest.raises(UserError, match="No locks available"):
        merge(tmp_path / "new.h5", places)
    with pytest.raises(UserError, match="No locks available"):
        run_campaign(STUDY, tmp_path / "new.h5", 20)
    assert set(tmp_path.iterdir()) == before


def test_what_others_write_elsewhere_stays(places, uninterrupted, tmp_path):
    half = fake_campaign.abandoned(places[1] / "half.h5")
    assert merge(tmp_path / "r.h5", places).read_bytes() == uninterrupted
    assert half.exists()


def test_instances_beyond_the_end_of_a_file_are_refused(places, tmp_path):
    rule = StoppingRule(0.5, "spill_rate")
    most = fake_campaign.campaign(instances=900, stopping=rule)
    out = run_campaign(Study(most, fake_campaign.compute), tmp_path / "r.h5", 1000)
    assert read_header(out).instances == 500
    assert merge(out) == out
    folder = shards(tmp_path / "s", range(500, 510), campaign=most)
    with pytest.raises(UserError, match="instances up to 509, and this campaign ends with 500"):
        merge(out, [folder])
    copied = merge(tmp_path / "copy.h5", [out])
    assert copied.read_bytes() == out.read_bytes()


# ---- partial files ---------------------------------------------------------------------------


@pytest.fixture
def partial(places, tmp_path):
    return merge(tmp_path / "r.h5", places[:2], partial=True)


MISSING = [*range(7, 12), *range(14, 20)]
PRESENT = sorted(set(range(20)) - set(MISSING))


def test_a_partial_file_says_what_it_lacks(partial):
    header = read_header(partial)
    assert header.instances == 20
    assert header.absent == ((7, 11), (14, 19))
    assert [*header.ids] == PRESENT
    with open_results(partial) as results:
        assert [*results["instance"].values] == PRESENT
        arrays = fake_campaign.compute(0, 20)
        assert np.array_equal(results["spill_rate"], arrays["spill_rate"][:, PRESENT])
        sums = sum(fake_campaign.compute(i, i + 1)["dvth_histogram"] for i in PRESENT)
        assert np.array_equal(results["dvth_histogram"], sums)
    run = invoke("show", partial)
    assert "PARTIAL: 11 of 20 instances are missing (7-11, 14-19)" in run.output
    assert "9 instances per case" in run.output


def test_a_partial_file_is_continued(partial, uninterrupted):
    computer = Computer()
    run_campaign(Study(CAMPAIGN, computer), partial, 100)
    assert computer.ranges == [(7, 12), (14, 20)]
    assert partial.read_bytes() == uninterrupted


def test_a_partial_file_is_merged_with_the_rest(partial, places, uninterrupted, tmp_path):
    assert merge(partial, places[:2], partial=True) == partial
    assert merge(tmp_path / "n.h5", [places[2], partial]).read_bytes() == uninterrupted
    assert merge(partial, places[2:]).read_bytes() == uninterrupted


def test_a_partial_file_cannot_be_divided(partial, tmp_path):
    """Its sums are those of all of its instances."""
    folder = shards(tmp_path / "s", range(12, 20))
    with pytest.raises(UserError, match=r"r\.h5 holds instances 12-13, which another file holds"):
        merge(tmp_path / "n.h5", [folder, partial], partial=True)


def test_chips_of_a_partial_file_are_refused(partial):
    with pytest.raises(UserError, match="slices are missing in this partial file"):
        summarized(partial, lambda results: summarize_chips(results, 2))


@pytest.mark.parametrize(
    "absent",
    ["[[3, 4]]", "[[7, 11], [14, 18], [20, 20]]", "[[7, 11], [3, 4]]", '"x"', "[7]", "[[0, 1e9]]"],
)
def test_a_forged_list_of_gaps_is_refused(absent, partial):
    forge(partial, attribute("/", "absent_instances", absent))
    with pytest.raises(UserError, match="not as mcage writes it"):
        read_header(partial)


# ---- the command -----------------------------------------------------------------------------


def test_the_printed_command_computes_what_is_missing(refusal, tmp_path):
    """In the words of the refusal itself: shards beside the file, then shards elsewhere, too."""
    spec = HeterogeneitySpec.from_mapping({"instances": 40})
    study = Heterogeneity(spec).study
    whole = run_campaign(study, tmp_path / "whole.h5", 40).read_bytes()

    def compute(folder, *ranges):
        folder.mkdir()
        for part in ranges:
            arrays = study.compute(part.start, part.stop)
            write_shard(folder, study.header, part, arrays)

    compute(tmp_path / "o n.h5.shards", range(10), range(20, 25))
    words = refusal("merge", "o n.h5").splitlines()
    assert words[0].startswith("error: 25 of 40 instances are missing in o n.h5.shards (the first")
    assert words[1:] == ["mcage gpu heterogeneity 'o n.h5.shards' --out 'o n.h5'"]
    run_line(words[1])
    assert (tmp_path / "o n.h5").read_bytes() == whole

    compute(tmp_path / "r.h5.shards", range(5, 10))
    compute(tmp_path / "a", range(30, 40))
    words = refusal("merge", "r.h5", "a").splitlines()
    assert words[1:] == [
        "mcage merge --partial r.h5 a && mcage gpu heterogeneity r.h5 --out r.h5",
    ]
    for line in words[1].split(" && "):
        run = run_line(line)
    assert (tmp_path / "r.h5").read_bytes() == whole

    compute(tmp_path / "p.h5.shards", range(5, 10))
    run = run_line("mcage merge --partial p.h5")
    assert run.stdout == "p.h5\n"
    words = run.stderr.splitlines()
    assert words[0] == "PARTIAL: 35 of 40 instances are missing (0-4, 10-39)"
    assert words[1:] == ["mcage gpu heterogeneity p.h5 --out p.h5"]


def run_line(line):
    name, *arguments = shlex.split(line)
    assert name == "mcage"
    run = invoke(*arguments)
    assert run.exit_code == 0, run.output
    return run
