"""What a result rests on: models, limits and choices of its spec, and what is left out."""

import tomllib
from collections.abc import Mapping
from typing import Any

from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.results.header import Header
from mcage.spec import SweepSpec
from mcage.stats.estimates import CONFIDENCE
from mcage.sweep.header import SweepHeader
from mcage.variation.scenarios import scenario

Assumptions = list[tuple[str, str]]
"""What each is about, and what is assumed."""

LEFT_OUT = "hot-carrier injection, breakdown of the gate oxide and electromigration"


def assumptions_of(header: Header) -> Assumptions:
    """Assumptions behind a results file, from its spec.

    Raises
    ------
    UserError
        The spec is not that of its study.
    """
    if isinstance(header, SweepHeader):
        return _of_sweep(header)
    try:
        spec = tomllib.loads(header.spec_toml)
    except tomllib.TOMLDecodeError as error:
        raise UserError("attribute spec: is not TOML") from error
    if header.study == "gpu-gating":
        return [*_of_gating(spec), _intervals()]
    if header.study == "gpu-both":
        technique = spec["sweep"]
        return [
            *_of_gating(spec["gating"], technique["aging"]["pbti"]),
            (
                "Register files",
                f"{spec['slices_per_sm']} slices stand for each SM; a slice has the faults of "
                f"scenario {', '.join(technique['scenarios'])}, and windows are released with "
                f"their {technique['workload']['release']}.",
            ),
            _intervals(),
        ]
    if header.study == "gpu-heterogeneity":
        return [
            (
                "Draws",
                "What the paper leaves open is drawn anew for each instance, from the "
                "distributions in the spec below.",
            ),
            ("Left out", f"{LEFT_OUT.capitalize()}."),
            _intervals(),
        ]
    return [_intervals()]


def _intervals() -> tuple[str, str]:
    return (
        "Intervals",
        f"All cover {CONFIDENCE:.0%}: order statistics for B10 and median lives, Wilson's for "
        "shares, Student's t for means, pointwise Kaplan-Meier bands for curves. They say how "
        "far the sample may be off, not how far the model may be, and are not corrected for the "
        "number of comparisons.",
    )


def _of_sweep(header: SweepHeader) -> Assumptions:
    try:
        spec = SweepSpec.from_mapping(tomllib.loads(header.spec_toml))
    except (UserError, tomllib.TOMLDecodeError) as error:
        raise UserError("attribute spec: is not the spec of a sweep") from error
    life, aging, faults = spec.life, spec.aging, spec.faults
    kernels = ", ".join(header.kernels)
    limit = (
        "Spilling ends no life as long as there is room"
        if life.spill_limit is None
        else f"spilling more than {_percent(life.spill_limit)} of the writes of a kernel ends it"
    )
    pbti = (
        "PBTI is left out"
        if aging.pbti == 0
        else f"PBTI of the pull-down transistors: {aging.pbti}"
    )
    spread = (
        "transistors that are stressed alike shift alike"
        if aging.nbti_spread_mv == 0
        else f"transistors that are stressed alike differ (eta {aging.nbti_spread_mv:g} mV, delay "
        f"path {life.delay_path})"
    )
    scenarios = list(dict.fromkeys(case.scenario for case in header.cases))
    return [
        (
            "Aging",
            f"NBTI by the model {aging.model}"
            f"{' with other constants' if aging.constants else ''}; {spread}; {pbti}.",
        ),
        (
            "End of life",
            f"The worst transistor delays the slice by more than {_percent(life.delay_guardband)} "
            "(an assumed guardband), an entry that is needed is faulty, or no window or row finds "
            f"a home. {limit[0].upper()}{limit[1:]}. Lives that reach {life.horizon_years:g} years "
            "are censored: they are longer, nobody knows how much.",
        ),
        (
            "Faults",
            f"Process variation of scenario {', '.join(scenarios)} (mode {faults.mode}); "
            "error-correcting pointers (ECP) repair one faulty bit of each entry; Vmin grows with "
            f"the {_vmin(aging.vmin_model, life.vmin_coefficient)}."
            + (
                ""
                if _dies_differ(scenarios, faults.sigma_die_volts)
                else " Dies do not differ in their mean, since no source gives how much."
            ),
        ),
        (
            "Workload",
            f"{spec.workload.periods} periods, each with one of the kernels {kernels} (mix "
            f"{_mix(spec.workload.mix)}); windows are released with their "
            f"{spec.workload.release}; "
            + (
                "whole traces."
                if not spec.workload.generations
                else f"traces cut to {spec.workload.generations} windows of each slot."
            ),
        ),
        (
            "Conditions",
            f"Temperature {_drawn(life.temperature_kelvin)} K; "
            + (
                "busy all of the time."
                if life.activity == 1
                else f"busy for {_drawn(life.activity)} of the time, idle cells {life.idle}."
            ),
        ),
        (
            "Costs",
            f"Energy and slowdown with {spec.costs.user_defined}."
            if spec.costs.tables
            else f"Energy and slowdown with the constants of {spec.costs.technology}. Those that "
            "its paper prints are published; those of the LDS, of the destination buffer and of "
            "units of the other technology are assumed; which part of a delay other wavefronts "
            "hide is fitted to published means or assumed.",
        ),
        ("Left out", f"{LEFT_OUT.capitalize()}; they would shorten lives further."),
        _intervals(),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _vmin(model: str, coefficient: float) -> str:
    if model == "larger":
        return f"larger shift of its two transistors, times {coefficient:g}"
    return f"margins for reading, writing and holding ({model})"


def _dies_differ(scenarios: list[str], sigma_volts: float | None) -> bool:
    if sigma_volts is not None:
        return sigma_volts > 0
    return any(scenario(name).sigma_die_volts > 0 for name in scenarios)


def _mix(mix: str | Mapping[str, float]) -> str:
    return mix if isinstance(mix, str) else ", ".join(f"{k} {v:g}" for k, v in mix.items())


def _drawn(value: float | str) -> str:
    return str(Distribution.of(value)) if isinstance(value, str) else f"{value:g}"


def _of_gating(spec: Mapping[str, Any], pbti: object = 0) -> Assumptions:
    life, variation, temperature = spec["life"], spec["variation"], spec["temperature"]
    sigmas = ", ".join(
        f"{words} {variation[f'sigma_{name}_mv']:g} mV"
        for name, words in (
            ("die", "from die to die"),
            ("systematic", "correlated over a die"),
            ("random", "from SM to SM"),
        )
    )
    air = (
        f"{temperature['fixed_kelvin']} K for all SMs"
        if temperature["model"] == "fixed"
        else "from a thermal network of the GPU"
    )
    spares = life["spare_sms"]
    spare = f"More than {spares} SMs are" if spares else "An SM is"
    return [
        ("GPU", f"{spec['gpu']}; kernels {spec['workload']['kernels']}."),
        ("Aging", f"NBTI by the model {spec['aging']['model']}; stress while an SM is on."),
        (
            "End of life",
            f"{spare} slower than the slowest new SM by more than the guardband of "
            f"{_percent(life['delay_guardband'])}. Lives that reach the "
            "horizon are censored: they are longer, nobody knows how much.",
        ),
        ("Process variation", f"Standard deviations of the threshold voltage: {sigmas}."),
        ("Temperature", f"{air[0].upper()}{air[1:]}."),
        (
            "Execution time",
            f"The time model of the paper, reading {spec['time_model']['reading']}.",
        ),
        ("Left out", f"{'PBTI, ' * (not pbti)}{LEFT_OUT}."),
    ]
