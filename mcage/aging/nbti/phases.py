"""The phase-wise form of `bhardwaj`: for histories that state every phase of stress."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.nbti.bhardwaj import Bhardwaj
from mcage.aging.nbti.model import Rates


@dataclass(frozen=True)
class Phases:
    """Threshold shift of transistors that are either stressed or recover, phase after phase.

    Under stress ``dVth^6`` grows by Kv^2 a second. In a recovery that began at a shift V1,
    ``dVth = V1 (1 - (2 xi1 t_e + sqrt(xi2 Dr)) / (2 t_ox + sqrt(D)))``, the fraction at most 1,
    with D and Dr the integrals of C over all time and over this recovery, and t_e = t_ox.

    A phase may be given in pieces, and rates may change within it.

    Parameters
    ----------
    model : Bhardwaj
        The constants; histories of seconds take those of ``bhardwaj-unscaled``.

    Notes
    -----
    Chen et al., DAC 2014, equations 1 and 2. Equation 1 taken literally adds each phase's own root
    of time; here stress goes on from the time that would have led to the shift reached so far.
    """

    model: Bhardwaj

    def fresh(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the past of transistors as they were manufactured: none. float64[3, ...]."""
        return np.zeros((3, *shape))

    def after(
        self,
        past: NDArray[np.float64],
        rates: Rates,
        stressed: ArrayLike,
        seconds: ArrayLike,
    ) -> NDArray[np.float64]:
        """Return a past after one more phase, or piece of one.

        Parameters
        ----------
        past : float64[3, ...]
            Shift at the end of the last stress; D; Dr.
        rates : Rates
            Those of the phase.
        stressed : bool array
            Which transistors are stressed; the others recover.
        seconds : array
            Length of the phase in seconds, at least 0.
        """
        at_stress, diffused, recovered = past
        under_stress = np.asarray(stressed, dtype=np.bool_)
        duration = np.asarray(seconds, dtype=np.float64)
        so_far = self.dvth_of(past)
        cubed = so_far * so_far * so_far
        grown = np.cbrt(np.sqrt(cubed * cubed + rates.stress * duration))
        passed = rates.diffusion * duration
        return np.stack(
            np.broadcast_arrays(
                np.where(under_stress, grown, at_stress),
                diffused + passed,
                np.where(under_stress, 0.0, recovered + passed),
            )
        )

    def dvth_of(self, past: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shifts of transistors with a given past, in volts."""
        at_stress, diffused, recovered = past
        thickness = self.model.oxide_thickness_nm
        removed = 2 * self.model.xi1 * thickness + np.sqrt(self.model.xi2 * recovered)
        left = np.maximum(1 - removed / (2 * thickness + np.sqrt(diffused)), 0.0)
        shift: NDArray[np.float64] = np.where(recovered > 0, at_stress * left, at_stress)
        return shift
