"""Conditions that all instances of a case share while they live."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mcage.aging.environment import Environment, dvth_at_delay
from mcage.aging.nbti import SECONDS_PER_YEAR, AdditiveModel, Facelift, NbtiModel, with_constants
from mcage.aging.nbti.catalogue import check_model
from mcage.aging.sampling import InstanceConstants, InstanceDistributions
from mcage.aging.transistors import AdditiveShift, NbtiSpread, Pbti
from mcage.aging.vmin import CellFailure, Margins
from mcage.errors import UserError
from mcage.geometry import Floats, Integers
from mcage.lifetime.degradation import History
from mcage.lifetime.feasibility import Limits
from mcage.protection.policy import Protection

LARGEST_SCORE_OF_CELLS = 5.5
"""Scores up to which cells are looked for that bad luck alone makes faulty: a transistor in 5e7 has
a larger score. Beyond, less than one such cell is expected in ten thousand slices."""


@dataclass(frozen=True, eq=False)
class DelayLimit:
    """Shifts at which the transistors of n instances are too slow; [n], or a number for all.

    Parameters
    ----------
    vt0_volts : array
        Unaged threshold voltage.
    dvth_volts : array
        Mean shift at which the delay uses up its guardband.
    path_volts : array
        Shift of the path that decides the delay at which it does so: `dvth_volts` where all
        transistors shift alike.
    """

    vt0_volts: Floats
    dvth_volts: Floats
    path_volts: Floats

    def of(self, which: Integers) -> Floats:
        """Mean shifts of selected instances: float64[m], or a number for all."""
        return self.dvth_volts[which] if self.dvth_volts.ndim else self.dvth_volts

    def of_path(self, which: Integers) -> Floats:
        """Shifts of the paths of selected instances: float64[m], or a number for all."""
        return self.path_volts[which] if self.path_volts.ndim else self.path_volts


@dataclass(frozen=True)
class LifeConditions:
    """Conditions of all instances of a case.

    Parameters
    ----------
    environment : Environment
        Operating points.
    nbti : NbtiModel
        Model of the threshold shift.
    epoch_edges_years : tuple of float
        Edges of the epochs, from 0 to the horizon.
    delay_guardband : float
        Delay increase that ends a life.
    vmin_coefficient : float
        Growth of Vmin per threshold shift, V/V.
    limits : Limits
        What else ends a life: no room for spilled registers, too many of them, a slow mix.
    protection : Protection
        What protects entries against hard faults.
    distributions : InstanceDistributions
        Distributions of the constants in which instances differ.
    holds_while_idle : bool
        Whether a slice holds its values while it is idle, so that replays contain the idle time;
        if not, all its cells are off in it.
    spread : NbtiSpread, optional
        How transistors differ that are stressed alike; by default they shift alike.
    pbti : Pbti, optional
        Model of the pull-down transistors; by default they do not age.
    margins : Margins, optional
        How Vmin grows by margin; by default it grows with the larger shift of a cell.
    """

    environment: Environment
    nbti: NbtiModel
    epoch_edges_years: tuple[float, ...]
    delay_guardband: float
    vmin_coefficient: float
    limits: Limits
    protection: Protection
    distributions: InstanceDistributions
    holds_while_idle: bool = False
    spread: NbtiSpread | None = None
    pbti: Pbti | None = None
    margins: Margins | None = None

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return len(self.epoch_edges_years) - 1

    @property
    def horizon_seconds(self) -> float:
        """End of the simulated time."""
        return self.epoch_edges_years[-1] * SECONDS_PER_YEAR

    @cached_property
    def floor_volts(self) -> float:
        """Vmin below which no cell can ever be faulty: lowest Vdd less the largest growth.

        Where transistors differ by their luck, less than one such cell is expected in ten thousand
        slices.
        """
        if self.spread is None:
            return self.mean_floor_volts
        coefficients, means = self._extremes_of_growth
        largest = self.spread.traps.shift(means, LARGEST_SCORE_OF_CELLS)
        if self.margins is None:
            growth = coefficients * largest.max(axis=0)
        else:
            # Four transistors are not that unlucky at once: what each adds to its mean is added up
            # as independent deviations are.
            weights = np.maximum(self.margins.rows, 0.0)[..., None]
            added = np.sqrt(((weights * (largest - means)) ** 2).sum(axis=1))
            growth = coefficients * ((weights * means).sum(axis=1) + added)
        return self.environment.lowest_vdd_volts - float(growth.max())

    @cached_property
    def mean_floor_volts(self) -> float:
        """Vmin below which no cell can ever be faulty if its transistors shift like the mean."""
        coefficients, means = self._extremes_of_growth
        if self.margins is None:
            growth = float(np.max(coefficients * means.max(axis=0)))
        else:
            growth = float(self.largest_growth().max())
        return self.environment.lowest_vdd_volts - growth * (1 + 1e-9)

    def largest_growth(self, scores: Floats | None = None) -> Floats:
        """Bound of the growth of Vmin at the horizon by limit, where there are margins, in volts.

        Parameters
        ----------
        scores : float64[k, n], optional
            Scores of the transistors of cells, where these differ by their luck.

        Returns
        -------
        float64[6, n]
            For all cells alike, n = 1.
        """
        assert self.margins is not None
        coefficients, means = self._extremes_of_growth
        shifts = means.max(axis=1, keepdims=True)
        if scores is not None and self.spread is not None:
            shifts = self.spread.traps.shift(shifts[: len(scores)], scores)
        return np.max(coefficients) * self.margins.largest_growth(shifts)

    @cached_property
    def _largest_dvth_volts(self) -> float:
        """Largest shift at the horizon of any transistor within the bounds of the distributions."""
        return self._extreme_nbti.largest_dvth(
            self.environment, self.horizon_seconds, self.distributions.extremes
        )

    @cached_property
    def _extremes_of_growth(self) -> tuple[Floats, Floats]:
        """Growth of Vmin per shift, and largest mean shifts until the horizon.

        Returns
        -------
        float64[rows] or float64[], float64[4, rows]
            The coefficient, and shifts of T0, T1, N0 and N1; 0 where they do not age. There is a
            row for all, or for each that instances may have.
        """
        draws, coefficient_of_all = self.distributions.draws, np.array(self.vmin_coefficient)
        pull_downs = self._largest_of_pull_downs
        if draws is None:
            shifts = np.array([self._largest_dvth_volts])
            return coefficient_of_all, np.stack(
                [*[shifts] * 2, *[pull_downs.max(keepdims=True)] * 2]
            )
        shifts = self._extreme_nbti.dvth_at(
            self.environment, 1.0, self.horizon_seconds, self.distributions.extremes
        )
        means = np.stack(np.broadcast_arrays(shifts, shifts, pull_downs, pull_downs))
        coefficient = draws.of_slices.get("vmin_coefficient")
        if coefficient is None:
            return coefficient_of_all, means
        return coefficient[self.distributions.row_of_extremes], means

    @cached_property
    def _largest_of_pull_downs(self) -> Floats:
        """Largest mean shifts of pull-downs at the bounds of the distributions: float64[...]."""
        if self.pbti is None:
            return np.zeros(1)
        model = self._extreme_nbti if self.pbti.alike else self.pbti.model
        pull_downs = self.pbti.transistors(self.distributions.extremes)
        return np.atleast_1d(model.dvth_at(self.environment, 1.0, self.horizon_seconds, pull_downs))

    @cached_property
    def _extreme_nbti(self) -> NbtiModel:
        """The model of the transistors at the bounds of the distributions."""
        draws = self.distributions.draws
        rows = self.distributions.row_of_extremes
        of_model = {} if draws is None else draws.of_model
        return with_constants(self.nbti, {name: array[rows] for name, array in of_model.items()})

    def _nbti_of(self, constants: InstanceConstants) -> NbtiModel:
        """The model of the transistors of instances."""
        return with_constants(self.nbti, constants.of_model)

    @property
    def sums_suffice(self) -> bool:
        """Whether shifts follow from the total stress time, whatever the order of epochs."""
        models = [self.nbti, *([self.pbti.model] if self.pbti else [])]
        additive = all(isinstance(model, AdditiveModel) for model in models)
        return additive and not self.distributions.swings

    @property
    def is_plain(self) -> bool:
        """Whether nothing but means of T0 and T1 under `facelift` decides when cells fail.

        That is what engines compute in kernels; the host works out the rest cell by cell.
        """
        others = self.pbti, self.margins, self.spread
        return self.sums_suffice and type(self.nbti) is Facelift and others == (None, None, None)

    def check_model(self) -> None:
        """Refuse a model that lives cannot rely on, as far as random histories show it.

        Raises
        ------
        UserError
            See `mcage.aging.nbti.catalogue.check_model`.
        """
        if self.sums_suffice:
            return
        sampled, seconds = self.distributions, self.horizon_seconds
        of_model = {} if sampled.draws is None else sampled.draws.of_model
        rows = (sampled.row_of_extremes, of_model)
        check_model(self.nbti, self.environment, seconds, sampled.extremes, rows)
        if self.pbti is not None and not self.pbti.alike:
            transistors = self.pbti.transistors(sampled.extremes)
            check_model(self.pbti.model, self.environment, seconds, transistors)

    def additive_shift(self, constants: InstanceConstants | None = None) -> AdditiveShift:
        """How the transistors of instances shift, where sums suffice.

        Parameters
        ----------
        constants : InstanceConstants, optional
            Constants of the instances, within the bounds of the distributions. They may be left
            out if all instances are alike.

        Raises
        ------
        UserError
            If constants are left out, but instances differ; or if a transistor within the bounds of
            the distributions would shift further than the transistors at the bounds.
        """
        checked = self._checked(constants)
        assert isinstance(self.nbti, AdditiveModel)
        activity, pull_downs = self._switched_on(checked), None
        if self.pbti is not None:
            of_model = checked.of_model if self.pbti.alike else {}
            assert isinstance(self.pbti.model, AdditiveModel)
            model, transistors = self.pbti.model, self.pbti.transistors(checked.transistors)
            rates = with_constants(model, of_model).rates(self.environment, transistors)
            pull_downs = AdditiveShift(model, rates, activity, of_model)
        return AdditiveShift(
            nbti=self.nbti,
            rates=self._nbti_of(checked).rates(self.environment, checked.transistors),
            activity=activity,
            of_model=checked.of_model,
            pull_downs=pull_downs,
        )

    def history(self, constants: InstanceConstants | None = None) -> History:
        """History of the transistors of instances; see `additive_shift` for arguments."""
        checked = self._checked(constants)
        edges = tuple(years * SECONDS_PER_YEAR for years in self.epoch_edges_years)
        transistors = [checked.in_epoch(epoch).transistors for epoch in range(self.epochs)]
        rates = tuple(self._nbti_of(checked).rates(self.environment, each) for each in transistors)
        activity, pull_downs = self._switched_on(checked), None
        if self.pbti is not None:
            of_model = checked.of_model if self.pbti.alike else {}
            model = with_constants(self.pbti.model, of_model)
            of_cells = [self.pbti.transistors(each) for each in transistors]
            of_epochs = tuple(model.rates(self.environment, each) for each in of_cells)
            pull_downs = History(self.pbti.model, of_epochs, edges, activity, of_model)
        return History(self.nbti, rates, edges, activity, checked.of_model, pull_downs)

    def cell_failure(self, constants: InstanceConstants | None = None) -> CellFailure:
        """When cells of instances fail; see `additive_shift` for arguments."""
        drawn = None if constants is None else constants.vmin_coefficient
        return CellFailure(
            self.vmin_coefficient if drawn is None else drawn,
            self.environment.lowest_vdd_volts,
            self.margins,
            self.spread.traps if self.spread else None,
        )

    def alpha(self, constants: InstanceConstants | None = None) -> Floats:
        """Exponent of the alpha-power law; see `additive_shift` for arguments."""
        of_model = {} if constants is None else constants.of_model
        return np.asarray(of_model.get("alpha", self.nbti.alpha))

    def delay_limit(
        self, constants: InstanceConstants | None = None, path_scores: Floats | None = None
    ) -> DelayLimit:
        """When paths of instances are too slow.

        Parameters
        ----------
        constants : InstanceConstants, optional
            See `additive_shift`.
        path_scores : float64[I], optional
            Score of the worst path of each, where transistors differ by their luck.
        """
        values = self._given(constants)
        alpha, drawn = self.alpha(values), values.delay_guardband
        guardband = np.asarray(self.delay_guardband if drawn is None else drawn)
        vdd_volts = self.environment.highest_vdd_volts
        if not alpha.ndim and not guardband.ndim:
            mean = np.asarray(
                dvth_at_delay(float(guardband), vdd_volts, values.vt0_volts, float(alpha))
            )
        else:
            # A power of each by itself, as of all: an array of powers may be rounded differently.
            each = np.broadcast_arrays(guardband, values.vt0_volts, alpha)
            rows = zip(*(array.tolist() for array in each), strict=True)
            mean = np.array(
                [dvth_at_delay(increase, vdd_volts, vt0, a) for increase, vt0, a in rows]
            )
        if self.spread is None or path_scores is None:
            return DelayLimit(values.vt0_volts, mean, mean)
        of_path = self.spread.restated(mean)
        limits = self.spread.of_path.mean_at(of_path, path_scores)
        return DelayLimit(values.vt0_volts, limits, of_path)

    def _switched_on(self, constants: InstanceConstants) -> Floats:
        """Fraction of the time that replays stand for."""
        return np.ones(()) if self.holds_while_idle else constants.activity

    def _checked(self, constants: InstanceConstants | None) -> InstanceConstants:
        """Constants of instances, refused if they shift further than the floor allows for."""
        checked = self._given(constants)
        seconds, nbti = self.horizon_seconds, self._nbti_of(checked)
        epochs = range(self.epochs) if checked.temperature_swing_kelvin.ndim else [0]
        largest = max(
            nbti.largest_dvth(self.environment, seconds, checked.in_epoch(epoch).transistors)
            for epoch in epochs
        )
        bound = self._largest_dvth_volts
        if largest > bound * (1 + 1e-9):
            raise UserError(
                f"NBTI model {self.nbti!r}: a transistor within the bounds of vt0_volts and "
                f"temperature_kelvin shifts by {largest:g} V, those at the bounds by {bound:g} V; "
                "sweeps need a model whose shift rises or falls with each of them"
            )
        return checked

    def _given(self, constants: InstanceConstants | None) -> InstanceConstants:
        return self.distributions.constants if constants is None else constants
