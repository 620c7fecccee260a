"""Do traces drawn from a profile replay like the recorded ones?

For each bundled trace and each technique: its profile, a trace drawn from it, and both replayed on
the same fault maps at a low Vdd. Prints by trace the largest difference among the techniques.

    python scripts/validation/check_synthesis.py [--seeds N] [--details] [trace ...]
"""

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import environment
from mcage.aging.nbti.facelift import facelift
from mcage.studies.single_replay import replay
from mcage.techniques import TECHNIQUES, Technique
from mcage.traces import KERNELS, Trace, open_trace
from mcage.traces.profiles.characterizing.characterize import characterize
from mcage.traces.profiles.synthesizing.synthesize import synthesize
from mcage.variation.fault_map import fault_map
from mcage.variation.fault_model import fault_model

SECONDS = 3 * 365.25 * 24 * 3600
MAPS, VDD_VOLTS = 4, 0.42
QUANTITIES = {
    "zero": "longest '0' duty cycle",
    "one": "longest '1' duty cycle",
    "dvth": "largest threshold shift after three years under the nominal environment, relative",
    "spilled": "writes to the LDS, share of all writes",
    "redirected": "writes to reliable or faulty entries, share of all writes",
    "regular": "writes that stay in their home, share of all writes",
    "slowdown": "slowdown",
}


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
    nominal = environment("nominal", 0.5)
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
    parser.add_argument("--details", action="store_true", help="print each technique, too")
    given = parser.parse_args()
    print(f"{'':32}" + "".join(f"{key:>12}" for key in QUANTITIES))
    worst = dict.fromkeys(QUANTITIES, 0.0)
    for name in given.traces:
        largest = dict.fromkeys(QUANTITIES, 0.0)
        for seed in range(given.seeds):
            for technique, apart in differences(open_trace(name), seed):
                if given.details:
                    _print(f"  {technique}", apart)
                for key in QUANTITIES:
                    largest[key] = max(largest[key], apart[key], -apart[key])
        _print(name, largest)
        worst = {key: max(worst[key], largest[key]) for key in QUANTITIES}
    _print("largest", worst)


def _print(name: str, numbers: dict[str, float]) -> None:
    print(f"{name:32}" + "".join(f"{number:12.4f}" for number in numbers.values()), flush=True)


if __name__ == "__main__":
    main()
