// The CUDA C++ that kernels are written in, for a host compiler: what the language has more than
// C++, over `fibers.h`. What is not here is not known: a kernel that uses it does not compile.
#pragma once

#include <math.h>
#include <string.h>

#include "fibers.h"

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// As attribute it may follow `__shared__`.
#define alignas(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("host_gpu_shared")))
#define HOST_GPU_DYNAMIC_SHARED(type, name)                                                      \
    static type *const name = reinterpret_cast<type *>(host_gpu::dynamic_shared)

#undef assert
#define assert(condition)                                                                        \
    ((condition) ? void() : host_gpu::fail("assert(%s) (%s:%d)", #condition, __FILE__, __LINE__))

constexpr int warpSize = 32;

// Where an intrinsic is called: default arguments are those of the caller's line.
#define HOST_GPU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

[[noreturn]] inline void __trap(HOST_GPU_HERE) { host_gpu::fail("__trap (%s:%d)", file, line); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// ---------------------------------------------------------------------------------- barriers

inline void __syncthreads(HOST_GPU_HERE) {
    host_gpu::wait_for_block("__syncthreads", 0, {file, line});
}
inline int __syncthreads_count(int predicate, HOST_GPU_HERE) {
    return host_gpu::wait_for_block("__syncthreads_count", predicate != 0, {file, line});
}
inline int __syncthreads_or(int predicate, HOST_GPU_HERE) {
    return host_gpu::wait_for_block("__syncthreads_or", predicate != 0, {file, line}) != 0;
}
inline int __syncthreads_and(int predicate, HOST_GPU_HERE) {
    return host_gpu::wait_for_block("__syncthreads_and", predicate == 0, {file, line}) == 0;
}

// ------------------------------------------------------------------------ operations of a warp

namespace host_gpu {

// What a lane that does not take part gives: CUDA calls it undefined.
constexpr uint64_t nothing = 0xDBDBDBDBDBDBDBDBu;

template <typename T>
uint64_t to_bits(T value) {
    static_assert(sizeof value <= 8, "operations of a warp move at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <typename T>
T from_bits(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename Action>
void each_lane(unsigned group, Action action) {
    for (; group; group &= group - 1) action(__builtin_ctz(group));
}
inline void give_all(Fiber *lanes, unsigned group, uint64_t result) {
    each_lane(group, [&](unsigned lane) { lanes[lane].result = result; });
}

inline void meet(Fiber *, unsigned) {}
inline void vote(Fiber *lanes, unsigned group) {
    unsigned ballot = 0;
    each_lane(group, [&](unsigned lane) { ballot |= unsigned(lanes[lane].value) << lane; });
    give_all(lanes, group, ballot);
}
inline void vote_all(Fiber *lanes, unsigned group) {
    bool all = true;
    each_lane(group, [&](unsigned lane) { all &= lanes[lane].value; });
    give_all(lanes, group, all);
}
inline void exchange(Fiber *lanes, unsigned group) {
    each_lane(group, [&](unsigned lane) {
        unsigned source = lanes[lane].source;
        lanes[lane].result = group >> source & 1 ? lanes[source].value : nothing;
    });
}
inline void match(Fiber *lanes, unsigned group) {
    each_lane(group, [&](unsigned lane) {
        unsigned alike = 0;
        each_lane(group, [&](unsigned other) {
            alike |= unsigned(lanes[other].value == lanes[lane].value) << other;
        });
        lanes[lane].result = alike;
    });
}
template <typename T, typename Operation>
void reduce(Fiber *lanes, unsigned group) {
    T result = from_bits<T>(lanes[__builtin_ctz(group)].value);
    each_lane(group & (group - 1), [&](unsigned lane) {
        result = Operation::of(result, from_bits<T>(lanes[lane].value));
    });
    give_all(lanes, group, to_bits(result));
}

// Shuffles give `int` for what is smaller than `int`, as overloads do.
template <typename T>
using Shuffled = decltype(T() + T());

template <typename T>
T shuffle(const char *operation, unsigned mask, T value, int source, Place place) {
    return from_bits<T>(
        wait_for_warp(operation, exchange, mask, to_bits(value), unsigned(source), place));
}
inline int lane() { return int(current->lane); }

}  // namespace host_gpu

inline void __syncwarp(unsigned mask = ~0u, HOST_GPU_HERE) {
    host_gpu::wait_for_warp("__syncwarp", host_gpu::meet, mask, 0, 0, {file, line});
}
inline unsigned __activemask() { return 1u << host_gpu::lane(); }  // least that CUDA promises
inline unsigned __ballot_sync(unsigned mask, int predicate, HOST_GPU_HERE) {
    return unsigned(host_gpu::wait_for_warp("__ballot_sync", host_gpu::vote, mask, predicate != 0,
                                            0, {file, line}));
}
inline int __any_sync(unsigned mask, int predicate, HOST_GPU_HERE) {
    return host_gpu::wait_for_warp("__any_sync", host_gpu::vote, mask, predicate != 0, 0,
                                   {file, line}) != 0;
}
inline int __all_sync(unsigned mask, int predicate, HOST_GPU_HERE) {
    return int(host_gpu::wait_for_warp("__all_sync", host_gpu::vote_all, mask, predicate != 0, 0,
                                       {file, line}));
}

template <typename T, typename R = host_gpu::Shuffled<T>>
R __shfl_sync(unsigned mask, T value, int source, int width = 32, HOST_GPU_HERE) {
    int lane = host_gpu::lane(), first = lane & ~(width - 1);
    return host_gpu::shuffle<R>("__shfl_sync", mask, value, first | (source & (width - 1)),
                                {file, line});
}
template <typename T, typename R = host_gpu::Shuffled<T>>
R __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, HOST_GPU_HERE) {
    int lane = host_gpu::lane(), first = lane & ~(width - 1), source = lane - int(delta);
    return host_gpu::shuffle<R>("__shfl_up_sync", mask, value, source < first ? lane : source,
                                {file, line});
}
template <typename T, typename R = host_gpu::Shuffled<T>>
R __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, HOST_GPU_HERE) {
    int lane = host_gpu::lane(), last = lane | (width - 1), source = lane + int(delta);
    return host_gpu::shuffle<R>("__shfl_down_sync", mask, value, source > last ? lane : source,
                                {file, line});
}
template <typename T, typename R = host_gpu::Shuffled<T>>
R __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, HOST_GPU_HERE) {
    int lane = host_gpu::lane(), last = lane | (width - 1), source = lane ^ lanes;
    return host_gpu::shuffle<R>("__shfl_xor_sync", mask, value, source > last ? lane : source,
                                {file, line});
}
template <typename T>
unsigned __match_any_sync(unsigned mask, T value, HOST_GPU_HERE) {
    return unsigned(host_gpu::wait_for_warp("__match_any_sync", host_gpu::match, mask,
                                            host_gpu::to_bits(value), 0, {file, line}));
}

#define HOST_GPU_REDUCTION(name, T, expression)                                                  \
    namespace host_gpu {                                                                         \
    struct name##T {                                                                             \
        static T of(T a, T b) { return expression; }                                             \
    };                                                                                           \
    }                                                                                            \
    inline T __reduce_##name##_sync(unsigned mask, T value, HOST_GPU_HERE) {                     \
        return host_gpu::from_bits<T>(host_gpu::wait_for_warp(                                   \
            "__reduce_" #name "_sync", host_gpu::reduce<T, host_gpu::name##T>, mask,             \
            host_gpu::to_bits(value), 0, {file, line}));                                         \
    }
HOST_GPU_REDUCTION(add, unsigned, a + b)
HOST_GPU_REDUCTION(add, int, a + b)
HOST_GPU_REDUCTION(min, unsigned, a < b ? a : b)
HOST_GPU_REDUCTION(min, int, a < b ? a : b)
HOST_GPU_REDUCTION(max, unsigned, a > b ? a : b)
HOST_GPU_REDUCTION(max, int, a > b ? a : b)
HOST_GPU_REDUCTION(and, unsigned, a & b)
HOST_GPU_REDUCTION(or, unsigned, a | b)
HOST_GPU_REDUCTION(xor, unsigned, a ^ b)
#undef HOST_GPU_REDUCTION

// ------------------------------------------------------------------------------------ atomics

namespace host_gpu {

template <typename T, typename... Allowed>
constexpr bool is_one_of = (__is_same(T, Allowed) || ...);
template <typename T>
struct Same {
    using type = T;
};
template <typename T>
using Of = typename Same<T>::type;  // not deduced: converted to the type at the address
using Wide = unsigned long long;

template <typename T, typename Operation>
__attribute__((no_sanitize_thread, noinline)) T update(T *address, Operation operation) {
    touch_atomically(address, sizeof(T));
    T before = *address;
    *address = operation(before);
    return before;
}

}  // namespace host_gpu

#define HOST_GPU_ATOMIC(name, expression, ...)                                                   \
    template <typename T>                                                                        \
    T name(T *address, host_gpu::Of<T> value) {                                                  \
        static_assert(host_gpu::is_one_of<T, __VA_ARGS__>, "CUDA has no such " #name);           \
        return host_gpu::update(address, [=](T before) -> T { return expression; });             \
    }                                                                                            \
    template <typename T>                                                                        \
    T name##_block(T *address, host_gpu::Of<T> value) {                                          \
        return name(address, value);                                                             \
    }
HOST_GPU_ATOMIC(atomicAdd, before + value, int, unsigned, host_gpu::Wide, float, double)
HOST_GPU_ATOMIC(atomicSub, before - value, int, unsigned)
HOST_GPU_ATOMIC(atomicMax, before > value ? before : value, int, unsigned, long long, host_gpu::Wide)
HOST_GPU_ATOMIC(atomicMin, before < value ? before : value, int, unsigned, long long, host_gpu::Wide)
HOST_GPU_ATOMIC(atomicOr, before | value, int, unsigned, host_gpu::Wide)
HOST_GPU_ATOMIC(atomicAnd, before &value, int, unsigned, host_gpu::Wide)
HOST_GPU_ATOMIC(atomicXor, before ^ value, int, unsigned, host_gpu::Wide)
HOST_GPU_ATOMIC(atomicExch, value, int, unsigned, host_gpu::Wide, float)
HOST_GPU_ATOMIC(atomicInc, before >= value ? 0 : before + 1, unsigned)
#undef HOST_GPU_ATOMIC

template <typename T>
T atomicCAS(T *address, host_gpu::Of<T> expected, host_gpu::Of<T> value) {
    static_assert(host_gpu::is_one_of<T, int, unsigned, host_gpu::Wide, unsigned short>,
                  "CUDA has no such atomicCAS");
    return host_gpu::update(address, [=](T before) { return before == expected ? value : before; });
}

// ------------------------------------------------------------------------------- memory, bits

template <typename T>
T __ldg(const T *address) {
    return *address;
}
template <typename T>
T __ldcs(const T *address) {
    return *address;
}
template <typename T>
T __ldcg(const T *address) {
    return *address;
}
template <typename T>
void __stcs(T *address, host_gpu::Of<T> value) {
    *address = value;
}
template <typename T>
void __stcg(T *address, host_gpu::Of<T> value) {
    *address = value;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(host_gpu::Wide(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    return host_gpu::Wide(__brev(unsigned(x))) << 32 | __brev(unsigned(x >> 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    uint64_t bytes = uint64_t(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned choice = selector >> 4 * i & 0xF;
        unsigned byte = bytes >> 8 * (choice & 7) & 0xFF;
        if (choice & 8) byte = byte & 0x80 ? 0xFF : 0;
        result |= byte << 8 * i;
    }
    return result;
}
inline unsigned __dp2a_lo(unsigned halves, unsigned bytes, unsigned sum) {
    return (halves & 0xFFFF) * (bytes & 0xFF) + (halves >> 16) * (bytes >> 8 & 0xFF) + sum;
}
inline unsigned __dp2a_hi(unsigned halves, unsigned bytes, unsigned sum) {
    return __dp2a_lo(halves, bytes >> 16, sum);
}
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned(uint64_t(x) * y >> 32); }
inline int __mulhi(int x, int y) { return int(int64_t(x) * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return host_gpu::Wide(static_cast<unsigned __int128>(x) * y >> 64);
}
inline long long __mul64hi(long long x, long long y) {
    return static_cast<long long>(static_cast<__int128>(x) * y >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return unsigned((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

// ------------------------------------------------------------------------------------ numbers

#define HOST_GPU_EXTREMES(A, B, R)                                                               \
    inline R min(A first, B second) {                                                            \
        R a = first, b = second;                                                                 \
        return b < a ? b : a;                                                                    \
    }                                                                                            \
    inline R max(A first, B second) {                                                            \
        R a = first, b = second;                                                                 \
        return a < b ? b : a;                                                                    \
    }
HOST_GPU_EXTREMES(int, int, int)
HOST_GPU_EXTREMES(unsigned, unsigned, unsigned)
HOST_GPU_EXTREMES(int, unsigned, unsigned)
HOST_GPU_EXTREMES(unsigned, int, unsigned)
HOST_GPU_EXTREMES(long, long, long)
HOST_GPU_EXTREMES(unsigned long, unsigned long, unsigned long)
HOST_GPU_EXTREMES(long long, long long, long long)
HOST_GPU_EXTREMES(unsigned long long, unsigned long long, unsigned long long)
HOST_GPU_EXTREMES(long long, unsigned long long, unsigned long long)
HOST_GPU_EXTREMES(unsigned long long, long long, unsigned long long)
#undef HOST_GPU_EXTREMES
// As on the device, a number wins over a NaN.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

#define HOST_GPU_BITS(name, From, To)                                                            \
    inline To name(From value) {                                                                 \
        static_assert(sizeof(From) == sizeof(To), #name);                                        \
        return host_gpu::from_bits<To>(host_gpu::to_bits(value));                                \
    }
HOST_GPU_BITS(__float_as_int, float, int)
HOST_GPU_BITS(__float_as_uint, float, unsigned)
HOST_GPU_BITS(__int_as_float, int, float)
HOST_GPU_BITS(__uint_as_float, unsigned, float)
HOST_GPU_BITS(__double_as_longlong, double, long long)
HOST_GPU_BITS(__longlong_as_double, long long, double)
#undef HOST_GPU_BITS
inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double(static_cast<long long>(uint64_t(unsigned(high)) << 32 |
                                                       unsigned(low)));
}

// Compiled with -ffp-contract=off: each operation rounds once, to nearest.
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __ll2double_rn(long long x) { return double(x); }
inline double __ull2double_rn(unsigned long long x) { return double(x); }
inline double __uint2double_rn(unsigned x) { return double(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __saturatef(float x) { return x > 0 ? fminf(x, 1) : 0; }
inline float exp10f(float x) { return powf(10, x); }
inline double exp10(double x) { return pow(10, x); }
inline double normcdf(double x) { return erfc(-x * 0.70710678118654752440) / 2; }
