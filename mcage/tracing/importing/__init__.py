"""Traces that other tools have recorded, made native.

`run.import_traces` opens the files (`sources`), finds their format, whose `recording.Reader` fills
a `recording.Recording`, gives each window a slice and a slot, and makes a trace of each slice.

A new format is a module with a value ``FORMAT``, and its name in `run.FORMATS`::

    def _recognises(source: Source) -> bool:
        return source.head.startswith(b"my tool ")     # the first 256 KiB of text; source.path

    class _Log(Reader):
        def prepare(self) -> None:
            recording = self.recording
            recording.has_lanes(32)                    # 64: a GCN slice; 32: an NVIDIA partition
            recording.geometry = preset("hopper")      # or another slice of as many lanes
            recording.granularity = 8                  # for windows whose size nobody says
            recording.in_file["time"] = "cycles"       # what the file says, and how
            recording.inferred["place"] = "SM by ..."  # what was concluded, and how
            recording.approximate["lanes"] = "all taken as written"  # lanes, time or contents
            recording.tools["NVBit"] = "1.7.6"

        def take(self, line: bytes) -> None:           # self.line is its number
            window = self.recording.open_window(
                time, size, Origin(kernel, launch, work_group, wavefront), Place(sm, partition)
            )
            self.recording.preload(window, register, lanes, values)
            self.recording.write(window, time, register, lanes, values)
            self.recording.read(window, time, register, lanes_shown, values_shown)
            self.recording.close_window(window, time)
            self.skip("records of a kind without registers")
            self.fail("why")                           # refuses the file: UserError, exit code 2

    FORMAT = Format("mytool", "My Tool's register log", _recognises, _Log)

Times are any integers that do not decrease for a window; `Recording.period` of them are a cycle,
and the first allocation is cycle 0. ``values`` are little-endian 32-bit numbers of the lanes in the
mask, the lowest first, in anything with a buffer: ``array("I", ...)``, ``np.uint32``, bytes. A
window whose ``size`` is None gets as many registers as are used. ``Place(None, part)``: work-groups
fill one unit after the other. A read with contents is compared with the last write and counted as a
gap if they differ. Do not catch `sources.Enough`, which ends an import whose user has asked for a
part. ``open_window(..., facts={...})`` are the keys of ``--json`` that only this format knows
(``window.facts`` may be changed until the end); writes and reads are counted for every format.

What is strange in a file is skipped with a reason and its line, where the tool is known to print
other things between its records; it is refused where a user has written the file. Nothing that a
file holds may raise anything but `UserError`, or make an importer keep more than a line and what
its open windows need.
"""
