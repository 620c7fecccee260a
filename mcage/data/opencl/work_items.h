// Functions of work-items (OpenCL C 2.0, section 6.13.1) by the builtins of clang for AMD GPUs.
// libclc has them as well, but finds the global offset where older code objects had it.

#define WORK_ITEM_FUNCTION(name, x, y, z, beyond)                                                  \
    static inline __attribute__((always_inline, overloadable)) size_t mcage_##name(uint axis) {    \
        return axis == 0 ? (x) : axis == 1 ? (y) : axis == 2 ? (z) : (beyond);                     \
    }

WORK_ITEM_FUNCTION(local_id, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
                   __builtin_amdgcn_workitem_id_z(), 0)
WORK_ITEM_FUNCTION(group_id, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
                   __builtin_amdgcn_workgroup_id_z(), 0)
WORK_ITEM_FUNCTION(local_size, __builtin_amdgcn_workgroup_size_x(),
                   __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z(), 1)
WORK_ITEM_FUNCTION(global_size, __builtin_amdgcn_grid_size_x(), __builtin_amdgcn_grid_size_y(),
                   __builtin_amdgcn_grid_size_z(), 1)

#define get_local_id(axis) mcage_local_id(axis)
#define get_group_id(axis) mcage_group_id(axis)
#define get_local_size(axis) mcage_local_size(axis)
#define get_enqueued_local_size(axis) mcage_local_size(axis)
#define get_global_size(axis) mcage_global_size(axis)
#define get_global_offset(axis) ((size_t)0)
#define get_num_groups(axis) (mcage_global_size(axis) / mcage_local_size(axis))
#define get_global_id(axis) (mcage_group_id(axis) * mcage_local_size(axis) + mcage_local_id(axis))
#define get_work_dim() ((uint)((__constant ushort *)__builtin_amdgcn_dispatch_ptr())[1])
