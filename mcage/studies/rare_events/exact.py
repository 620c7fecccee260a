"""What can be said without drawing cells: the chance that a slice is dead as manufactured."""

import numpy as np
from numpy.typing import NDArray

from mcage.studies.rare_events.entry_proposal import EntryProposal
from mcage.studies.rare_events.vmin_gaussian import VminGaussian

SURELY = 1.0 - 2.0**-53
"""Largest probability below 1, so that its logarithm remains a number."""


def dead_at_start(
    law: VminGaussian,
    node_volts: NDArray[np.float64],
    vdd_volts: float,
    needed: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Probability that slices with given fields are dead as manufactured.

    For techniques that cannot move data, it is the chance that some needed entry holds two faulty
    cells, and entries are independent given the field. Its mean over fields is an estimate that
    shares nothing with the drawing of cells.

    Parameters
    ----------
    law : SliceLaw
        Law of Vmin over a slice.
    node_volts : float64[I, node_rows, node_columns]
        Mean Vmin at the nodes of each slice.
    vdd_volts : float
        Lowest supply voltage.
    needed : bool[kernels, 256]
        Entries that must be reliable under each kernel; all kernels are equally likely.

    Returns
    -------
    float64[I]
    """
    faulty = EntryProposal.of(law, node_volts, vdd_volts).faulty
    entries_of_row = needed.reshape(len(needed), law.scenario.node_rows, -1).sum(axis=2)
    log_alive = np.einsum("kr,ir->ik", entries_of_row, np.log1p(-np.minimum(faulty, SURELY)))
    dead: NDArray[np.float64] = -np.expm1(log_alive).mean(axis=1)
    return dead
