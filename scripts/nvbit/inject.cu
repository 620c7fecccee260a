// Functions that NVBit calls from inside the recorded kernels, once for each warp.
//
// A packet is written by the lanes that execute the instruction: the lowest reserves space, each
// lane stores its own value. No printf and no assert: NVBit forbids both in injected code.

#include "packets.h"

#if defined(__CUDACC__)
static __device__ __forceinline__ unsigned number_of_sm() {
    unsigned number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}
static __device__ __forceinline__ unsigned slot_of_warp() {
    unsigned slot;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
    return slot;
}
#else  // a simulation on the host says both
unsigned number_of_sm();
unsigned slot_of_warp();
#endif

static __device__ __forceinline__ void record(int predicate, unsigned where, unsigned long long address,
                                              unsigned short kind, unsigned value) {
    mcage::Control *control = reinterpret_cast<mcage::Control *>(address);
    unsigned on = __ballot_sync(__activemask(), predicate != 0);
    unsigned sm = number_of_sm();
    if (!predicate || !control->records || sm < control->first_sm || sm > control->last_sm) return;

    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned lane = thread % mcage::lanes;
    int leader = __ffs(int(on)) - 1;
    unsigned bytes = kind == mcage::writes ? mcage::write_bytes : unsigned(sizeof(mcage::Packet));
    unsigned long long place = 0;
    if (int(lane) == leader) place = atomicAdd(&control->used, static_cast<unsigned long long>(bytes));
    place = __shfl_sync(on, place, leader);
    if (place + bytes > control->capacity) {
        if (int(lane) == leader) atomicMin(&control->cut, place);
        return;
    }
    mcage::Packet *packet = reinterpret_cast<mcage::Packet *>(control->buffer + place);
    if (int(lane) == leader) {
        packet->cycle = static_cast<unsigned long long>(clock64());
        packet->launch = control->launch;
        packet->where = where;
        packet->mask = on;
        packet->cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        packet->sm = static_cast<unsigned short>(sm);
        packet->warp = static_cast<unsigned short>(slot_of_warp());
        packet->warp_in_cta = static_cast<unsigned short>(thread / mcage::lanes);
        packet->kind = kind;
    }
    if (kind == mcage::writes) reinterpret_cast<unsigned *>(packet + 1)[lane] = value;
}

// After an instruction that writes a register: `value` is what the register holds then.
extern "C" __device__ __noinline__ void mcage_write(int predicate, unsigned where,
                                                    unsigned long long control, unsigned value) {
    record(predicate, where, control, mcage::writes, value);
}

// Before the first instruction of a kernel, each EXIT, and what reads registers and writes none.
extern "C" __device__ __noinline__ void mcage_mark(int predicate, unsigned where,
                                                   unsigned long long control, unsigned kind) {
    record(predicate, where, control, static_cast<unsigned short>(kind), 0);
}
