// What the functions of work-groups in groups.h have in local memory: a number of each wave. This is
// C, in which, unlike in OpenCL C, such a variable may stand outside of kernels.

#define LOCAL __attribute__((address_space(3)))

__attribute__((loader_uninitialized)) static LOCAL long mcage_of_waves[32];

__attribute__((always_inline)) LOCAL long *mcage_local(void) { return mcage_of_waves; }
