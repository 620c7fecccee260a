"""What a study of SM gating writes: each variable of its results files."""

from enum import IntEnum

from mcage.results.variable import Variable, flags_of


class GpuEnd(IntEnum):
    """What ended the life of a GPU."""

    CENSORED = 0
    DELAY = 1


_LIFE = ("policy", "instance")
_BY_AGE = ("policy", "instance", "age")

VARIABLES = (
    Variable(
        "surroundings_kelvin",
        ("instance",),
        "float64",
        "K",
        "temperature of the air around the GPU",
        "Under temperature.model = 'fixed', of its SMs.",
    ),
    Variable(
        "slowest_vt0_volts",
        ("instance",),
        "float64",
        "V",
        "unaged threshold voltage of the slowest SM",
        "It sets the clock of the GPU.",
    ),
    Variable(
        "mean_vt0_volts",
        ("instance",),
        "float64",
        "V",
        "unaged threshold voltage, mean over the SMs",
    ),
    Variable(
        "margin_needed",
        _BY_AGE,
        "float64",
        "1",
        "delay margin needed",
        "Delay of the slowest SM that is not retired over that of the slowest new SM, less 1.",
    ),
    Variable("max_dvth_mv", _BY_AGE, "float32", "mV", "largest NBTI threshold shift of an SM"),
    Variable("retired_sms", _BY_AGE, "int16", "1", "SMs that have been given up"),
    Variable(
        "life_years",
        _LIFE,
        "float64",
        "year",
        "life",
        "Age at which more SMs are slower than the guardband allows than may be given up; the "
        "horizon where end_cause is censored.",
    ),
    Variable("end_cause", _LIFE, "int8", "1", "cause of the end of life", flags=flags_of(GpuEnd)),
    Variable(
        "slowdown",
        _LIFE,
        "float64",
        "1",
        "extra execution time",
        "For the work of the whole horizon, as a fraction of the time that it takes on all SMs.",
    ),
    Variable(
        "sm_power_w", _LIFE, "float64", "W", "power of all SMs together, mean over the horizon"
    ),
    Variable(
        "hottest_kelvin",
        _LIFE,
        "float32",
        "K",
        "highest temperature of an SM",
        "Of its mean temperatures from reading to reading.",
    ),
)
"""What is computed, in the order of the files."""

POLICY = Variable("policy", ("policy",), "text", "1", "policy that assigns SMs")
AGE = Variable("age", ("age",), "float64", "year", "age")
