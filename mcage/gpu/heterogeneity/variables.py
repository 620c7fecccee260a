"""What a study of heterogeneous structures writes: each variable of its results files."""

from mcage.results.variable import Variable

INPUTS = (
    Variable("years", ("instance",), "float64", "year", "age"),
    Variable("temperature_kelvin", ("instance",), "float64", "K", "temperature of the baseline"),
    Variable("filter_rate", ("instance",), "float64", "1", "share of the reads that are filtered"),
    Variable("base_duty", ("instance",), "float64", "1", "duty of the baseline's scheduler"),
    Variable(
        "theta_kelvin", ("instance",), "float64", "K", "temperature drop at a filter rate of 1"
    ),
    Variable("activation_ev", ("instance",), "float64", "eV", "activation energy, reading thermal"),
    Variable("miss_rate", ("instance",), "float64", "1", "miss rate of the L2"),
    Variable("l2_base_duty", ("instance",), "float64", "1", "duty of the baseline's L2"),
    Variable("common_field", ("instance",), "int8", "1", "whether field constants are common"),
    Variable("fills", ("instance",), "int8", "1", "whether fills of the L2 count"),
)
"""What is drawn, and the same under every reading."""

_BY_DESIGN = ("reading", "design", "instance")
_BY_READING = ("reading", "instance")

COSTS = (
    Variable("delay", ("design", "instance"), "float64", "1", "execution time over the baseline's"),
    Variable("power", ("design", "instance"), "float64", "1", "power over the baseline's"),
)
"""Performance delay and power; inputs, too."""

OUTPUTS = (
    Variable(
        "scheduler_delay",
        _BY_DESIGN,
        "float64",
        "1",
        "delay increase of the scheduler",
        "Of its stages, the larger.",
    ),
    Variable(
        "l2_delay",
        _BY_DESIGN,
        "float64",
        "1",
        "delay increase of the L2",
        "Of tags and data array, the larger.",
    ),
    Variable(
        "second_stage_delay",
        _BY_READING,
        "float64",
        "1",
        "delay increase of the proposal's second stage (FinFET)",
    ),
    Variable(
        "first_stage_delay",
        _BY_READING,
        "float64",
        "1",
        "delay increase of the proposal's first stage (planar)",
    ),
    Variable(
        "data_array_delay",
        _BY_READING,
        "float64",
        "1",
        "delay increase of the proposal's L2 data array (FinFET)",
    ),
    Variable(
        "tags_delay",
        _BY_READING,
        "float64",
        "1",
        "delay increase of the proposal's L2 tags (planar)",
    ),
    Variable(
        "efficiency",
        _BY_DESIGN,
        "float64",
        "1",
        "NBTI efficiency over the baseline's",
        "(D (1 + delay increase))^3 P, with the larger delay increase of scheduler and L2; less is "
        "better.",
    ),
    Variable(
        "break_even",
        _BY_DESIGN,
        "float64",
        "1",
        "D^3 P at which a design is as efficient as the baseline",
        "Needs no power: below it the design is better.",
    ),
    Variable(
        "order_holds",
        _BY_READING,
        "int8",
        "1",
        "whether proposal < baseline < duplication",
        "By efficiency, as printed; 1 where it holds, 0 where not.",
    ),
)
"""What is computed, in the order of the files."""

VARIABLES = (*INPUTS, *COSTS, *OUTPUTS)

READING = Variable("reading", ("reading",), "text", "1", "what a filtered read changes")
DESIGN = Variable("design", ("design",), "text", "1", "design of scheduler and L2")
