"""Does mcage stay a good citizen whatever it is given?

Mutated inputs, each to a command of its own: it may do its work or refuse, in a line or two and
with exit code 2; it may not crash, hang, take memory without end, call itself defective, warn of
its own code, leave a half of anything, or touch a file that is not its output.
`scripts/validation/fuzz.py` tries many more.
"""

import contextlib
from types import SimpleNamespace

import pytest
from amd_tools import has_objdump
from fuzzing import KINDS, NEED_NO_TOOL, fuzz
from nursery import Ended, Nursery, usual_commands

SEED = 20_240_229
FEW = 3
"""Inputs of a kind that commands of this process are given."""

MANY = 40
"""Inputs of a kind that commands are given in all."""


@pytest.mark.parametrize("kind", NEED_NO_TOOL)
def test_mutated_inputs_do_no_harm(kind, command, tmp_path):
    def run(arguments, folder, *_):
        with contextlib.chdir(folder):
            return Ended(*command(*arguments), seconds=0.0, peak_bytes=0)

    complaints = list(fuzz(SimpleNamespace(run=run), kind, SEED, range(FEW), tmp_path))
    assert not complaints, "\n".join(complaints)


@pytest.fixture(scope="module")
def server():
    with Nursery(usual_commands) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_mutated_inputs_do_no_harm(kind, server, tmp_path):
    """In processes, which may crash and take memory."""
    if kind not in NEED_NO_TOOL and not has_objdump:
        pytest.skip("needs llvm-19")
    complaints = list(fuzz(server, kind, SEED, range(FEW, MANY), tmp_path))
    assert not complaints, "\n".join(complaints)
