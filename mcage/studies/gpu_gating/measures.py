"""What a study of SM gating says of each policy: every number, declared once."""

from mcage.results.measures import Measure

MARGIN = (
    "margin: delay at the horizon over that of the slowest new SM, less 1: what half of the GPUs, "
    "and 99 % of them, need"
)

MEASURES = (
    Measure(
        "median_margin",
        "delay margin that half of the GPUs need at the horizon [%]",
        ("margin_needed",),
        lambda case: case["margin_needed"][:, -1],
        "median\nmargin [%]",
        "bounds",
        quantile=0.5,
        primary=True,
        note=MARGIN,
    ),
    Measure(
        "high_margin",
        "delay margin that 99 % of the GPUs need at the horizon [%]",
        ("margin_needed",),
        lambda case: case["margin_needed"][:, -1],
        "margin of\n99 % [%]",
        "bounds",
        quantile=0.99,
    ),
    Measure(
        "median_life_years",
        "age at which half of the GPUs need more than the guardband [years]",
        ("life_years", "end_cause"),
        lambda case: case["life_years"],
        "median life\n[years]",
        "age",
        quantile=0.5,
        primary=True,
        also="median_life",
    ),
    Measure(
        "alive",
        "reach the horizon [%]",
        ("end_cause",),
        lambda case: case["end_cause"] == 0,
        "alive\n[%]",
        "bounds",
        kind="share",
        better="more",
    ),
    Measure(
        "max_dvth_mv",
        "largest shift of an SM at the horizon [mV]",
        ("max_dvth_mv",),
        lambda case: case["max_dvth_mv"][:, -1],
        "max. dVth\n[mV]",
        primary=True,
        better="less",
        note="max. dVth: of an SM at the horizon",
    ),
    Measure("slowdown", "extra execution time [%]", heading="slowdown\n[%]", better="less"),
    Measure("sm_power_w", "power of all SMs [W]", heading="SMs\n[W]", better="less"),
)
"""The measures of a study of SM gating, in the order of its table."""
