"""Two cases of sweeps compared: on the same dies die by die, and otherwise mean by mean."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.report.cases import find_case, labels_of, lives_of
from mcage.report.spec_differences import Difference, spec_differences
from mcage.results.reader import open_results
from mcage.stats.estimates import Floats
from mcage.stats.paired import Outliving, PairedMeans, compare_means, outliving
from mcage.sweep.variables import TRANSISTORS


@dataclass(frozen=True)
class Comparison:
    """Differences between two cases on the same dies.

    Lives are compared on all dies. Quantities that only a working slice has are compared on the
    dies that worked at all in both cases.

    Parameters
    ----------
    first, second : str
        Labels of the cases.
    instances : int
        Dies.
    horizon_years : float
        End of the simulated time.
    life_to_horizon_years : PairedMeans
        Years lived up to the horizon; their mean is the restricted mean survival time (RMST).
    outliving : Outliving
        How often each case outlives the other.
    max_dvth_mv : dict of str to PairedMeans
        By transistor: largest threshold shift of the slice at the end of its life or at the
        horizon, mV; at different ages where lives differ.
    max_dvth_mv_at_equal_age : dict of str to PairedMeans
        The same at the end of the last epoch that the die survives in both cases.
    spill_rate : PairedMeans
        Share of register writes that go to the LDS.
    energy_saving_nominal : PairedMeans
        Energy saved over a conventional slice at the technology's nominal Vdd, as a fraction of the
        energy of that slice.
    differences : tuple of Difference
        In what the specs of the two differ, where they are of two files.
    """

    first: str
    second: str
    instances: int
    horizon_years: float
    life_to_horizon_years: PairedMeans
    outliving: Outliving
    max_dvth_mv: dict[str, PairedMeans]
    max_dvth_mv_at_equal_age: dict[str, PairedMeans]
    spill_rate: PairedMeans
    energy_saving_nominal: PairedMeans
    differences: tuple[Difference, ...] = ()


def compare(results: xr.Dataset, first: str, second: str) -> Comparison:
    """Compare two cases of a results file.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    first, second : str
        Cases: labels, or beginnings of labels that mean a single case each.

    Raises
    ------
    UserError
        A name means no case or several, or both mean the same.
    """
    labels = labels_of(results)
    places = find_case(labels, first), find_case(labels, second)
    if places[0] == places[1]:
        raise UserError(f"{first!r} and {second!r} are both {labels[places[0]]!r}: two are needed")
    case, other = (results.isel(case=place) for place in places)
    return compare_cases(case, other)


def compare_cases(case: xr.Dataset, other: xr.Dataset) -> Comparison:
    """Compare two cases on the same dies; shifts at equal age only if they have the same epochs."""
    lives, other_lives = lives_of(case), lives_of(other)

    def both(name: str) -> tuple[Floats, Floats]:
        return case[name].values, other[name].values

    dvth = both("max_dvth_mv")
    ends, other_ends = both("epoch_end_years")
    aged = []
    if np.array_equal(ends, other_ends):
        lived_under_both = np.minimum(lives.years, other_lives.years)
        aged = [_at_age(of, ends, lived_under_both) for of in both("epoch_max_dvth_mv")]
    return Comparison(
        first=lives.label,
        second=other_lives.label,
        instances=lives.years.size,
        horizon_years=lives.horizon_years,
        life_to_horizon_years=compare_means(lives.years, other_lives.years),
        outliving=outliving(lives.years, lives.died, other_lives.years, other_lives.died),
        max_dvth_mv={
            name: compare_means(dvth[0][:, i], dvth[1][:, i]) for i, name in enumerate(TRANSISTORS)
        },
        max_dvth_mv_at_equal_age={
            name: compare_means(aged[0][:, i], aged[1][:, i])
            for i, name in enumerate(TRANSISTORS)
            if aged
        },
        spill_rate=compare_means(*both("spill_rate")),
        energy_saving_nominal=compare_means(*both("energy_saving_nominal")),
    )


def compare_in_file(path: Path, first: str, second: str) -> Comparison:
    """Compare two cases of a results file, as `compare`.

    Raises
    ------
    UserError
        Also if the file is missing, foreign, damaged or of a newer mcage.
    """
    with open_results(path) as results:
        try:
            return compare(results, first, second)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error


def compare_in_files(paths: Sequence[Path], first: str, second: str) -> Comparison:
    """Compare two cases of several files on the dies that both files hold.

    Parameters
    ----------
    paths : sequence of Path
        Results files of sweeps.
    first, second : str
        Cases: labels or their beginnings, also after the name of a file, or that name alone if the
        file has a single case.

    Raises
    ------
    UserError
        As `compare`; or the dies, epochs or horizons of the two are not the same, or a file cannot
        be read.
    """
    with ExitStack() as files:
        cases = [
            (path, results.isel(case=place))
            for path in paths
            for results in (files.enter_context(open_results(path)),)
            for place in range(results.sizes["case"])
        ]
        labels = [str(case["case"].item()) for _, case in cases]
        names = [
            label if labels.count(label) == 1 else f"{label} of {path}"
            for label, (path, _) in zip(labels, cases, strict=True)
        ]
        places = [_find(paths, cases, names, name) for name in (first, second)]
        if places[0] == places[1]:
            raise UserError(
                f"{first!r} and {second!r} are both {names[places[0]]!r}: two are needed"
            )
        (path, case), (other_path, other) = (cases[place] for place in places)
        if path != other_path:
            _require_same_dies(path, case, other_path, other)
            common, *indices = np.intersect1d(
                case["instance"], other["instance"], assume_unique=True, return_indices=True
            )
            if not common.size:
                raise UserError(f"{path} and {other_path} hold no instance in common")
            case, other = (
                each.isel(instance=index)
                for each, index in zip((case, other), indices, strict=True)
            )
        compared = compare_cases(case, other)
        differences = spec_differences(case.attrs["spec"], other.attrs["spec"])
    return replace(
        compared,
        first=names[places[0]],
        second=names[places[1]],
        differences=tuple(differences),
    )


def _find(
    paths: Sequence[Path], cases: Sequence[tuple[Path, xr.Dataset]], names: Sequence[str], name: str
) -> int:
    """Place of the case that a name means, of which the file may be the first word."""
    if any(f"{name} ".startswith(f"{path} ") for path in paths):
        return find_case([f"{path} {case['case'].item()}" for path, case in cases], name)
    return find_case(names, name)


def _require_same_dies(path: Path, case: xr.Dataset, other_path: Path, other: xr.Dataset) -> None:
    """Refuse cases of which an instance of the same id is not the same die at the same ages."""
    seeds = case.attrs["seed"], other.attrs["seed"]
    if seeds[0] != seeds[1]:
        raise UserError(
            f"{path} has seed {seeds[0]} and {other_path} seed {seeds[1]}: their dies differ, and "
            "cannot be compared die by die"
        )
    if not np.array_equal(case["epoch_end_years"], other["epoch_end_years"]):
        raise UserError(
            f"{path} and {other_path} have different epochs: compare sweeps of the same horizon, "
            "epochs and workload periods"
        )


def _at_age(epoch_values: Floats, ends_years: Floats, age_years: Floats) -> Floats:
    """Values at the last end of an epoch that is not after an age: [instance, transistor].

    NaN where no epoch ends before.
    """
    epoch = np.searchsorted(ends_years, age_years, side="right") - 1
    values: Floats = epoch_values[np.arange(epoch.size), np.maximum(epoch, 0)]
    return np.where(epoch[:, None] >= 0, values, np.nan)
