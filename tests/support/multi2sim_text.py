"""A native trace as Multi2Sim would print it: ISA text, and the file of ``--trace``.

A write is a load, whose result comes in the cycle of the stage ``mem-w``; a read is a comparison,
whose operand is read in the cycle of ``simd-e``. So every event keeps its cycle. As the simulator
does, comparisons print the lane instead of the work-item, and the line after the end of a branch
begins with a space. A branch comes after every seventh comparison.
"""

import re

import numpy as np

from mcage.traces import ALLOC, READ, RELEASE, WRITE

SUMMARY = "\n================ Initialization Summary ================\n\n"


class _Files:
    def __init__(self):
        self.text, self.timing = [], ['si.init version="1.1" num_compute_units=1']
        self.instructions = self.comparisons = 0

    def block(self, instruction, effects):
        self.text.append(
            f" {instruction:40s} // {8 * self.instructions:08X}: 7E040200\n{effects}\n"
        )

    def step(self, asm, stage, wavefront, end=""):
        self.instructions += 1
        place = f"id={self.instructions} cu=0"
        self.timing += [
            f'si.new_inst {place} ib=0 wf={wavefront} uop_id=1 stg="f" asm="{asm}"',
            f'si.inst {place} wf={wavefront} uop_id=1 stg="{stage}"',
            f"si.end_inst {place}{end}",
        ]

    def compare(self, register, wavefront):
        self.step("V_CMP_EQ_I32", "simd-e", wavefront)
        self.block(f"v_cmp_eq_i32  vcc, 0, v{register}", "t0: vcc<=(0) \n")
        self.comparisons += 1
        if not self.comparisons % 7:
            self.step("S_CBRANCH_VCCZ", "bu-e", wavefront, end="\n ")
            self.block("s_cbranch_vccz  label_0002", "\n")


def multi2sim_files(trace):
    """Text and timing of a trace whose work-groups come and go as a whole."""
    files, clock, launch = _Files(), None, -1
    window_of_event = trace.window_of_event()
    of_group = {}
    for window in range(trace.windows):
        of_group.setdefault(group_of(trace, window), []).append(window)
    left = {group: len(windows) for group, windows in of_group.items()}
    seen = set()
    for row in range(len(trace.kind)):
        window = window_of_event[row]
        wavefront, kind = int(trace.alloc_wavefront[window]), trace.kind[row]
        if trace.cycle[row] != clock:
            clock = trace.cycle[row]
            files.timing.append(f"c clk={clock}")
        group = group_of(trace, window)
        if kind == ALLOC and group not in seen:
            seen.add(group)
            if trace.alloc_launch[window] != launch:
                launch = trace.alloc_launch[window]
                files.text.append(SUMMARY)
            first = min(int(trace.alloc_wavefront[each]) for each in of_group[group])
            files.timing.append(
                f"si.map_wg cu=0 wg={group[1]} wi_first={64 * first} "
                f"wi_count={64 * len(of_group[group])} wf_first={first} "
                f"wf_count={len(of_group[group])}"
            )
            files.step("S_MOV_B32", "su-w", first)
            files.block("s_mov_b32     m0, 0x00008000", "S124<=(0x8000) \n")
        elif kind == WRITE:
            lanes = np.flatnonzero(trace.exec_mask[row] >> np.arange(64, dtype=np.uint64) & 1)
            values = trace.values[trace.value[row]]
            register = trace.reg[row]
            files.step("BUFFER_LOAD_DWORD", "mem-w", wavefront)
            effects = "".join(
                f"t{64 * wavefront + lane}: V{register}<=(0)({values[lane]}) " for lane in lanes
            )
            files.block(f"buffer_load_dword  v{register}, s[12:15], 0", effects + "\n")
        elif kind == READ:
            files.compare(trace.reg[row], wavefront)
        elif kind == RELEASE:
            left[group] -= 1
            if not left[group]:
                files.timing.append(f"si.unmap_wg cu=0 wg={group[1]}")
    return "".join(files.text), "\n".join(files.timing).replace("\n \n", "\n ") + "\n"


PRINT_LANES = ("v_cmp", "v_max3", "v_med3", "v_lshr_b64", "v_ashr_i64", "v_add_f64", "v_mul_f64")
BLOCK = re.compile(r"^ (\w+) [^\n]*// [0-9A-F]{8}:[^\n]*\n([^\n]*)", re.MULTILINE)


def timing_of(text):
    """Timing of a text: an instruction each ten cycles, work-groups of one wavefront.

    Blocks that name no work-item are of the wavefront of the block before.
    """
    lines, clock = ['si.init version="1.1" num_compute_units=1'], 90
    for launch in text.split("Initialization Summary"):
        wave, blocks = 0, []
        for code, effects in BLOCK.findall(launch):
            item = re.match(r"t(\d+):", effects)
            if item and not code.startswith(PRINT_LANES):
                wave = int(item[1]) // 64
            blocks.append((code.upper(), wave))
        waves = sorted({wave for _, wave in blocks})
        clock += 10
        lines.append(f"c clk={clock}")
        for wave in waves:
            group = f"wi_first={64 * wave} wi_count=64 wf_first={wave} wf_count=1"
            lines.append(f"si.map_wg cu=0 wg={wave} {group}")
        for number, (asm, wave) in enumerate(blocks):
            clock += 10
            place = f"id={number} cu=0"
            lines += [
                f"c clk={clock}",
                f'si.new_inst {place} ib=0 wf={wave} uop_id=1 stg="f" asm="{asm}"',
                f'si.inst {place} wf={wave} uop_id=1 stg="simd-e"',
                f"si.end_inst {place}",
            ]
        lines += [f"si.unmap_wg cu=0 wg={wave}" for wave in waves]
    return "\n".join(lines) + "\n"


def group_of(trace, window):
    """Launch and work-group of a window."""
    return int(trace.alloc_launch[window]), int(trace.alloc_work_group[window])
