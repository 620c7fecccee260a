"""Keys of a spec that no case of the sweep has a use for.

A value that is not the default and can change nothing is refused, because the results would be
taken for those of that value. The spec alone decides, and not what its traces or dies turn out to
need.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.spec import SweepSpec
from mcage.sweep.kernels import kernels_of
from mcage.techniques import Technique, technique
from mcage.variation.modes import GROWING_MODES
from mcage.variation.scenarios import scenario


@dataclass(frozen=True)
class _Key:
    """A key, the condition under which a case has a use for it, and the reason if none has.

    Parameters
    ----------
    name : str
        Dotted name.
    is_used : callable
        Tells from the spec and its techniques whether a case may depend on the key.
    reason : callable
        Says for a spec why no case depends on the key, and what would change that.
    """

    name: str
    is_used: Callable[[SweepSpec, Sequence[Technique]], bool]
    reason: Callable[[SweepSpec], str]


def refuse_unused(spec: SweepSpec) -> None:
    """Refuse a spec with a value, other than the default, that no case has a use for.

    Raises
    ------
    UserError
        If there is such a value: one line with key, value and reason; or if a technique is unknown.
    """
    techniques = [technique(name) for name in spec.techniques]
    given, defaults = (either.model_dump(mode="json") for either in (spec, SweepSpec()))
    drawn = () if spec.draws is None else tuple(spec.draws.columns)
    for key in _KEYS:
        value = "drawn" if key.name in drawn else _at(given, key.name)
        if value != _at(defaults, key.name) and not key.is_used(spec, techniques):
            raise UserError(f"{key.name} = {shortened(value)}: {key.reason(spec)}")


def _at(fields: dict[str, Any], key: str) -> Any:
    part, dot, name = key.rpartition(".")
    return fields[part][name] if dot else fields[name]


def _of_techniques(name: str, is_used_by: Callable[[Technique], bool], use: str) -> _Key:
    """Make the row of a key that only certain techniques have a use for."""
    return _Key(
        name,
        lambda _, techniques: any(map(is_used_by, techniques)),
        lambda spec: (
            f"no technique of this sweep ({', '.join(spec.techniques)}) {use}; leave it out"
        ),
    )


def _faults_grow(spec: SweepSpec) -> bool:
    return spec.faults.mode in GROWING_MODES


def _largest(spec: SweepSpec, name: str) -> float:
    """Largest value of a parameter of the fault model in any scenario of the sweep."""
    value = getattr(spec.faults, name)
    values = (
        [getattr(scenario(label), name) for label in spec.scenarios] if value is None else [value]
    )
    drawn = None if spec.draws is None else spec.draws.bounds(f"faults.{name}")
    values = values if drawn is None else [drawn[1]]
    return float(max(values))


def _of_fixed_voltages(spec: SweepSpec) -> str:
    names = ", ".join(map(repr, spec.environments))
    alone = len(spec.environments) == 1
    return (
        f"{'environment' if alone else 'environments'} {names} {'has' if alone else 'have'} fixed "
        "voltages and would not use it; leave it out, or choose undervolted or dvfs"
    )


_KEYS = (
    _Key(
        "vdd_volts",
        lambda spec, _: any(map(spec.uses_scenario_vdd, spec.environments)),
        _of_fixed_voltages,
    ),
    _Key(
        "workload.mix",
        lambda spec, _: len(kernels_of(spec)) > 1,
        lambda spec: (
            f"a sweep of one kernel ({', '.join(spec.workload.kernels)}) has nothing to draw; "
            "leave it out"
        ),
    ),
    _Key(
        "life.idle",
        lambda spec, _: spec.life.activity != 1.0,
        lambda _: "slices are never idle, since life.activity = 1; leave it out, or lower that",
    ),
    _Key(
        "life.delay_path",
        lambda spec, _: spec.aging.nbti_spread_mv > 0,
        lambda _: (
            "transistors that are stressed alike shift alike, so that all paths do; leave it out, "
            "or give aging.nbti_spread_mv"
        ),
    ),
    _of_techniques("life.spill_limit", lambda technique: technique.redirects, "spills to the LDS"),
    *(
        _Key(
            name,
            lambda spec, _: _faults_grow(spec),
            lambda spec: (
                f"faults of mode {spec.faults.mode!r} do not grow; leave it out, or choose mode "
                "varius"
            ),
        )
        for name in ("life.vmin_coefficient", "aging.pbti", "aging.vmin_model")
    ),
    _of_techniques(
        "faults.spread_blocks",
        lambda technique: technique.stores_in_blocks,
        "uses single blocks of a faulty entry",
    ),
    _Key(
        "faults.spread_blocks",
        lambda spec, _: _faults_grow(spec),
        lambda spec: (
            f"mode {spec.faults.mode!r} puts each faulty bit into a block of its own anyway; leave "
            "it out, or choose mode varius"
        ),
    ),
    _Key(
        "faults.slices_per_chip",
        lambda spec, _: _largest(spec, "sigma_die_volts") > 0 or spec.stopping is not None,
        lambda _: (
            "dies do not differ, so that it does not matter which slices share one; leave it out, "
            "or give faults.sigma_die_volts"
        ),
    ),
    _Key(
        "faults.phi",
        lambda spec, _: _largest(spec, "sigma_systematic_volts") > 0,
        lambda _: (
            "no deviation is correlated over a slice, since sigma_systematic_volts = 0; leave it "
            "out, or give faults.sigma_systematic_volts"
        ),
    ),
    _Key(
        "faults.arrays",
        lambda spec, _: _largest(spec, "sigma_systematic_volts") > 0,
        lambda _: (
            "arrays do not differ, since sigma_systematic_volts = 0; leave it out, or give "
            "faults.sigma_systematic_volts"
        ),
    ),
    _of_techniques("registers.delta_limit", lambda technique: technique.compresses, "compresses"),
    _of_techniques(
        "registers.lds_rows", lambda technique: technique.redirects, "spills to the LDS"
    ),
    _of_techniques(
        "registers.selector_offsets",
        lambda technique: technique.rotating_selectors,
        "rotates its selectors",
    ),
)
