"""What writes store, as bit planes: bit b of all components of an entry is one 64-bit word.

Where an entry has fewer than 64 components, they are repeated until the word is full: bounds and
longest times of all components are then those of the components that there are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import compiled
from mcage.engines.numba_engine.simd import with_bit
from mcage.geometry import COMPONENT_BITS, SliceGeometry, repeated_components
from mcage.replays.schedule import Schedule
from mcage.replays.stored_values import CODE_MASK, cell_mask

BITS = COMPONENT_BITS
WHOLE, RECORD = 0, 1
"""Rows of `Contents.masks` that mean: all cells; the cells of a record in block 0."""

FIRST_PARTIAL = 2
"""From this row of `Contents.masks` on, a write leaves some components as they were."""

ALL_REGIONS = 15
"""The set of all regions of an entry."""

CODE_BITS = int(CODE_MASK).bit_count()
"""Bits of the second component of a record that hold its exponent codes."""

ALL_COMPONENTS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class Contents(NamedTuple):
    """Distinct contents of an entry, and distinct sets of its cells.

    Attributes
    ----------
    planes : uint64[contents, 32]
        Bit c of ``planes[i, b]`` is bit b of component c.
    masks : uint64[masks, 32]
        Components of which a write overwrites bit b.
    regions_on : uint64[16, 32]
        Components of which bit b lies in a set of regions.
    first_block : uint64[1]
        Components of the first block.
    block_components : int
        Components of a block.
    """

    planes: NDArray[np.uint64]
    masks: NDArray[np.uint64]
    regions_on: NDArray[np.uint64]
    first_block: NDArray[np.uint64]
    block_components: int


def contents_of(
    schedule: Schedule, planes: NDArray[np.uint64], masks: list[NDArray[np.uint64]]
) -> Contents:
    """Contents of the slice that a schedule is about.

    Parameters
    ----------
    schedule : Schedule
        A schedule of the technique.
    planes : uint64[contents, 32]
        Distinct contents.
    masks : list of uint64[masks, 32]
        What is overwritten, from `FIRST_PARTIAL` on.
    """
    geometry = schedule.geometry
    first_block = cell_mask(0, COMPONENT_BITS * geometry.block_components, geometry)
    return Contents(
        planes=planes,
        masks=np.concatenate([_common_masks(geometry), *masks]),
        regions_on=_regions_on(schedule),
        first_block=by_bit(first_block[None])[0, :1],
        block_components=geometry.block_components,
    )


def planes_of(
    schedule: Schedule, held: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Bit planes of what writes store, records included, and the row of each write."""
    stored_values = schedule.stored_values
    record = stored_values.is_record[held]
    words = np.stack(
        [stored_values.contents[stored_values.image[held], 0], stored_values.record_code[held]],
        axis=1,
    )
    distinct, which = np.unique(words[record], axis=0, return_inverse=True)
    contents = np.zeros((len(distinct), schedule.geometry.components), dtype=np.uint32)
    contents[:, :2] = distinct
    used, image = np.unique(stored_values.image[held], return_inverse=True)
    image = image.reshape(-1).astype(np.int64)
    image[record] = len(used) + which.reshape(-1)
    return by_bit(np.concatenate([stored_values.contents[used], contents])), image


def _common_masks(geometry: SliceGeometry) -> NDArray[np.uint64]:
    """Return the first rows of `Contents.masks`: all cells, and the cells of a record."""
    masks = np.full((FIRST_PARTIAL, BITS), ALL_COMPONENTS)
    masks[RECORD] = by_bit(cell_mask(0, COMPONENT_BITS + CODE_BITS, geometry)[None])
    return masks


def _regions_on(schedule: Schedule) -> NDArray[np.uint64]:
    """Components in every set of regions: uint64[16, 32]."""
    each = by_bit(schedule.stored_values.region_masks)
    sets = np.zeros((ALL_REGIONS + 1, BITS), dtype=np.uint64)
    for chosen in range(ALL_REGIONS + 1):
        for region, components in enumerate(each):
            if chosen >> region & 1:
                sets[chosen] |= components
    return sets


def by_bit(contents: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return contents uint32[n, components] as bit planes uint64[n, 32]."""
    planes = np.empty((len(contents), BITS), dtype=np.uint64)
    _transpose(np.ascontiguousarray(repeated_components(contents, axis=1)), planes)
    return planes


@compiled
def _transpose(contents: NDArray[np.uint32], planes: NDArray[np.uint64]) -> None:
    for image in range(len(contents)):
        for bit in range(BITS):
            planes[image, bit] = with_bit(contents, image, np.uint32(bit))
