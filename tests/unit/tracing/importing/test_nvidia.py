"""Importers of NVIDIA's tools: reading rules, and what lies between records in real files."""

import gzip
import json
import re

import pytest
from cutracer_text import Program, old_version
from import_samples import FOLDER, counted, expected, files_of, imported, text_of
from sass_widths import UNKNOWN, WIDTHS
from tables import each

from mcage.errors import UserError
from mcage.traces.model import WRITE
from mcage.tracing.importing import cutracer, nvbit
from mcage.tracing.importing.sass import ZERO, instruction_of
from mcage.tracing.importing.sources import ImportOptions, Source

NEVER_SHOWN = nvbit.NEVER_SHOWN
KERNEL = b"Kernel f - grid size 1,1,1 - block size %d,1,1 - nregs 9 - shmem 0 - cuda stream id 0\n"
BYTE_LOADS = {"cutracer/reduction-after": 6}
"""Writes of loads whose contents no later record shows; the reference gives up all such loads."""


def read(tmp_path, content, module=nvbit, name="log.txt", **options):
    """What an importer reads of a text."""
    path = tmp_path / name
    path.write_bytes(content)
    source = Source(path)
    assert module.FORMAT.recognises(source)
    return module.FORMAT.reader([source], ImportOptions(**options)).read_all()


def contents(recording):
    """Registers and contents of the writes of each window, by CTA and warp, in their order."""
    columns, values = recording.columns(), recording.values()
    of_warp = {}
    for row in (columns["kind"] == WRITE).nonzero()[0]:
        window = recording.windows[columns["window"][row]]
        key = (tuple(window.facts["cta"]), window.facts["warp_in_cta"])
        written = (int(columns["reg"][row]), values[columns["value"][row]].tobytes())
        of_warp.setdefault(key, []).append(written)
    return of_warp


def is_subsequence(part, whole):
    rest = iter(whole)
    return all(content in rest for content in part)


# ------------------------------------------------------------------------------- reading rules


@pytest.mark.parametrize(
    "name",
    [
        "nvbit/matrixtranspose-two-sms",
        "nvbit/scanlargearrays-two-kernels",
        "cutracer/matrixtranspose-after",
        "cutracer/matrixtranspose-before",
        "cutracer/reduction-after",
    ],
)
def test_as_many_writes_are_known_as_the_rules_allow(name, tmp_path):
    """No write is claimed whose contents are not shown, and none is lost that is."""
    known = expected(name)
    values = known.get("values", "before")
    recording = imported(files_of(name), tmp_path, values=values).recording
    resolved = sum(window.counted["writes"] for window in recording.windows)
    reference = known["reference_reading"]
    all_writes = sum(window["writes"] for window in known["windows"])
    missing, *_ = recording.skipped.get(NEVER_SHOWN, [0])
    assert resolved + missing == all_writes
    assert missing == BYTE_LOADS.get(name, reference["unresolved"])


def test_contents_before_are_those_after_the_last_write(tmp_path):
    """The same run through both tools: what NVBit never shows is missing, the rest is equal."""
    after = contents(
        read(
            tmp_path,
            text_of("cutracer/matrixtranspose-after"),
            cutracer,
            values="after",
        )
    )
    before = contents(read(tmp_path, text_of("nvbit/matrixtranspose-two-sms")))
    assert before.keys() == after.keys()
    for key, writes in before.items():
        assert len(writes) == len(after[key]) - 2
        assert is_subsequence(writes, after[key])


def test_lanes_and_time_make_a_trace_approximate(tmp_path):
    recording = read(tmp_path, text_of("nvbit/scanlargearrays-two-kernels"))
    assert set(recording.approximate) == {"lanes", "time"}
    assert re.search(r"\d+\.\d% of them read 0", recording.approximate["lanes"])


def test_sms_are_told_apart_by_slots(tmp_path):
    recording = imported(files_of("nvbit/matrixtranspose-two-sms"), tmp_path).recording
    places = {(w.place.unit, w.place.part) for w in recording.windows}
    assert places == {(sm, part) for sm in (0, 1) for part in range(4)}


def test_a_kernels_line_comes_before_the_last_records_of_the_one_before(tmp_path):
    """The sample has it so; when the second kernel's line comes first of all, nothing changes."""
    content = text_of("nvbit/scanlargearrays-two-kernels")
    second = content.rindex(b"Kernel ")
    line, end, rest = content[second:].partition(b"\n")
    heads = [match.start() for match in re.finditer(rb"^CTA ", content[:second], re.MULTILINE)]
    for records in (1, 300, 1000):
        place = heads[-records]
        early = content[:place] + line + end + content[place:second] + rest
        assert counted(read(tmp_path, early)) == counted(read(tmp_path, content))


