"""Workloads in which the kernel that kills is more frequent.

Every slice draws several workloads from the sweep's own law and keeps one, with odds that favour
those with a given kernel. The weight that makes up for it is exact whatever that law is: the mean
odds of the drawn ones over the odds of the one that is kept.
"""

import numpy as np
from numpy.typing import NDArray

from mcage.random import stream
from mcage.studies.rare_events.case import RareCase

CANDIDATES = 8
FAVOUR = 8.0


def favoured(
    case: RareCase, kernel: int, instances: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Workloads that favour a kernel.

    Parameters
    ----------
    case : RareCase
        The case.
    kernel : int
        The kernel.
    instances : int64[I]
        Instance ids.

    Returns
    -------
    kernel_of_epoch : int64[I, epochs]
        Kernel of each epoch.
    weights : float64[I]
        Weight of each workload.
    """
    ids = instances[:, None] * CANDIDATES + np.arange(CANDIDATES)
    candidates = case.kernels(ids.ravel()).reshape(len(ids), CANDIDATES, -1)
    odds = np.where((candidates == kernel).any(axis=2), FAVOUR, 1.0)
    uniform = np.array(
        [stream(case.spec.seed, "rare.workload", one).random() for one in instances.tolist()]
    )
    ladder = np.cumsum(odds, axis=1)
    kept = (uniform[:, None] * ladder[:, -1:] >= ladder).sum(axis=1)
    each = np.arange(len(ids))
    return candidates[each, kept], odds.mean(axis=1) / odds[each, kept]
