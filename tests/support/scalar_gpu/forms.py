"""Which mnemonics LLVM 19 knows on each architecture, and in which encodings it prints them.

Made by assembling and disassembling samples with llvm-mc and llvm-objdump. Each group has, for
gfx90a, gfx942, gfx1030, gfx1100 and gfx1201, the suffixes of the encodings: n for none, 3 for _e32,
6 for _e64, d for _dpp, D for _e64_dpp, s for _sdwa, - where the mnemonic does not exist.
"""

ARCHITECTURES = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
SUFFIXES = {
    "n": "",
    "3": "_e32",
    "6": "_e64",
    "d": "_dpp",
    "D": "_e64_dpp",
    "s": "_sdwa",
}
GROUPS = {
    "- - - n n": """
        buffer_atomic_add_u32 buffer_atomic_add_u64 buffer_atomic_and_b32 buffer_atomic_and_b64
        buffer_atomic_cmpswap_b32 buffer_atomic_cmpswap_b64 buffer_atomic_dec_u32
        buffer_atomic_dec_u64 buffer_atomic_inc_u32 buffer_atomic_inc_u64 buffer_atomic_max_i32
        buffer_atomic_max_i64 buffer_atomic_max_u32 buffer_atomic_max_u64 buffer_atomic_min_i32
        buffer_atomic_min_i64 buffer_atomic_min_u32 buffer_atomic_min_u64 buffer_atomic_or_b32
        buffer_atomic_or_b64 buffer_atomic_sub_u32 buffer_atomic_sub_u64 buffer_atomic_swap_b32
        buffer_atomic_swap_b64 buffer_atomic_xor_b32 buffer_atomic_xor_b64 buffer_load_b128
        buffer_load_b32 buffer_load_b64 buffer_load_b96 buffer_load_d16_b16 buffer_load_d16_hi_b16
        buffer_load_d16_hi_i8 buffer_load_d16_hi_u8 buffer_load_d16_i8 buffer_load_d16_u8
        buffer_load_i16 buffer_load_i8 buffer_load_u16 buffer_load_u8 buffer_store_b128
        buffer_store_b16 buffer_store_b32 buffer_store_b64 buffer_store_b8 buffer_store_b96
        buffer_store_d16_hi_b16 buffer_store_d16_hi_b8 ds_cmpstore_b32 ds_cmpstore_b64
        ds_cmpstore_rtn_b32 ds_cmpstore_rtn_b64 ds_load_2addr_b32 ds_load_2addr_b64
        ds_load_2addr_stride64_b32 ds_load_2addr_stride64_b64 ds_load_b128 ds_load_b32 ds_load_b64
        ds_load_b96 ds_load_i16 ds_load_i8 ds_load_i8_d16 ds_load_i8_d16_hi ds_load_u16
        ds_load_u16_d16 ds_load_u16_d16_hi ds_load_u8 ds_load_u8_d16 ds_load_u8_d16_hi
        ds_store_2addr_b32 ds_store_2addr_b64 ds_store_2addr_stride64_b32
        ds_store_2addr_stride64_b64 ds_store_b128 ds_store_b16 ds_store_b16_d16_hi ds_store_b32
        ds_store_b64 ds_store_b8 ds_store_b8_d16_hi ds_store_b96 ds_storexchg_rtn_b32
        ds_storexchg_rtn_b64 flat_atomic_add_u32 flat_atomic_add_u64 flat_atomic_and_b32
        flat_atomic_and_b64 flat_atomic_cmpswap_b32 flat_atomic_cmpswap_b64 flat_atomic_dec_u32
        flat_atomic_dec_u64 flat_atomic_inc_u32 flat_atomic_inc_u64 flat_atomic_max_i32
        flat_atomic_max_i64 flat_atomic_max_u32 flat_atomic_max_u64 flat_atomic_min_i32
        flat_atomic_min_i64 flat_atomic_min_u32 flat_atomic_min_u64 flat_atomic_or_b32
        flat_atomic_or_b64 flat_atomic_sub_u32 flat_atomic_sub_u64 flat_atomic_swap_b32
        flat_atomic_swap_b64 flat_atomic_xor_b32 flat_atomic_xor_b64 flat_load_b128 flat_load_b32
        flat_load_b64 flat_load_b96 flat_load_d16_b16 flat_load_d16_hi_b16 flat_load_d16_hi_i8
        flat_load_d16_hi_u8 flat_load_d16_i8 flat_load_d16_u8 flat_load_i16 flat_load_i8
        flat_load_u16 flat_load_u8 flat_store_b128 flat_store_b16 flat_store_b32 flat_store_b64
        flat_store_b8 flat_store_b96 flat_store_d16_hi_b16 flat_store_d16_hi_b8
        global_atomic_add_u32 global_atomic_add_u64 global_atomic_and_b32 global_atomic_and_b64
        global_atomic_cmpswap_b32 global_atomic_cmpswap_b64 global_atomic_dec_u32
        global_atomic_dec_u64 global_atomic_inc_u32 global_atomic_inc_u64 global_atomic_max_i32
        global_atomic_max_i64 global_atomic_max_u32 global_atomic_max_u64 global_atomic_min_i32
        global_atomic_min_i64 global_atomic_min_u32 global_atomic_min_u64 global_atomic_or_b32
        global_atomic_or_b64 global_atomic_sub_u32 global_atomic_sub_u64 global_atomic_swap_b32
        global_atomic_swap_b64 global_atomic_xor_b32 global_atomic_xor_b64 global_load_b128
        global_load_b32 global_load_b64 global_load_b96 global_load_d16_b16 global_load_d16_hi_b16
        global_load_d16_hi_i8 global_load_d16_hi_u8 global_load_d16_i8 global_load_d16_u8
        global_load_i16 global_load_i8 global_load_u16 global_load_u8 global_store_b128
        global_store_b16 global_store_b32 global_store_b64 global_store_b8 global_store_b96
        global_store_d16_hi_b16 global_store_d16_hi_b8 s_and_not0_saveexec_b32
        s_and_not0_saveexec_b64 s_and_not0_wrexec_b32 s_and_not0_wrexec_b64 s_and_not1_b32
        s_and_not1_b64 s_and_not1_saveexec_b32 s_and_not1_saveexec_b64 s_and_not1_wrexec_b32
        s_and_not1_wrexec_b64 s_buffer_load_b128 s_buffer_load_b256 s_buffer_load_b32
        s_buffer_load_b64 s_cls_i32 s_cls_i32_i64 s_clz_i32_u32 s_clz_i32_u64 s_ctz_i32_b32
        s_ctz_i32_b64 s_load_b128 s_load_b256 s_load_b32 s_load_b64 s_or_not0_saveexec_b32
        s_or_not0_saveexec_b64 s_or_not1_b32 s_or_not1_b64 s_or_not1_saveexec_b32
        s_or_not1_saveexec_b64 s_pack_hl_b32_b16 scratch_load_b128 scratch_load_b32 scratch_load_b64
        scratch_load_b96 scratch_load_d16_b16 scratch_load_d16_hi_b16 scratch_load_d16_hi_i8
        scratch_load_d16_hi_u8 scratch_load_d16_i8 scratch_load_d16_u8 scratch_load_i16
        scratch_load_i8 scratch_load_u16 scratch_load_u8 scratch_store_b128 scratch_store_b16
        scratch_store_b32 scratch_store_b64 scratch_store_b8 scratch_store_b96
        scratch_store_d16_hi_b16 scratch_store_d16_hi_b8 v_dot2_f32_bf16 v_dot4_i32_iu8
        v_dot8_i32_iu4 v_fma_dx9_zero_f32 v_permlane64_b32 v_wmma_bf16_16x16x16_bf16
        v_wmma_f16_16x16x16_f16 v_wmma_f32_16x16x16_bf16 v_wmma_f32_16x16x16_f16
        v_wmma_i32_16x16x16_iu4 v_wmma_i32_16x16x16_iu8
    """,
    "n n n - -": """
        buffer_atomic_add buffer_atomic_add_x2 buffer_atomic_and buffer_atomic_and_x2
        buffer_atomic_cmpswap buffer_atomic_cmpswap_x2 buffer_atomic_dec buffer_atomic_dec_x2
        buffer_atomic_inc buffer_atomic_inc_x2 buffer_atomic_or buffer_atomic_or_x2
        buffer_atomic_smax buffer_atomic_smax_x2 buffer_atomic_smin buffer_atomic_smin_x2
        buffer_atomic_sub buffer_atomic_sub_x2 buffer_atomic_swap buffer_atomic_swap_x2
        buffer_atomic_umax buffer_atomic_umax_x2 buffer_atomic_umin buffer_atomic_umin_x2
        buffer_atomic_xor buffer_atomic_xor_x2 buffer_load_dword buffer_load_dwordx2
        buffer_load_dwordx3 buffer_load_dwordx4 buffer_load_sbyte buffer_load_sbyte_d16
        buffer_load_sbyte_d16_hi buffer_load_short_d16 buffer_load_short_d16_hi buffer_load_sshort
        buffer_load_ubyte buffer_load_ubyte_d16 buffer_load_ubyte_d16_hi buffer_load_ushort
        buffer_store_byte buffer_store_byte_d16_hi buffer_store_dword buffer_store_dwordx2
        buffer_store_dwordx3 buffer_store_dwordx4 buffer_store_short buffer_store_short_d16_hi
        ds_cmpst_b32 ds_cmpst_b64 ds_cmpst_rtn_b32 ds_cmpst_rtn_b64 ds_read2_b32 ds_read2_b64
        ds_read2st64_b32 ds_read2st64_b64 ds_read_b128 ds_read_b32 ds_read_b64 ds_read_b96
        ds_read_i16 ds_read_i8 ds_read_i8_d16 ds_read_i8_d16_hi ds_read_u16 ds_read_u16_d16
        ds_read_u16_d16_hi ds_read_u8 ds_read_u8_d16 ds_read_u8_d16_hi ds_write2_b32 ds_write2_b64
        ds_write2st64_b32 ds_write2st64_b64 ds_write_b128 ds_write_b16 ds_write_b16_d16_hi
        ds_write_b32 ds_write_b64 ds_write_b8 ds_write_b8_d16_hi ds_write_b96 ds_wrxchg_rtn_b32
        ds_wrxchg_rtn_b64 flat_atomic_add flat_atomic_add_x2 flat_atomic_and flat_atomic_and_x2
        flat_atomic_cmpswap flat_atomic_cmpswap_x2 flat_atomic_dec flat_atomic_dec_x2
        flat_atomic_inc flat_atomic_inc_x2 flat_atomic_or flat_atomic_or_x2 flat_atomic_smax
        flat_atomic_smax_x2 flat_atomic_smin flat_atomic_smin_x2 flat_atomic_sub flat_atomic_sub_x2
        flat_atomic_swap flat_atomic_swap_x2 flat_atomic_umax flat_atomic_umax_x2 flat_atomic_umin
        flat_atomic_umin_x2 flat_atomic_xor flat_atomic_xor_x2 flat_load_dword flat_load_dwordx2
        flat_load_dwordx3 flat_load_dwordx4 flat_load_sbyte flat_load_sbyte_d16
        flat_load_sbyte_d16_hi flat_load_short_d16 flat_load_short_d16_hi flat_load_sshort
        flat_load_ubyte flat_load_ubyte_d16 flat_load_ubyte_d16_hi flat_load_ushort flat_store_byte
        flat_store_byte_d16_hi flat_store_dword flat_store_dwordx2 flat_store_dwordx3
        flat_store_dwordx4 flat_store_short flat_store_short_d16_hi global_atomic_add
        global_atomic_add_x2 global_atomic_and global_atomic_and_x2 global_atomic_cmpswap
        global_atomic_cmpswap_x2 global_atomic_dec global_atomic_dec_x2 global_atomic_inc
        global_atomic_inc_x2 global_atomic_or global_atomic_or_x2 global_atomic_smax
        global_atomic_smax_x2 global_atomic_smin global_atomic_smin_x2 global_atomic_sub
        global_atomic_sub_x2 global_atomic_swap global_atomic_swap_x2 global_atomic_umax
        global_atomic_umax_x2 global_atomic_umin global_atomic_umin_x2 global_atomic_xor
        global_atomic_xor_x2 global_load_dword global_load_dwordx2 global_load_dwordx3
        global_load_dwordx4 global_load_sbyte global_load_sbyte_d16 global_load_sbyte_d16_hi
        global_load_short_d16 global_load_short_d16_hi global_load_sshort global_load_ubyte
        global_load_ubyte_d16 global_load_ubyte_d16_hi global_load_ushort global_store_byte
        global_store_byte_d16_hi global_store_dword global_store_dwordx2 global_store_dwordx3
        global_store_dwordx4 global_store_short global_store_short_d16_hi s_andn1_saveexec_b64
        s_andn1_wrexec_b64 s_andn2_b32 s_andn2_b64 s_andn2_saveexec_b64 s_andn2_wrexec_b64
        s_buffer_load_dword s_buffer_load_dwordx2 s_buffer_load_dwordx4 s_buffer_load_dwordx8
        s_ff0_i32_b32 s_ff0_i32_b64 s_ff1_i32_b32 s_ff1_i32_b64 s_flbit_i32 s_flbit_i32_b32
        s_flbit_i32_b64 s_flbit_i32_i64 s_load_dword s_load_dwordx2 s_load_dwordx4 s_load_dwordx8
        s_orn1_saveexec_b64 s_orn2_b32 s_orn2_b64 s_orn2_saveexec_b64 scratch_load_dword
        scratch_load_dwordx2 scratch_load_dwordx3 scratch_load_dwordx4 scratch_load_sbyte
        scratch_load_sbyte_d16 scratch_load_sbyte_d16_hi scratch_load_short_d16
        scratch_load_short_d16_hi scratch_load_sshort scratch_load_ubyte scratch_load_ubyte_d16
        scratch_load_ubyte_d16_hi scratch_load_ushort scratch_store_byte scratch_store_byte_d16_hi
        scratch_store_dword scratch_store_dwordx2 scratch_store_dwordx3 scratch_store_dwordx4
        scratch_store_short scratch_store_short_d16_hi v_cvt_pknorm_i16_f16 v_cvt_pknorm_i16_f32
        v_cvt_pknorm_u16_f16 v_cvt_pknorm_u16_f32 v_dot2_i32_i16 v_dot2_u32_u16 v_dot4_i32_i8
        v_dot8_i32_i4
    """,
    "n n n n n": """
        ds_add_f32 ds_add_rtn_f32 ds_add_rtn_u32 ds_add_rtn_u64 ds_add_u32 ds_add_u64 ds_and_b32
        ds_and_b64 ds_and_rtn_b32 ds_and_rtn_b64 ds_bpermute_b32 ds_dec_rtn_u32 ds_dec_rtn_u64
        ds_dec_u32 ds_dec_u64 ds_inc_rtn_u32 ds_inc_rtn_u64 ds_inc_u32 ds_inc_u64 ds_max_i32
        ds_max_i64 ds_max_rtn_i32 ds_max_rtn_i64 ds_max_rtn_u32 ds_max_rtn_u64 ds_max_u32 ds_max_u64
        ds_min_i32 ds_min_i64 ds_min_rtn_i32 ds_min_rtn_i64 ds_min_rtn_u32 ds_min_rtn_u64 ds_min_u32
        ds_min_u64 ds_mskor_b32 ds_mskor_b64 ds_mskor_rtn_b32 ds_mskor_rtn_b64 ds_or_b32 ds_or_b64
        ds_or_rtn_b32 ds_or_rtn_b64 ds_permute_b32 ds_rsub_rtn_u32 ds_rsub_rtn_u64 ds_rsub_u32
        ds_rsub_u64 ds_sub_rtn_u32 ds_sub_rtn_u64 ds_sub_u32 ds_sub_u64 ds_swizzle_b32 ds_xor_b32
        ds_xor_b64 ds_xor_rtn_b32 ds_xor_rtn_b64 s_abs_i32 s_absdiff_i32 s_and_b32 s_and_b64
        s_and_saveexec_b64 s_ashr_i32 s_ashr_i64 s_bcnt0_i32_b32 s_bcnt0_i32_b64 s_bcnt1_i32_b32
        s_bcnt1_i32_b64 s_bfe_i32 s_bfe_i64 s_bfe_u32 s_bfe_u64 s_bfm_b32 s_bfm_b64 s_bitcmp0_b32
        s_bitcmp0_b64 s_bitcmp1_b32 s_bitcmp1_b64 s_bitreplicate_b64_b32 s_bitset0_b32 s_bitset0_b64
        s_bitset1_b32 s_bitset1_b64 s_brev_b32 s_brev_b64 s_cmov_b32 s_cmov_b64 s_cmovk_i32
        s_cmp_eq_i32 s_cmp_eq_u32 s_cmp_eq_u64 s_cmp_ge_i32 s_cmp_ge_u32 s_cmp_gt_i32 s_cmp_gt_u32
        s_cmp_le_i32 s_cmp_le_u32 s_cmp_lg_i32 s_cmp_lg_u32 s_cmp_lg_u64 s_cmp_lt_i32 s_cmp_lt_u32
        s_cselect_b32 s_cselect_b64 s_lshl1_add_u32 s_lshl2_add_u32 s_lshl3_add_u32 s_lshl4_add_u32
        s_lshl_b32 s_lshl_b64 s_lshr_b32 s_lshr_b64 s_max_i32 s_max_u32 s_min_i32 s_min_u32
        s_mov_b32 s_mov_b64 s_movk_i32 s_mul_hi_i32 s_mul_hi_u32 s_mul_i32 s_mulk_i32 s_nand_b32
        s_nand_b64 s_nand_saveexec_b64 s_nor_b32 s_nor_b64 s_nor_saveexec_b64 s_not_b32 s_not_b64
        s_or_b32 s_or_b64 s_or_saveexec_b64 s_pack_hh_b32_b16 s_pack_lh_b32_b16 s_pack_ll_b32_b16
        s_quadmask_b32 s_quadmask_b64 s_sext_i32_i16 s_sext_i32_i8 s_wqm_b32 s_wqm_b64 s_xnor_b32
        s_xnor_b64 s_xnor_saveexec_b64 s_xor_b32 s_xor_b64 s_xor_saveexec_b64 v_ashrrev_i64
        v_div_fixup_f32 v_div_fixup_f64 v_div_fmas_f32 v_div_fmas_f64 v_div_scale_f32
        v_div_scale_f64 v_dot4_u32_u8 v_dot8_u32_u4 v_fma_f64 v_fma_mix_f32 v_fma_mixhi_f16
        v_fma_mixlo_f16 v_ldexp_f64 v_lshrrev_b64 v_mbcnt_hi_u32_b32 v_mbcnt_lo_u32_b32
        v_mqsad_pk_u16_u8 v_mqsad_u32_u8 v_mul_hi_i32 v_mul_hi_u32 v_mul_lo_u32 v_pk_add_f16
        v_pk_add_i16 v_pk_add_u16 v_pk_ashrrev_i16 v_pk_fma_f16 v_pk_lshlrev_b16 v_pk_lshrrev_b16
        v_pk_mad_i16 v_pk_mad_u16 v_pk_max_i16 v_pk_max_u16 v_pk_min_i16 v_pk_min_u16 v_pk_mul_f16
        v_pk_mul_lo_u16 v_pk_sub_i16 v_pk_sub_u16 v_qsad_pk_u16_u8 v_readfirstlane_b32
        v_readlane_b32 v_swap_b32 v_trig_preop_f64 v_writelane_b32
    """,
    "- - - - n": """
        buffer_atomic_cond_sub_u32 buffer_atomic_max_num_f32 buffer_atomic_min_num_f32
        buffer_atomic_pk_add_bf16 buffer_atomic_sub_clamp_u32 ds_max_num_f32 ds_max_num_f64
        ds_max_num_rtn_f32 ds_min_num_f32 ds_min_num_f64 ds_min_num_rtn_f32 flat_atomic_cond_sub_u32
        flat_atomic_max_num_f32 flat_atomic_min_num_f32 flat_atomic_sub_clamp_u32
        global_atomic_cond_sub_u32 global_atomic_max_num_f32 global_atomic_min_num_f32
        global_atomic_sub_clamp_u32 s_add_co_ci_u32 s_add_co_i32 s_add_co_u32 s_add_f16 s_add_f32
        s_add_nc_u64 s_addk_co_i32 s_buffer_load_b96 s_buffer_load_i16 s_buffer_load_i8
        s_buffer_load_u16 s_buffer_load_u8 s_ceil_f16 s_ceil_f32 s_cmp_eq_f16 s_cmp_eq_f32
        s_cmp_ge_f16 s_cmp_ge_f32 s_cmp_gt_f16 s_cmp_gt_f32 s_cmp_le_f16 s_cmp_le_f32 s_cmp_lg_f16
        s_cmp_lg_f32 s_cmp_lt_f16 s_cmp_lt_f32 s_cmp_neq_f16 s_cmp_neq_f32 s_cmp_nge_f16
        s_cmp_nge_f32 s_cmp_ngt_f16 s_cmp_ngt_f32 s_cmp_nle_f16 s_cmp_nle_f32 s_cmp_nlg_f16
        s_cmp_nlg_f32 s_cmp_nlt_f16 s_cmp_nlt_f32 s_cmp_o_f16 s_cmp_o_f32 s_cmp_u_f16 s_cmp_u_f32
        s_cvt_f16_f32 s_cvt_f32_f16 s_cvt_f32_i32 s_cvt_f32_u32 s_cvt_hi_f32_f16 s_cvt_i32_f32
        s_cvt_pk_rtz_f16_f32 s_cvt_u32_f32 s_floor_f16 s_floor_f32 s_fmaak_f32 s_fmac_f16 s_fmac_f32
        s_fmamk_f32 s_load_b96 s_load_i16 s_load_i8 s_load_u16 s_load_u8 s_max_num_f16 s_max_num_f32
        s_maximum_f16 s_maximum_f32 s_min_num_f16 s_min_num_f32 s_minimum_f16 s_minimum_f32
        s_mul_f16 s_mul_f32 s_mul_u64 s_rndne_f16 s_rndne_f32 s_sub_co_ci_u32 s_sub_co_i32
        s_sub_co_u32 s_sub_f16 s_sub_f32 s_sub_nc_u64 s_trunc_f16 s_trunc_f32 v_mad_co_i64_i32
        v_mad_co_u64_u32 v_maximum_f64 v_minimum_f64 v_permlane16_var_b32 v_permlanex16_var_b32
        v_pk_max_num_f16 v_pk_maximum_f16 v_pk_min_num_f16 v_pk_minimum_f16 v_s_exp_f16 v_s_exp_f32
        v_s_log_f16 v_s_log_f32 v_s_rcp_f16 v_s_rcp_f32 v_s_rsq_f16 v_s_rsq_f32 v_s_sqrt_f16
        v_s_sqrt_f32
    """,
    "36s 36s 36s 36D 36D": """
        v_cmp_class_f16 v_cmp_class_f32 v_cmp_eq_f16 v_cmp_eq_f32 v_cmp_eq_i16 v_cmp_eq_i32
        v_cmp_eq_u16 v_cmp_eq_u32 v_cmp_ge_f16 v_cmp_ge_f32 v_cmp_ge_i16 v_cmp_ge_i32 v_cmp_ge_u16
        v_cmp_ge_u32 v_cmp_gt_f16 v_cmp_gt_f32 v_cmp_gt_i16 v_cmp_gt_i32 v_cmp_gt_u16 v_cmp_gt_u32
        v_cmp_le_f16 v_cmp_le_f32 v_cmp_le_i16 v_cmp_le_i32 v_cmp_le_u16 v_cmp_le_u32 v_cmp_lg_f16
        v_cmp_lg_f32 v_cmp_lt_f16 v_cmp_lt_f32 v_cmp_lt_i16 v_cmp_lt_i32 v_cmp_lt_u16 v_cmp_lt_u32
        v_cmp_ne_i16 v_cmp_ne_i32 v_cmp_ne_u16 v_cmp_ne_u32 v_cmp_neq_f16 v_cmp_neq_f32
        v_cmp_nge_f16 v_cmp_nge_f32 v_cmp_ngt_f16 v_cmp_ngt_f32 v_cmp_nle_f16 v_cmp_nle_f32
        v_cmp_nlg_f16 v_cmp_nlg_f32 v_cmp_nlt_f16 v_cmp_nlt_f32 v_cmp_o_f16 v_cmp_o_f32 v_cmp_u_f16
        v_cmp_u_f32 v_cmpx_class_f16 v_cmpx_class_f32 v_cmpx_eq_f16 v_cmpx_eq_f32 v_cmpx_eq_i16
        v_cmpx_eq_i32 v_cmpx_eq_u16 v_cmpx_eq_u32 v_cmpx_ge_f16 v_cmpx_ge_f32 v_cmpx_ge_i16
        v_cmpx_ge_i32 v_cmpx_ge_u16 v_cmpx_ge_u32 v_cmpx_gt_f16 v_cmpx_gt_f32 v_cmpx_gt_i16
        v_cmpx_gt_i32 v_cmpx_gt_u16 v_cmpx_gt_u32 v_cmpx_le_f16 v_cmpx_le_f32 v_cmpx_le_i16
        v_cmpx_le_i32 v_cmpx_le_u16 v_cmpx_le_u32 v_cmpx_lg_f16 v_cmpx_lg_f32 v_cmpx_lt_f16
        v_cmpx_lt_f32 v_cmpx_lt_i16 v_cmpx_lt_i32 v_cmpx_lt_u16 v_cmpx_lt_u32 v_cmpx_ne_i16
        v_cmpx_ne_i32 v_cmpx_ne_u16 v_cmpx_ne_u32 v_cmpx_neq_f16 v_cmpx_neq_f32 v_cmpx_nge_f16
        v_cmpx_nge_f32 v_cmpx_ngt_f16 v_cmpx_ngt_f32 v_cmpx_nle_f16 v_cmpx_nle_f32 v_cmpx_nlg_f16
        v_cmpx_nlg_f32 v_cmpx_nlt_f16 v_cmpx_nlt_f32 v_cmpx_o_f16 v_cmpx_o_f32 v_cmpx_u_f16
        v_cmpx_u_f32
    """,
    "36ds 36ds 36ds 36dD 36dD": """
        v_add_f16 v_add_f32 v_and_b32 v_ashrrev_i32 v_bfrev_b32 v_ceil_f16 v_ceil_f32 v_cndmask_b32
        v_cos_f16 v_cos_f32 v_cvt_f16_f32 v_cvt_f16_i16 v_cvt_f16_u16 v_cvt_f32_f16 v_cvt_f32_i32
        v_cvt_f32_u32 v_cvt_f32_ubyte0 v_cvt_f32_ubyte1 v_cvt_f32_ubyte2 v_cvt_f32_ubyte3
        v_cvt_i16_f16 v_cvt_i32_f32 v_cvt_norm_i16_f16 v_cvt_norm_u16_f16 v_cvt_off_f32_i4
        v_cvt_u16_f16 v_cvt_u32_f32 v_exp_f16 v_exp_f32 v_floor_f16 v_floor_f32 v_fract_f16
        v_fract_f32 v_frexp_exp_i16_f16 v_frexp_exp_i32_f32 v_frexp_mant_f16 v_frexp_mant_f32
        v_ldexp_f16 v_log_f16 v_log_f32 v_lshlrev_b32 v_lshrrev_b32 v_max_i32 v_max_u32 v_min_i32
        v_min_u32 v_mov_b32 v_mul_f16 v_mul_f32 v_mul_hi_i32_i24 v_mul_hi_u32_u24 v_mul_i32_i24
        v_mul_u32_u24 v_not_b32 v_or_b32 v_rcp_f16 v_rcp_f32 v_rcp_iflag_f32 v_rndne_f16 v_rndne_f32
        v_rsq_f16 v_rsq_f32 v_sat_pk_u8_i16 v_sin_f16 v_sin_f32 v_sqrt_f16 v_sqrt_f32 v_sub_f16
        v_sub_f32 v_subrev_f16 v_subrev_f32 v_trunc_f16 v_trunc_f32 v_xnor_b32 v_xor_b32
    """,
    "36 36 36 36 36": """
        v_cmp_class_f64 v_cmp_eq_f64 v_cmp_eq_i64 v_cmp_eq_u64 v_cmp_ge_f64 v_cmp_ge_i64
        v_cmp_ge_u64 v_cmp_gt_f64 v_cmp_gt_i64 v_cmp_gt_u64 v_cmp_le_f64 v_cmp_le_i64 v_cmp_le_u64
        v_cmp_lg_f64 v_cmp_lt_f64 v_cmp_lt_i64 v_cmp_lt_u64 v_cmp_ne_i64 v_cmp_ne_u64 v_cmp_neq_f64
        v_cmp_nge_f64 v_cmp_ngt_f64 v_cmp_nle_f64 v_cmp_nlg_f64 v_cmp_nlt_f64 v_cmp_o_f64
        v_cmp_u_f64 v_cmpx_class_f64 v_cmpx_eq_f64 v_cmpx_eq_i64 v_cmpx_eq_u64 v_cmpx_ge_f64
        v_cmpx_ge_i64 v_cmpx_ge_u64 v_cmpx_gt_f64 v_cmpx_gt_i64 v_cmpx_gt_u64 v_cmpx_le_f64
        v_cmpx_le_i64 v_cmpx_le_u64 v_cmpx_lg_f64 v_cmpx_lt_f64 v_cmpx_lt_i64 v_cmpx_lt_u64
        v_cmpx_ne_i64 v_cmpx_ne_u64 v_cmpx_neq_f64 v_cmpx_nge_f64 v_cmpx_ngt_f64 v_cmpx_nle_f64
        v_cmpx_nlg_f64 v_cmpx_nlt_f64 v_cmpx_o_f64 v_cmpx_u_f64
    """,
    "n n n nD nD": """
        v_add3_u32 v_add_lshl_u32 v_alignbit_b32 v_alignbyte_b32 v_and_or_b32 v_bcnt_u32_b32
        v_bfe_i32 v_bfe_u32 v_bfi_b32 v_bfm_b32 v_cubeid_f32 v_cubema_f32 v_cubesc_f32 v_cubetc_f32
        v_cvt_pk_i16_i32 v_cvt_pk_u16_u32 v_cvt_pk_u8_f32 v_div_fixup_f16 v_dot2_f32_f16 v_fma_f16
        v_fma_f32 v_ldexp_f32 v_lerp_u8 v_lshl_add_u32 v_lshl_or_b32 v_mad_i16 v_mad_i32_i16
        v_mad_i32_i24 v_mad_u16 v_mad_u32_u16 v_mad_u32_u24 v_max3_i16 v_max3_i32 v_max3_u16
        v_max3_u32 v_med3_i16 v_med3_i32 v_med3_u16 v_med3_u32 v_min3_i16 v_min3_i32 v_min3_u16
        v_min3_u32 v_msad_u8 v_or3_b32 v_pack_b32_f16 v_perm_b32 v_sad_hi_u8 v_sad_u16 v_sad_u32
        v_sad_u8 v_xad_u32
    """,
    "- n - - -": """
        v_lshl_add_u64 v_mfma_f32_16x16x16_bf16 v_mfma_f32_16x16x16_f16 v_mfma_f32_16x16x1_4b_f32
        v_mfma_f32_16x16x32_bf8_bf8 v_mfma_f32_16x16x32_bf8_fp8 v_mfma_f32_16x16x32_fp8_bf8
        v_mfma_f32_16x16x32_fp8_fp8 v_mfma_f32_16x16x4_4b_bf16 v_mfma_f32_16x16x4_4b_f16
        v_mfma_f32_16x16x4_f32 v_mfma_f32_16x16x8_xf32 v_mfma_f32_32x32x16_bf8_bf8
        v_mfma_f32_32x32x16_bf8_fp8 v_mfma_f32_32x32x16_fp8_bf8 v_mfma_f32_32x32x16_fp8_fp8
        v_mfma_f32_32x32x1_2b_f32 v_mfma_f32_32x32x2_f32 v_mfma_f32_32x32x4_2b_bf16
        v_mfma_f32_32x32x4_2b_f16 v_mfma_f32_32x32x4_xf32 v_mfma_f32_32x32x8_bf16
        v_mfma_f32_32x32x8_f16 v_mfma_f32_4x4x1_16b_f32 v_mfma_f32_4x4x4_16b_bf16
        v_mfma_f32_4x4x4_16b_f16 v_mfma_f64_16x16x4_f64 v_mfma_f64_4x4x4_4b_f64
        v_mfma_i32_16x16x32_i8 v_mfma_i32_16x16x4_4b_i8 v_mfma_i32_32x32x16_i8
        v_mfma_i32_32x32x4_2b_i8 v_mfma_i32_4x4x4_16b_i8
    """,
    "n n n n -": """
        ds_max_f32 ds_max_f64 ds_max_rtn_f32 ds_max_rtn_f64 ds_min_f32 ds_min_f64 ds_min_rtn_f32
        ds_min_rtn_f64 s_add_i32 s_add_u32 s_addc_u32 s_addk_i32 s_cmpk_eq_i32 s_cmpk_eq_u32
        s_cmpk_ge_i32 s_cmpk_ge_u32 s_cmpk_gt_i32 s_cmpk_gt_u32 s_cmpk_le_i32 s_cmpk_le_u32
        s_cmpk_lg_i32 s_cmpk_lg_u32 s_cmpk_lt_i32 s_cmpk_lt_u32 s_sub_i32 s_sub_u32 s_subb_u32
        v_mad_i64_i32 v_mad_u64_u32 v_max_f64 v_min_f64 v_pk_max_f16 v_pk_min_f16
    """,
    "n - - - -": """
        v_mad_f32 v_madak_f32 v_madmk_f32 v_mfma_f32_16x16x16bf16_1k v_mfma_f32_16x16x16f16
        v_mfma_f32_16x16x1f32 v_mfma_f32_16x16x2bf16 v_mfma_f32_16x16x4bf16_1k v_mfma_f32_16x16x4f16
        v_mfma_f32_16x16x4f32 v_mfma_f32_16x16x8bf16 v_mfma_f32_32x32x1f32 v_mfma_f32_32x32x2bf16
        v_mfma_f32_32x32x2f32 v_mfma_f32_32x32x4bf16 v_mfma_f32_32x32x4bf16_1k v_mfma_f32_32x32x4f16
        v_mfma_f32_32x32x8bf16_1k v_mfma_f32_32x32x8f16 v_mfma_f32_4x4x1f32 v_mfma_f32_4x4x2bf16
        v_mfma_f32_4x4x4bf16_1k v_mfma_f32_4x4x4f16 v_mfma_f64_16x16x4f64 v_mfma_f64_4x4x4f64
        v_mfma_i32_16x16x16i8 v_mfma_i32_16x16x4i8 v_mfma_i32_32x32x4i8 v_mfma_i32_32x32x8i8
        v_mfma_i32_4x4x4i8
    """,
    "n n - - -": """
        buffer_atomic_add_f64 buffer_atomic_max_f64 buffer_atomic_min_f64 ds_add_f64 ds_add_rtn_f64
        flat_atomic_add_f64 flat_atomic_max_f64 flat_atomic_min_f64 global_atomic_add_f64
        global_atomic_max_f64 global_atomic_min_f64 v_add_i16 v_add_i32 v_div_fixup_legacy_f16
        v_fma_legacy_f16 v_mad_f16 v_mad_legacy_f16 v_mad_legacy_i16 v_mad_legacy_u16 v_madak_f16
        v_madmk_f16 v_pk_add_f32 v_pk_fma_f32 v_pk_mov_b32 v_pk_mul_f32 v_sub_i16 v_sub_i32
    """,
    "- - - - nD": """
        v_max3_num_f16 v_max3_num_f32 v_maximum3_f16 v_maximum3_f32 v_maximum_f16 v_maximum_f32
        v_maximumminimum_f16 v_maximumminimum_f32 v_maxmin_num_f16 v_maxmin_num_f32 v_med3_num_f16
        v_med3_num_f32 v_min3_num_f16 v_min3_num_f32 v_minimum3_f16 v_minimum3_f32 v_minimum_f16
        v_minimum_f32 v_minimummaximum_f16 v_minimummaximum_f32 v_minmax_num_f16 v_minmax_num_f32
    """,
    "- - n - -": """
        buffer_atomic_fmax buffer_atomic_fmax_x2 buffer_atomic_fmin buffer_atomic_fmin_x2
        flat_atomic_fmax flat_atomic_fmax_x2 flat_atomic_fmin flat_atomic_fmin_x2 global_atomic_fmax
        global_atomic_fmax_x2 global_atomic_fmin global_atomic_fmin_x2 s_andn1_saveexec_b32
        s_andn1_wrexec_b32 s_andn2_saveexec_b32 s_andn2_wrexec_b32 s_orn1_saveexec_b32
        s_orn2_saveexec_b32 v_fma_legacy_f32
    """,
    "- - - nD nD": """
        v_and_b16 v_cndmask_b16 v_cvt_pk_i16_f32 v_cvt_pk_norm_i16_f16 v_cvt_pk_norm_i16_f32
        v_cvt_pk_norm_u16_f16 v_cvt_pk_norm_u16_f32 v_cvt_pk_u16_f32 v_dot2_bf16_bf16 v_dot2_f16_f16
        v_maxmin_i32 v_maxmin_u32 v_minmax_i32 v_minmax_u32 v_or_b16 v_xor_b16
    """,
    "36d 36d 36 36 36": """
        v_ceil_f64 v_cvt_f32_f64 v_cvt_f64_f32 v_cvt_f64_i32 v_cvt_f64_u32 v_cvt_i32_f64
        v_cvt_u32_f64 v_floor_f64 v_fract_f64 v_frexp_exp_i32_f64 v_frexp_mant_f64 v_rcp_f64
        v_rndne_f64 v_rsq_f64 v_sqrt_f64 v_trunc_f64
    """,
    "36s 36s 36s 36D -": """
        v_cmp_f_f16 v_cmp_f_f32 v_cmp_f_i32 v_cmp_f_u32 v_cmp_t_i32 v_cmp_t_u32 v_cmpx_f_f16
        v_cmpx_f_f32 v_cmpx_f_i32 v_cmpx_f_u32 v_cmpx_t_i32 v_cmpx_t_u32
    """,
    "- - n n n": """
        s_and_saveexec_b32 s_nand_saveexec_b32 s_nor_saveexec_b32 s_or_saveexec_b32
        s_xnor_saveexec_b32 s_xor_saveexec_b32 v_fmaak_f16 v_fmamk_f16 v_permlane16_b32
        v_permlanex16_b32 v_pk_fmac_f16
    """,
    "36ds 36ds n nD nD": """
        v_add_co_u32 v_ashrrev_i16 v_lshlrev_b16 v_lshrrev_b16 v_max_i16 v_max_u16 v_min_i16
        v_min_u16 v_mul_lo_u16 v_sub_co_u32 v_subrev_co_u32
    """,
    "- - - 36dD 36dD": """
        v_cls_i32 v_clz_i32_u32 v_ctz_i32_b32 v_cvt_floor_i32_f32 v_cvt_i32_i16
        v_cvt_nearest_i32_f32 v_cvt_pk_rtz_f16_f32 v_cvt_u32_u16 v_mul_dx9_zero_f32 v_not_b16
    """,
    "36 36 36 36 -": """
        v_cmp_f_f64 v_cmp_f_i64 v_cmp_f_u64 v_cmp_t_i64 v_cmp_t_u64 v_cmpx_f_f64 v_cmpx_f_i64
        v_cmpx_f_u64 v_cmpx_t_i64 v_cmpx_t_u64
    """,
    "- n - - n": """
        ds_pk_add_bf16 ds_pk_add_f16 ds_pk_add_rtn_bf16 ds_pk_add_rtn_f16 flat_atomic_pk_add_bf16
        flat_atomic_pk_add_f16 global_atomic_pk_add_bf16 v_cvt_pk_bf8_f32 v_cvt_pk_fp8_f32
    """,
    "36ds 36ds - - -": """
        v_add_u16 v_add_u32 v_addc_co_u32 v_sub_u16 v_sub_u32 v_subb_co_u32 v_subbrev_co_u32
        v_subrev_u16 v_subrev_u32
    """,
    "- - - n -": """
        buffer_atomic_csub_u32 buffer_atomic_max_f32 buffer_atomic_min_f32 flat_atomic_max_f32
        flat_atomic_min_f32 global_atomic_csub_u32 global_atomic_max_f32 global_atomic_min_f32
    """,
    "36s 36s - - -": """
        v_cmp_f_i16 v_cmp_f_u16 v_cmp_t_i16 v_cmp_t_u16 v_cmpx_f_i16 v_cmpx_f_u16 v_cmpx_t_i16
        v_cmpx_t_u16
    """,
    "- - n nD nD": """
        v_add_nc_i16 v_add_nc_i32 v_add_nc_u16 v_sub_nc_i16 v_sub_nc_i32 v_sub_nc_u16 v_xor3_b32
    """,
    "- - 36ds 36dD 36dD": """
        v_add_co_ci_u32 v_add_nc_u32 v_sub_co_ci_u32 v_sub_nc_u32 v_subrev_co_ci_u32 v_subrev_nc_u32
    """,
    "n n n nD -": """
        v_max3_f16 v_max3_f32 v_med3_f16 v_med3_f32 v_min3_f16 v_min3_f32
    """,
    "36ds 36ds 36ds - -": """
        v_cvt_flr_i32_f32 v_cvt_rpi_i32_f32 v_ffbh_i32 v_ffbh_u32 v_ffbl_b32
    """,
    "- - - - 36dD": """
        v_max_num_f16 v_max_num_f32 v_min_num_f16 v_min_num_f32
    """,
    "- - - 36D -": """
        v_cmp_t_f16 v_cmp_t_f32 v_cmpx_t_f16 v_cmpx_t_f32
    """,
    "- - - nD -": """
        v_maxmin_f16 v_maxmin_f32 v_minmax_f16 v_minmax_f32
    """,
    "- 3 - - 3": """
        v_cvt_f32_bf8 v_cvt_f32_fp8 v_cvt_pk_f32_bf8 v_cvt_pk_f32_fp8
    """,
    "36d 36d - - -": """
        v_dot2c_i32_i16 v_dot8c_i32_i4 v_fmac_f64 v_mac_f16
    """,
    "36ds 36ds 36ds 36dD -": """
        v_max_f16 v_max_f32 v_min_f16 v_min_f32
    """,
    "36s 36s 36s - -": """
        v_cmp_tru_f16 v_cmp_tru_f32 v_cmpx_tru_f16 v_cmpx_tru_f32
    """,
    "- - - 36 -": """
        v_cmp_t_f64 v_cmpx_t_f64 v_fmac_dx9_zero_f32
    """,
    "n n n n 36": """
        v_add_f64 v_lshlrev_b64 v_mul_f64
    """,
    "- - - - 36": """
        v_max_num_f64 v_min_num_f64
    """,
    "- n n n n": """
        v_fmaak_f32 v_fmamk_f32
    """,
    "36 36 36 - -": """
        v_cmp_tru_f64 v_cmpx_tru_f64
    """,
    "36d 36d nd - -": """
        v_dot2c_f32_f16 v_dot4c_i32_i8
    """,
    "n n - - n": """
        buffer_atomic_pk_add_f16 global_atomic_pk_add_f16
    """,
    "n n - n n": """
        buffer_atomic_add_f32 global_atomic_add_f32
    """,
    "n n 36ds - -": """
        v_cvt_pkrtz_f16_f32 v_mul_legacy_f32
    """,
    "- - - nd -": """
        v_dot2acc_f32_f16
    """,
    "- - 36 - -": """
        v_fmac_legacy_f32
    """,
    "- - 36d 36dD 36dD": """
        v_fmac_f16
    """,
    "- 36d - - -": """
        v_mov_b64
    """,
    "- n - n n": """
        flat_atomic_add_f32
    """,
    "36d - - - -": """
        v_mac_f32
    """,
    "36d 36d 36d 36dD 36dD": """
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
    return FORMS_OF.get(base, {}).get(arch, [])
