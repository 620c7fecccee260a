"""Values of keys of specs: those at their bounds, and those beyond."""

import math
from typing import NamedTuple

from mcage.geometry import PRESETS


class Values(NamedTuple):
    """Values of a key.

    Parameters
    ----------
    taken, refused : tuple
        Values.
    wrong : tuple
        Lists of which the first member is refused.
    """

    taken: tuple
    refused: tuple
    wrong: tuple = ()


NO_NUMBER = ("7", "", True, math.nan, math.inf, -math.inf, [1], {})
NO_NAME = ("", 3, True, [], {})
ANY_NUMBER = Values((-1.5, 0), NO_NUMBER)
BOOLEAN = Values((True, False), (0, 1, "true", [], {}, math.nan))


def up(number):
    return math.nextafter(number, math.inf)


def down(number):
    return math.nextafter(number, -math.inf)


def integers(low, high):
    return Values((low, high), (low - 1, high + 1, low + 0.5, *NO_NUMBER))


def numbers(low, high, above=False, below=False, word=None):
    """Between bounds, which are not among them if they must be exceeded; or a word."""
    inside = (up(low) if above else low, down(high) if below else high)
    beyond = (low if above else down(low), high if below else up(high))
    return Values((*inside, *filter(None, [word])), (*beyond, *NO_NUMBER))


def drawn(low, high, word=None):
    """Numbers, or distributions between the bounds."""
    of = numbers(low, high, word=word)
    beyond = (f"uniform({low}, {up(high)})", f"uniform({down(low)}, {high})", "swing(3)")
    return Values((*of.taken, f"uniform({low}, {high})"), of.refused + beyond)


def choices(*names):
    return Values(names, (names[0].upper(), f"{names[0]} ", *NO_NAME))


def name(known="a name"):
    return Values((known,), NO_NAME)


def several(of, empty=False, most=None):
    """Lists of these values, of which each may stand there once."""
    no_list = ("text", 3, True, {}, *([] if empty else [[]]))
    too_many = () if most is None else ([of.taken[0]] * (most + 1),)
    taken = [[value] for value in of.taken] + ([[]] if empty else [])
    return Values((*taken,), no_list + too_many, tuple([value] for value in of.refused))


EXTENT = {"instances": integers(1, 10**9), "seed": integers(0, 2**63 - 1)}
STOPPING = {
    "stopping.rel_ci": numbers(0, 1, above=True, below=True),
    "stopping.margin": numbers(0, 1e6, above=True),
    "stopping.level": numbers(0.5, 1, above=True, below=True),
    "stopping.of": name(),
}
OF_SWEEPS = EXTENT | {
    "techniques": several(name()),
    "protections": several(name("none")),
    "environments": several(name("dvfs")),
    "scenarios": several(choices("common", "clustered", "dispersed", "measured")),
    "vdd_volts": several(numbers(0, 2, above=True), empty=True),
    "low_vdd": choices("working", "printed"),
    "spread": BOOLEAN,
    "preset": choices("papers", "valero-2019", "toca-diaz"),
    "workload.kernels": several(name(), empty=True),
    "workload.suite": choices("sdk-2011", "modern", "all"),
    "workload.schedule": choices("interleaved", "sequential"),
    "workload.mix_size": integers(1, 100),
    "workload.periods": integers(1, 1000),
    "workload.generations": integers(0, 10**6),
    "workload.release": choices("wavefront", "work-group"),
    "life.horizon_years": numbers(0.001, 100),
    "life.epochs": integers(1, 1000),
    "life.delay_guardband": numbers(0, 100, above=True),
    "life.temperature_kelvin": drawn(200, 450),
    "life.temperature_swing_kelvin": drawn(-250, 250),
    "life.activity": drawn(0.001, 1),
    "life.idle": choices("gated", "held"),
    "life.spill_limit": numbers(0, 1),
    "life.slowdown_limit": numbers(0, 100, word="none"),
    "life.uncorrectable_blocks": integers(0, 1000),
    "life.vmin_coefficient": numbers(0, 10),
    "life.delay_path": name(),
    "aging.model": name(),
    "aging.vt0_volts": drawn(0, 1),
    "aging.shift_factor": drawn(0, 10),
    "aging.nbti_spread_mv": Values((0, 0.05, 50), (down(0), down(0.05), up(50), *NO_NUMBER)),
    "aging.pbti": Values((0, 10, "a model"), (down(0), up(10), *NO_NUMBER[1:])),
    "aging.vmin_model": name(),
    "faults.mode": choices("varius", "table", "table-exact"),
    "faults.cell": choices("6t", "8t"),
    "faults.spread_blocks": BOOLEAN,
    "faults.fit_per_mbit": numbers(0, 1e6),
    "faults.slices_per_chip": integers(1, 10_000),
    "faults.mu_volts": ANY_NUMBER,
    "faults.sigma_die_volts": ANY_NUMBER,
    "faults.sigma_systematic_volts": ANY_NUMBER,
    "faults.sigma_random_volts": ANY_NUMBER,
    "faults.phi": ANY_NUMBER,
    "faults.arrays": Values(("none", "64x256"), ("64", "64x", *NO_NAME)),
    "registers.geometry.preset": choices(*PRESETS),
    "registers.geometry.entries": Values((64,), (64.5, *NO_NUMBER)),
    "registers.geometry.components": Values((32,), (32.5, *NO_NUMBER)),
    "registers.geometry.block_components": Values((8,), (8.5, *NO_NUMBER)),
    "registers.delta_limit": Values((1, 2**31, "none"), (0, -64, 63, 65, 2**32, 64.0, *NO_NUMBER)),
    "registers.lds_rows": integers(0, 1024),
    "registers.overflow": choices("memory", "end"),
    "registers.selector_offsets": Values((1, 256), (0, 3, 257, 512, 8.0, *NO_NUMBER)),
    "costs.technology": choices("28nm", "32nm"),
    "costs.vdd_scaling": choices("curve", "rows"),
    **STOPPING,
}

BESIDE = {key: {"rel_ci": 0.1} for key in ("stopping.of", "stopping.level")}
"""Keys that must stand beside one."""


def nested(key, value):
    """Fields of a spec in which one key has a value."""
    *tables, last = key.split(".")
    fields = {last: value} | BESIDE.get(key, {})
    for table in reversed(tables):
        fields = {table: fields}
    return fields
