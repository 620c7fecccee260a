"""The techniques that there are, and how a user's own one is found, or refused."""

import dataclasses
import importlib
import json
import sys
from typing import NamedTuple

import pytest
from command_line import run_mcage
from places import ROOT
from tables import each

from mcage.engines.cuda_engine import CudaEngine
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.parity import demanding_maps, excerpt
from mcage.errors import UserError
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES, Gating, Placement, Storage, Technique, technique
from mcage.techniques.programs import PerEntry, PlacementProgram

POLICIES = {
    "baseline": ("direct", "plain", "unused", False),
    "rar": ("rotate", "plain", "unused", False),
    "rc": ("direct", "table", "empty", False),
    "rc+rar": ("rotate", "table", "empty", False),
    "wc": ("direct", "inline", "empty", False),
    "argo": ("round-robin", "plain", "idle windows", False),
    "disable": ("pack", "plain", "unused", False),
    "gr-guard": ("guard", "plain", "unused", False),
    "rrcd": ("redirect", "block", "unused", False),
    "rrcd+pg": ("redirect", "block", "empty", False),
    "rrcd+rc+rar": ("redirect", "table", "empty", True),
}

OWN = """
from mcage.techniques import Gating, Placement, Storage, Technique

WC_RAR = Technique("wc+rar", Placement.ROTATE, Storage.INLINE, Gating.EMPTY, "mine", "a try")
NOT_ONE = {"name": "wc+rar"}
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """A module of the user's, where Python finds it."""
    (tmp_path / "my_techniques.py").write_text(OWN)
    (tmp_path / "broken_technique.py").write_text("import there_is_no_such_module\n")
    (tmp_path / "contradictory.py").write_text(
        OWN.replace("Placement.ROTATE", "Placement.REDIRECT")
    )
    monkeypatch.syspath_prepend(tmp_path)


def run(*arguments):
    return run_mcage("techniques", *arguments)


def test_documented():
    """The table in docs/techniques.md has every technique, with its policies and its source."""
    page = (ROOT / "docs" / "techniques.md").read_text(encoding="utf-8")
    table = page.split("## Techniques that ship")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines() if "`" in row
    ]
    documented = {row[0].strip("`"): tuple(row[1:]) for row in rows if len(row) == 5}
    assert documented == {
        name: (
            placement + ", rotating" * rotating,
            storage,
            gating,
            TECHNIQUES[name].source,
        )
        for name, (placement, storage, gating, rotating) in POLICIES.items()
    }


def test_listed_as_json():
    rows = json.loads(run("--json"))
    names = ("placement", "storage", "gating", "rotating_selectors")
    assert {row["technique"]: tuple(row[name] for name in names) for row in rows} == POLICIES
    for row in rows:
        assert row["summary"], row["technique"]
        assert row["description"].endswith("."), row["technique"]
        assert row["source"], row["technique"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rrdc", "'rrdc' is unknown; choose from baseline, rar, .* or name a user-defined one as"),
        ("broken_technique:X", "cannot import 'broken_technique' .*there_is_no_such_module"),
        ("my_techniques:WC", "'my_techniques' has nothing under 'WC'"),
        ("my_techniques:NOT_ONE", "has a dict under 'NOT_ONE', where a mcage.techniques.Technique"),
        ("my_techniques:Technique", "has a class, not an instance of it, under 'Technique'"),
        ("contradictory:WC_RAR", "inline storage keeps its entry"),
    ],
)
def test_a_wrong_one_fails_loudly(name, message, own_module):
    with pytest.raises(UserError, match=message) as caught:
        technique(name)
    assert "\n" not in str(caught.value)


@each(
    ("changes", "message"),
    [
        ({"name": "two words"}, "one word"),
        ({"storage": Storage.BLOCK}, "block storage needs redirect placement"),
        ({"rotating_selectors": True}, "rotating selectors need redirect placement"),
        (
            {"placement": Placement.REDIRECT, "storage": Storage.INLINE},
            "inline storage keeps its entry",
        ),
        (
            {"placement": Placement.REDIRECT, "gating": Gating.IDLE_WINDOWS},
            "redirect placement has no windows to gate",
        ),
        (
            {"placement": Placement.GUARD, "gating": Gating.IDLE_WINDOWS},
            "guard placement has no windows to gate",
        ),
        (
            {"placement": Placement.GUARD, "storage": Storage.TABLE},
            "guard placement looks for whole entries and needs plain storage",
        ),
        (
            {"placement": Placement.GUARD, "rotating_selectors": True},
            "rotating selectors need redirect placement",
        ),
        (
            {"placement": Placement.PACK, "storage": Storage.INLINE},
            "pack placement moves whole windows and needs plain storage",
        ),
        ({"storage": Storage.TABLE, "gating": Gating.IDLE_WINDOWS}, "table storage empties"),
        ({"storage": Storage.INLINE, "gating": Gating.IDLE_WINDOWS}, "inline storage empties"),
    ],
)
def test_policies_that_contradict_each_other(changes, message):
    with pytest.raises(UserError, match=message):
        dataclasses.replace(TECHNIQUES["baseline"], **changes)


# Placement programs: what is refused before anything runs, and what their digest follows.

