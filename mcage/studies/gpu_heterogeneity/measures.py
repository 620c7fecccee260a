"""What a study of heterogeneous structures says of each design: every number, declared once."""

from functools import partial

import numpy as np

from mcage.results.measures import Case, Measure
from mcage.stats.estimates import Estimate, proportion

EFFICIENCY = (
    "efficiency: (D (1 + delay increase))^3 P over the baseline's, less is better; break-even: "
    "D^3 P at which it is 1"
)


def _better(case: Case) -> Estimate | None:
    """Share of the draws in which a design is better than the baseline, which is the first."""
    if not case.place["design"]:
        return None
    efficiency = case["efficiency"]
    return proportion(int(np.count_nonzero(efficiency < 1)), len(efficiency))


MEASURES = (
    Measure(
        "scheduler_delay",
        "delay increase of the scheduler [%]",
        heading="scheduler\n[%]",
        better="less",
    ),
    Measure("l2_delay", "delay increase of the L2 [%]", heading="L2\n[%]", better="less"),
    Measure(
        "break_even",
        "D^3 P at which a design is as efficient as the baseline",
        heading="break-even\nD^3 P",
        better="more",
    ),
    Measure(
        "efficiency",
        "NBTI efficiency over the baseline's",
        heading="efficiency",
        primary=True,
        better="less",
        note=EFFICIENCY,
    ),
    *(
        Measure(
            f"efficiency_{percent}_percent",
            f"{percent} % quantile of the efficiency among the draws",
            ("efficiency",),
            partial(lambda share, case: np.quantile(case["efficiency"], share), percent / 100),
            f"{percent} % of\nthe draws",
            kind="number",
            primary=True,
        )
        for percent in (5, 95)
    ),
    Measure(
        "better",
        "better than the baseline [% of the draws]",
        ("efficiency",),
        lambda case: case["efficiency"] < 1,
        "better than\nbaseline [%]",
        "bounds",
        kind="share",
        estimator=_better,
        primary=True,
        better="more",
    ),
)
"""The measures of a study of heterogeneous structures, in the order of its table."""

ORDERS = tuple(
    Measure(
        key,
        f"{words} [% of the draws]",
        variables,
        values,
        heading,
        "bounds",
        kind="share",
        primary=key != "planar_limits",
    )
    for key, words, heading, variables, values in (
        (
            "holds",
            "the order of the paper holds",
            "holds",
            ("order_holds",),
            lambda case: case["order_holds"] != 0,
        ),
        (
            "proposal_better",
            "proposal better than baseline",
            "proposal\nbetter",
            ("efficiency",),
            lambda case: case["efficiency"][:, 1] < 1,
        ),
        (
            "duplication_worse",
            "duplication worse than baseline",
            "duplication\nworse",
            ("efficiency",),
            lambda case: case["efficiency"][:, 2] > 1,
        ),
        (
            "planar_limits",
            "a planar part sets the delay of the proposal",
            "planar\nlimits",
            ("first_stage_delay", "tags_delay", "second_stage_delay", "data_array_delay"),
            lambda case: (
                np.maximum(case["first_stage_delay"], case["tags_delay"])
                > np.maximum(case["second_stage_delay"], case["data_array_delay"])
            ),
        ),
    )
)
"""How often proposal < baseline < duplication holds, in part and as a whole, under a reading."""
