"""What a study of both levels writes: each variable of its results files."""

from mcage.gpu.both.combination import BothEnd
from mcage.results.variable import Variable, flags_of

_SMS = ("policy", "instance")
_BOTH = ("policy", "technique", "instance")
_FAILED = "more SMs have failed for faulty cells than may be given up"

VARIABLES = (
    Variable(
        "mean_share",
        _SMS,
        "float64",
        "1",
        "share of the time for which an SM is on, mean over the SMs",
    ),
    Variable(
        "largest_share",
        _SMS,
        "float64",
        "1",
        "share of the time for which an SM is on, largest of the SMs",
    ),
    Variable(
        "logic_margin",
        (*_SMS, "age"),
        "float64",
        "1",
        "delay margin that the logic needs",
        "Delay of the slowest SM that is not retired over that of the slowest new SM, less 1; "
        "logic is under stress for as long as its SM is on.",
    ),
    Variable("logic_dvth_mv", (*_SMS, "age"), "float64", "mV", "largest shift of the logic of SMs"),
    Variable(
        "logic_life_years",
        _SMS,
        "float64",
        "year",
        "age at which the logic of more SMs is too slow than may be given up",
        "The horizon where there is none.",
    ),
    Variable(
        "cell_margin",
        (*_BOTH, "age"),
        "float64",
        "1",
        "delay margin that the cells need",
        "Delay of the slowest cell of the register files over that of the slowest new cell of the "
        "GPU, less 1; of the slices that live.",
        missing=_FAILED,
    ),
    Variable(
        "max_dvth_mv",
        (*_BOTH, "age"),
        "float64",
        "mV",
        "largest shift of a cell of the register files",
        "Of the slices that live.",
        missing=_FAILED,
    ),
    Variable(
        "longest_duty",
        _BOTH,
        "float64",
        "1",
        "longest duty cycle of a cell",
        "Over the life, the time for which its SM is gated included.",
    ),
    Variable(
        "cell_life_years",
        _BOTH,
        "float64",
        "year",
        "age at which more SMs have cells that are too slow than may be given up",
        "The horizon where there is none.",
    ),
    Variable(
        "fault_life_years",
        _BOTH,
        "float64",
        "year",
        "age at which more SMs have register files that fail for faults than may be given up",
        "The horizon where there is none.",
    ),
    Variable(
        "life_years",
        _BOTH,
        "float64",
        "year",
        "life",
        "Age at which more SMs are dead, for any cause, than may be given up; the horizon where "
        "end_cause is censored.",
    ),
    Variable(
        "end_cause",
        _BOTH,
        "int8",
        "1",
        "cause of the end of life",
        "Of the SM that could not be given up any more.",
        flags=flags_of(BothEnd),
    ),
)
"""What is computed, in the order of the files."""

TECHNIQUE = Variable("technique", ("technique",), "text", "1", "technique of the register files")
