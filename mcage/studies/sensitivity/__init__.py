"""Which assumption matters: a quantity of one case against the constants that it rests on."""

from mcage.studies.sensitivity.one_at_a_time import OneAtATime, one_at_a_time
from mcage.studies.sensitivity.parameters import (
    Choice,
    Parameter,
    check_keys,
    chosen,
    from_file,
    shipped,
    user_range,
)
from mcage.studies.sensitivity.quantities import QUANTITIES, Quantity
from mcage.studies.sensitivity.question import Question
from mcage.studies.sensitivity.sobol import Sobol, sobol
from mcage.studies.sensitivity.study import SensitivityStudy

__all__ = [
    "QUANTITIES",
    "Choice",
    "OneAtATime",
    "Parameter",
    "Quantity",
    "Question",
    "SensitivityStudy",
    "Sobol",
    "check_keys",
    "chosen",
    "from_file",
    "one_at_a_time",
    "shipped",
    "sobol",
    "user_range",
]
