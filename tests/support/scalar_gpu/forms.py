"""Which mnemonics LLVM 19 knows on each architecture, and in which encodings it prints them.

Made by assembling and disassembling samples with llvm-mc and llvm-objdump. Each group has, for
gfx90a, gfx942, gfx1030 and gfx1100, the suffixes of the encodings: n for none, 3 for _e32, 6 for
_e64, d for _dpp, D for _e64_dpp, s for _sdwa, - where the mnemonic does not exist. Accesses to
memory stand in `memory_generator`.
"""

ARCHITECTURES = ("gfx90a", "gfx942", "gfx1030", "gfx1100")
SUFFIXES = {
    "n": "",
    "3": "_e32",
    "6": "_e64",
    "d": "_dpp",
    "D": "_e64_dpp",
    "s": "_sdwa",
}
GROUPS = {
    "n n n n": """
        s_abs_i32 s_absdiff_i32 s_add_i32 s_add_u32 s_addc_u32 s_addk_i32 s_and_b32
        s_and_b64 s_and_saveexec_b64 s_ashr_i32 s_ashr_i64 s_bcnt0_i32_b32 s_bcnt0_i32_b64
        s_bcnt1_i32_b32 s_bcnt1_i32_b64 s_bfe_i32 s_bfe_i64 s_bfe_u32 s_bfe_u64 s_bfm_b32
        s_bfm_b64 s_bitcmp0_b32 s_bitcmp0_b64 s_bitcmp1_b32 s_bitcmp1_b64 s_bitset0_b32
        s_bitset0_b64 s_bitset1_b32 s_bitset1_b64 s_brev_b32 s_brev_b64 s_cmov_b32
        s_cmov_b64 s_cmovk_i32 s_cmp_eq_i32 s_cmp_eq_u32 s_cmp_eq_u64 s_cmp_ge_i32
        s_cmp_ge_u32 s_cmp_gt_i32 s_cmp_gt_u32 s_cmp_le_i32 s_cmp_le_u32 s_cmp_lg_i32
        s_cmp_lg_u32 s_cmp_lg_u64 s_cmp_lt_i32 s_cmp_lt_u32 s_cmpk_eq_i32 s_cmpk_eq_u32
        s_cmpk_ge_i32 s_cmpk_ge_u32 s_cmpk_gt_i32 s_cmpk_gt_u32 s_cmpk_le_i32 s_cmpk_le_u32
        s_cmpk_lg_i32 s_cmpk_lg_u32 s_cmpk_lt_i32 s_cmpk_lt_u32 s_cselect_b32 s_cselect_b64
        s_lshl1_add_u32 s_lshl2_add_u32 s_lshl3_add_u32 s_lshl4_add_u32 s_lshl_b32
        s_lshl_b64 s_lshr_b32 s_lshr_b64 s_max_i32 s_max_u32 s_min_i32 s_min_u32 s_mov_b32
        s_mov_b64 s_movk_i32 s_mul_hi_i32 s_mul_hi_u32 s_mul_i32 s_mulk_i32 s_nand_b32
        s_nand_b64 s_nand_saveexec_b64 s_nor_b32 s_nor_b64 s_nor_saveexec_b64 s_not_b32
        s_not_b64 s_or_b32 s_or_b64 s_or_saveexec_b64 s_pack_hh_b32_b16 s_pack_lh_b32_b16
        s_pack_ll_b32_b16 s_quadmask_b32 s_quadmask_b64 s_sext_i32_i16 s_sext_i32_i8
        s_sub_i32 s_sub_u32 s_subb_u32 s_wqm_b32 s_wqm_b64 s_xnor_b32 s_xnor_b64
        s_xnor_saveexec_b64 s_xor_b32 s_xor_b64 s_xor_saveexec_b64 v_add_f64 v_ashrrev_i64
        v_div_fixup_f32 v_div_fixup_f64 v_div_fmas_f32 v_div_fmas_f64 v_div_scale_f32
        v_div_scale_f64 v_dot4_u32_u8 v_dot8_u32_u4 v_fma_f64 v_fma_mix_f32 v_fma_mixhi_f16
        v_fma_mixlo_f16 v_ldexp_f64 v_lshlrev_b64 v_lshrrev_b64 v_mad_i64_i32 v_mad_u64_u32
        v_max_f64 v_mbcnt_hi_u32_b32 v_mbcnt_lo_u32_b32 v_min_f64 v_mul_f64 v_mul_hi_i32
        v_mul_hi_u32 v_mul_lo_u32 v_pk_add_f16 v_pk_add_i16 v_pk_add_u16 v_pk_ashrrev_i16
        v_pk_fma_f16 v_pk_lshlrev_b16 v_pk_lshrrev_b16 v_pk_mad_i16 v_pk_mad_u16
        v_pk_max_f16 v_pk_max_i16 v_pk_max_u16 v_pk_min_f16 v_pk_min_i16 v_pk_min_u16
        v_pk_mul_f16 v_pk_mul_lo_u16 v_pk_sub_i16 v_pk_sub_u16 v_readfirstlane_b32
        v_readlane_b32 v_swap_b32 v_writelane_b32
    """,
    "36ds 36ds 36ds 36dD": """
        v_add_f16 v_add_f32 v_and_b32 v_ashrrev_i32 v_bfrev_b32 v_ceil_f16 v_ceil_f32
        v_cndmask_b32 v_cos_f16 v_cos_f32 v_cvt_f16_f32 v_cvt_f16_i16 v_cvt_f16_u16
        v_cvt_f32_f16 v_cvt_f32_i32 v_cvt_f32_u32 v_cvt_f32_ubyte0 v_cvt_f32_ubyte1
        v_cvt_f32_ubyte2 v_cvt_f32_ubyte3 v_cvt_i16_f16 v_cvt_i32_f32 v_cvt_norm_i16_f16
        v_cvt_norm_u16_f16 v_cvt_off_f32_i4 v_cvt_u16_f16 v_cvt_u32_f32 v_exp_f16 v_exp_f32
        v_floor_f16 v_floor_f32 v_fract_f16 v_fract_f32 v_frexp_exp_i16_f16
        v_frexp_exp_i32_f32 v_frexp_mant_f16 v_frexp_mant_f32 v_ldexp_f16 v_log_f16
        v_log_f32 v_lshlrev_b32 v_lshrrev_b32 v_max_f16 v_max_f32 v_max_i32 v_max_u32
        v_min_f16 v_min_f32 v_min_i32 v_min_u32 v_mov_b32 v_mul_f16 v_mul_f32
        v_mul_hi_i32_i24 v_mul_hi_u32_u24 v_mul_i32_i24 v_mul_u32_u24 v_not_b32 v_or_b32
        v_rcp_f16 v_rcp_f32 v_rcp_iflag_f32 v_rndne_f16 v_rndne_f32 v_rsq_f16 v_rsq_f32
        v_sat_pk_u8_i16 v_sin_f16 v_sin_f32 v_sqrt_f16 v_sqrt_f32 v_sub_f16 v_sub_f32
        v_subrev_f16 v_subrev_f32 v_trunc_f16 v_trunc_f32 v_xnor_b32 v_xor_b32
    """,
    "n n n nD": """
        v_add3_u32 v_add_lshl_u32 v_alignbit_b32 v_alignbyte_b32 v_and_or_b32 v_bcnt_u32_b32
        v_bfe_i32 v_bfe_u32 v_bfi_b32 v_bfm_b32 v_cvt_pk_i16_i32 v_cvt_pk_u16_u32
        v_cvt_pk_u8_f32 v_div_fixup_f16 v_dot2_f32_f16 v_fma_f16 v_fma_f32 v_ldexp_f32
        v_lshl_add_u32 v_lshl_or_b32 v_mad_i16 v_mad_i32_i16 v_mad_i32_i24 v_mad_u16
        v_mad_u32_u16 v_mad_u32_u24 v_max3_f16 v_max3_f32 v_max3_i16 v_max3_i32 v_max3_u16
        v_max3_u32 v_med3_f16 v_med3_f32 v_med3_i16 v_med3_i32 v_med3_u16 v_med3_u32
        v_min3_f16 v_min3_f32 v_min3_i16 v_min3_i32 v_min3_u16 v_min3_u32 v_or3_b32
        v_pack_b32_f16 v_perm_b32 v_sad_u16 v_sad_u32 v_sad_u8 v_xad_u32
    """,
    "- - - n": """
        s_and_not0_saveexec_b32 s_and_not0_saveexec_b64 s_and_not0_wrexec_b32
        s_and_not0_wrexec_b64 s_and_not1_b32 s_and_not1_b64 s_and_not1_saveexec_b32
        s_and_not1_saveexec_b64 s_and_not1_wrexec_b32 s_and_not1_wrexec_b64 s_cls_i32
        s_cls_i32_i64 s_clz_i32_u32 s_clz_i32_u64 s_ctz_i32_b32 s_ctz_i32_b64
        s_or_not0_saveexec_b32 s_or_not0_saveexec_b64 s_or_not1_b32 s_or_not1_b64
        s_or_not1_saveexec_b32 s_or_not1_saveexec_b64 s_pack_hl_b32_b16 v_dot2_f32_bf16
        v_dot4_i32_iu8 v_dot8_i32_iu4 v_fma_dx9_zero_f32 v_permlane64_b32
        v_wmma_bf16_16x16x16_bf16 v_wmma_f16_16x16x16_f16 v_wmma_f32_16x16x16_bf16
        v_wmma_f32_16x16x16_f16 v_wmma_i32_16x16x16_iu4 v_wmma_i32_16x16x16_iu8
    """,
    "- n - -": """
        v_lshl_add_u64 v_mfma_f32_16x16x16_bf16 v_mfma_f32_16x16x16_f16
        v_mfma_f32_16x16x1_4b_f32 v_mfma_f32_16x16x32_bf8_bf8 v_mfma_f32_16x16x32_bf8_fp8
        v_mfma_f32_16x16x32_fp8_bf8 v_mfma_f32_16x16x32_fp8_fp8 v_mfma_f32_16x16x4_4b_bf16
        v_mfma_f32_16x16x4_4b_f16 v_mfma_f32_16x16x4_f32 v_mfma_f32_16x16x8_xf32
        v_mfma_f32_32x32x16_bf8_bf8 v_mfma_f32_32x32x16_bf8_fp8 v_mfma_f32_32x32x16_fp8_bf8
        v_mfma_f32_32x32x16_fp8_fp8 v_mfma_f32_32x32x1_2b_f32 v_mfma_f32_32x32x2_f32
        v_mfma_f32_32x32x4_2b_bf16 v_mfma_f32_32x32x4_2b_f16 v_mfma_f32_32x32x4_xf32
        v_mfma_f32_32x32x8_bf16 v_mfma_f32_32x32x8_f16 v_mfma_f32_4x4x1_16b_f32
        v_mfma_f32_4x4x4_16b_bf16 v_mfma_f32_4x4x4_16b_f16 v_mfma_f64_16x16x4_f64
        v_mfma_f64_4x4x4_4b_f64 v_mfma_i32_16x16x32_i8 v_mfma_i32_16x16x4_4b_i8
        v_mfma_i32_32x32x16_i8 v_mfma_i32_32x32x4_2b_i8 v_mfma_i32_4x4x4_16b_i8
    """,
    "n - - -": """
        v_mad_f32 v_madak_f32 v_madmk_f32 v_mfma_f32_16x16x16bf16_1k v_mfma_f32_16x16x16f16
        v_mfma_f32_16x16x1f32 v_mfma_f32_16x16x2bf16 v_mfma_f32_16x16x4bf16_1k
        v_mfma_f32_16x16x4f16 v_mfma_f32_16x16x4f32 v_mfma_f32_16x16x8bf16
        v_mfma_f32_32x32x1f32 v_mfma_f32_32x32x2bf16 v_mfma_f32_32x32x2f32
        v_mfma_f32_32x32x4bf16 v_mfma_f32_32x32x4bf16_1k v_mfma_f32_32x32x4f16
        v_mfma_f32_32x32x8bf16_1k v_mfma_f32_32x32x8f16 v_mfma_f32_4x4x1f32
        v_mfma_f32_4x4x2bf16 v_mfma_f32_4x4x4bf16_1k v_mfma_f32_4x4x4f16
        v_mfma_f64_16x16x4f64 v_mfma_f64_4x4x4f64 v_mfma_i32_16x16x16i8 v_mfma_i32_16x16x4i8
        v_mfma_i32_32x32x4i8 v_mfma_i32_32x32x8i8 v_mfma_i32_4x4x4i8
    """,
    "n n n -": """
        s_andn1_saveexec_b64 s_andn1_wrexec_b64 s_andn2_b32 s_andn2_b64 s_andn2_saveexec_b64
        s_andn2_wrexec_b64 s_ff0_i32_b32 s_ff0_i32_b64 s_ff1_i32_b32 s_ff1_i32_b64
        s_flbit_i32 s_flbit_i32_b32 s_flbit_i32_b64 s_flbit_i32_i64 s_orn1_saveexec_b64
        s_orn2_b32 s_orn2_b64 s_orn2_saveexec_b64 v_cvt_pknorm_i16_f16 v_cvt_pknorm_i16_f32
        v_cvt_pknorm_u16_f16 v_cvt_pknorm_u16_f32 v_dot2_i32_i16 v_dot2_u32_u16
        v_dot4_i32_i8 v_dot8_i32_i4
    """,
    "- - - nD": """
        v_and_b16 v_cndmask_b16 v_cvt_pk_i16_f32 v_cvt_pk_norm_i16_f16 v_cvt_pk_norm_i16_f32
        v_cvt_pk_norm_u16_f16 v_cvt_pk_norm_u16_f32 v_cvt_pk_u16_f32 v_dot2_f16_f16
        v_maxmin_f16 v_maxmin_f32 v_maxmin_i32 v_maxmin_u32 v_minmax_f16 v_minmax_f32
        v_minmax_i32 v_minmax_u32 v_or_b16 v_xor_b16
    """,
    "n n - -": """
        v_add_i16 v_add_i32 v_div_fixup_legacy_f16 v_fma_legacy_f16 v_mad_f16
        v_mad_legacy_f16 v_mad_legacy_i16 v_mad_legacy_u16 v_madak_f16 v_madmk_f16
        v_pk_add_f32 v_pk_fma_f32 v_pk_mov_b32 v_pk_mul_f32 v_sub_i16 v_sub_i32
    """,
    "36d 36d 36 36": """
        v_ceil_f64 v_cvt_f32_f64 v_cvt_f64_f32 v_cvt_f64_i32 v_cvt_f64_u32 v_cvt_i32_f64
        v_cvt_u32_f64 v_floor_f64 v_fract_f64 v_frexp_exp_i32_f64 v_frexp_mant_f64 v_rcp_f64
        v_rndne_f64 v_rsq_f64 v_sqrt_f64 v_trunc_f64
    """,
    "- - n n": """
        s_and_saveexec_b32 s_nand_saveexec_b32 s_nor_saveexec_b32 s_or_saveexec_b32
        s_xnor_saveexec_b32 s_xor_saveexec_b32 v_fmaak_f16 v_fmamk_f16 v_permlane16_b32
        v_permlanex16_b32 v_pk_fmac_f16
    """,
    "36ds 36ds n nD": """
        v_add_co_u32 v_ashrrev_i16 v_lshlrev_b16 v_lshrrev_b16 v_max_i16 v_max_u16 v_min_i16
        v_min_u16 v_mul_lo_u16 v_sub_co_u32 v_subrev_co_u32
    """,
    "- - - 36dD": """
        v_cls_i32 v_clz_i32_u32 v_ctz_i32_b32 v_cvt_floor_i32_f32 v_cvt_i32_i16
        v_cvt_nearest_i32_f32 v_cvt_pk_rtz_f16_f32 v_cvt_u32_u16 v_mul_dx9_zero_f32
        v_not_b16
    """,
    "36ds 36ds - -": """
        v_add_u16 v_add_u32 v_addc_co_u32 v_sub_u16 v_sub_u32 v_subb_co_u32 v_subbrev_co_u32
        v_subrev_u16 v_subrev_u32
    """,
    "- - n -": """
        s_andn1_saveexec_b32 s_andn1_wrexec_b32 s_andn2_saveexec_b32 s_andn2_wrexec_b32
        s_orn1_saveexec_b32 s_orn2_saveexec_b32 v_fma_legacy_f32
    """,
    "- - n nD": """
        v_add_nc_i16 v_add_nc_i32 v_add_nc_u16 v_sub_nc_i16 v_sub_nc_i32 v_sub_nc_u16
        v_xor3_b32
    """,
    "- - 36ds 36dD": """
        v_add_co_ci_u32 v_add_nc_u32 v_sub_co_ci_u32 v_sub_nc_u32 v_subrev_co_ci_u32
        v_subrev_nc_u32
    """,
    "36ds 36ds 36ds -": """
        v_cvt_flr_i32_f32 v_cvt_rpi_i32_f32 v_ffbh_i32 v_ffbh_u32 v_ffbl_b32
    """,
    "- 3 - -": """
        v_cvt_f32_bf8 v_cvt_f32_fp8 v_cvt_pk_f32_bf8 v_cvt_pk_f32_fp8
    """,
    "36d 36d - -": """
        v_dot2c_i32_i16 v_dot8c_i32_i4 v_fmac_f64 v_mac_f16
    """,
    "- n n n": """
        v_fmaak_f32 v_fmamk_f32
    """,
    "36d 36d nd -": """
        v_dot2c_f32_f16 v_dot4c_i32_i8
    """,
    "n n 36ds -": """
        v_cvt_pkrtz_f16_f32 v_mul_legacy_f32
    """,
    "- - - 36": """
        v_fmac_dx9_zero_f32
    """,
    "- - - nd": """
        v_dot2acc_f32_f16
    """,
    "- - 36 -": """
        v_fmac_legacy_f32
    """,
    "- - 36d 36dD": """
        v_fmac_f16
    """,
    "- 36d - -": """
        v_mov_b64
    """,
    "36d - - -": """
        v_mac_f32
    """,
    "36d 36d 36d 36dD": """
        v_fmac_f32
    """,
}
FORMS_OF: dict[str, dict[str, list[str]]] = {
    name: {
        arch: [SUFFIXES[letter] for letter in letters if letter != "-"]
        for arch, letters in zip(ARCHITECTURES, group.split(), strict=True)
    }
    for group, names in GROUPS.items()
    for name in names.split()
}


def forms_of(base: str, arch: str) -> list[str]:
    """Suffixes of the encodings that a mnemonic has on an architecture."""
    if base.startswith("v_cmp"):
        return forms_of_compare(*base.split("_")[2:], arch)
    return FORMS_OF.get(base, {}).get(arch, [])


def forms_of_compare(relation: str, kind: str, arch: str) -> list[str]:
    new, constant = arch == "gfx1100", relation in ("f", "t", "tru")
    if kind[0] == "f" and ((relation == "tru" and new) or (relation == "t" and not new)):
        return []  # the name has changed
    if constant and kind[1:] == "16" and kind[0] != "f" and arch not in ARCHITECTURES[:2]:
        return []
    if kind[1:] == "64":
        return ["_e32", "_e64"]
    return ["_e32", "_e64", "_e64_dpp" if new else "_sdwa"]
