"""``mcage trace characterize|synthesize`` as a user runs them, and kernels of a narrower slice."""

import json

from trace_commands import run, run_badly

from mcage.spec import SweepSpec
from mcage.sweep.kernels import kernels_of
from mcage.traces import KERNELS, open_trace
from mcage.traces.library import PROFILES
from mcage.traces.recorded import recorded_trace


def test_a_profile_and_a_trace_drawn_from_it(tmp_path):
    profile, drawn = str(tmp_path / "my.json"), str(tmp_path / "drawn.h5")
    assert profile in run("characterize", "MatrixT", "--out", profile)
    assert json.loads(run("characterize", "MatrixT", "--json")) == json.loads(
        (tmp_path / "my.json").read_text()
    )
    assert "write to next write cycles" in run("characterize", "MatrixT")
    facts = json.loads(
        run("synthesize", profile, "--seed", "2", "--windows", "40", "--out", drawn, "--json")
    )
    assert facts["windows"] == 40
    assert facts["digest"] == open_trace(drawn).digest()
    assert open_trace(drawn).caveat == "synthesized from MatrixTranspose"
    assert "ok" in run("validate", drawn)


def test_mistakes_of_users(tmp_path, monkeypatch, capsys):
    out = str(tmp_path / "drawn.h5")
    for arguments, message in (
        (("nobody",), "no profile 'nobody'"),
        (("DCT-32", "--windows", "3", "--cycles", "9"), "give one of them"),
        (("MatrixT-32", "--windows", "99999999"), "at most 4000000 are drawn"),
        (("MatrixT-32", "--cycles", "2147483647"), "writes; at most"),
    ):
        said = run_badly(monkeypatch, capsys, "synthesize", *arguments, "--out", out).err
        assert message in said
    (tmp_path / "text.json").write_text("text")
    run_badly(monkeypatch, capsys, "characterize", "DCT", "--out", str(tmp_path / "text.json"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.json"]


def test_kernels_of_a_narrower_slice():
    def kernels(**fields):
        return kernels_of(SweepSpec.from_mapping(fields))

    assert kernels() == KERNELS
    assert kernels(registers={"geometry": "gcn"}) == KERNELS
    assert kernels(registers={"geometry": "nvidia"}) == PROFILES
    named = {"registers": {"geometry": "nvidia"}, "workload": {"kernels": ["my.h5"]}}
    assert kernels(**named) == ("my.h5",)


def test_a_profile_is_known_without_its_events():
    trace = open_trace("Reduction-32")
    for _ in range(2):  # made, then from the disk
        known = recorded_trace("reduct-32", lambda whole: whole, "as it is")
        assert known.digest() == trace.digest()
        assert (known.cycles, known.geometry) == (trace.cycles, trace.geometry)
        assert known.caveat == trace.caveat
