"""Which kernels a sweep draws from."""

from mcage.errors import UserError
from mcage.geometry import GCN, NVIDIA
from mcage.spec import SweepSpec
from mcage.traces.library import KERNELS, PROFILES


def kernels_of(spec: SweepSpec) -> tuple[str, ...]:
    """Names of the kernels of a sweep: those that it names, or all bundled ones of its slice.

    Parameters
    ----------
    spec : SweepSpec
        The sweep.
    """
    given = spec.registers.geometry
    if spec.workload.kernels or given is None:
        return spec.workload.kernels or KERNELS
    try:
        narrow = given.of(GCN).shape[:2] == NVIDIA.shape[:2]
    except UserError:  # refused with its reason where the traces are looked at
        narrow = False
    return PROFILES if narrow else KERNELS
