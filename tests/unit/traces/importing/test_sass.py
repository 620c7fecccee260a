"""Registers that instructions of NVIDIA's GPUs write and read."""

import pytest
from sass_widths import UNKNOWN, WIDTHS

from mcage.traces.importing.nvidia.sass import ZERO, instruction_of


@pytest.mark.parametrize(("count", "sass"), WIDTHS)
def test_as_many_registers_are_written_as_the_disassembler_says(count, sass):
    instruction = instruction_of(sass)
    assert len(instruction.written) == count
    assert not instruction.unknown


@pytest.mark.parametrize("sass", UNKNOWN)
def test_what_the_table_does_not_know_is_not_guessed(sass):
    instruction = instruction_of(sass)
    assert instruction.written == ()
    first = next(number for number, _ in instruction.operands if number < ZERO)
    assert first in instruction.unknown


@pytest.mark.parametrize(
    ("sass", "written", "read"),
    [
        ("LDG.E.ENL2.256 R12, R8, desc[UR4][R2.64] ;", (*range(8, 16),), (2, 3)),
        ("STG.E.ENL2.256 desc[UR4][R2.64], R4, R8 ;", (), (2, 3, *range(4, 12))),
        ("TEX.LL RZ, R5, R4, R0, UR4, 2D, 0x8 ;", (5,), (4, 0)),
        ("TEX R6, R4, R2, UR4, 2D ;", (4, 5, 6, 7), (2,)),
        ("TEX R7, R4, R2, UR4, 2D, 0x7 ;", (4, 5, 7), (2,)),
        ("HMMA.884.F32.F32.STEP1 R14, R8.ROW, R10.COL, R10 ;", (14, 15), (8, 10)),
        ("LDTM.x128 R200, tmem[UR4] ;", (*range(200, 255),), ()),
        ("IMNMX.S64 PT, PT, R2, R6, R4, PT, !PT ;", (2, 3), (6, 4)),
    ],
)
def test_which_registers(sass, written, read):
    instruction = instruction_of(sass)
    assert (instruction.written, instruction.read) == (written, read)


def test_texts_that_are_no_instructions():
    for text in ("", "@ [[[ ,,, R", "TEX R1", "TEX RZ, R1, 0xZZ", "LDTM.x R1", "R4 R4"):
        instruction_of(text)
