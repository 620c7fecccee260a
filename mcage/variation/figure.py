"""A drawing of one slice: its systematic variation, its faulty cells, its unusable blocks."""

from pathlib import Path

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mcage.files.atomic import PNG, whole_file
from mcage.variation.vmin_tail import TailCells


def draw_map(
    path: Path,
    title: str,
    cells: TailCells,
    fault_map: NDArray[np.uint8],
    field: NDArray[np.float64] | None,
) -> None:
    """Draw one instance into a PNG file.

    Parameters
    ----------
    path : Path
        File to write.
    title : str
        Heading.
    cells : TailCells
        The faulty cells of one instance.
    fault_map : uint8[entries]
        Its unusable blocks.
    field : float64[node_rows, node_columns] or None
        Its systematic part in volts; None where there is none, as in the table modes.

    Raises
    ------
    UserError
        The file cannot be written, or is there and no PNG figure.
    """
    figure = Figure(figsize=(10 if field is not None else 5.5, 4.5), layout="constrained")
    figure.suptitle(title)
    geometry = cells.geometry
    extent = (0, geometry.entry_bits, geometry.entries, 0)
    axes = figure.subplots(1, 1 if field is None else 2, squeeze=False)[0]
    if field is not None:
        image = axes[0].imshow(
            field * 1000, extent=extent, aspect="auto", cmap="viridis", interpolation="nearest"
        )
        figure.colorbar(image, ax=axes[0], label="systematic part of Vmin (mV)")
        axes[0].set_title("systematic variation")

    slots = axes[-1]
    unusable = fault_map[:, None] >> np.arange(geometry.blocks, dtype=np.uint8) & 1
    shades = ListedColormap(["white", "lightsalmon"])
    slots.imshow(
        unusable, extent=extent, aspect="auto", cmap=shades, vmin=0, vmax=1, interpolation="nearest"
    )
    repaired = fault_map[cells.entry] == 0
    bit = cells.cell % geometry.entry_bits
    for which, colour, label in ((repaired, "tab:blue", "repaired"), (~repaired, "k", "faulty")):
        slots.plot(bit[which] + 0.5, cells.entry[which] + 0.5, ".", ms=3, color=colour, label=label)
    slots.set_title("faulty cells and unusable blocks (red)")
    figure.legend(loc="outside lower right", ncols=2, fontsize="small")
    for axis in axes:
        axis.set_xticks(np.arange(geometry.blocks + 1) * geometry.block_bits)
        axis.set_xlabel("bit of the entry")
    axes[0].set_ylabel("entry")
    with whole_file(path, PNG) as stream:
        figure.savefig(stream, format="png", dpi=150)
