"""Where windows lie that an import has read: as the file says, or first-fit."""

import pytest

from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.traces.importing.placement import Span, place_windows
from mcage.traces.importing.windows import Origin, Place, Window


def span(begin, end, size=16, *, place=None, entry=None, group=None, last=None):
    place = place or Place(0, 0)
    window = Window(0, size, begin, Origin(work_group=group), place, entry, 64, {})
    return Span(window, size, begin, end if last is None else last, end)


def test_windows_stay_where_the_file_says():
    spans = [span(0, 9, entry=32), span(2, 5, entry=0), span(7, 9, entry=16)]
    (placed,) = place_windows(spans, GCN, "log")
    assert placed.as_recorded
    assert placed.slots == [2, 0, 1]


def test_a_release_in_the_cycle_of_the_next_allocation_comes_a_cycle_earlier():
    (placed,) = place_windows([span(0, 5, entry=0, last=4), span(5, 9, entry=0)], GCN, "log")
    assert placed.as_recorded
    assert [each.end for each in placed.spans] == [4, 9]


@pytest.mark.parametrize(
    "spans",
    [
        [span(0, 5, entry=0), span(5, 9, entry=0)],  # the last access in the same cycle
        [span(0, 5, entry=8)],  # no whole slot
        [span(0, 5, entry=512)],  # beyond the slice
        [span(0, 5, entry=0), span(1, 5)],  # unknown
    ],
)
def test_windows_that_cannot_stay_are_placed_first_fit(spans):
    (placed,) = place_windows(spans, GCN, "log")
    assert not placed.as_recorded
    assert placed.slots == list(range(len(spans)))


def test_the_lowest_slot_is_free_in_the_cycle_after_the_release():
    (placed,) = place_windows([span(0, 5), span(5, 9), span(6, 9)], GCN, "log")
    assert placed.slots == [0, 1, 0]


def test_a_file_of_registers_that_is_too_small_is_refused_with_its_numbers():
    spans = [span(0, 9, size=128, entry=k * 128) for k in range(3)]
    with pytest.raises(
        UserError,
        match=r"log cu0\.simd0: a window of 128 registers opens in cycle 0, when 256 of the 256",
    ):
        place_windows(spans, GCN, "log")


def test_work_groups_stay_together_and_fill_one_unit_after_the_other():
    groups = [
        [span(time, time + 10, 64, place=Place(None, part), group=time) for part in range(2)]
        for time in range(6)
    ]
    placed = place_windows([each for group in groups for each in group], GCN, "log")
    assert [each.place for each in placed] == [
        Place(unit, part)
        for unit, part in (
            *((0, 0), (0, 1)),
            *((1, 0), (1, 1)),
        )
    ]
    assert [len(each.spans) for each in placed] == [4, 4, 2, 2]


def test_a_work_group_larger_than_a_unit_is_refused():
    spans = [span(0, 9, 128, place=Place(None, 0), group=7) for _ in range(3)]
    with pytest.raises(UserError, match="384 registers, more than have room"):
        place_windows(spans, GCN, "log")
