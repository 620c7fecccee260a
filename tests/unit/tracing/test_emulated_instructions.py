"""Does the emulator compute what a scalar model of the instruction sets computes?"""

import random
import re

import numpy as np
import pytest
from emulated import (
    EXECUTED,
    GENERATIONS,
    ByClosures,
    compare_access,
    compare_instruction,
    depends_on_nan_bits,
    differences,
    emulate,
    matrix_wave,
    model,
    random_program,
    random_wave,
)
from scalar_gpu import random_instruction
from scalar_gpu.generator import Maker, available, text_of
from scalar_gpu.memory_generator import matrix_text, memory_candidates, memory_text
from tables import each

from mcage.errors import UserError
from mcage.tracing.emulation.waves import Run


def every_form(arch, seed=3):
    """An instruction of each mnemonic and encoding."""
    rng = random.Random(f"{arch} {seed}")
    maker = Maker(rng, arch)
    for kind in ("vector", "packed", "special", "scalar"):
        for choice in available(arch, kind):
            yield text_of(maker, choice)


OTHERS = [pytest.param(arch, marks=pytest.mark.slow) for arch in GENERATIONS if arch != "gfx1030"]


@pytest.mark.parametrize(
    ("arch", "step"),
    [("gfx1030", 3), *(pytest.param(arch, 1, marks=pytest.mark.slow) for arch in GENERATIONS)],
)
def test_every_form(arch, step):
    """Daily every third: an encoding of each mnemonic, of which they have up to four."""
    rng = random.Random(1)
    texts = [text for text in every_form(arch) if not depends_on_nan_bits(text)][::step]
    found = [what for text in texts for what in compare_instruction(text, arch, rng)]
    assert not found, "\n".join(found[:5])
    assert len(texts) > 850 / step


@pytest.mark.parametrize(
    ("arch", "step"),
    [("gfx90a", 10), *(pytest.param(arch, 1, marks=pytest.mark.slow) for arch in GENERATIONS)],
)
def test_the_interpreter_computes_what_closures_compute(arch, step):
    """To the bit, those of NaNs among them, in all lanes."""
    rng, texts = random.Random(9), list(every_form(arch))[::step]
    EXECUTED.clear()
    for text in texts:
        waves = [random_wave(rng, arch, few=False) for _ in range(2)]
        m, expected = (emulate(waves, [text], arch, how=how) for how in (Run, ByClosures))
        for name in ("vector", "scalar", "scc", "active"):
            assert np.array_equal(getattr(m, name), getattr(expected, name)), text
    assert EXECUTED["interpreter"] > 0.3 * EXECUTED["all"]


def test_destinations_that_are_sources():
    """All operands are the same pair of registers, or lie in it."""
    texts = [text for text in every_form("gfx90a") if "v[" in text.partition(",")[0]]
    texts.append("v_pk_mov_b32 v[4:5], v[4:5], v[4:5] op_sel:[1,0]")
    same = [re.sub(r"v\d+", "v4", re.sub(r"v\[\d+:\d+\]", "v[4:5]", text)) for text in texts]
    rng = random.Random(8)
    found = [what for text in same for what in compare_instruction(text, "gfx90a", rng)]
    assert not found, "\n".join(found[:5])
    assert len(texts) > 50


def test_divisions_at_the_ends_of_the_range():
    """V_DIV_FMAS undoes a scale: of sums beyond the largest number, and into the smallest ones."""
    rng, text = random.Random(3), "v_div_fmas_f64 v[0:1], v[2:3], v[4:5], v[6:7]"
    wave = random_wave(rng, "gfx90a", few=False)
    for register in range(3, 8, 2):
        exponents = [rng.choice((0, 1, 2, 1023, 1024, 2045, 2046)) for _ in range(64)]
        wave.v[register] = [exponent << 20 | rng.getrandbits(20) for exponent in exponents]
    m = emulate([wave], [text], "gfx90a")
    model(wave, [text], "gfx90a")
    assert not differences(m, [wave])


@each(
    ("text", "words", "result"),
    [
        ("v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]",  # -(2 ** 1100) and an infinity
         {3: 0x65700000, 5: 0xDF300000, 7: 0x7FF00000}, {0: 0, 1: 0x7FF00000}),
        ("v_cvt_f32_f16_e32 v0, v2", {2: 0x7C4B}, {0: 0x7FC96000}),  # a signalling NaN
    ],
)  # fmt: skip
def test_infinite_sums_and_signals(text, words, result):
    """IEEE 754-2008: no product of numbers is infinite before it is rounded; NaNs become quiet."""
    wave = random_wave(random.Random(3), "gfx90a", few=False)
    for register in range(2, 8):
        wave.v[register] = [words.get(register, 0)] * 64
    wave.exec = (1 << 64) - 1
    m = emulate([wave], [text], "gfx90a")
    assert all((m.vector[register] == bits).all() for register, bits in result.items())


@pytest.mark.parametrize("arch", GENERATIONS)
def test_all_lanes(arch):
    rng = random.Random(2)
    texts = [random_instruction(rng, arch) for _ in range(80)]
    texts += [f"v_{kind}_mix_f32 v0, v1, v2, v3" for kind in ("fma", "mad")]
    found = [
        what
        for text in texts
        if not depends_on_nan_bits(text)
        for what in compare_instruction(text, arch, rng, few=False)
    ]
    assert not found, "\n".join(found[:5])


