"""Fault maps of a sampled slice, at the low voltages of each scenario."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from mcage.report.figures import canvas
from mcage.studies.sweep.plan import PlannedCase, SweepPlan
from mcage.variation.fault_models import fault_map, faulty_bits
from mcage.variation.vmin_tail import TailCells

NAME = "fault-maps"
TITLE = "Fault maps of a new slice"
X_LABEL = "bit of the entry"
Y_LABEL = "entry of the slice"
PANEL_MM = 66.0

MANY = 3000
"""Faulty cells above which they are drawn as pixels, so that files stay small."""

COLOURS = {"repaired": "#0072B2", "faulty": "#000000", "unusable": "#F3C9A9"}


@dataclass(frozen=True)
class FaultMap:
    """Faults of one slice.

    Parameters
    ----------
    title : str
        Scenario and supply voltage.
    cells : TailCells
        The faulty cells.
    bits : int16[entries]
        Faulty bits of each entry.
    blocks : uint8[entries]
        Unusable blocks of each entry, a bit each.
    """

    title: str
    cells: TailCells
    bits: NDArray[np.int16]
    blocks: NDArray[np.uint8]


def draw(
    plan: SweepPlan,
    cases: Sequence[PlannedCase],
    instance: int,
    row: int | None,
    sheet: canvas.Sheet,
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw the faults of an instance: a panel for each scenario and supply voltage with faults.

    Parameters
    ----------
    plan : SweepPlan
        Plan of the sweep.
    cases : sequence of PlannedCase
        Cases of the plan whose faults are drawn.
    instance : int
        Id of the instance.
    row : int, optional
        Its row in the joint draws of constants, if there are any.
    sheet : Sheet
        What figures are drawn on.
    """
    maps = _sampled(plan, cases, instance, row)
    faulty = [drawn for drawn in maps if drawn.cells.cell.size]
    if not faulty:
        yield canvas.AbsentFigure(
            NAME, TITLE, f"Instance {instance} has no faulty bit at any supply voltage of the file."
        )
        return
    caption = (
        "Cells of one sampled slice whose Vmin lies above the lowest supply voltage, before any "
        "aging, and the blocks that are unusable for them; a single faulty bit of an entry is "
        "repaired. Other instances have other maps."
    )
    if without := [drawn.title for drawn in maps if not drawn.cells.cell.size]:
        caption += f" No bit is faulty at: {'; '.join(without)}."
    panels = [
        canvas.Panel(drawn.title, notes=(words,), alt=f"{drawn.title}: {words}.", cases=(drawn,))
        for drawn in faulty
        for words in [
            f"{drawn.cells.cell.size:,} faulty bits, {np.count_nonzero(drawn.bits > 1)} of "
            f"{drawn.bits.size} entries faulty"
        ]
    ]
    sample = replace(sheet, population=f"instance {instance}")
    yield from FaultMaps(NAME, TITLE, caption, X_LABEL, Y_LABEL).pages(panels, sample, {})


class FaultMaps(canvas.Plot):
    """Maps of faulty bits and unusable blocks."""

    shares_axes = True

    def draw(
        self, axes: Axes, panel: canvas.Panel, looks: canvas.Looks, gid: str
    ) -> tuple[canvas.Series, ...]:
        """Draw a map."""
        (drawn,) = panel.cases
        return _draw_map(axes, drawn, gid)

    def handles(self, panels: Sequence[canvas.Panel], looks: canvas.Looks) -> Mapping[str, Artist]:
        """What points and areas mean."""
        return {
            "faulty bit that is repaired": Line2D([], [], linestyle="none", **_mark("repaired")),
            "faulty bit": Line2D([], [], linestyle="none", **_mark("faulty")),
            "unusable block": Patch(color=COLOURS["unusable"]),
        }

    def height_mm(self, panels: Sequence[canvas.Panel], sheet: canvas.Sheet) -> float:
        """Height of a panel."""
        return PANEL_MM


def _sampled(
    plan: SweepPlan, cases: Sequence[PlannedCase], instance: int, row: int | None
) -> list[FaultMap]:
    """Maps of all scenarios and lowest supply voltages, in the order of the file."""
    ids, rows = np.array([instance]), None if row is None else np.array([row])
    different = {
        (c.case.protection, c.case.scenario, c.conditions.environment.lowest_vdd_volts): c
        for c in cases
    }
    several = len({guard for guard, _, _ in different}) > 1
    maps = []
    for (guard, scenario, volts), case in different.items():
        tail = case.sample(plan.spec.seed, ids, rows, volts)
        tail = tail.at(np.flatnonzero(tail.vmin_volts > volts), np.arange(1))
        faulty = np.ones(tail.cell.size, dtype=bool)
        blocks = fault_map(tail, faulty, case.conditions.protection)[0]
        cells = tail.of_data()
        bits = faulty_bits(cells, faulty[: cells.cell.size])[0]
        title = f"{scenario}, {volts:g} V" + (f", {guard}" if several else "")
        maps.append(FaultMap(title, cells, bits, blocks))
    return maps


def _draw_map(axes: Axes, drawn: FaultMap, gid: str) -> tuple[canvas.Series, ...]:
    geometry, cells = drawn.cells.geometry, drawn.cells
    unusable = drawn.blocks[:, None] >> np.arange(geometry.blocks, dtype=np.uint8) & 1
    axes.imshow(
        unusable,
        extent=(0, geometry.entry_bits, geometry.entries, 0),
        aspect="auto",
        cmap=ListedColormap(["white", COLOURS["unusable"]]),
        vmin=0,
        vmax=1,
        interpolation="nearest",
    )
    repaired = drawn.blocks[cells.entry] == 0
    series = []
    for kind, which in (("repaired", repaired), ("faulty", ~repaired)):
        x = (cells.cell[which] % geometry.entry_bits).astype(np.float64)
        y = cells.entry[which].astype(np.float64)
        (points,) = axes.plot(
            x + 0.5,
            y + 0.5,
            linestyle="none",
            rasterized=cells.cell.size > MANY,
            **_mark(kind),
        )
        points.set_gid(f"{gid}-{kind}")
        series.append(canvas.Series(f"{kind} bit", x, y, kind="points", gid=f"{gid}-{kind}"))
    axes.set(xticks=np.arange(geometry.blocks + 1) * geometry.block_bits)
    axes.set_yticks(np.linspace(0, geometry.entries, 5))
    return tuple(series)


def _mark(kind: str) -> dict[str, Any]:
    if kind == "repaired":
        return {
            "marker": "o",
            "markersize": 2.2,
            "color": COLOURS[kind],
            "fillstyle": "none",
            "markeredgewidth": 0.5,
        }
    return {"marker": ".", "markersize": 2, "color": COLOURS[kind]}
