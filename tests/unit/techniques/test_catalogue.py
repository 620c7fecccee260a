"""The techniques that there are, and how a user's own one is found, or refused."""

import dataclasses
import json

import pytest
from engine_cases import possible_techniques
from places import ROOT
from tables import each
from typer.testing import CliRunner

from mcage.cli.app import app
from mcage.errors import UserError
from mcage.techniques import TECHNIQUES, Gating, Placement, Storage, Technique, technique

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
    (tmp_path / "leaving.py").write_text("raise RuntimeError('no')\n")
    monkeypatch.syspath_prepend(tmp_path)


def run(*arguments):
    result = CliRunner().invoke(app, ["techniques", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


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


def test_listed_in_words():
    text = run()
    assert all(f"\n{name}: " in f"\n{text}" for name in POLICIES)
    flat = " ".join(text.split())
    assert all(entry.summary in flat and entry.description in flat for entry in TECHNIQUES.values())
    assert "Valero" in text
    assert "module:NAME" in text


@each("name", POLICIES)
def test_found_by_name(name):
    assert technique(name) is TECHNIQUES[name]
    assert technique(name).name == name


def test_a_users_own(own_module):
    loaded = technique("my_techniques:WC_RAR")
    assert (loaded.name, loaded.placement, loaded.storage) == (
        "wc+rar",
        Placement.ROTATE,
        Storage.INLINE,
    )
    assert loaded.compresses
    assert not loaded.redirects
    assert loaded.gates_released


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rrdc", "'rrdc' is unknown; choose from baseline, rar, .* or name a user-defined one as"),
        ("", "'' is unknown"),
        ("RRCD", "'RRCD' is unknown"),
        ("no_such_module:X", "cannot import 'no_such_module' .*ModuleNotFoundError"),
        ("broken_technique:X", "cannot import 'broken_technique' .*there_is_no_such_module"),
        ("leaving:X", "cannot import 'leaving' .*RuntimeError: no"),
        (":X", "cannot import ''"),
        ("..relative:X", "cannot import"),
        ("my_techniques:WC", "'my_techniques' has nothing under 'WC'"),
        ("my_techniques:", "'my_techniques' has nothing under ''"),
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
        ({"name": ""}, "one word"),
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


def test_what_follows_from_the_policies():
    assert [entry.name for entry in TECHNIQUES.values() if entry.redirects] == [
        "gr-guard",
        "rrcd",
        "rrcd+pg",
        "rrcd+rc+rar",
    ]
    assert {name for name, entry in TECHNIQUES.items() if not entry.compresses} == {
        "baseline",
        "rar",
        "argo",
        "disable",
        "gr-guard",
    }
    for entry in possible_techniques().values():
        assert entry.redirects or entry.storage is not Storage.BLOCK
        assert entry.redirects or not entry.borrows
        assert not ((entry.borrows or entry.packs) and entry.compresses)
        assert entry.heeds_faults == (entry.redirects or entry.packs)
        assert entry.gates_released == (entry.gating in (Gating.IDLE_WINDOWS, Gating.EMPTY))


def test_a_technique_is_a_value():
    policies = (Placement.DIRECT, Storage.PLAIN, Gating.NONE)
    entry, other = (Technique("mine", *policies, "source", "summary") for _ in range(2))
    assert entry == other == dataclasses.replace(entry, description="in other words")
    assert repr(entry) == repr(dataclasses.replace(entry, description="in other words"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.name = "other"
