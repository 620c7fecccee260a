"""Code objects: what they hold, and damage that is refused by name."""

import struct
from dataclasses import replace

import msgpack
import numpy as np
import pytest
from amd_tools import needs_objdump
from gpu_samples import PROCESSORS, SAMPLES, sample
from tables import each

from mcage.errors import UserError
from mcage.tracing.emulation import code_object, memory, trail
from mcage.tracing.emulation.code_object import read_code_object
from mcage.tracing.emulation.emulate import Emulation, Launch
from mcage.tracing.emulation.program import Program
from mcage.tracing.emulation.record import record_kernel

pytestmark = needs_objdump

MIXED = {"values": np.ones(384, np.float16), "counts": np.zeros(32, np.int32), "n": 192}


def with_metadata(change, arch="gfx90a"):
    """A code object whose metadata a function has changed."""
    content = bytearray(sample(arch))
    start, count = struct.unpack_from("<Q", content, 40)[0], content[60]
    header = next(
        place
        for place in range(start, start + 64 * count, 64)
        if content[place + 4 : place + 8] == b"\7\0\0\0"
    )
    offset, size = struct.unpack_from("<QQ", content, header + 24)
    metadata = msgpack.unpackb(bytes(content[offset + 20 : offset + size].rstrip(b"\0")))
    change(metadata)
    made = msgpack.packb(metadata)
    struct.pack_into("<QQ", content, header + 24, len(content), 20 + len(made))
    return bytes(content) + struct.pack("<III8s", 7, len(made), 32, b"AMDGPU\0") + made


def refused(content):
    with pytest.raises(UserError) as error:
        read_code_object(content, "k.co")
    message = str(error.value)
    assert message.startswith("k.co: ")
    assert len(message) < 400
    return message


@each("arch", PROCESSORS)
def test_kernels_of_a_code_object(arch):
    code = read_code_object(sample(arch), "k.co")
    assert code.arch == arch
    assert list(code.kernels) == ["saxpy", "mixed"]
    saxpy, mixed = code.kernels.values()
    assert [argument.name for argument in saxpy.arguments[:5]] == ["x", "y", "a", "n", "width"]
    assert [argument.offset for argument in saxpy.arguments[:5]] == [0, 8, 16, 20, 24]
    assert mixed.arguments[2].kind == "dynamic_shared_pointer"
    assert mixed.arguments[2].alignment == 4
    assert (saxpy.lds_bytes, mixed.lds_bytes) == (0, 256)
    assert saxpy.lanes == (64 if arch.startswith("gfx9") else 32)
    assert code.listing[saxpy.entry][0].startswith("s_load")
    ends = [text for text, _ in code.listing.values() if text == "s_endpgm"]
    assert len(ends) == 2


VERSIONS = {"gfx900": "9.00", "gfx90a": "9.0a", "gfx942": "9.42", "gfx1030": "10.30"}


@each("arch", PROCESSORS)
def test_targets_by_whoever_spells_them(arch):
    """Compilers differ in what stands before the processor, and in what follows it."""
    new = f"amdgpu{VERSIONS.get(arch, '11.00')}-amd-amdhsa-unknown-{arch}"
    for target in (new, f"amdgcn-amd-amdhsa--{arch}:sramecc+:xnack-"):
        content = with_metadata(
            lambda data, said=target: data.update({"amdhsa.target": said}), arch
        )
        assert read_code_object(content, "k.co").arch == arch


@each("target", ["amdgcn-amd-amdhsa-gfx90a:xnack-", "gfx90a:xnack+:sramecc-", None])
def test_other_spellings_and_none(target):
    """Version 3 of code objects says no target."""
    said = {} if target is None else {"amdhsa.target": target}
    content = with_metadata(lambda data: (data.pop("amdhsa.target"), data.update(said)))
    assert read_code_object(content, "k.co").arch == "gfx90a"


@each(
    ("machine", "target", "words"),
    [
        (0x4C, "amdgcn-amd-amdhsa--gfx90a",
         "is for gfx942 by its header, for amdgcn-amd-amdhsa--gfx90a by its metadata"),
        (0x4E, "amdgcn-amd-amdhsa--gfx90a", "is for machine 0x4e by its header, for amdgcn-amd-"),
        (0x3F, "amdgpu9.42-amd-amdhsa-unknown-gfx942",
         "is for gfx90a by its header, for amdgpu9.42-amd-amdhsa-unknown-gfx942 by"),
        (0x5F, "amdgcn-amd-amdhsa--gfx9-4-generic",
         "is for amdgcn-amd-amdhsa--gfx9-4-generic, must be for one such as gfx90a"),
        (0x5F, "", "is for no processor, must be for one such as gfx90a"),
        (0x4E, "amdgcn-amd-amdhsa--gfx1201", None),
    ],
)  # fmt: skip
def test_header_and_metadata_name_one_processor(machine, target, words):
    content = bytearray(with_metadata(lambda data: data.update({"amdhsa.target": target})))
    content[48] = machine
    if words is None:
        assert read_code_object(bytes(content), "k.co").arch == "gfx1201"
    else:
        assert words in refused(bytes(content))


