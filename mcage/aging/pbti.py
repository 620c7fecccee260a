"""PBTI: how far the two pull-down transistors of a cell shift.

The bit that stresses a PMOS stresses the NMOS that holds the other node as well: '0' stresses T0
and N0, '1' stresses T1 and N1. So N0 has the duty cycle of T0 and N1 that of T1, and any model of
`mcage.aging.nbti` describes them, or the model of the PMOS times a factor.
"""

from dataclasses import dataclass, replace

from mcage.aging.nbti import NbtiModel, Transistors, nbti_model


@dataclass(frozen=True)
class Pbti:
    """The model of the pull-down transistors.

    Parameters
    ----------
    model : NbtiModel
        Its equations.
    factor : float
        Factor on every shift of the model.
    alike : bool
        Whether pull-downs have the model of the PMOS, and with it the constants in which instances
        differ; if not, only their temperatures and factors differ.
    """

    model: NbtiModel
    factor: float = 1.0
    alike: bool = False

    @classmethod
    def of(cls, given: float | str, nbti: NbtiModel) -> "Pbti | None":
        """Read the key ``aging.pbti`` of a spec.

        Parameters
        ----------
        given : float or str
            The ratio of a pull-down's shift to that of a PMOS under the same stress, or the name of
            a model; 0 for no PBTI.
        nbti : NbtiModel
            The model of the PMOS, for a ratio.

        Raises
        ------
        UserError
            As `nbti_model`.
        """
        if isinstance(given, str):
            return cls(nbti_model(given))
        return cls(nbti, given, alike=True) if given else None

    def transistors(self, pmos: Transistors) -> Transistors:
        """In what pull-downs differ from those of the model, given the PMOS of the instances."""
        vt0_volts = pmos.vt0_volts if self.alike else None
        factor = pmos.shift_factor * self.factor  # type: ignore[operator]
        return replace(pmos, vt0_volts=vt0_volts, shift_factor=factor)
