"""Unaged threshold voltages of the SMs of a die: die, systematic and random parts."""

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.spec import SmVariation
from mcage.random import stream
from mcage.variation.field import correlation_factor


def sample_vt0(
    variation: SmVariation,
    centres: NDArray[np.float64],
    vt0_volts: float,
    seed: int,
    instances: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Unaged threshold voltage of each SM, V.

    Parameters
    ----------
    variation : SmVariation
        Standard deviations, and the range of the spherical correlation (Sarangi et al., VARIUS,
        IEEE TSM 2008, equation 1).
    centres : float64[n, 2]
        Centres of the SMs, in sides of the die.
    vt0_volts : float
        Mean.
    seed : int
        Seed of the study.
    instances : int64[I]
        Ids of the GPUs.

    Returns
    -------
    float64[n, I]
        Volts. The draws behind them depend on seed and instance only.
    """
    sms = len(centres)
    normal = np.empty((len(instances), 1 + 2 * sms))
    for row, instance in zip(normal, instances.tolist(), strict=True):
        stream(seed, "gpu.vt0", instance).standard_normal(out=row)
    die, field, random = normal[:, :1], normal[:, 1 : 1 + sms], normal[:, 1 + sms :]
    factor = correlation_factor(centres, variation.phi)
    millivolts = (
        variation.sigma_die_mv * die
        + variation.sigma_systematic_mv * np.einsum("ij,nj->ni", factor, field)
        + variation.sigma_random_mv * random
    )
    return np.ascontiguousarray(vt0_volts + 1e-3 * millivolts.T)