def test_every_part_of_a_code_object_is_refused():
    content = sample("gfx90a")
    for length in (0, 4, 63, 64, 300, 1000, len(content) // 2, len(content) - 1):
        refused(content[:length])


def test_other_files_are_refused():
    content = bytearray(sample("gfx90a"))
    assert "is no 64-bit ELF file" in refused(b"hello" * 100)
    content[18] = 62
    assert "is an ELF file of machine 62, not of AMDGPU" in refused(bytes(content))


def of_segments(field, value):
    """A code object with a number in the headers of all segments."""
    content = bytearray(sample("gfx90a"))
    start = struct.unpack_from("<Q", content, 32)[0]
    for number in range(content[56]):
        if content[start + 56 * number] == 1:
            struct.pack_into("<Q", content, start + 56 * number + field, value)
    return bytes(content)


def test_segments_that_take_much_memory_are_refused():
    assert "loads" in refused(of_segments(40, 1 << 40))
    assert "loads" in refused(of_segments(16, (1 << 64) - 1))
    assert "loads parts of the file twice" in refused(of_segments(32, 5000))


@each(
    ("bound", "most", "words"),
    [("_MOST_ROWS", 20, "has tables of more than 20 rows"), ("_MOST_TEXT", 5000, "llvm-objdump")],
)
def test_what_is_read_is_bounded(monkeypatch, bound, most, words):
    with monkeypatch.context() as patch:
        patch.setattr(code_object, bound, most)
        assert words in refused(sample("gfx90a"))


def test_damaged_metadata_name_what_is_wrong():
    def kernel(argument=None, **changes):
        def change(data):
            kernel = data["amdhsa.kernels"][1]
            part = kernel if argument is None else kernel[".args"][argument]
            part.update({f".{name}": value for name, value in changes.items()})

        return refused(with_metadata(change))

    assert "kernel mixed has no symbol none.kd" in kernel(symbol="none.kd")
    assert "mixed has waves of 16 lanes" in kernel(wavefront_size=16)
    assert "-1 is not a size" in kernel(vgpr_count=-1)
    assert "True is not a size" in kernel(vgpr_count=True)
    assert "is not a name" in kernel(name="\x1b[31m")
    assert "is not a name" in kernel(name="x" * 5000)
    assert "argument n lies outside of the" in kernel(3, offset=1 << 20)
    assert "argument counts, a global_buffer, has 4 bytes" in kernel(1, size=4)
    assert "argument part has an alignment of 3 bytes" in kernel(2, pointee_align=3)
    no_kernels = with_metadata(lambda data: data.update({"amdhsa.kernels": 5}))
    assert "has no kernel" in refused(no_kernels)


@each(
    ("bit", "words"),
    [
        *[(bit, "to round otherwise than to the nearest number") for bit in (12, 15)],
        *[(bit, "to flush subnormal numbers to zero") for bit in (16, 19)],
        *[(21, "to keep NaNs where results are clamped"), (23, "arithmetic that is not IEEE's")],
    ],
)
def test_modes_of_arithmetic_that_are_not_emulated(bit, words):
    """Results are rounded to the nearest and keep subnormal numbers; all else would be wrong."""
    code = read_code_object(sample("gfx900"), "k.co")
    kernel = code.kernels["mixed"]
    changed = bytearray(kernel.descriptor)
    changed[48 + bit // 8] ^= 1 << bit % 8
    arguments = MIXED | {"part": 256}
    launch = Launch(Program(), code, kernel, (2, 1, 1), (64, 1, 1), arguments)
    Emulation(launch)
    with pytest.raises(UserError, match=f"mixed: was compiled .*{words}.*, which is not emulated"):
        Emulation(replace(launch, kernel=replace(kernel, descriptor=bytes(changed))))


def launched(folder, *, block=(64,), grid=(2,), of_code=None, of_argument=None, **changes):
    """What is said of a launch of a kernel whose metadata are others; None if it runs."""

    def change(metadata):
        metadata.update(of_code or {})
        kernel = metadata["amdhsa.kernels"][1]
        kernel.update({f".{key}": value for key, value in changes.items()})
        kernel[".args"][0].update(of_argument or {})

    path = folder / "k.co"
    path.write_bytes(with_metadata(change))
    arguments = {"part": 256, **MIXED}
    if (of_argument or {}).get(".value_kind", "").startswith("hidden_"):
        del arguments["values"]
    request = Program.of(path, "gfx90a", arguments, grid, block, entry="mixed")
    try:
        record_kernel(request)
    except UserError as error:
        return str(error)
    return None


def test_what_a_code_object_forbids_is_refused(tmp_path):
    """Sizes for which a kernel was not compiled: the runtime of a GPU refuses them as well."""
    for changes, words in (
        ({"block": (512,)}, "for a block of at most 256 work-items, not of 512; in OpenCL C, "),
        ({"reqd_workgroup_size": [32, 2, 1]}, "for a block of 32,2,1, not of 64,1,1"),
        ({"max_flat_workgroup_size": 63}, "for a block of at most 63 work-items, not of 64"),
        ({"max_num_workgroups_x": 1}, "for a grid of at most 1 work-groups in x, not of 2"),
        ({"max_num_workgroups_z": 1, "grid": (1, 1, 2)}, "at most 1 work-groups in z, not of 2"),
        ({"kind": "init"}, "its .kind is 'init'"),
        ({"device_enqueue_symbol": "s"}, "keys that are not known: .device_enqueue_symbol"),
        ({"of_argument": {".magic": 1}}, "keys that are not known: .magic"),
        ({"of_code": {"amdhsa.magic": 1}}, "keys that are not known: amdhsa.magic"),
        ({"of_code": {"amdhsa.version": [2, 0]}}, "metadata of version [2, 0], must be 1.0 or"),
        ({"of_argument": {".value_kind": "hidden_magic"}}, "needs hidden_magic, which is not"),
    ):
        said = launched(tmp_path, **changes)
        assert said is not None, changes
        assert said.startswith(str(tmp_path / "k.co")), said
        assert words in said
    changes = {"reqd_workgroup_size": [64, 1, 1], "max_flat_workgroup_size": 64}
    changes |= {"kind": "normal", "workgroup_size_hint": [32, 1, 1], "uniform_work_group_size": 1}
    changes |= {"uses_dynamic_stack": True, "workgroup_processor_mode": 1, "language": "HIP"}
    changes |= {"of_argument": {".is_const": True, ".actual_access": "read_only"}}
    changes |= {"max_num_workgroups_x": 2, "of_code": {"amdhsa.version": [1, 3]}}
    assert launched(tmp_path, **changes) is None


@pytest.mark.slow
def test_what_a_runtime_would_give_is_refused_by_name(tmp_path):
    """A kernel that uses such an argument as a pointer is told what it needs."""
    kinds = [*memory._RUNTIME, "hidden_global_offset_x", "hidden_none"]
    for kind in kinds:
        said = launched(tmp_path, of_argument={".value_kind": kind})
        what = memory._RUNTIME.get(kind)
        if what is None:
            assert "address 0x0 (2 bytes) lies outside of every buffer" in said
        else:
            assert f"needs {what}, which is not emulated" in said


def mixed(**changes):
    arguments = {"part": 256, **MIXED} | changes
    return record_kernel(
        Program.of(SAMPLES / "gfx90a.co", "gfx90a", arguments, (2,), (64,), entry="mixed")
    )


def test_local_buffers_lie_behind_what_is_in_lds():
    assert mixed().outputs["counts"][:16].tolist() == [128] + [0] * 15
    assert mixed(part=65536 - 256).trace.digest() == mixed().trace.digest()
    for size, words in (
        (65536 - 255, "argument part needs LDS up to byte 65,537 of 65,536"),
        (-1, "argument part is a local buffer, must be its size in bytes, 0 ... 65,536"),
        (np.ones(3), "argument part is a local buffer"),
    ):
        with pytest.raises(UserError) as error:
            mixed(part=size)
        assert words in str(error.value)


def test_records_of_long_runs_are_made_compact(monkeypatch):
    before = mixed().trace.digest()
    for name in ("_RUNS", "_WRITES"):
        monkeypatch.setattr(trail, name, 1030)
    assert mixed().trace.digest() == before


def test_contents_are_bounded(monkeypatch):
    monkeypatch.setattr(trail, "MOST_BYTES", 1000)
    with pytest.raises(UserError, match="different contents; ask for a smaller grid"):
        mixed()
