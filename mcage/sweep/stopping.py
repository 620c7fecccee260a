"""What a sweep may be stopped by, and the rule that its spec asks for."""

from collections.abc import Callable, Sequence

from mcage.errors import UserError
from mcage.lifetime.end_of_life import EndCause
from mcage.results.header import StoppingRule
from mcage.results.variable import Quantity, Sample
from mcage.spec import SweepSpec
from mcage.stats.estimates import Estimate
from mcage.stats.precision import Precision, mean_precision, quantile_precision
from mcage.stats.wording import life, with_bounds
from mcage.sweep.variables import TRANSISTORS
from mcage.variation.scenarios import scenario


def stopping_rule(spec: SweepSpec) -> StoppingRule | None:
    """Rule that a spec asks for, or None.

    Raises
    ------
    UserError
        Slices are not independent, so that intervals over slices must not be relied on.
    """
    if spec.stopping is None:
        return None
    slices, sigma_volts = spec.faults.slices_per_chip, spec.faults.sigma_die_volts
    dies_differ = any(
        (scenario(name).sigma_die_volts if sigma_volts is None else sigma_volts) > 0
        for name in spec.scenarios
    )
    if slices > 1 and (dies_differ or spec.draws is not None):
        raise UserError(
            f"stopping.rel_ci = {spec.stopping.rel_ci:g}: {slices} slices share each die, and dies "
            "differ: slices are not independent, and their intervals too narrow to stop by; leave "
            "it out, or set faults.slices_per_chip = 1"
        )
    return StoppingRule(spec.stopping.rel_ci, spec.stopping.of, slices)


def quantities(cases: Sequence[str], horizon_years: float) -> dict[str, Quantity]:
    """What a sweep may be stopped by; named as in the JSON of the tables, without the unit.

    Parameters
    ----------
    cases : sequence of str
        Labels of the cases.
    horizon_years : float
        Age at which lives are censored, years.
    """

    def years(estimate: Estimate) -> str:
        return f"{life(estimate, horizon_years)} years"

    quantiles = {"median_life": 0.5, "b10_life": 0.1}
    return {
        **{name: _life_quantile(fraction, cases, years) for name, fraction in quantiles.items()},
        "life_to_horizon": _in_each(
            cases,
            ("life_years",),
            lambda case: {"": mean_precision(case["life_years"])},
            years,
        ),
        "max_dvth": _in_each(
            cases,
            ("max_dvth_mv",),
            lambda case: {
                name: mean_precision(case["max_dvth_mv"][:, place])
                for place, name in enumerate(TRANSISTORS)
            },
            lambda estimate: f"{with_bounds(estimate)} mV",
        ),
        "spill_rate": _in_each(
            cases,
            ("spill_rate",),
            lambda case: {"": mean_precision(case["spill_rate"])},
            lambda estimate: f"{with_bounds(estimate, 100.0)} %",
        ),
    }


def _life_quantile(
    fraction: float, cases: Sequence[str], in_words: Callable[[Estimate], str]
) -> Quantity:
    def of_case(case: Sample) -> dict[str, Precision]:
        died = case["end_cause"] != EndCause.CENSORED
        return {"": quantile_precision(case["life_years"], died, fraction)}

    return _in_each(cases, ("life_years", "end_cause"), of_case, in_words)


def _in_each(
    cases: Sequence[str],
    variables: tuple[str, ...],
    of_case: Callable[[Sample], dict[str, Precision]],
    in_words: Callable[[Estimate], str],
) -> Quantity:
    """A quantity of each case; ``of_case`` takes arrays [instance, ...] of a single case."""

    def precisions(sample: Sample) -> dict[str, Precision]:
        labelled: dict[str, Precision] = {}
        for place, label in enumerate(cases):
            parts = of_case({name: array[place] for name, array in sample.items()})
            labelled |= {f"{label} {part}".rstrip(): value for part, value in parts.items()}
        return labelled

    return Quantity(variables, precisions, in_words)
