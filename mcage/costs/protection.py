"""What protection of entries costs: its cells, encoders, decoders and pointers."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from mcage.geometry import SliceGeometry
from mcage.protection.codes import Code
from mcage.protection.policy import Protection
from mcage.spec.cost_constants import Component, Technology

FEMTOJOULE_PJ, SQUARE_MICROMETRE_MM2 = 1e-3, 1e-6


@cache
def constants() -> Mapping[str, float]:
    """Values of ``protection.toml`` by table and name, such as ``gate.xor_fj``."""
    text = files("mcage").joinpath("data", "protection.toml").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            f"{table}.{name}": float(entry["value"])
            for table, entries in tomllib.loads(text).items()
            for name, entry in entries.items()
        }
    )


def gates(code: Code) -> tuple[int, int]:
    """Two-input gates of an encoder and of a decoder of a word.

    A check bit is a tree over the data bits of its row. A decoder computes all of them, compares
    them with those that it has read, finds the column that is the syndrome, a gate for each bit of
    it, and corrects: a gate for each data bit.

    Notes
    -----
    Hsiao, IBM J. R&D 14(4), 1970, section 4; the comparison with columns is counted without shared
    terms, which is an upper bound.
    """
    ones = sum(column.bit_count() for column in code.columns)
    encoder = ones - code.check_bits
    return encoder, ones + code.data_bits * (code.check_bits - 1) + code.data_bits


def protected_slice(cells: Component, protection: Protection, geometry: SliceGeometry) -> Component:
    """Constants of a slice with what protects its entries.

    Parameters
    ----------
    cells : Component
        Constants of the slice without a code: energies of a block, leakage, area.
    protection : Protection
        What protects the entries. Pointers cost no energy and no leakage, as in the papers, whose
        constants those of the slice are.
    geometry : SliceGeometry
        The slice.

    Returns
    -------
    Component
        Check bits are read and written with the data, and leak as these do. Encoders and decoders
        switch with every word, at their nominal Vdd. Spare entries leak.
    """
    code, share = protection.code, protection.check_share
    spares = protection.spares / geometry.entries
    if code is None:
        return replace(cells, leakage_mw=cells.leakage_mw * (1 + spares)) if spares else cells
    words, gate_pj = geometry.block_bits / code.data_bits, constants()["gate.xor_fj"]
    encoder, decoder = (words * count * gate_pj * FEMTOJOULE_PJ for count in gates(code))
    return replace(
        cells,
        read_pj=cells.read_pj * (1 + share) + decoder,
        write_pj=cells.write_pj * (1 + share) + encoder,
        leakage_mw=cells.leakage_mw * (1 + share) * (1 + spares),
    )


def protection_area(
    protection: Protection, technology: Technology, geometry: SliceGeometry
) -> dict[str, float]:
    """Area that protection adds to a slice, in mm^2, by what takes it.

    Parameters
    ----------
    protection : Protection
        What protects the entries.
    technology : Technology
        Constants of the slice.
    geometry : SliceGeometry
        The slice.
    """
    given, slice_mm2, added = constants(), technology.slice.area_mm2, {}
    cells = 1.0
    if protection.code is not None:
        added["check bits"] = slice_mm2 * protection.check_share
        cells += protection.check_share
        words = geometry.block_bits / protection.code.data_bits
        encoder, decoder = gates(protection.code)
        count = words * (given["slice.encoders"] * encoder + given["slice.decoders"] * decoder)
        added["encoders and decoders"] = count * given["gate.xor_um2"] * SQUARE_MICROMETRE_MM2
    if protection.pointers:
        pointer_cells = given["pointer.bits"] / geometry.entry_bits
        added["pointers"] = slice_mm2 * pointer_cells
        cells += pointer_cells
    if protection.spares:
        added["spare entries"] = slice_mm2 * cells * protection.spares / geometry.entries
    return added