def test_warps_of_earlier_launches_have_ended_when_a_buffer_has_been_printed(tmp_path, monkeypatch):
    """A warp that never shows an EXIT does not take the records of the next launch."""
    content = text_of("nvbit/matrixtranspose-two-sms")
    body = content[content.index(b"Kernel ") :]
    without_exit = body.replace(b"- EXIT ;:", b"- @P0 EXIT ;:")
    other = KERNEL % 32
    other += b"CTA 0,0,0 - warp 63 - NOP ;:\n\n" * 11 + b"CTA 0,0,0 - warp 63 - EXIT ;:\n\n"
    monkeypatch.setattr(nvbit, "EARLY_RECORDS", 10)
    recording = read(tmp_path, without_exit + other + body)
    launches = [window.origin.launch for window in recording.windows]
    assert launches == [0] * 16 + [1] + [2] * 16
    assert counted(recording)[17:] == counted(read(tmp_path, body))


def test_blocks_that_do_not_fill_their_last_warp(tmp_path):
    row = b"* " + b" ".join(b"Reg0_T%d: 0x%08x" % (lane, lane) for lane in range(32)) + b" \n\n"
    records = b"".join(
        b"CTA 0,0,0 - warp %d - %s ;:\n%s" % (warp, sass, row if sass != b"EXIT" else b"\n")
        for sass in (b"MOV R0, 0x1", b"MOV R0, 0x2", b"EXIT")
        for warp in (6, 7, 8)
    )
    recording = read(tmp_path, KERNEL % 72 + records)
    lanes = {w.facts["warp_in_cta"]: (w.lanes, w.size) for w in recording.windows}
    assert lanes == {0: (32, 16), 1: (32, 16), 2: (8, 16)}


def test_memory_is_bounded_where_contents_are_never_shown(tmp_path, monkeypatch):
    """Accesses wait for the contents of earlier writes, but not for ever."""
    content = text_of("nvbit/scanlargearrays-two-kernels")
    monkeypatch.setattr(nvbit, "MOST_WAITING", 100)
    few = read(tmp_path, content)
    monkeypatch.undo()
    many = read(tmp_path, content)
    assert few.skipped[NEVER_SHOWN][0] > many.skipped[NEVER_SHOWN][0]


def test_too_many_warps_without_an_end(tmp_path, monkeypatch):
    content = text_of("nvbit/matrixtranspose-two-sms").replace(b"- EXIT ;:", b"- @P0 EXIT ;:")
    monkeypatch.setattr(nvbit, "MOST_RUNNING", 16)
    assert len(read(tmp_path, content).windows) == 16
    monkeypatch.setattr(nvbit, "MOST_RUNNING", 4)
    recording = read(tmp_path, content)
    assert recording.skipped["records of warps that have ended, or of more warps than the grid has"]


def test_too_many_windows_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("mcage.tracing.importing.recording.MOST_WINDOWS", 15)
    with pytest.raises(UserError, match="more than 15 windows; ask for fewer: --windows"):
        imported(files_of("nvbit/matrixtranspose-two-sms"), tmp_path / "out")
    result = imported(files_of("nvbit/matrixtranspose-two-sms"), tmp_path / "out", windows=15)
    assert len(result.recording.windows) == 15


def test_kernels_without_records(tmp_path):
    """Thousands of launches of which nothing is recorded."""
    content = text_of("nvbit/matrixtranspose-two-sms")
    head, line, rest = content.partition(b"Kernel ")
    other = KERNEL % 64
    before = read(tmp_path, head + other + line + rest)
    launches = [window.origin.launch for window in before.windows]
    assert launches == [0] * 2 + [1] * 14  # no record says that the warps of CTA 0 were not its own
    after = read(tmp_path, head + line + rest + other * 10_000)
    assert counted(after) == counted(read(tmp_path, content))


def test_a_slice_without_writes_is_no_trace(tmp_path):
    """When reading ends early, a partition may hold warps of which nothing is known."""
    content = text_of("nvbit/matrixtranspose-two-sms")
    head, *records = re.split(rb"(?m)^(?=CTA )", content)
    first = [record for record in records if record.startswith(b"CTA 0,0,0")]
    others = [record for record in records if b"- S2R R0" in record]
    (tmp_path / "part.txt").write_bytes(head + b"".join([*first, *others]))
    result = imported([tmp_path / "part.txt"], tmp_path / "out")
    assert result.recording.skipped["slices whose windows have no write"][0] == 6
    assert [made.name for _, made in result.slices] == ["sm0.part0", "sm0.part1"]


