"""Slices: which there may be, what they are called, and those of the GPUs that there are."""

import re
from dataclasses import replace
from typing import get_args

import pytest
from places import ROOT
from tables import each

from mcage.errors import UserError
from mcage.geometry import (
    GCN,
    NVIDIA,
    PRESETS,
    SPILL_BYTES,
    PresetName,
    SliceGeometry,
    preset,
    usual_slice,
)


def test_presets_have_names_that_specs_take():
    assert get_args(PresetName) == tuple(PRESETS)
    assert [preset(name) for name in PRESETS] == list(PRESETS.values())
    with pytest.raises(UserError, match=f"choose one of {', '.join(PRESETS)}"):
        preset("pascal")
    assert GCN == SliceGeometry(256, 64, 16, 16, 4, 32) == SliceGeometry()
    assert SliceGeometry(512, 32, 16, 16, 8, 64) == NVIDIA
    assert (GCN.name, NVIDIA.name) == ("gcn", "nvidia")


def test_all_presets_keep_as_many_bytes_for_spilled_registers():
    assert {known.lds_rows * known.entry_bytes for known in PRESETS.values()} == {SPILL_BYTES}


@each(
    ("geometry", "name"),
    [
        (PRESETS["volta"], "nvidia"),
        (PRESETS["turing"], "turing"),
        (PRESETS["cdna3"], "cdna2"),
        (PRESETS["hopper"], "hopper"),
        (PRESETS["ada"], "ga10x"),
        (replace(PRESETS["hopper"], lds_rows=3), "ga10x"),
        (replace(GCN, max_windows=10), "gcn"),
        (replace(PRESETS["hopper"], block_components=16), "nvidia"),
        (replace(PRESETS["rdna3"], block_components=16), "1536 x 32"),
    ],
)
def test_a_slice_is_called_as_the_first_preset_that_it_equals_or_is_shaped_like(geometry, name):
    assert geometry.name == name


@each(
    ("given", "name"),
    [((64,), "gcn"), ((48,), "gcn"), ((32,), "nvidia"), ((16,), "nvidia"), ((32, 1472), "nvidia")],
)
def test_a_slice_of_which_little_is_known_is_the_first_preset_like_it(given, name):
    assert usual_slice(*given).name == name
    assert usual_slice(32, 1536) == PRESETS["rdna3"]


@each("entries", [0, 32, 100, 1536 + 64])
def test_entries_come_in_words_of_64(entries):
    message = rf"entries is {entries}, must be 64, 128, 192, \.\.\. 1536"
    with pytest.raises(UserError, match=message):
        SliceGeometry(entries)


@each(("components", "block", "blocks"), [(64, 64, 1), (40, 20, 2), (64, 32, 2), (64, 16, 4)])
def test_one_two_or_four_blocks_make_an_entry(components, block, blocks):
    assert SliceGeometry(1536, components, block).blocks == blocks


@each("block_components", [0, 4, 8, 21, 128])
def test_other_numbers_of_blocks_are_refused(block_components):
    with pytest.raises(UserError, match="make 1, 2 or 4 blocks of 64 components"):
        SliceGeometry(1536, 64, block_components)


def test_the_documentation_has_the_numbers_of_all_presets():
    text = (ROOT / "docs" / "geometry.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (`\w+`[^|]*)\|[^|]+\| ([\d,]+) x (\d+) \|" + 4 * r" (\d+) \|", text, re.M
    )
    told = {}
    for names, entries, *others in rows:
        components, lanes, blocks, windows, granule = map(int, others)
        shape = (int(entries.replace(",", "")), components, lanes)
        told |= {name: (*shape, blocks, windows, granule) for name in re.findall(r"`(\w+)`", names)}
    assert told == {
        name: (*known.shape, known.blocks, known.max_windows, known.granularity)
        for name, known in PRESETS.items()
    }
