"""Table of the options of `mcage gpu both` that set a key of its spec."""

from dataclasses import replace
from typing import Any

from mcage.cli.gpu.options import GATING_OPTIONS
from mcage.cli.spec_option import SpecOption, grouped
from mcage.cli.spec_options import COMPARED, REGISTERS, spec_option

_OF_STUDY = ("seed", "stopping.rel_ci", "stopping.of")
"""Keys of `mcage gpu gating` that are keys of this study, too."""

_OTHERS = {"instances": "500", "policies": "default, round-robin", "stopping.of": "cell_margin"}
"""Defaults in which the study differs from one of SM gating."""


_LEFT_OUT = "workload.idle"
"""Key of `mcage gpu gating` of which this study takes the default only."""


def _listed(value: Any) -> list[Any]:
    return [value]


def _of_gating(row: SpecOption) -> SpecOption:
    is_study = row.key in ("instances", *_OF_STUDY)
    key = row.key if is_study else f"gating.{row.key}"
    return replace(row, key=key, default=_OTHERS.get(row.key, row.default))


def _of_sweep(flag: str, **changes: Any) -> SpecOption:
    row = spec_option(flag)
    return replace(row, **{"key": f"sweep.{row.key}", "group": REGISTERS} | changes)


BOTH_OPTIONS: tuple[SpecOption, ...] = (
    _of_sweep("--technique", group=COMPARED, default="baseline, rc+rar"),
    *(_of_gating(row) for row in GATING_OPTIONS if row.key != _LEFT_OUT),
    *grouped(
        REGISTERS,
        SpecOption(
            "--slices-per-sm N",
            "slices_per_sm",
            int,
            "Number of register-file slices of an SM.",
            "2, the 128 KB of a GTX580's SM",
        ),
        SpecOption(
            "--cell-vt0 WHICH",
            "cell_vt0",
            str,
            "Unaged threshold of cells: that of their SM (sm), or of the NBTI model (nominal).",
            "sm",
        ),
    ),
    _of_sweep("--environment", repeats=False, read=_listed, default="nominal"),
    _of_sweep("--scenario", repeats=False, read=_listed),
    _of_sweep("--vdd", repeats=False, read=_listed),
    _of_sweep(
        "--kernel",
        usage="--replay NAME",
        help="Bundled kernel that register files replay, or a trace file.",
    ),
    _of_sweep("--periods"),
    _of_sweep("--epochs"),
)
