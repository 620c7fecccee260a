"""Slowdown: cycles that counted events add, as fractions of the cycles of the baseline.

A cycle-level simulator would tell which of them other wavefronts hide. Here an unhidden fraction
for each kind of event, the same for all kernels, stands for that.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.costs.activity import Activity
from mcage.costs.units import units_of
from mcage.spec.cost_constants import Penalties, Technology
from mcage.techniques import Technique


@dataclass(frozen=True, eq=False)
class Slowdown:
    """Extra execution time as fractions of the baseline's, by cause; float64[instances].

    Attributes
    ----------
    wakeup : float64[instances]
        Writes that wait for an entry to be switched on.
    mov : float64[instances]
        Decompressing MOVs.
    refresh : float64[instances]
        Accesses to the compression table that wait for a refresh.
    pipeline : float64[instances]
        Stages that compression and decompression add to the pipeline for each instruction.
    misprediction : float64[instances]
        Wrong speculations about compressibility.
    lds : float64[instances]
        Accesses to spilled registers.
    """

    wakeup: NDArray[np.float64]
    mov: NDArray[np.float64]
    refresh: NDArray[np.float64]
    pipeline: NDArray[np.float64]
    misprediction: NDArray[np.float64]
    lds: NDArray[np.float64]

    @property
    def total(self) -> NDArray[np.float64]:
        """All causes together."""
        return self.wakeup + self.mov + self.refresh + self.pipeline + self.misprediction + self.lds


def slowdown(
    activity: Activity, technique: Technique, technology: Technology, penalties: Penalties
) -> Slowdown:
    """Weigh counted events with the cycles that they cost.

    Parameters
    ----------
    activity : Activity
        Of a steady pass under ``technique``.
    technique : Technique
        Its policies say which units there are, and so which events cost anything.
    technology : Technology
        Says how often the compression table is refreshed.
    penalties : Penalties
        Cycles and unhidden fraction of each kind of event.

    Notes
    -----
    Valero et al., IEEE TC 2019, section 6.5; Toca-Diaz et al. (RRCD), section V.A. A refresh
    disturbs as often as it finds the only port of the table busy.
    """
    units, cycles = units_of(technique, technology), activity.cycles
    ones = np.ones_like(activity.gating.wakeups)
    refreshes = cycles // technology.refresh_period_cycles if units.table else 0
    busy = np.minimum((activity.table_reads + activity.table_writes) / cycles, 1.0)
    instructions = activity.instructions if units.speculates else 0
    spilled = activity.reads.lds + activity.writes.lds
    return Slowdown(
        wakeup=penalties.wakeup.unhidden_cycles * activity.gating.wakeups / cycles,
        mov=penalties.mov.unhidden_cycles * activity.compression.movs / cycles * ones,
        refresh=penalties.refresh.unhidden_cycles * refreshes * busy / cycles,
        pipeline=penalties.pipeline.unhidden_cycles * instructions / cycles * ones,
        misprediction=penalties.misprediction.unhidden_cycles
        * activity.compression.mispredictions
        / cycles
        * ones,
        lds=penalties.lds.unhidden_cycles * spilled / cycles,
    )
