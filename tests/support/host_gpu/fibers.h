// Threads of a block as fibers of one host thread.
//
// A fiber runs until it waits for others (a barrier, an operation of its warp) or ends; then a
// fiber that can run is chosen by the seed. Plain memory accesses and atomics never switch. Blocks
// run one after the other, in an order chosen by the seed. A launch ends at its first error.
//
// Kernels are compiled over these declarations; `fibers.cpp` is compiled once for all of them.
#pragma once

#include <stdint.h>

#include "cuda_types.h"

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace host_gpu {

struct Place {
    const char *file;
    int line;
};

enum class State : unsigned char { runs, at_barrier, at_warp_operation, ended };

struct Fiber;
using Combine = void (*)(Fiber *lanes, unsigned group);
using Body = void (*)(void **arguments);

struct Fiber {
    void *stack_pointer;
    uint3 index;
    unsigned lane, warp;
    State state;
    Place place;            // where it waits
    const char *operation;  // for what it waits
    Combine combine;        // what completes an operation of the warp
    unsigned mask;          // lanes that take part in the operation
    unsigned source;        // lane that a shuffle reads
    uint64_t value;         // what it brings
    uint64_t result;        // what it gets
};

extern Fiber *current;
extern unsigned char dynamic_shared[];
extern unsigned dynamic_shared_bytes;  // of it, what the launch asked for

[[noreturn]] void fail(const char *format, ...);

// A thread reads and writes memory at once, whatever others do there.
void touch_atomically(void *address, unsigned size);

// Wait until every living thread of the block waits here. Returns the sum of their values.
uint64_t wait_for_block(const char *operation, uint64_t value, Place place);

// Wait until the living lanes of `mask` have all come with the same operation and mask.
uint64_t wait_for_warp(const char *operation, Combine combine, unsigned mask, uint64_t value,
                       unsigned source, Place place);

struct Kernel {
    const char *name;
    unsigned most_threads;
    Body run;
    void (*tell)(char *text);
};

struct Launch {
    unsigned kernel, grid[3], block[3], shared_bytes;
    uint64_t seed;
    void **arguments;
    char *stacks;  // of most_threads fibers, each over a page that faults
    uint64_t stack_bytes;
    char *message;
    uint64_t message_bytes;
    void *fault_address;
    unsigned faulted, finds_races;
};

// Returns whether all blocks came to their ends; otherwise the message says why not.
bool run(const Kernel &kernel, Launch &launch);

}  // namespace host_gpu