# -------------------------------------------------------------------- what lies between records


def test_other_output_between_lines(tmp_path):
    content = text_of("nvbit/matrixtranspose-two-sms")
    plain = read(tmp_path, content)
    lines = content.split(b"\n")
    mixed = b"\n".join(
        b"iteration %d" % n + b"\n" + (b"progress..." + line if line[:3] == b"CTA" else line)
        if line
        else line
        for n, line in enumerate(lines)
    )
    assert counted(read(tmp_path, mixed)) == counted(plain)


def test_names_of_kilobytes(tmp_path):
    name = b"void f<" + b"std::tuple<int, - grid size 1,2,3 - block size 4,5,6>, " * 100 + b">()"
    assert len(name) > 5000
    content = text_of("nvbit/matrixtranspose-two-sms")
    changed = content.replace(b"matrixTranspose(float*, float const*, int, int)", name)
    recording = read(tmp_path, changed)
    assert counted(recording) == counted(read(tmp_path, content))
    assert recording.windows[0].origin.kernel == name.decode()


def test_records_before_any_kernel(tmp_path):
    content = text_of("nvbit/matrixtranspose-two-sms")
    path = tmp_path / "log.txt"
    path.write_bytes(re.sub(rb"(?m)^Kernel .*\n", b"", content))
    with pytest.raises(UserError, match=r"records before the line of any kernel \(first in line"):
        imported([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -------------------------------------------------------------------------------------- CUTracer


@pytest.mark.parametrize("name", ["matrixtranspose-after", "reduction-after"])
@pytest.mark.parametrize("addresses", [True, False])
def test_older_versions_of_cutracer(name, addresses, tmp_path):
    """They have no size of windows and of blocks, and before 2026-02-11 no rows of addresses.

    What only these rows show is not known then; all else is equal.
    """
    content = text_of(f"cutracer/{name}")
    new = read(tmp_path, content, cutracer, values="after")
    older = b"".join(old_version(content, addresses=addresses))
    old = read(tmp_path, older, cutracer, values="after")
    assert not addresses or counted(old) == counted(new)
    for warp, writes in contents(old).items():
        assert is_subsequence(writes, contents(new)[warp])
    known = [
        sum(window.counted["writes"] for window in recording.windows)
        + recording.skipped.get(NEVER_SHOWN, [0])[0]
        for recording in (old, new)
    ]
    assert known[0] == known[1]
    assert {window.size for window in old.windows} == {window.size for window in new.windows}
    assert "records whose rows do not fit the instruction" not in old.skipped


def test_records_with_sass_and_numbers(tmp_path):
    """Versions from 2026-02-11 to 2026-04-09: their records look like new ones, without a table."""
    content = text_of("cutracer/matrixtranspose-after")
    between = b"".join(old_version(content, numbered=True))
    assert (b'"sass":' in between, b'"instructions":' in between) == (True, False)
    recording = read(tmp_path, between, cutracer, values="after")
    assert counted(recording) == counted(read(tmp_path, content, cutracer, values="after"))
    assert not recording.skipped


def written_to(recording, register):
    """First lanes of what is written to a register, in their order."""
    columns, values = recording.columns(), recording.values()
    rows = (columns["kind"] == WRITE) & (columns["reg"] == register)
    return [int(values[row][0]) for row in columns["value"][rows]]


@pytest.mark.parametrize("indices", [(255, 0, 2), (255, 0)])
def test_parts_of_rz_are_no_register(indices, tmp_path):
    """`STG.E.64 [R2.64], RZ` has a row for the register after RZ: 256 in eight bits."""
    program = Program()
    program.add("MOV R0, 0x5 ;", [(0, 1)])
    program.add("STG.E.64 [R2.64], RZ ;", [(index, 77) for index in indices])
    program.add("STG.E [R2.64], R0 ;", [(0, 5), (2, 8)])
    recording = read(tmp_path, program.text(), cutracer)
    assert written_to(recording, 0) == [5]
    assert not recording.gaps.other_contents


def test_rz_before_register_0(tmp_path):
    program = Program()
    program.add("MOV R0, 0x5 ;", [(0, 1)])
    program.add("IADD3 R1, RZ, R0, RZ ;", [(1, 0), (255, 0), (0, 5), (255, 0)])
    assert written_to(read(tmp_path, program.text(), cutracer), 0) == [5]


def test_loads_of_256_bits_write_eight_registers(tmp_path):
    """Two destinations; 17 rows are more than a record of the tool has room for."""
    program = Program()
    load = "LDG.E.ENL2.256 R12, R8, desc[UR4][R2.64] ;"
    program.add(load, [(n, 99) for n in (*range(12, 20), *range(8, 16), 2)])
    for n in range(8, 16):
        program.add(f"STG.E [R2.64], R{n} ;", [(n, 100 + n), (2, 8)])
    recording = read(tmp_path, program.text(), cutracer)
    assert [written_to(recording, n) for n in range(8, 16)] == [[100 + n] for n in range(8, 16)]
    assert recording.skipped["records whose rows do not fit the instruction"][0] == 1


def test_instructions_that_the_table_does_not_know_are_counted(tmp_path):
    """What they may have written is not taken for the contents that an earlier write has left."""
    program = Program()
    program.add("MOV R25, 0x5 ;", [(25, 1)])
    program.add("HGMMA.64x8x16.F32 R24, gdesc[UR4], R24 ;", [(24, 3), (24, 3)])
    program.add("STG.E [R2.64], R25 ;", [(25, 77), (2, 8)])
    recording = read(tmp_path, program.text(), cutracer)
    assert recording.skipped["writes of HGMMA, whose registers are not known"][0] == 1
    assert recording.skipped[NEVER_SHOWN][0] == 1
    assert not written_to(recording, 25)


def test_names_of_instructions_are_not_taken_from_hostile_files(tmp_path):
    program = Program()
    for number in range(200):
        program.add(f"NEW{number} R1 ;")
    program.add("\x1b[31m R1 ;")
    skipped = read(tmp_path, program.text(), cutracer).skipped
    others = skipped["writes of other instructions, whose registers are not known"][0]
    assert sum(where[0] for where in skipped.values()) == 201
    assert len(skipped) == 201 - others + 1 < 60


@pytest.mark.parametrize("idle", ["0", "leader"])
def test_lanes_that_were_not_active_contradict_nothing(idle, tmp_path):
    """They read 0, or what the first active lane holds."""
    program = Program()
    for turn in range(20):
        held = range(100 * turn + 1, 100 * turn + 33)
        program.add("STG.E [R2.64], R0 ;", [(0, held), (2, 8)])
        some = [held[3] if idle == "leader" else 0] * 32
        some[3:9] = held[3:9]
        program.add("MOV R0, 0x5 ;", [(0, some)])
    assert read(tmp_path, program.text(), cutracer).windows


def test_a_file_of_several_launches(tmp_path):
    """Versions before 2026-02-05 wrote all launches of a kernel into one file."""
    program = Program()
    for launch in (3, 7):
        program.add("MOV R0, 0x5 ;", [(0, 1)], grid_launch_id=launch)
        program.add("@P0 EXIT ;", grid_launch_id=launch)
    recording = read(tmp_path, program.text(), cutracer)
    assert [window.origin.launch for window in recording.windows] == [0, 1]
    twice = read(tmp_path, program.text() * 2, cutracer)
    assert [window.origin.launch for window in twice.windows] == [0, 1, 2, 3]


def test_a_second_run_in_a_file_has_instructions_of_its_own(tmp_path):
    """The same rows are parts of RZ in the first, and RZ and R0 in the second."""
    text = b""
    for sass in ("STG.E.64 [R2.64], RZ ;", "ISETP.GE.AND P0, PT, R2, RZ, R0, PT ;"):
        program = Program()
        program.add("MOV R0, 0x5 ;", [(0, 1)])
        program.add(sass, [(2, 8), (255, 0), (0, 5)])
        text += program.text()
    assert written_to(read(tmp_path, text, cutracer), 0) == [5]


def test_a_null_byte_for_a_brace_and_lines_that_are_no_json(tmp_path):
    content = text_of("cutracer/matrixtranspose-after")
    plain = read(tmp_path, content, cutracer, values="after")
    lines = content.splitlines(keepends=True)
    lines[7] = b"\0" + lines[7][1:]
    lines.insert(9, b'{"type":"mem_addr_trace","addrs":[1]}\n')
    lines.insert(12, b'{"cta":[0,0,\n')
    recording = read(tmp_path, b"".join(lines), cutracer, values="after")
    assert counted(recording) == counted(plain)
    assert recording.skipped == {
        "mem_addr_trace records, which hold no registers": [1, "log.txt", 10],
        "lines that are no JSON object": [1, "log.txt", 13],
    }


def test_keys_in_another_order_take_the_slow_way(tmp_path):
    content = text_of("cutracer/reduction-after")
    metadata, *records = content.splitlines()
    turned = [json.dumps(dict(reversed(json.loads(line).items()))).encode() for line in records]
    recording = read(tmp_path, b"\n".join([metadata, *turned, b""]), cutracer, values="after")
    assert counted(recording) == counted(read(tmp_path, content, cutracer, values="after"))


def test_launches_are_files(tmp_path):
    (path,) = files_of("cutracer/matrixtranspose-after")
    again = tmp_path / "again.ndjson.gz"
    again.write_bytes(gzip.compress(text_of("cutracer/matrixtranspose-after")))
    result = imported([path, again], tmp_path / "out", values="after")
    launches = [window["launch"] for window in result.facts()["windows"]]
    assert launches == [0] * 16 + [1] * 16
    begins = [window.begin for window in result.recording.windows]
    assert max(begins[:16]) < min(begins[16:])


@pytest.mark.parametrize("name", ["matrixtranspose-after", "reduction-after"])
@pytest.mark.parametrize("windows", [None, 12])
def test_contents_after_are_not_read_as_those_before(name, windows, tmp_path):
    """The default would do so in silence."""
    with pytest.raises(UserError, match=f"{name}.*seem to be contents after.*--values after"):
        imported(files_of(f"cutracer/{name}"), tmp_path, windows=windows)
    recording = imported(
        files_of(f"cutracer/{name}"), tmp_path, values="before", windows=windows
    ).recording
    assert "still taken as --values says" in recording.approximate["contents"]


@pytest.mark.parametrize("kind", ["mem_addr_trace", "opcode_only"])
def test_files_without_registers_are_refused(kind, tmp_path):
    path = tmp_path / "kernel.ndjson"
    path.write_bytes(b'{"type":"kernel_metadata"}\n{"type":"%b"}\n' % kind.encode())
    with pytest.raises(UserError, match=f"1 x {kind} records, which hold no registers"):
        imported([path], tmp_path / "out")


# ------------------------------------------------------------------------------------- Accel-Sim


@each("name", ["kernel-1.traceg", "kernel-1.tracez", "kernel-1.traceg.xz", None])
def test_traces_of_accelsim_are_recognised_and_refused(name, tmp_path):
    """By their names, and the sample by its content."""
    if name is None:
        (path,) = FOLDER.glob("accelsim/kernel-1.traceg.zst")
    else:
        path = tmp_path / name
        path.write_bytes(b"\xfd7zXZ\0 compressed in another way\n")
    with pytest.raises(UserError, match="Accel-Sim holds instructions and addresses, but no reg"):
        imported([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Registers that instructions of NVIDIA's GPUs write and read.


@each(("count", "sass"), WIDTHS)
def test_as_many_registers_are_written_as_the_disassembler_says(count, sass):
    instruction = instruction_of(sass)
    assert len(instruction.written) == count
    assert not instruction.unknown


@each("sass", UNKNOWN)
def test_what_the_table_does_not_know_is_not_guessed(sass):
    instruction = instruction_of(sass)
    assert instruction.written == ()
    first = next(number for number, _ in instruction.operands if number < ZERO)
    assert first in instruction.unknown


@each(
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
        ("@!P0 IMAD.WIDE R2, R0, R3.reuse, R6 ;", (2, 3), (0, 3, 6, 7)),
        ("STG.E.128 [R4.64], R0 ;", (), (4, 5, 0, 1, 2, 3)),
        ("ATOMG.E.ADD.STRONG.GPU PT, R3, [R2.64], R5 ;", (3,), (2, 3, 5)),
        ("DADD R4, R6, -R8 ;", (4, 5), (6, 7, 8, 9)),
        ("LDG.E.128 R252, [R2.64] ;", (252, 253, 254), (2, 3)),
        ("EXIT ;", (), ()),
        ("", (), ()),
    ],
)
def test_which_registers(sass, written, read):
    instruction = instruction_of(sass)
    assert (instruction.written, instruction.read) == (written, read)


def test_only_an_unguarded_exit_ends_a_warp():
    assert instruction_of("EXIT ;").ends
    assert not instruction_of("@P0 EXIT ;").ends
