"""What is fitted to published figures, fitted again when another constant varies.

The amplitude of an NBTI model is fitted to a delay, and the mean of Vmin to a table of faulty
entries. If the field constant varied and the amplitude did not, the published delay would change,
too: the fit rules out this effect, which would hide that of the constant. Fitted again are:

- the amplitude, when another constant of the model varies: the delay at the model's point of
  calibration stays (`mcage.aging.nbti.calibration`);
- mu, when a deviation of Vmin varies: the expected share of faulty cells at the scenario's own Vdd
  stays, Phi((mu - Vdd) / sigma) with sigma all parts together.
"""

import math
from collections.abc import Mapping
from typing import Any

from mcage.aging.nbti import MODEL_NAMES
from mcage.aging.nbti.calibration import CALIBRATED
from mcage.aging.nbti.catalogue import can_be_calibrated
from mcage.errors import UserError
from mcage.spec import SweepSpec
from mcage.studies.sensitivity.parameters import value_of
from mcage.variation.scenarios import scenario

PARTS = ("faults.sigma_die_volts", "faults.sigma_systematic_volts", "faults.sigma_random_volts")


def refitted(spec: SweepSpec, base: SweepSpec, setting: Mapping[str, Any]) -> SweepSpec:
    """Fit amplitude and mu of a spec again, unless the spec gives them or they were never fitted.

    Parameters
    ----------
    spec : SweepSpec
        Spec of the setting.
    base : SweepSpec
        Spec without the setting, for which mu is taken to be right.
    setting : mapping
        Keys that are changed.

    Raises
    ------
    UserError
        The spec gives the amplitude as a number, which a fit would overrule; or the model is
        fitted by another constant.
    """
    changes: dict[str, dict[str, Any]] = {}
    constants = dict(spec.aging.constants or {})
    if isinstance(constants.get("amplitude"), float):
        raise UserError(
            f"aging.constants.amplitude = {constants['amplitude']:g} would be fitted again; "
            "leave it out, or fit nothing (--no-refit)"
        )
    model = spec.aging.model
    if constants and model in MODEL_NAMES and not can_be_calibrated(model):
        raise UserError(
            f"NBTI model {model!r} is fitted by its scale, which is not fitted again when "
            "another constant varies; fit nothing (--no-refit)"
        )
    if constants:
        changes["aging"] = {"constants": constants | {"amplitude": CALIBRATED}}
    if any(key in setting for key in PARTS) and "faults.mu_volts" not in setting:
        changes["faults"] = {"mu_volts": _mu_volts(spec, base)}
    if not changes:
        return spec
    fields = spec.model_dump(mode="json", exclude_none=True)
    return SweepSpec.from_mapping(
        fields | {part: fields[part] | values for part, values in changes.items()}
    )


def _mu_volts(spec: SweepSpec, base: SweepSpec) -> float:
    vdd = scenario(spec.scenarios[0]).vdd_volts
    distance = vdd - float(value_of(base, "faults.mu_volts"))
    return vdd - distance * _sigma_volts(spec) / _sigma_volts(base)


def _sigma_volts(spec: SweepSpec) -> float:
    return math.hypot(*(float(value_of(spec, key)) for key in PARTS))
