"""Does every engine refuse, by name, a policy that it has no code for?

A member is added to an enumeration while a test runs, as somebody does who begins with a policy of
their own.
"""

import ast
from pathlib import Path

import numpy as np
import pytest
from command_line import invoke
from engine_cases import possible_techniques
from host_gpu.host_device import HostDevice
from sweep_cases import small_spec

import mcage
from mcage.engines import numpy_engine
from mcage.engines.cuda_engine import CudaEngine
from mcage.engines.interface import Policies, fault_free_maps
from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.parity import ask, excerpt
from mcage.errors import UserError
from mcage.replays.prepare import prepare
from mcage.studies.sweep.study import Sweep
from mcage.techniques import (
    PLACEMENTS,
    TECHNIQUES,
    Gating,
    Placement,
    PlacementTraits,
    Storage,
    Technique,
)

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


@pytest.fixture
def in_the_reference_only(monkeypatch):
    """A placement that redirects, with code in the reference engine and nowhere else."""
    member = add_member(monkeypatch, Placement, "mirror")
    monkeypatch.setitem(PLACEMENTS, member, PlacementTraits(redirects=True))
    known = NumpyEngine.policies
    more = Policies({*known.placements, member}, known.storages, known.gatings)
    monkeypatch.setattr(NumpyEngine, "policies", more)
    place_writes = numpy_engine.place_writes

    def mirrored(replay, fault_maps):
        return place_writes(replay, np.ascontiguousarray(fault_maps[:, ::-1]))

    monkeypatch.setattr(numpy_engine, "place_writes", mirrored)
    chosen = technique_with(placement=member)
    monkeypatch.setitem(TECHNIQUES, "mine", chosen)
    return chosen


@pytest.mark.parametrize("name", ENGINES)
def test_a_policy_without_code_is_refused_by_every_engine(name, without_code):
    technique, policy = without_code
    with pytest.raises(
        UserError, match=f"^technique 'mine': engine '{name}' does not implement {policy}; it imp"
    ):
        mcage.replay(excerpt(), technique, engine=ENGINES[name]())


@pytest.mark.parametrize("name", ["numba", "cuda"])
def test_a_placement_of_the_reference_alone_is_refused_by_the_others(name, in_the_reference_only):
    replay, maps = prepare(excerpt(), in_the_reference_only), fault_free_maps()
    maps[0, :64] = 15
    engine = ENGINES[name]()
    refusal = f"'mine': engine '{name}' does not implement placement 'mirror'"
    with pytest.raises(UserError, match=refusal):
        engine.redirect(replay, maps)
    with pytest.raises(UserError, match=refusal):
        engine.count(replay, maps)
    with pytest.raises(UserError, match=refusal):
        engine.cell_times(replay, maps)
    with pytest.raises(UserError, match=refusal):
        ask(engine, replay, maps)
    assert NumpyEngine().count(replay, maps).regular.any()


def test_every_command_refuses_before_it_computes(in_the_reference_only, monkeypatch, tmp_path):
    for name in ("count", "cell_times", "stress", "redirect"):
        monkeypatch.setattr(NumbaEngine, name, None)  # nothing may be asked of the engine
    out = tmp_path / "r.h5"
    commands = (
        "replay ScanLargeArrays --technique mine",
        f"sweep --technique mine --kernel ScanLargeArrays --instances 2 --out {out}",
        "rare --technique mine --kernel ScanLargeArrays --instances 10",
        "sensitivity --technique mine --kernel ScanLargeArrays --instances 2",
    )
    for command in commands:
        error = invoke(*command.split(), "--engine", "numba").exception
        assert isinstance(error, UserError), command
        assert "engine 'numba' does not implement placement 'mirror'" in str(error)
    assert not any(tmp_path.iterdir())
    with pytest.raises(UserError, match="placement 'mirror'"):
        Sweep(small_spec(techniques=["mine"]), NumbaEngine())


def test_a_placement_that_an_engine_claims_needs_a_row_and_a_layout(monkeypatch):
    member = add_member(monkeypatch, Placement, "mirror")
    technique = technique_with(placement=member)
    with pytest.raises(UserError, match=r"'mine': placement 'mirror' .*: it has no row"):
        prepare(excerpt(), technique)
    monkeypatch.setitem(PLACEMENTS, member, PlacementTraits())
    with pytest.raises(UserError, match="placement 'mirror' is not implemented in window_layout"):
        prepare(excerpt(), technique)


@pytest.mark.parametrize("policy", ["storage", "gating"])
def test_shared_code_ends_in_a_refusal(policy, monkeypatch):
    technique = technique_with(**{policy: add_member(monkeypatch, NEW[policy], "mirror")})
    with pytest.raises(UserError, match=f"^{policy} 'mirror' is not implemented in"):
        prepare(excerpt(), technique), technique.gates_released


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
