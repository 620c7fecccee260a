"""Which assumptions move a headline by more than a tenth? The tables of results/sensitivity.md.

    python scripts/experiments/which_assumptions.py [--instances 200] [--headline NAME ...] [--page]

Each parameter of `mcage sensitivity` is set to the ends of its range, one at a time, and the
headline is computed again on the same dies. Prints a Markdown table for each headline; `--page`
puts them between the comments of results/sensitivity.md. 80 dies take one to eight minutes for
each headline on two cores.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import numpy as np
from doc_tables import bring_up_to_date, markdown

from mcage.engines import select_engine
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.methods.sensitivity import Parameter, changed, chosen, refitted, shipped
from mcage.methods.sensitivity_output import setting as in_words
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
from mcage.studies.vmin.spec import VminSpec
from mcage.studies.vmin.study import VminStudy

PAGE = Path(__file__).parents[2] / "results" / "sensitivity.md"
MOVED = 0.1
"""Part of a headline by which an assumption must move it to have a line of its own."""


@dataclass(frozen=True)
class Headline:
    """A number that mcage prints first.

    Attributes
    ----------
    title, unit : str
        What it is, and its unit.
    fields : dict
        Its sweep.
    compute : callable
        From a spec, an engine and a sweep whose replays may be taken over to the number, and to a
        sweep for the next; NaN or infinity where it is not known.
    """

    title: str
    unit: str
    fields: dict[str, Any]
    compute: Callable[[SweepSpec, Engine, Sweep | None], tuple[float, Sweep | None]]


def mean_life(spec: SweepSpec, engine: Engine, like: Sweep | None) -> tuple[float, Sweep | None]:
    """Mean life of the only case, counted up to the horizon, in years."""
    sweep = Sweep(spec, engine, like=like)
    return float(sweep.compute(0, spec.instances)["life_years"][0].mean()), sweep


def gain_in_median_life(
    spec: SweepSpec, engine: Engine, like: Sweep | None
) -> tuple[float, Sweep | None]:
    """Median life of the second technique over that of the first."""
    sweep = Sweep(spec, engine, like=like)
    arrays = sweep.compute(0, spec.instances)
    lives = np.where(arrays["end_cause"] == EndCause.CENSORED, np.inf, arrays["life_years"])
    before, after = np.median(lives, axis=1)
    return float(after / before) if 0 < before < np.inf else np.nan, sweep


def gain_in_vmin(spec: SweepSpec, engine: Engine, _: Sweep | None) -> tuple[float, Sweep | None]:
    """Median over dies by how much the second technique lowers Vmin at the last age, in mV."""
    left_out = {"vdd_volts", "low_vdd", "stopping"}
    given = spec.model_dump(mode="json", exclude_none=True, exclude=left_out)
    ages = {"vmin": {"ages_years": [0.0, spec.life.horizon_years]}}
    study = VminStudy(VminSpec.from_mapping(given | ages), engine)
    before, after = study.compute(0, spec.instances)["vmin_volts"][:, :, -1]
    known = np.isfinite(before) & np.isfinite(after)
    return 1e3 * float(np.median((before - after)[known])) if known.any() else np.nan, None


HEADLINES = {
    "life": Headline(
        "Mean life of `rrcd` under `dvfs`, up to ten years",
        "years",
        {"techniques": ["rrcd"], "environments": ["dvfs"]},
        mean_life,
    ),
    "gain": Headline(
        "Median life of `rc+rar` over that of `baseline`, at 1.0 V",
        "times",
        {
            "techniques": ["baseline", "rc+rar"],
            "environments": ["turbo"],
            "life": {"horizon_years": 100.0},
        },
        gain_in_median_life,
    ),
    "vmin": Headline(
        "Vmin that `rrcd` gains over `baseline`, after ten years under `dvfs`",
        "mV",
        {"techniques": ["baseline", "rrcd"], "environments": ["dvfs"]},
        gain_in_vmin,
    ),
}


def table_of(headline: Headline, instances: int, engine: Engine) -> str:
    """Markdown of a headline: its value, what moves it by more than a tenth, and what does not."""
    base = SweepSpec.from_mapping(headline.fields | {"instances": instances})
    usual, like = headline.compute(base, engine, None)
    bars = []
    for varied in chosen(base, shipped()):
        said = [each_of(headline, base, varied, value, engine, like) for value in varied.settings]
        shifts = [abs(number / usual - 1) for number in said if np.isfinite(number)]
        beyond = any(np.isinf(number) for number in said)
        bars.append((np.inf if beyond else max(shifts, default=np.nan), varied, said))
        print(".", end="", file=sys.stderr, flush=True)
    bars.sort(key=lambda bar: -np.nan_to_num(bar[0], nan=-1.0))
    rows = [
        [
            f"`{varied.name}`" if first else "",
            varied.status if first else "",
            in_words(varied.nominal) if first else "",
            in_words(value),
            number_in_words(number),
            change_in_words(number / usual - 1),
        ]
        for moved, varied, said in bars
        if moved > MOVED
        for first, value, number in zip(
            [True] + [False] * len(said), varied.settings, said, strict=False
        )
    ]
    less = ", ".join(f"`{varied.name}`" for moved, varied, _ in bars if moved <= MOVED)
    unknown = ", ".join(f"`{varied.name}`" for moved, varied, _ in bars if np.isnan(moved))
    head = ["parameter", "status", "reference", "setting", f"headline, {headline.unit}", "change"]
    lines = [
        f"**{headline.title}**: {number_in_words(usual)} {headline.unit} ({instances} dies).",
        markdown(head, rows).rstrip(),
        f"Moved by a tenth at most by {less or 'none'}.",
    ]
    if unknown:
        lines.append(f"Refused, or without a number: {unknown}.")
    return "\n\n".join(lines)


def each_of(
    headline: Headline,
    base: SweepSpec,
    varied: Parameter,
    value: float | str,
    engine: Engine,
    like: Sweep | None,
) -> float:
    """The headline under a setting; NaN where it is refused."""
    setting = {varied.key: value}
    try:
        spec = refitted(changed(base, setting), base, setting)
        return headline.compute(spec, engine, like)[0]
    except UserError as error:
        print(f"\n{varied.name} = {value}: {error}", file=sys.stderr)
        return np.nan


def number_in_words(number: float) -> str:
    """A headline with three digits."""
    return "beyond the horizon" if np.isinf(number) else f"{number:.3g}"


def change_in_words(change: float) -> str:
    """A change in percent."""
    return "" if not np.isfinite(change) else f"{100 * change:+.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=40)
    parser.add_argument("--headline", choices=HEADLINES, action="append", help="default: all")
    parser.add_argument("--page", action="store_true", help=f"write them into {PAGE.name}")
    options = parser.parse_args()
    engine, _ = select_engine("numba")
    for name in options.headline or HEADLINES:
        text = table_of(HEADLINES[name], options.instances, engine)
        print(f"\n{text}\n", flush=True)
        if options.page:
            bring_up_to_date(PAGE, {f"moves {name}": f"{text}\n"})


if __name__ == "__main__":
    main()
