"""Traces of NVBit, with values and in the form of Accel-Sim."""

import re
from collections import defaultdict, deque
from collections.abc import Sequence

from mcage.tracing.importing import nvidia
from mcage.tracing.importing.recording import Format, Place, Reader, Window
from mcage.tracing.importing.sass import instruction_of
from mcage.tracing.importing.sources import Source

EARLY_RECORDS = 2000
"""Records that two of the tool's buffers of 1 MiB hold, each of 1048 bytes."""

_MOST_WAITING = 4096
"""Launches whose warps have not all begun; records have been printed after each of the latest."""

_KERNEL = re.compile(
    rb"Kernel (.*) - grid size (\d{1,10}),(\d{1,10}),(\d{1,10}) - block size (\d{1,4}),(\d{1,4}),"
    rb"(\d{1,4}) - nregs (\d{1,3}) - shmem (\d+) - cuda stream id (\d+)\s*\Z"
)
_RECORD = re.compile(rb"CTA (\d{1,10}),(\d{1,10}),(\d{1,10}) - warp (\d{1,5}) - ([^\n]*?):\s*\Z")
_VERSION = re.compile(rb"NVidia Binary Instrumentation Tool v([0-9.]{1,20})\)")


def _recognises(source: Source) -> bool:
    return b"NVBit (NVidia Binary" in source.head or any(
        _RECORD.match(line) or _KERNEL.match(line) for line in source.head.split(b"\n", 2000)[:2000]
    )


class _Log(nvidia.Warps):
    """Reads NVBit's ``record_reg_vals``."""

    record_begins = _RECORD
    row_begins = b"* Reg"

    def prepare(self) -> None:
        super().prepare()
        self.launches = 0
        self.waiting: deque[nvidia.Launch] = deque(maxlen=_MOST_WAITING)
        self.fresh: deque[tuple[int, int]] = deque(maxlen=_MOST_WAITING)
        self.groups: dict[tuple[int, int], list[Window]] = defaultdict(list)

    def read(self) -> None:
        if version := _VERSION.search(self.source.head):
            self.recording.tools["NVBit"] = version[1].decode()
        super().read()

    def take(self, line: bytes) -> None:
        if line.startswith(b"Kernel ") and (kernel := _KERNEL.match(line)):
            self.complete()
            self.kernel(kernel)
        else:
            self.take_text(line)

    def kernel(self, match: re.Match[bytes]) -> None:
        name = match[1].decode("utf-8", "replace")
        numbers = [int(match[group]) for group in range(2, 9)]
        grid, block = tuple(numbers[:3]), tuple(numbers[3:6])
        if all(grid) and all(block) and numbers[6]:
            launch = nvidia.Launch(self.launches, name, grid, block, numbers[6])  # type: ignore[arg-type]
            self.launches += 1
            self.waiting.append(launch)
            self.fresh.append((self.time + EARLY_RECORDS, launch.number))

    def take_record(self, match: re.Match[bytes], rows: Sequence[bytes | None]) -> None:
        while self.fresh and self.time >= self.fresh[0][0]:
            self.end_before(self.fresh.popleft()[1])
        key = (int(match[1]), int(match[2]), int(match[3]), int(match[4]))
        if key not in self.running and not self.has_begun(key):
            return
        instruction = instruction_of(match[5].decode("utf-8", "replace"))
        shown = nvidia.rows_of(instruction, rows, of_memory=False)
        if shown is None:
            self.skip("records whose rows do not fit the SASS")
        self.record(key, instruction, shown or {})

    def has_begun(self, key: tuple[int, int, int, int]) -> bool:
        """Open the window of a new warp, which belongs to the oldest launch that waits for it."""
        if not self.launches:
            self.skip("records before the line of any kernel")
            return False
        cta, hardware_warp = key[:3], key[3]
        fitting = (launch for launch in self.waiting if launch.has(cta))
        launch = next((launch for launch in fitting if key not in launch.started), None)
        if launch is None:
            self.skip("records of warps that have ended, or of more warps than the grid has")
            return False
        group = launch.cta_number(cta)
        warp_in_cta = self.warp_in_cta(launch, group, hardware_warp)
        launch.started.add(key)
        if launch.complete:
            self.waiting.remove(launch)
        facts = {"cta": list(cta), "warp_in_cta": warp_in_cta, "hardware_warp": hardware_warp}
        place = Place(None, hardware_warp % nvidia.PARTITIONS)
        window = self.begin(key, launch, place, warp_in_cta, facts, group, hardware_warp)
        if window.number >= 0:
            self.groups[launch.number, group].append(window)
        return True

    def warp_in_cta(self, launch: nvidia.Launch, group: int, hardware_warp: int) -> int:
        """Its slot counted within the CTA, as slots of a CTA follow one another."""
        windows = self.groups.get((launch.number, group), ())
        taken = {window.facts["warp_in_cta"] for window in windows}
        count = launch.warps_of_cta or 1
        wanted = hardware_warp % count
        return wanted if wanted not in taken else min(set(range(len(taken) + 1)) - taken)

    def end_before(self, number: int) -> None:
        """End warps of launches before this one: the tool lets one launch run at a time."""
        while self.waiting and self.waiting[0].number < number:
            self.waiting.popleft()
        for key, warp in list(self.running.items()):
            if warp.launch.number < number:
                self.end(key)

    def finish(self) -> None:
        """Say what was concluded."""
        super().finish()
        self.recording.inferred["place"] = (
            "CTAs with the same %warpid at the same time are on different SMs; partition = "
            "%warpid mod 4"
        )


FORMAT = Format("nvbit", "NVBit's record_reg_vals", _recognises, _Log)


# Accel-Sim's instruction traces: recognised, and refused, since they hold no register values.

_ENDINGS = (".trace", ".traceg", ".tracez")
_SIGNS = (b"-kernel name =", b"#traces format", b"-accelsim tracer version")


def _recognises_accelsim(source: Source) -> bool:
    head = source.head[: 1 << 14]
    if any(sign in head for sign in _SIGNS):
        return True
    name = source.path.name.lower()
    for compressed in (".gz", ".zst", ".xz"):
        name = name.removesuffix(compressed)
    return name.endswith(_ENDINGS[1:]) or (name.endswith(_ENDINGS[0]) and b"#BEGIN_TB" in head)


class _Accelsim(Reader):
    """Refuses what holds no registers."""

    def prepare(self) -> None:
        self.source.refuse(
            "a trace of Accel-Sim holds instructions and addresses, but no register values; record "
            "the program with CUTracer or scripts/nvbit (`mcage docs recording`)"
        )


ACCELSIM_FORMAT = Format(
    "accelsim", "an instruction trace of Accel-Sim", _recognises_accelsim, _Accelsim
)
