"""Waves of the emulator and of the scalar model, made alike, run alike and compared."""

import random
import re
from collections import Counter
from functools import cache

import numpy as np
from scalar_gpu import (
    INDEX,
    Wave,
    indexed_instructions,
    prepare_memory,
    random_instruction,
    run,
    special_values,
)

from mcage.tracing.emulation import memory as emulated_memory
from mcage.tracing.emulation.code_object import CodeObject
from mcage.tracing.emulation.machine import Machine
from mcage.tracing.emulation.waves import Budget, Instructions, Run
from mcage.tracing.importing.contents import Contents

GENERATIONS = {"gfx90a": 9, "gfx1030": 10, "gfx1100": 11}
REGISTERS = 64
ACCUMULATORS_FROM = 48
WORDS = [value for kind in ("f16", "f32", "f64", "i32") for value in special_values(kind)]
ROUNDED_BY_HARDWARE = re.compile(r"_(exp|log|rcp|rsq|sqrt|sin|cos)_|_rcp_iflag_")

EXECUTED = Counter()
"""Wave instructions that `emulate` has executed: all, and those of the interpreter."""

FIRST_BIT = {"f16": (0x7C00, 0x3FF), "f32": (0x7F800000, 0x7FFFFF)}


def lanes_of(arch):
    return 64 if GENERATIONS[arch] == 9 else 32


def random_word(rng):
    chance = rng.random()
    if chance < 0.45:
        return rng.choice(WORDS) & 0xFFFFFFFF
    if chance < 0.5:
        return rng.choice(WORDS) >> 32
    if chance < 0.6:
        return rng.randrange(64)
    if chance < 0.75:
        return int(np.float32(rng.gauss(0, 10)).view(np.uint32))
    if chance < 0.85:
        return int(np.array([rng.gauss(0, 3), rng.gauss(0, 3)], np.float16).view(np.uint32)[0])
    return rng.getrandbits(32)


@cache
def random_registers(lanes, number):
    """Registers of a wave, drawn once."""
    rng = random.Random(f"{lanes} {number}")
    vector = [[random_word(rng) for _ in range(lanes)] for _ in range(REGISTERS)]
    return vector, [random_word(rng) for _ in range(106)]


def random_wave(rng, arch, few=True):
    """A wave with random registers, of which few lanes are on, so that the model is quick."""
    lanes = lanes_of(arch)
    exec_mask = rng.getrandbits(lanes)
    if few:
        exec_mask = 0
        first, step = rng.randrange(lanes), rng.choice((1, 7))  # lanes that read of each other
        for number in range(rng.randrange(1, 7)):
            exec_mask |= 1 << (first + step * number) % lanes
    elif rng.random() < 0.5:
        exec_mask = (1 << lanes) - 1
    vector, scalar = random_registers(lanes, rng.randrange(8))
    scalar = list(scalar)
    scalar[int(INDEX[1:])] = rng.randrange(16)
    return Wave(
        lanes,
        [list(register) for register in vector],
        scalar,
        vcc=rng.getrandbits(lanes),
        exec=exec_mask,
        m0=rng.randrange(16),  # an index of registers
        scc=rng.getrandbits(1),
        lds=bytearray(256),
    )


def machine_of(waves, arch, kind=Machine):
    """The same waves in a machine of the emulator."""
    lanes = waves[0].lanes
    registers = len(waves[0].v)
    m = kind(len(waves), lanes, registers, GENERATIONS[arch], ACCUMULATORS_FROM)
    for number, wave in enumerate(waves):
        m.vector[:, number] = np.array(wave.v, np.uint32)
        m.scalar[:106, number] = np.array(wave.s, np.uint32)
        m.scalar[106, number], m.scalar[107, number] = wave.vcc & 0xFFFFFFFF, wave.vcc >> 32
        m.scalar[124, number], m.scc[number] = wave.m0, wave.scc
    m.put_bits(slice(None), 126, np.array([wave.exec for wave in waves], np.uint64))
    m.run_group(slice(None))
    m.lds = np.array([list(wave.lds) for wave in waves], np.uint8)
    m.lds_of_wave = np.arange(len(waves))
    if waves[0].scratch:
        m.scratch = np.array([[list(lane) for lane in wave.scratch] for wave in waves], np.uint8)
    return m


