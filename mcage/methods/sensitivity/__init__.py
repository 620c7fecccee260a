"""Which assumption matters: a quantity of one case against the constants that it rests on."""

from mcage.methods.sensitivity.methods import (
    OneAtATime,
    Question,
    SensitivityStudy,
    Sobol,
    one_at_a_time,
    sobol,
)
from mcage.methods.sensitivity.parameters import (
    QUANTITIES,
    Choice,
    Parameter,
    Quantity,
    check_keys,
    chosen,
    from_file,
    shipped,
    user_range,
)

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
