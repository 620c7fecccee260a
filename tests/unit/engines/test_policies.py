"""Does every engine refuse, by name, a policy that it has no code for?

A member is added to an enumeration while a test runs, as somebody does who begins with a policy of
their own.
"""

import ast
from functools import partial
from pathlib import Path

import pytest
from engine_cases import possible_techniques
from host_gpu.host_device import HostDevice

import mcage
from mcage.engines.cuda_engine import CudaEngine
from mcage.engines.interface import fault_free_maps
from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.parity import ask, excerpt
from mcage.errors import UserError
from mcage.replays.prepare import prepare
from mcage.techniques import PLACEMENTS, Gating, Placement, PlacementTraits, Storage, Technique

ENGINES = {
    "numpy": NumpyEngine,
    "numba": NumbaEngine,
    "cuda": lambda: CudaEngine([HostDevice(1)]),
}
PACKAGE = Path(mcage.__file__).parent
POLICIES = {"Placement", "Storage", "Gating"}


def add_member(monkeypatch, enumeration, value):
    """A member that no code knows."""
    member = object.__new__(enumeration)
    member._name_, member._value_ = value.upper(), value
    monkeypatch.setattr(enumeration, "_member_names_", [*enumeration._member_names_, value.upper()])
    monkeypatch.setitem(enumeration._member_map_, value.upper(), member)
    monkeypatch.setitem(enumeration._value2member_map_, value, member)
    return member


def technique_with(**policies):
    chosen = {"placement": Placement.DIRECT, "storage": Storage.PLAIN, "gating": Gating.UNUSED}
    return Technique("mine", **chosen | policies, source="", summary="")


NEW = {"placement": Placement, "storage": Storage, "gating": Gating}


@pytest.fixture(params=NEW)
def without_code(request, monkeypatch):
    """A technique with a policy that has no code anywhere, and the words that name it."""
    member = add_member(monkeypatch, NEW[request.param], "mirror")
    return technique_with(**{request.param: member}), f"{request.param} 'mirror'"


@pytest.mark.parametrize("name", ENGINES)
def test_a_policy_without_code_is_refused_by_every_engine(name, without_code):
    technique, policy = without_code
    with pytest.raises(
        UserError, match=f"^technique 'mine': engine '{name}' does not implement {policy}; it imp"
    ):
        mcage.replay(excerpt(), technique, engine=ENGINES[name]())


@pytest.mark.parametrize("name", ENGINES)
def test_a_placement_without_code_is_refused_whatever_is_asked_of_an_engine(name, monkeypatch):
    """Though replays are prepared under it, as under any placement that redirects."""
    member = add_member(monkeypatch, Placement, "mirror")
    monkeypatch.setitem(PLACEMENTS, member, PlacementTraits(redirects=True))
    replay, maps = prepare(excerpt(), technique_with(placement=member)), fault_free_maps()
    engine = ENGINES[name]()
    for asked in (engine.redirect, engine.count, engine.cell_times, partial(ask, engine)):
        with pytest.raises(UserError, match=f"engine '{name}' does not implement placement"):
            asked(replay, maps)


def test_a_placement_that_an_engine_claims_needs_a_row_and_a_layout(monkeypatch):
    member = add_member(monkeypatch, Placement, "mirror")
    technique = technique_with(placement=member)
    with pytest.raises(UserError, match=r"'mine': placement 'mirror' .*: it has no row"):
        prepare(excerpt(), technique)
    monkeypatch.setitem(PLACEMENTS, member, PlacementTraits())
    with pytest.raises(UserError, match="placement 'mirror' is not implemented in window_layout"):
        prepare(excerpt(), technique)


@pytest.mark.parametrize("engine", [NumpyEngine, NumbaEngine, CudaEngine])
def test_engines_claim_every_technique_that_can_be_made(engine):
    for technique in possible_techniques().values():
        engine.policies.check(technique, engine.name)


def test_policies_are_told_apart_where_an_unknown_one_is_refused():
    """Outside of the techniques, only by `match`, whose last case is the refusal."""
    matches = 0
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        if not any(name in source for name in POLICIES):  # to parse all takes a second
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Compare) and path.parent.name != "techniques":
                assert not any(map(is_policy, ast.walk(node))), f"{path}:{node.lineno}"
            if isinstance(node, ast.Match) and any(map(is_policy, ast.walk(node))):
                last = node.cases[-1]
                assert isinstance(last.pattern, ast.MatchAs), f"{path}:{node.lineno}"
                assert ast.unparse(last.body[0]).startswith("refuse_policy("), path
                matches += 1
    assert matches > 5


def is_policy(node):
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in POLICIES
    )
