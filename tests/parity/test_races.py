"""Is there a barrier wherever threads of a kernel use the same memory?

The order in which the host runs threads, and that of most cards, hides many that are missing. Here
every access to memory is looked at (`races` of the host device).
"""

import pytest
from engine_cases import daily
from host_gpu.compiler import needs_host_compiler
from host_gpu.host_device import HostDevice
from sweep_cases import assert_same_arrays

from mcage.engines.cuda_engine import CudaEngine
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.parity import ask, compare, demanding_maps, excerpt
from mcage.replays.prepare import prepare
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
from mcage.techniques import TECHNIQUES

pytestmark = needs_host_compiler


@pytest.mark.parametrize("name", daily(["argo", "gr-guard", "rrcd+rc+rar"], ["gr-guard"]))
def test_no_memory_is_used_without_order(name):
    """With the sweep below, techniques that ask for every kernel, and every kind of home."""
    replay, maps = prepare(excerpt(), TECHNIQUES[name]), demanding_maps(3)[1:]
    answers = ask(CudaEngine([HostDevice(seed=2, races=True)]), replay, maps)
    assert compare(answers, ask(NumpyEngine(), replay, maps)).bit_equal


@pytest.mark.slow
def test_no_memory_is_used_without_order_in_a_sweep():
    """Cells fail, and sampled cells are counted."""
    spec = SweepSpec.from_mapping(
        {
            "instances": 2,
            "techniques": ["rrcd"],
            "environments": ["undervolted"],
            "scenarios": ["clustered"],
            "workload": {"kernels": ["MatrixTranspose"], "periods": 2, "generations": 1},
            "life": {"epochs": 2},
        }
    )
    device = HostDevice(seed=3, races=True)
    computed = Sweep(spec, CudaEngine([device])).compute(0, 2)
    assert_same_arrays(computed, Sweep(spec, NumpyEngine()).compute(0, 2))
