"""Which SM a CTA was on, where a tool names the warps' slots (``%warpid``) and no SM."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mcage.geometry import NVIDIA
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.windows import MOST_REGISTERS, Place, Window


@dataclass
class _Sm:
    """Warps that an SM holds: slot, partition, registers and end of each."""

    warps: list[tuple[int, int, int, int]] = field(default_factory=list)

    def has_room(self, group: Sequence[tuple[int, int, int, int]], begin: int) -> bool:
        self.warps = [warp for warp in self.warps if warp[3] >= begin]
        slots = {slot for slot, *_ in self.warps}
        if any(slot in slots for slot, *_ in group):
            return False
        used: dict[int, int] = {}
        for _, partition, registers, _ in (*self.warps, *group):
            used[partition] = used.get(partition, 0) + registers
        return max(used.values()) <= NVIDIA.entries


def place_on_sms(recording: Recording, groups: Iterable[Sequence[Window]]) -> int:
    """Give every CTA the first SM on which its slots and enough entries are free while it runs.

    Parameters
    ----------
    recording : Recording
        Knows when the windows end that are still open.
    groups : iterable of sequence of Window
        Windows of each CTA, in the order in which CTAs begin; ``facts["hardware_warp"]`` is the
        slot of each.

    Returns
    -------
    int
        SMs in use.
    """
    sms: list[_Sm] = []
    for windows in groups:
        held = [
            (
                window.facts["hardware_warp"],
                window.place.part,
                window.size or MOST_REGISTERS,
                recording.last if window.end is None else window.end,
            )
            for window in windows
        ]
        if not held:
            continue
        begin = min(window.begin for window in windows)
        number = next((n for n, sm in enumerate(sms) if sm.has_room(held, begin)), len(sms))
        if number == len(sms):
            sms.append(_Sm())
        sms[number].warps += held
        for window in windows:
            window.place = Place(number, window.place.part)
            window.facts["sm"] = number
    return len(sms)
