"""Oracle of lives: one slice, one epoch at a time, by the words of the documentation.

docs/model.md says what happens to an instance, docs/aging.md how far transistors shift,
docs/costs.md what it costs. Here this is done once more, plainly: every cell of the slice has its
times, every question about a fault map is a pass of `pass_oracle`. Nothing of the engines and of
`mcage.lifetime` is used, and of the package only what a sweep starts from: the spec, the weak cells
of a die with their Vmin, mixes, drawn constants, traces, and constants of costs.

Known: NBTI model `facelift`, with its own constants or those of the spec; Vmin by the larger shift;
idle time with the cells off; faults that grow. Anything else is refused.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import oracle
import pass_oracle
from pass_oracle import Kernel

YEAR = 365 * 86_400.0
BOLTZMANN = 8.617333e-5
HALVINGS = 12
NO_TIME = 1e-12
"""A recovery time below this part of the age is a rounding error."""

CENSORED, DELAY, FAULTY_ENTRY, NO_HOME, SPILL_LIMIT, TOO_SLOW = (
    "censored",
    "delay",
    "faulty entry",
    "no home",
    "spill limit",
    "too slow",
)


class Life(NamedTuple):
    """What became of an instance. Shifts in mV, of T0 and T1; NaN where it never worked."""

    years: float
    cause: str
    epoch: int
    max_dvth_mv: tuple[float, float]
    longest_duty: tuple[float, float]
    spill_rate: float
    slowdown: float
    power_mw: float
    energy_saving: float
    energy_saving_nominal: float
    memory_rate: float
    slowdown_new: float
    peak_spilled_rows: int
    faulty_entries_start: int
    faulty_entries_end: int


@dataclass
class Instance:
    """What a sweep draws of an instance."""

    cell: np.ndarray
    vmin_volts: np.ndarray
    mixes: list
    """Of every epoch: (kernel, share) of each kernel of the mix."""
    temperature_kelvin: float
    swing_kelvin: list
    vt0_volts: float
    shift_factor: float
    activity: float


@dataclass
class Rules:
    """What holds for all instances of a case."""

    technique: str
    kernels: list
    points: list
    """Operating points: (Vdd, fraction of the time, kelvin hotter)."""
    edges: list
    """Edges of the epochs in seconds."""
    guardband: float
    vmin_coefficient: float
    lds_rows: int
    spill_limit: float | None
    overflow: str
    slowdown_limit: float | None
    technology: object
    penalties: object
    constants: dict

    def __post_init__(self):
        vdds = [vdd for vdd, _, _ in self.points]
        self.highest, self.lowest = max(vdds), min(vdds)
        named = [(vdd, fraction) for vdd, fraction, _ in self.points]
        self.slice = pass_oracle.slice_constants(self.technology, named)
        self.at_nominal = self.technology.slice


# ---- the shift of a transistor ------------------------------------------------------------------


def facelift_constants(changed=None):
    """Constants of the model by name, from the table of the package."""
    table = tomllib.loads((files("mcage") / "data" / "nbti.toml").read_text())["facelift"]
    given = {name: entry["value"] for name, entry in table.items()}
    return given | (changed or {})


class Transistors:
    """Three sums of every transistor of the slice: float64[2, entries, cells]; docs/aging.md."""

    def __init__(self, rules, instance):
        self.rules, self.instance = rules, instance
        self.stress = np.zeros((2, oracle.ENTRIES, oracle.CELLS))
        self.stressed = np.zeros_like(self.stress)
        self.age = 0.0

    def rate(self, epoch):
        """K^4 in this epoch, on the mean of the operating points."""
        c, die = self.rules.constants, self.instance
        total = 0.0
        for vdd, fraction, hotter in self.rules.points:
            kelvin = die.temperature_kelvin + die.swing_kelvin[epoch] + hotter
            if vdd > die.vt0_volts:
                thickness = c["oxide_thickness_nm"]
                field = vdd / (thickness * c["field_volts_per_nm"])
                cold = c["activation_energy_ev"] / (BOLTZMANN * kelvin)
                overdrive = c["oxide_capacitance_farads_per_nm2"] * (vdd - die.vt0_volts)
                factor = c["amplitude"] * thickness * np.sqrt(overdrive) * np.exp(field - cold)
                total += fraction * factor**4
        return total

    def of(self, where):
        """Sums of some cells: (stress, stressed)."""
        return self.stress[where], self.stressed[where]

    def dvth(self, duty, epoch, seconds, sums=None):
        """Shifts after so many seconds of an epoch at some duty, in volts."""
        stress, stressed = sums or (self.stress, self.stressed)
        stress = stress + duty * (seconds * self.rate(epoch))
        stressed = stressed + duty * seconds
        age = self.age + seconds
        if age == 0:
            return np.zeros(stress.shape)
        recovered = age - stressed
        recovered = np.where(recovered < NO_TIME * age, 0.0, recovered)
        shape = 1 - np.sqrt(self.rules.constants["eta"] / age * recovered)
        return self.instance.shift_factor * np.sqrt(np.sqrt(stress)) * shape

    def add(self, duty, epoch, seconds):
        """Live through an epoch, or a part of one."""
        self.stress += duty * seconds * self.rate(epoch)
        self.stressed += duty * seconds
        self.age += seconds


# ---- a life -------------------------------------------------------------------------------------


class Living:
    """An instance while it lives."""

    def __init__(self, rules, instance):
        self.rules, self.instance = rules, instance
        self.entry, self.bit = np.divmod(instance.cell, oracle.CELLS)
        self.faulty = instance.vmin_volts > rules.lowest
        self.transistors = Transistors(rules, instance)
        self.moments = []
        self.peak = 0

    def live(self):
        """Epoch by epoch, until the end."""
        edges = self.rules.edges
        faulty_start = self.faulty_entries(self.faulty)
        for epoch, (start, end) in enumerate(pairwise(edges)):
            kernels = self.instance.mixes[epoch]
            cause = self.cannot_run(kernels, self.faulty)
            if cause:
                return self.told(epoch, start, cause, faulty_start)
            moment, cause = self.epoch(epoch, kernels, start, end)
            if cause:
                return self.told(epoch, moment, cause, faulty_start)
        return self.told(len(edges) - 2, edges[-1], CENSORED, faulty_start)

    def epoch(self, number, kernels, start, end):
        """Live through an epoch; when the life ends in it and of what, or (end, None)."""
        span = end - start
        fault_map = self.fault_map(self.faulty)
        self.duty = sum(share * k.duties(fault_map) for k, share in kernels)
        self.duty = np.minimum(self.duty * self.instance.activity, 1.0)
        by_delay = self.delay_end(number, span)
        by_faults, cause = self.end_by_faults(number, kernels, span)
        moment, cause = min((by_delay, DELAY), (by_faults, cause), (span, None), key=lambda e: e[0])
        self.record(number, kernels, start, moment)
        self.faulty = self.faulty_at(number, moment)
        self.transistors.add(self.duty, number, moment)
        return start + moment, cause

    # -- how it ends

    def delay_end(self, epoch, span):
        """Seconds of the epoch after which the worst transistor is too slow, or infinity."""
        rules, die = self.rules, self.instance
        alpha = rules.constants["alpha"]
        limit = (rules.highest - die.vt0_volts) * (1 - (1 + rules.guardband) ** (-1 / alpha))
        late = self.transistors.dvth(self.duty, epoch, span) >= limit
        if not late.any():
            return np.inf
        duty, sums = self.duty[late], self.transistors.of(late)
        low, high = 0.0, span
        for _ in range(60):
            middle = 0.5 * (low + high)
            exceeded = (self.transistors.dvth(duty, epoch, middle, sums) >= limit).any()
            low, high = (low, middle) if exceeded else (middle, high)
        return high

    def end_by_faults(self, epoch, kernels, span):
        """Seconds of the epoch from which a kernel cannot run and why, or (infinity, None)."""

        def cause_at(seconds):
            return self.cannot_run(kernels, self.faulty_at(epoch, seconds))

        if cause_at(span) is None or cause_at(span * (1 - 0.5**HALVINGS)) is None:
            return np.inf, None
        low, high = 0.0, span
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if cause_at(middle) else (middle, high)
        return high, cause_at(high)

    def cannot_run(self, kernels, faulty):
        """Why the slice cannot run the mix on the map of these faults, or None."""
        rules, fault_map = self.rules, self.fault_map(faulty)
        moves = kernels[0][0].policies.placement in pass_oracle.MOVING
        for kernel, _ in kernels:
            if not kernel.heeds:
                if any(fault_map[entry] for entry in kernel.needs()):
                    return FAULTY_ENTRY
                continue
            of_pass = kernel.on(fault_map)
            if of_pass is None:
                return NO_HOME
            if moves and rules.overflow == "end" and of_pass.peak > rules.lds_rows:
                return NO_HOME
            limit = rules.spill_limit if moves else None
            if limit is not None and of_pass.lds > limit * kernel.tally.writes:
                return SPILL_LIMIT
        if rules.slowdown_limit is not None:
            speed = sum(share / (1 + self.slower(k, k.on(fault_map))[1]) for k, share in kernels)
            if round(1 / speed - 1, 12) > rules.slowdown_limit:
                return TOO_SLOW
        return None

    # -- faults

    def faulty_at(self, epoch, seconds):
        """Weak cells that are faulty after so many seconds of an epoch: bool[cells]."""
        where = (slice(None), self.entry, self.bit)
        sums = self.transistors.of(where)
        shifts = self.transistors.dvth(self.duty[where], epoch, seconds, sums)
        grown = self.instance.vmin_volts + self.rules.vmin_coefficient * shifts.max(axis=0)
        return self.faulty | (grown > self.rules.lowest)

    def fault_map(self, faulty):
        """Unusable blocks of every entry with two or more faulty bits: a byte each."""
        bits = np.bincount(self.entry[faulty], minlength=oracle.ENTRIES)
        unusable = np.zeros(oracle.ENTRIES, dtype=np.uint8)
        block = self.bit[faulty] // oracle.BLOCK_CELLS
        np.bitwise_or.at(unusable, self.entry[faulty], (1 << block).astype(np.uint8))
        return np.where(bits >= 2, unusable, 0).astype(np.uint8).tobytes()

    def faulty_entries(self, faulty):
        return sum(byte != 0 for byte in self.fault_map(faulty))

    # -- what it does meanwhile

    def slower(self, kernel, of_pass):
        """Slowdown of a kernel without waiting, and in total."""
        by_events = pass_oracle.slowdown(
            kernel, of_pass, self.rules.technology, self.rules.penalties
        )
        return by_events, (1 + by_events) * (1 + of_pass.waiting) - 1

    def record(self, epoch, kernels, start, seconds):
        """Rates at three moments on the scale of the fourth root of time, and their weights."""
        end = start + seconds
        middle = (0.5 * (start**0.25 + end**0.25)) ** 4
        rates = [
            self.rates(kernels, self.faulty_at(epoch, moment - start))
            for moment in (start, middle, end)
        ]
        if not self.moments:
            self.new = rates[0]
        # The parabola in x, -1 to 1, where time is (c + h x)^4, by an exact quadrature.
        c, h = 0.5 * (end**0.25 + start**0.25), 0.5 * (end**0.25 - start**0.25)
        x, weight = np.polynomial.legendre.leggauss(5)
        weight = weight * 4 * h * (c + h * x) ** 3
        parts = (x * (x - 1) / 2, 1 - x * x, x * (x + 1) / 2)
        integral = sum(
            float((weight * part).sum()) * of_moment
            for part, of_moment in zip(parts, rates, strict=True)
        )
        self.moments.append(integral)

    def rates(self, kernels, faulty):
        """Writes, spills, those to memory, speed, power, powers of conventional slices, time."""
        rules, fault_map, total = self.rules, self.fault_map(faulty), np.zeros(8)
        for kernel, share in kernels:
            of_pass = kernel.on(fault_map)
            if of_pass is None:  # the slice is at its end
                of_pass = kernel.with_a_last_window(fault_map)
            self.peak = max(self.peak, of_pass.peak)
            slower, in_all = self.slower(kernel, of_pass)
            node = rules.technology
            spent = pass_oracle.energy(kernel, of_pass, rules.slice, node, slower)
            before = pass_oracle.conventional_energy(kernel, rules.slice, node)
            nominal = pass_oracle.conventional_energy(kernel, rules.at_nominal, node)
            took = kernel.trace.cycles / node.clock_ghz * (1 + in_all)
            total += share * np.array(
                [
                    kernel.tally.writes / of_pass.cycles,
                    of_pass.lds / of_pass.cycles,
                    of_pass.memory / of_pass.cycles,
                    1 / (1 + in_all),
                    spent / took,
                    before / took,
                    nominal / took,
                    1.0,
                ]
            )
        return total

    def told(self, epoch, moment, cause, faulty_start):
        """The life, when it is over."""
        worked = moment > 0
        nothing = (np.nan, np.nan)
        writes, lds, memory, speed, power, before, nominal, time = (
            sum(self.moments) if worked else np.full(8, np.nan)
        )
        shifts = self.transistors.dvth(0.0, 0, 0.0).max(axis=(1, 2)) if worked else nothing
        longest = self.transistors.stressed.max(axis=(1, 2)) / moment if worked else nothing
        peak = self.peak
        if self.rules.overflow == "end":  # the row too many never was in the LDS
            peak = min(peak, self.rules.lds_rows)
        return Life(
            years=moment / YEAR,
            cause=cause,
            epoch=epoch,
            max_dvth_mv=tuple(1e3 * float(shift) for shift in shifts),
            longest_duty=tuple(float(duty) for duty in longest),
            spill_rate=lds / writes,
            slowdown=time / speed - 1,
            power_mw=power / time,
            energy_saving=1 - power / before,
            energy_saving_nominal=1 - power / nominal,
            memory_rate=memory / writes,
            slowdown_new=1 / self.new[3] - 1 if worked else np.nan,
            peak_spilled_rows=peak,
            faulty_entries_start=faulty_start,
            faulty_entries_end=self.faulty_entries(self.faulty),
        )


def life(rules, instance):
    """The life of an instance under the rules of a case."""
    return Living(rules, instance).live()


# ---- what a sweep starts from -------------------------------------------------------------------


class SweepInputs:
    """Rules and instances of the cases of a sweep, as they are drawn before any life."""

    def __init__(self, sweep, instances):
        self.plan, self.spec = sweep.plan, sweep.plan.spec
        spec = self.spec
        known = {
            "aging.model": spec.aging.model == "facelift",
            "aging.nbti_spread_mv": spec.aging.nbti_spread_mv == 0,
            "aging.vmin_model": spec.aging.vmin_model == "larger",
            "life.idle": spec.life.idle == "gated",
            "faults.mode": spec.faults.mode == "varius",
            "faults.spread_blocks": not spec.faults.spread_blocks,
            "draws": spec.draws is None,
            "protections": getattr(spec, "protections", ("ecp1",)) == ("ecp1",),
        }
        unknown = [key for key, is_known in known.items() if not is_known]
        if unknown:
            raise ValueError(f"the oracle does not know this {', '.join(unknown)}")
        self.ids = np.asarray(instances)
        self.traces = [trace.whole for trace in self.plan.traces]
        self.drawn = self.plan.distributions.draw(spec.seed, self.ids, spec.life.epochs)
        self._kernels = {}

    def kernels(self, technique):
        """The kernels of the sweep under a technique."""
        registers = self.spec.registers
        if technique not in self._kernels:
            self._kernels[technique] = [
                Kernel(
                    trace,
                    technique,
                    delta_limit=self.spec.delta_limit,
                    lds_rows=32 if registers.lds_rows is None else registers.lds_rows,
                    overflow=getattr(registers, "overflow", "end"),
                    offsets=registers.selector_offsets,
                )
                for trace in self.traces
            ]
        return self._kernels[technique]

    def rules(self, case):
        """Rules of a planned case."""
        spec, kernels = self.spec, self.kernels(case.technique.name)
        points = case.conditions.environment.points
        costs, limit = spec.costs, getattr(spec.life, "slowdown_limit", None)
        return Rules(
            technique=case.technique.name,
            kernels=kernels,
            points=[(p.vdd_volts, p.time_fraction, p.temperature_offset_kelvin) for p in points],
            edges=[years * YEAR for years in spec.epoch_edges_years],
            guardband=spec.life.delay_guardband,
            vmin_coefficient=spec.life.vmin_coefficient,
            lds_rows=kernels[0].lds_rows,
            spill_limit=spec.life.spill_limit,
            overflow=kernels[0].overflow,
            slowdown_limit=None if limit == "none" else limit,
            technology=costs.of_technology,
            penalties=costs.penalties,
            constants=facelift_constants(spec.aging.constants),
        )

    def instances(self, case):
        """The instances of a case, one after the other."""
        from mcage.studies.sweep.plan import workloads_of

        spec, drawn, kernels = self.spec, self.drawn, self.kernels(case.technique.name)
        rows = drawn.row
        tail = case.sample(spec.seed, self.ids, rows, case.conditions.floor_volts)
        workloads = workloads_of(spec, self.ids).epochs

        def of(values, place, epoch=None):
            values = np.asarray(values)
            if not values.ndim:
                return float(values)
            return float(values[place] if epoch is None else values[place, epoch])

        for place in range(len(self.ids)):
            part = slice(tail.offsets[place], tail.offsets[place + 1])
            mixes = [
                [
                    (kernels[number], float(share))
                    for number, share in zip(turns.kernel[place], turns.weight[place], strict=True)
                ]
                for turns in workloads
            ]
            epochs = range(spec.life.epochs)
            yield Instance(
                cell=tail.cell[part].astype(np.int64),
                vmin_volts=tail.vmin_volts[part],
                mixes=mixes,
                temperature_kelvin=of(drawn.temperature_kelvin, place),
                swing_kelvin=[of(drawn.temperature_swing_kelvin, place, e) for e in epochs],
                vt0_volts=of(drawn.vt0_volts, place),
                shift_factor=of(drawn.shift_factor, place),
                activity=of(drawn.activity, place),
            )

    def lives(self, case):
        """Lives of all instances in a case."""
        rules = self.rules(case)
        return [life(rules, instance) for instance in self.instances(case)]


# ---- held against a sweep -----------------------------------------------------------------------

CLOSE = 1e-9
COMPARED = (
    "spill_rate",
    "slowdown",
    "power_mw",
    "energy_saving",
    "energy_saving_nominal",
    "memory_rate",
    "slowdown_new",
    "max_dvth_mv",
    "longest_duty",
)
COUNTED = ("peak_spilled_rows", "faulty_entries_start", "faulty_entries_end")


def differences(told, arrays, case, place, edges_years):
    """What a life of a sweep has otherwise than the oracle: lines of text, none if they agree.

    Parameters
    ----------
    told : Life
        What the oracle says.
    arrays : dict
        What a sweep has computed.
    case, place : int
        Numbers of the case and of the instance in these arrays.
    edges_years : sequence of float
        Edges of the epochs.
    """
    from mcage.lifetime import EndCause

    said = []
    cause = EndCause(int(arrays["end_cause"][case, place])).name.lower().replace("_", " ")
    if cause != told.cause:
        said.append(f"cause: oracle {told.cause}, sweep {cause}")
    years = float(arrays["life_years"][case, place])
    within = (edges_years[told.epoch + 1] - edges_years[told.epoch]) * 0.5**HALVINGS
    if abs(years - told.years) > within + CLOSE * years:
        said.append(f"years: oracle {told.years!r}, sweep {years!r}")
    for name in COUNTED:
        computed = int(arrays[name][case, place])
        if computed != getattr(told, name):
            said.append(f"{name}: oracle {getattr(told, name)}, sweep {computed}")
    for name in (name for name in COMPARED if name in arrays):
        computed = np.asarray(arrays[name][case, place], dtype=float)
        if not np.allclose(computed, getattr(told, name), rtol=CLOSE, atol=1e-13, equal_nan=True):
            said.append(f"{name}: oracle {getattr(told, name)}, sweep {computed.tolist()}")
    return said
