"""Records as CUTracer's versions write them."""

import json
from itertools import islice

from mcage.tracing.importing.sass import instruction_of


def old_version(content, *, numbered=False, addresses=True):
    """Records as older versions print them: SASS in each, and no table of it.

    From 2026-02-11 on (`numbered`) registers are numbered, and soon there is metadata; before, the
    address of a memory operand has no row.
    """
    metadata, *records = map(json.loads, content.splitlines())
    instructions = metadata.pop("instructions")
    if numbered:
        yield line_of(metadata)
    for record in records:
        record["sass"] = instructions[str(record["opcode_id"])]["sass"]
        if not numbered:
            record.pop("regs_indices", None)
        if not addresses:
            operands = [held for _, held in instruction_of(record["sass"]).operands]
            width = (len(record["regs"]) - sum(operands)) // max(operands.count(False), 1)
            rows = iter(record["regs"])
            groups = [list(islice(rows, 1 if held else width)) for held in operands]
            kept = [group for group, held in zip(groups, operands, strict=True) if not held]
            record["regs"] = [row for group in kept for row in group]
        yield line_of(record)


def line_of(record):
    """A line as the tool writes it: keys sorted, no spaces."""
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"


class Program:
    """Records of a warp as the tool writes them."""

    def __init__(self):
        self.instructions, self.records = {}, []

    def add(self, sass, rows=(), **other):
        """Add a record with its rows: a number of a register, and 32 numbers or one for all."""
        table = {entry["sass"]: number for number, entry in self.instructions.items()}
        number = table.setdefault(sass, str(len(table)))
        self.instructions[number] = {"sass": sass}
        contents = [list(row) if isinstance(row, range | list) else [row] * 32 for _, row in rows]
        record = {"cta": [0, 0, 0], "ctx": "0x1", "grid_launch_id": 0, "opcode_id": int(number)}
        record |= {"pc": "0x0", "regs": contents, "regs_indices": [index for index, _ in rows]}
        self.records.append(record | {"type": "reg_trace", "warp": 0} | other)

    def text(self):
        head = {"block": [32, 1, 1], "grid": [1, 1, 1], "nregs": 32, "type": "kernel_metadata"}
        lines = [head | {"instructions": self.instructions}, *self.records]
        return b"".join(map(line_of, lines))