def placed(texts):
    """Instructions with addresses: branches have four bytes, all others eight."""
    program, address = [], 0
    for text in texts:
        program.append((address, text))
        address += 4 if text.startswith("s_cbranch") else 8
    return program


class ByClosures(Run):
    """A run without the interpreter."""

    interprets = False


def emulate(waves, texts, arch, memory=None, kind=Machine, how=Run):
    """Run a program in the emulator; the machine afterwards."""
    m = machine_of(waves, arch, kind)
    m.memory = memory
    program = placed([*texts, "s_endpgm"])
    listing = {
        address: (text, 4 if text.startswith("s_cbranch") else 8) for address, text in program
    }
    code = CodeObject(arch, {}, bytearray(), [], listing)
    nobody = np.zeros(len(waves), np.bool_)
    budget = Budget(100_000)
    groups, contents = np.arange(len(waves)), Contents(m.lanes)
    run = how(m, Instructions(code, 0, m), groups, nobody, contents, budget)
    run.finish()
    EXECUTED.update(all=budget.most - budget.left, interpreter=run.interpreted)
    return m


def model(wave, texts, arch):
    """Run a program in the scalar model."""
    run(wave, placed([*texts, "s_endpgm"]), arch)


def alike(found, expected, rounded):
    """Whether words are equal, NaNs of one width among each other, or one unit apart if allowed."""
    if found == expected:
        return True
    if rounded and abs(found - expected) <= 1:
        return True
    infinite, fraction = FIRST_BIT["f32"]
    if all(word & infinite == infinite and word & fraction for word in (found, expected)):
        return True
    infinite, fraction = FIRST_BIT["f16"]
    for shift in (0, 16):
        halves = [word >> shift & 0xFFFF for word in (found, expected)]
        both_nan = all(half & infinite == infinite and half & fraction for half in halves)
        one_apart = rounded and abs(halves[0] - halves[1]) <= 1
        if halves[0] != halves[1] and not both_nan and not one_apart:
            return False
    return True


def differences(m, waves, rounded=False):
    """What differs between a machine and waves of the model."""
    found = []
    for number, wave in enumerate(waves):
        expected = np.array(wave.v, np.uint32)
        got = m.vector[:, number]
        for register, lane in zip(*np.nonzero(got != expected), strict=True):
            pair = int(got[register, lane]), int(expected[register, lane])
            if not alike(*pair, rounded):
                found.append(f"v{register} lane {lane}: {pair[0]:#x}, must be {pair[1]:#x}")
        for register in np.flatnonzero(m.scalar[:106, number] != np.array(wave.s, np.uint32)):
            found.append(f"s{register}: {m.scalar[register, number]:#x} {wave.s[register]:#x}")
        exec_mask = int(m.scalar[126, number])
        if wave.lanes == 64:
            exec_mask |= int(m.scalar[127, number]) << 32
        pairs = {
            "vcc": (int(m.scalar[106, number]) | int(m.scalar[107, number]) << 32, wave.vcc),
            "exec": (exec_mask, wave.exec),
            "scc": (int(m.scc[number]), wave.scc),
            "m0": (int(m.scalar[124, number]), wave.m0),
        }
        found += [f"{name}: {a:#x}, must be {b:#x}" for name, (a, b) in pairs.items() if a != b]
    return found


def compare_instruction(text, arch, rng, few=True):
    """Run one instruction on two waves in both; what differs, with the text."""
    waves = [random_wave(rng, arch, few) for _ in range(2)]
    m = emulate(waves, [text], arch)
    for wave in waves:
        model(wave, [text], arch)
    return [f"{arch} {text}: {what}" for what in differences(m, waves, is_rounded(text))]


