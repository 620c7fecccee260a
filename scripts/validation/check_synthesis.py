"""Are traces drawn from a profile like the recorded ones, and do they replay like them?

For each bundled trace: its profile, and a trace drawn from it by each seed. Prints by trace the
largest difference of each kind of statistic (of shares; of other numbers relative to them; of
levels relative to their mean), or, of replays on the same fault maps at a low Vdd, the largest
among the techniques.

    python scripts/validation/check_synthesis.py [--seeds N] [--statistics | --details] [trace ...]
"""

import argparse
from collections.abc import Container, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import environment
from mcage.aging.nbti.models import facelift
from mcage.single_runs.replay import replay
from mcage.techniques import TECHNIQUES, Technique
from mcage.traces import KERNELS, Trace, open_trace
from mcage.traces.profiles import Profile
from mcage.traces.profiles.characterize import characterize
from mcage.traces.profiles.synthesize import synthesize
from mcage.variation.fault_models import fault_map, fault_model

SECONDS = 3 * 365.25 * 24 * 3600
MAPS, VDD_VOLTS = 4, 0.42
QUANTITIES = {
    "zero": "longest '0' duty cycle",
    "one": "longest '1' duty cycle",
    "dvth": "largest threshold shift after three years under the environment turbo, relative",
    "spilled": "writes to the LDS, share of all writes",
    "redirected": "writes to reliable or faulty entries, share of all writes",
    "regular": "writes that stay in their home, share of all writes",
    "slowdown": "slowdown",
}


STATISTICS = (
    "windows.lifetime_cycles",
    "windows.allocation_interval_cycles",
    "concurrency",
    "rates",
    "patterns",
    "patterns.warped_compression",
    "divergence",
    "bits.ones",
    "bits.neighbours_differ",
    "bits.value_before_differs",
    "lifetimes.write_to_next_write_cycles",
    "lifetimes.write_to_last_read_cycles",
    "lifetimes.reads_per_value",
)
"""Keys of the statistics of a profile; a longer key takes what it names from a shorter one."""


def of_statistics(recorded: Profile, seed: int) -> dict[str, float]:
    """Largest difference of a drawn trace from its profile, by the keys of `STATISTICS`."""
    before, after = (
        dict(numbers_of(each.statistics))
        for each in (recorded, characterize(synthesize(recorded, seed)))
    )
    largest = dict.fromkeys(STATISTICS, 0.0)
    for names, numbers in before.items():
        apart = np.abs(after[names] - numbers).max() / max(np.abs(numbers).mean(), 1)
        if key := key_of(names, STATISTICS):
            largest[key] = max(largest[key], float(apart))
    return largest


def numbers_of(
    statistics: dict[str, Any], before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], NDArray[np.float64]]]:
    """Every list of numbers of the statistics, by the names that lead to it."""
    for key, value in statistics.items():
        if isinstance(value, dict):
            yield from numbers_of(value, (*before, key))
        else:
            yield (*before, key), np.atleast_1d(np.asarray(value, float))


def key_of(names: tuple[str, ...], keys: Container[str]) -> str | None:
    """The longest of the keys that leads to a number; patterns are left out for bits."""
    names = ("bits", names[2]) if names[0] == "bits" else names
    return next((key for key in (".".join(names[:2]), names[0]) if key in keys), None)


def fault_maps(trace: Trace) -> NDArray[np.uint8]:
    """Fault maps of a slice at the low Vdd: uint8[maps, entries]."""
    model = fault_model("common", geometry=trace.geometry)
    cells = model.sample(1, np.arange(MAPS), VDD_VOLTS)
    return fault_map(cells, cells.vmin_volts > VDD_VOLTS)


def measured(trace: Trace, technique: Technique, maps: NDArray[np.uint8]) -> dict[str, float]:
    """What a replay gives, in the mean over the fault maps, by the keys of `QUANTITIES`."""
    got: dict[str, Any] = replay(trace, technique, maps)
    runs = np.array([value is not None for value in got["slowdown"]["total"]])

    def mean(values: list[Any]) -> float:
        return float(np.mean(np.array(values, dtype=float)[runs])) if runs.any() else np.nan

    writes = {kind: mean(counts) for kind, counts in got["writes"].items()}
    total = sum(writes.values())
    zero, one = mean(got["longest_zero_duty"]), mean(got["longest_one_duty"])
    nominal = environment("turbo", 0.5)
    return {
        "zero": zero,
        "one": one,
        "dvth": float(facelift().dvth_at(nominal, min(max(zero, one), 1.0), SECONDS)),
        "spilled": writes["lds"] / total,
        "redirected": (writes["to_reliable"] + writes["to_faulty"]) / total,
        "regular": writes["regular"] / total,
        "slowdown": mean(got["slowdown"]["total"]),
    }


def differences(
    recorded: Trace, seed: int, techniques: tuple[str, ...] = tuple(TECHNIQUES)
) -> Iterator[tuple[str, dict[str, float]]]:
    """Differences of a drawn trace from the recorded one, technique by technique."""
    drawn, maps = synthesize(characterize(recorded), seed), fault_maps(recorded)
    for name in techniques:
        before, after = (measured(each, TECHNIQUES[name], maps) for each in (recorded, drawn))
        of_shift = max(before["dvth"], 1e-12)
        yield (
            name,
            {
                key: (after[key] - before[key]) / (of_shift if key == "dvth" else 1)
                for key in QUANTITIES
            },
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", default=list(KERNELS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--statistics", action="store_true", help="instead of replays")
    parser.add_argument("--details", action="store_true", help="print each technique, too")
    given = parser.parse_args()
    keys = STATISTICS if given.statistics else tuple(QUANTITIES)
    print(f"{'':22}" + "".join(f"{key.rpartition('.')[2][:11]:>12}" for key in keys))
    worst = dict.fromkeys(keys, 0.0)
    for name in given.traces:
        largest = dict.fromkeys(keys, 0.0)
        for apart in _apart(open_trace(name), given):
            largest = {key: max(largest[key], apart[key], -apart[key]) for key in keys}
        _print(name, largest)
        worst = {key: max(worst[key], largest[key]) for key in keys}
    _print("largest", worst)


def _apart(recorded: Trace, given: argparse.Namespace) -> Iterator[dict[str, float]]:
    profile = characterize(recorded) if given.statistics else None
    for seed in range(given.seeds):
        if profile is not None:
            yield of_statistics(profile, seed)
            continue
        for technique, apart in differences(recorded, seed):
            if given.details:
                _print(f"  {technique}", apart)
            yield apart


def _print(name: str, numbers: dict[str, float]) -> None:
    print(f"{name:22}" + "".join(f"{number:12.4f}" for number in numbers.values()), flush=True)


if __name__ == "__main__":
    main()
