"""Traces that other tools have recorded, made native.

`run.import_traces` opens the files (`sources`), finds their format (`formats.catalogue`), lets it
fill a `recording.Recording`, and makes a trace of each slice (`placement`, `building`).

A new format is a module in ``formats/`` with a value ``FORMAT``, and its name in the catalogue::

    def _recognises(source: Source) -> bool:
        return source.head.startswith(b"my tool ")     # the first 256 KiB of text; source.path

    def _read(sources: Sequence[Source], recording: Recording, options: Options) -> None:
        recording.has_lanes(32)                        # 64: a GCN slice; 32: an NVIDIA partition
        recording.geometry = preset("hopper")          # or another slice of as many lanes
        recording.granularity = 8                      # for windows whose size nobody says
        recording.in_file["time"] = "cycles"           # what the file says, and how
        recording.inferred["place"] = "SM by ..."      # what was concluded, and how
        recording.approximate["lanes"] = "all taken as written"  # lanes, time or contents
        recording.tools["NVBit"] = "1.7.6"
        for source in sources:
            for number, line in source.lines():        # bytes; or source.blocks(), which is faster
                window = recording.open_window(
                    time, size, Origin(kernel, launch, work_group, wavefront), Place(sm, partition)
                )
                recording.preload(window, register, lanes, values)
                recording.write(window, time, register, lanes, values)
                recording.read(window, time, register, lanes_shown, values_shown)
                recording.close_window(window, time)
                recording.skip("records of a kind without registers", source, number)
                source.fail(number, "why")             # refuses the file: UserError, exit code 2

    FORMAT = Format("mytool", "My Tool's register log", _recognises, _read)

Times are any integers that do not decrease for a window; `Recording.period` of them are a cycle,
and the first allocation is cycle 0. ``values`` are little-endian 32-bit numbers of the lanes in the
mask, the lowest first, in anything with a buffer: ``array("I", ...)``, ``np.uint32``, bytes. A
window whose ``size`` is None gets as many registers as are used. ``Place(None, part)``: work-groups
fill one unit after the other. A read with contents is compared with the last write and counted as a
gap if they differ. Do not catch `limits.Enough`, which ends an import whose user has asked for a
part. ``open_window(..., facts={...})`` are the keys of ``--json`` that only this format knows
(``window.facts`` may be changed until the end); writes, reads and digests are counted for every
format.

What is strange in a file is skipped with a reason and its line, where the tool is known to print
other things between its records; it is refused where a user has written the file. Nothing that a
file holds may raise anything but `UserError`, or make an importer keep more than a line and what
its open windows need.
"""