MODULE = """
from mcage import Gating, Placement, PlacementProgram, Storage, Technique
from mcage.techniques.programs import SPILL

LIMIT = 3


def limited(value):
    return SPILL if value.register > LIMIT else SPILL


class Spilling(PlacementProgram):
    @staticmethod
    def write(state, entries, value):
        return limited(value)


SPILLING = Technique(
    "spilling", Placement.PROGRAM, Storage.PLAIN, Gating.UNUSED, "", "", program=Spilling()
)
"""


class Spilling(PlacementProgram):
    @staticmethod
    def write(state, entries, value):
        return -2


def technique_of(program, storage=Storage.PLAIN, gating=Gating.UNUSED):
    return Technique("spilling", Placement.PROGRAM, storage, gating, "", "", program=program)


def derived(**members):
    return type("Derived", (Spilling,), members)()


class Unmarked(NamedTuple):
    first: PerEntry
    second: int


@each(
    ("members", "said"),
    [
        ({"alocate": staticmethod(lambda state, entries, window: -1)}, "has 'alocate'"),
        ({"read": staticmethod(lambda state, entries: None)}, "read takes 2 parameters, not 3"),
        ({"release": 7}, "release is 7, no function"),
        ({"State": dict}, "no NamedTuple"),
        ({"State": Unmarked}, "State.second is annotated otherwise than PerEntry"),
        ({"tolerance": 2.0}, "tolerance is 2.0"),
        ({"most_passes": 1}, "most_passes is 1"),
    ],
)
def test_a_program_that_no_engine_could_run_is_refused(members, said):
    with pytest.raises(UserError, match="program Derived: ") as caught:
        technique_of(derived(**members))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@each(
    ("made", "message"),
    [
        (lambda: technique_of(type("No", (PlacementProgram,), {})()), "does not define write"),
        (lambda: technique_of(None), "needs a program"),
        (lambda: technique_of(Spilling), "needs a program"),
        (lambda: technique_of("module:NAME"), "needs a program"),
        (lambda: technique_of(Spilling(), Storage.INLINE), "program placement"),
        (lambda: technique_of(Spilling(), gating=Gating.IDLE_WINDOWS), "program placement"),
    ],
)
def test_programs_and_policies_that_do_not_go_together(made, message):
    with pytest.raises(UserError, match=message):
        made()


def test_other_placements_have_no_program():
    with pytest.raises(UserError, match="no other placement has any"):
        dataclasses.replace(TECHNIQUES["rrcd"], program=Spilling())


def test_shipped_techniques_do_not_speak_of_programs():
    """The text that digests of earlier sweeps were made of is as it was."""
    assert "program" not in repr(TECHNIQUES["rrcd"])
    assert repr(TECHNIQUES["rrcd"]).endswith("rotating_selectors=False)")


def test_the_cuda_engine_refuses_programs_by_name():
    with pytest.raises(UserError, match=r"'cuda' does not implement placement 'program'.*numba"):
        CudaEngine.policies.check(technique_of(Spilling()), "cuda")


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Loads the module after each of its changes, as another process does."""
    monkeypatch.syspath_prepend(tmp_path)

    def loaded(text):
        (tmp_path / "spilling_program.py").write_text(text)
        sys.modules.pop("spilling_program", None)
        importlib.invalidate_caches()
        return technique("spilling_program:SPILLING")

    yield loaded
    sys.modules.pop("spilling_program", None)


def test_the_digest_follows_file_and_constants(module, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first = repr(module(MODULE))
    assert "spilling_program:Spilling" in first
    assert repr(module(MODULE)) == first
    assert repr(module(MODULE.replace("LIMIT = 3", "LIMIT = 4"))) != first
    assert repr(module(MODULE.replace("> LIMIT", "< LIMIT"))) != first
    assert repr(module(MODULE + "\n# a word\n")) != first


def test_programs_of_a_file_differ_by_their_functions():
    """Also where they bear the same name, and differ by what they are defined in alone."""

    def spilling(row):
        return derived(write=staticmethod(lambda state, entries, value: -2 - (value.row < row)))

    first, second = spilling(1), spilling(2)
    other = derived(write=staticmethod(lambda state, entries, value: -2))
    assert len({repr(first), repr(second), repr(other)}) == 3
    assert first == spilling(1)


def count_with(write):
    replay = prepare(excerpt(), technique_of(derived(write=staticmethod(write))))
    return NumpyEngine().count(replay, demanding_maps(1))


def test_what_a_program_raises_is_its_own_error():
    def write(state, entries, value):
        return 1 // (value.row - value.row)

    with pytest.raises(UserError, match=r"'spilling': write fails at cycle .*ZeroDivisionError"):
        count_with(write)


def test_what_a_program_is_told_cannot_be_changed():
    def write(state, entries, value):
        entries.free[0] = 0
        return -2

    with pytest.raises(UserError, match="read-only"):
        count_with(write)


@pytest.mark.parametrize("answer", [None, 1.5, True, "here"])
def test_an_answer_must_be_an_integer(answer):
    with pytest.raises(UserError, match="where an integer is needed"):
        count_with(lambda state, entries, value: answer)
