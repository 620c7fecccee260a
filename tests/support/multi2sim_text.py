"""The timing that Multi2Sim would print beside an ISA text."""

import re

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
            lines.append(f"si.map_wg cu=2 wg={wave} {group}")
        for number, (asm, wave) in enumerate(blocks):
            clock += 10
            place = f"id={number} cu=2"
            lines += [
                f"c clk={clock}",
                f'si.new_inst {place} ib=3 wf={wave} uop_id=1 stg="f" asm="{asm}"',
                f'si.inst {place} wf={wave} uop_id=1 stg="simd-e"',
                f"c clk={clock + 4}",
                f"si.end_inst {place}",
            ]
        lines += [f"si.unmap_wg cu=2 wg={wave}" for wave in waves]
    return "\n".join(lines) + "\n"
