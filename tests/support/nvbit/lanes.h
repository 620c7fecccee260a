// A warp whose lanes are contexts of one thread: enough CUDA C++ for the injected functions.
#pragma once

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <type_traits>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __noinline__

struct Three {
    unsigned x, y, z;
};
inline Three threadIdx, blockIdx, blockDim, gridDim;

namespace lanes {

inline unsigned active, current, sm, slot;
inline long long cycle;
inline ucontext_t scheduler, contexts[32];
inline unsigned asked[32];            // mask of the operation that a lane waits for
inline unsigned long long given[32];  // what it brings
inline unsigned long long taken[32];  // what lanes brought to the last operation
inline std::function<void()> body;
inline unsigned ended;

inline void enter_lane() {
    body();
    ended |= 1u << current;
}
// Waits for all lanes of `mask`; they come with the same mask or the program ends.
inline void meet(unsigned mask, unsigned long long value) {
    if (!(mask >> current & 1)) fprintf(stderr, "lane %u is not in %08x\n", current, mask), abort();
    unsigned lane = current;
    asked[lane] = mask, given[lane] = value;
    swapcontext(&contexts[lane], &scheduler);
}
// Runs `action` on every lane of `mask`, lane by lane, each up to its next operation of the warp.
inline void run(unsigned mask, const Three *threads, std::function<void()> action) {
    static std::vector<char> stacks(32 * 65536);
    active = mask, body = std::move(action), ended = 0;
    for (unsigned lane = 0; lane < 32; lane++) {
        getcontext(&contexts[lane]);
        contexts[lane].uc_stack.ss_sp = &stacks[lane * 65536];
        contexts[lane].uc_stack.ss_size = 65536;
        contexts[lane].uc_link = &scheduler;
        makecontext(&contexts[lane], enter_lane, 0);
        asked[lane] = 0;
    }
    while ((ended & mask) != mask) {
        for (unsigned lane = 0; lane < 32; lane++) {
            if (!(mask >> lane & 1) || ended >> lane & 1) continue;
            current = lane, threadIdx = threads[lane];
            swapcontext(&scheduler, &contexts[lane]);
        }
        for (unsigned lane = 0; lane < 32; lane++) {
            taken[lane] = given[lane];
            if (!(mask >> lane & 1) || ended >> lane & 1) continue;
            for (unsigned other = 0; other < 32; other++) {
                bool absent = ended >> other & 1 || asked[other] != asked[lane];
                if (asked[lane] >> other & 1 && absent) fprintf(stderr, "lanes disagree\n"), abort();
            }
        }
    }
}

}  // namespace lanes

inline unsigned __activemask() { return lanes::active; }
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    lanes::meet(mask, predicate != 0);
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < 32; lane++) {
        if (mask >> lane & 1) ballot |= unsigned(lanes::taken[lane]) << lane;
    }
    return ballot;
}
inline unsigned long long __shfl_sync(unsigned mask, unsigned long long value, int source) {
    lanes::meet(mask, value);
    return lanes::taken[source];
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline long long clock64() { return lanes::cycle; }
template <typename T>
T atomicAdd(T *address, std::type_identity_t<T> value) {
    T old = *address;
    *address += value;
    return old;
}
template <typename T>
T atomicMin(T *address, std::type_identity_t<T> value) {
    T old = *address;
    *address = old < value ? old : value;
    return old;
}
inline unsigned number_of_sm() { return lanes::sm; }
inline unsigned slot_of_warp() { return lanes::slot; }