@pytest.mark.parametrize("arch", GENERATIONS)
def test_programs_with_branches(arch):
    rng = random.Random(3)
    for _ in range(25):
        texts = random_program(rng, arch, 12)
        waves = [random_wave(rng, arch) for _ in range(3)]
        m = emulate(waves, texts, arch)
        for wave in waves:
            model(wave, texts, arch)
        assert not differences(m, waves), texts


@pytest.mark.parametrize("arch", ["gfx1030", *OTHERS])
def test_accesses_to_memory(arch):
    """Each access, and permutes of lanes in some of their forms."""
    rng = random.Random(4)
    found = []
    for number, base in enumerate([*memory_candidates(arch), *["ds_swizzle_b32"] * 4]):
        text = memory_text(rng, arch, base)
        try:
            found += compare_access(text, arch, rng, collide=number % 2 == 1)
        except UserError as error:
            if "not aligned" not in str(error):
                raise
    assert not found, "\n".join(found[:5])


@pytest.mark.parametrize(
    ("arch", "text"),
    [
        *(
            pytest.param("gfx90a", matrix_text(f"v_{name}", more), marks=pytest.mark.slow)
            for name, more in (
                *(
                    ("mfma_f32_32x32x1f32", " cbsz:1 abid:1 blgp:3"),
                    ("mfma_f32_16x16x32_fp8_bf8", ""),
                ),
                *(("smfmac_f32_32x32x16_bf16", " abid:3"), ("smfmac_i32_16x16x64_i8", " abid:1")),
                ("smfmac_f32_32x32x32_fp8_bf8", " cbsz:1 abid:1"),
            )
        ),
        *(
            pytest.param("gfx90a", matrix_text(f"v_mfma_{name}"), marks=pytest.mark.slow)
            for name in (
                *("f32_32x32x4f16", "f32_16x16x16_f16", "f32_16x16x4_4b_f16", "f32_4x4x4f16"),
                *("f32_16x16x8bf16", "f32_16x16x16bf16_1k", "f32_4x4x1f32", "f64_16x16x4f64"),
                *("i32_32x32x8i8", "i32_16x16x32_i8"),
            )
        ),
        ("gfx90a", matrix_text("v_mfma_f64_4x4x4f64")),
        ("gfx90a", matrix_text("v_mfma_f32_4x4x4f16", " cbsz:2 abid:3 blgp:5")),
        ("gfx90a", matrix_text("v_smfmac_f32_16x16x32_f16", " abid:2")),
        ("gfx1100", matrix_text("v_wmma_f32_16x16x16_bf16")),
        ("gfx1100", matrix_text("v_wmma_f16_16x16x16_f16")),
        ("gfx1100", matrix_text("v_wmma_bf16_16x16x16_bf16", " op_sel:[0,0,1]")),
        ("gfx1100", matrix_text("v_wmma_i32_16x16x16_iu4", " neg_lo:[0,1,0]")),
        ("gfx1100", matrix_text("v_wmma_i32_16x16x16_iu8", " neg_lo:[1,0,0]")),
        ("gfx1100", matrix_text("v_wmma_i32_16x16x16_iu8", " neg_lo:[1,0,0] clamp")),
    ],
)
def test_matrix_instructions(arch, text):
    waves = [matrix_wave(random.Random(5), arch, text.split()[0])]
    m = emulate(waves, [text], arch)
    for wave in waves:
        model(wave, [text], arch)
    assert not differences(m, waves)


@each(
    ("arch", "text"),
    [
        ("gfx90a", "v_add_co_u32_e64 v0, s[0:1], v1, v2 clamp"),
        ("gfx1100", "v_fma_mix_f32_e64_dpp v0, v1, v2, v3 row_ror:1"),
        ("gfx90a", "v_mfma_f32_16x16x8_xf32 v[8:11], v[0:1], v[2:3], 0"),
        ("gfx90a", "v_mfma_f32_32x32x1f32 v[0:31], v32, v33, v[0:31] abid:1"),
    ],
)
def test_what_is_not_supported_is_refused_by_name_and_address(arch, text):
    wave = random_wave(random.Random(6), arch)
    with pytest.raises(UserError, match=rf"{text.split()[0]} at 0x8 .*not supported"):
        emulate([wave], ["s_nop 0", text], arch)


@each(
    "text",
    [
        ".long 0xd59c402f",
        "v_cmp_ne_u16_e32 vcc_lo, 6, v151/*Invalid register, operand has 'VGPR_32_Lo128'*/",
        "v_mov_b16_e32 v1, v2 needs_newer_llvm-objdump",
    ],
)
def test_what_a_disassembler_does_not_know_names_a_newer_one(text):
    with pytest.raises(UserError, match=r"at 0x8 is not known to llvm-objdump") as caught:
        emulate([random_wave(random.Random(6), "gfx1100")], ["s_nop 0", text], "gfx1100")
    assert caught.value.command == "apt install llvm-22"


def test_a_code_object_may_jump_where_no_instruction_lies():
    wave = random_wave(random.Random(7), "gfx90a")
    with pytest.raises(UserError, match="0x400, where no instruction lies"):
        emulate([wave], ["s_cbranch_scc0 255", "s_cbranch_scc1 254"], "gfx90a")