def is_rounded(text):
    return bool(ROUNDED_BY_HARDWARE.search(text))


def depends_on_nan_bits(text):
    """Whether a part of a float is written, in which the bits of a NaN could be told apart."""
    return "dst_sel:BYTE" in text or ("dst_sel:WORD_1" in text and "f32" in text)


def random_program(rng, arch, length):
    """Instructions with forward branches over some of them."""
    texts = []
    while len(texts) < length:
        if rng.random() < 0.1:
            name = rng.choice(("scc0", "scc1", "vccz", "vccnz", "execz", "execnz"))
            texts.append((f"s_cbranch_{name}", rng.randrange(1, 4)))
            continue
        if GENERATIONS[arch] == 9 and rng.random() < 0.05:
            texts += indexed_instructions(rng)
        text = random_instruction(rng, arch)
        if not is_rounded(text) and not depends_on_nan_bits(text):
            texts.append(text)
    texts += ["s_nop 0"] * 4
    program = []
    for place, text in enumerate(texts):
        if isinstance(text, tuple):
            name, over = text
            skipped = texts[place + 1 : place + 1 + over]
            words = sum(1 if isinstance(each, tuple) else 2 for each in skipped)
            text = f"{name} {words}"
        program.append(text)
    return program


def words_differ(found, expected):
    """Whether words of two memories differ, but for the bits of NaNs."""
    pairs = zip(found.view("<u4").tolist(), np.frombuffer(expected, "<u4").tolist(), strict=True)
    return not all(alike(word, wanted, rounded=False) for word, wanted in pairs)


def compare_access(text, arch, rng, collide=False):
    """Run one access to memory in both; what differs in registers and in every memory."""
    wave = prepare_memory(rng, arch, collide)
    memory = emulated_memory.Memory()
    memory.base, content = wave.memory.first, wave.memory.data
    memory.bytes = np.array(content, np.uint8)
    memory.valid = np.ones(len(content) // 4, np.bool_)
    m = emulate([wave], [text], arch, memory)
    model(wave, [text], arch)
    found = differences(m, [wave])
    if words_differ(memory.bytes, content):
        found.append("memory differs")
    if words_differ(m.lds[0], wave.lds):
        found.append("LDS differs")
    if m.scratch[0].tobytes() != b"".join(bytes(lane) for lane in wave.scratch):
        found.append("private memory differs")
    return [f"{arch} {text}: {what}" for what in found]


def matrix_wave(rng, arch, name):
    """A wave whose registers hold small numbers, of which products are exact."""
    wave = random_wave(rng, arch, few=False)

    def small(kind, register):
        numbers = [rng.randrange(-3, 4) for _ in range(2)]
        if kind == "f64":  # the lower half of which is 0
            return int(np.float64(numbers[0]).view(np.uint64)) >> 32 if register % 2 else 0
        if kind == "f32":
            return int(np.float32(numbers[0]).view(np.uint32))
        if kind == "bf16":
            high, low = (int(np.float32(n).view(np.uint32)) >> 16 for n in numbers)
            return high << 16 | low
        if kind == "f16":
            return int(np.array(numbers, np.float16).view(np.uint32)[0])
        if kind == "p8":  # numbers of either format, of 1 and more
            numbers = (64 + rng.randrange(8) | rng.choice((0, 128)) for _ in range(4))
            return int.from_bytes(bytes(numbers), "little")
        if kind == "i32":  # near both limits
            return (1 << 31) + rng.randrange(-99_999, 99_999)
        return rng.getrandbits(32)

    of_factors = re.search(r"(bf16|[fi]\d+|iu\d|p8)(_1k)?$", name.replace("bf8", "fp8"))[1]
    of_sums = name.split("_")[2]
    for register in range(REGISTERS):
        kind = of_factors if register < 16 else of_sums
        wave.v[register] = [small(kind, register) for _ in range(wave.lanes)]
    return wave
