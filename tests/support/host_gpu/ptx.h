// What PTX has that C++ and `cuda_shim.h` have not: included by what `ptx.py` makes of PTX.
//
// Registers are unsigned integers of their width, those of floats as well. Names of types are those
// of PTX. Sections are those of the PTX ISA, version 9.0.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long long;
using s8 = signed char;
using s16 = short;
using s32 = int;
using s64 = long long;
using b8 = u8;
using b16 = u16;
using b32 = u32;
using b64 = u64;
using f64 = double;

// What registers hold that nothing has been written to.
constexpr u64 undefined = host_gpu::nothing;

inline f64 number(u64 bits) { return host_gpu::from_bits<f64>(bits); }
inline u64 bits(f64 number) { return host_gpu::to_bits(number); }

template <typename T>
constexpr u32 width = 8 * sizeof(T);

// --------------------------------------------------------------------- memory (5.1, 6.4, 9.7.9)

struct Variable {
    unsigned char *begin;
    u64 bytes;
};
extern const Variable shared_variables[];
extern const u32 shared_count;

// Addresses of shared memory are 32-bit numbers; they are aligned as the memory is.
constexpr s64 shared_bias = s64(1) << 30;

inline u32 shared_address(const unsigned char *place) {
    return u32(place - host_gpu::dynamic_shared + shared_bias);
}

inline unsigned char *shared_place(u32 address, u64 size, const char *file, int line) {
    unsigned char *place = host_gpu::dynamic_shared + (s64(address) - shared_bias);
    for (u32 i = 0; i < shared_count; i++) {
        const Variable &variable = shared_variables[i];
        if (size <= variable.bytes && u64(place - variable.begin) <= variable.bytes - size)
            return place;
    }
    const u64 dynamic = host_gpu::dynamic_shared_bytes;
    if (size > dynamic || u64(place - host_gpu::dynamic_shared) > dynamic - size)
        host_gpu::fail("uses %u bytes at %lld of dynamic shared memory, which is in no variable "
                       "(%s:%d)", u32(size), s64(place - host_gpu::dynamic_shared), file, line);
    return place;
}

template <typename T>
inline T *shared(u32 address, HOST_GPU_HERE) {
    return reinterpret_cast<T *>(shared_place(address, sizeof(T), file, line));
}

template <typename T>
inline T *global(u64 address) {
    return reinterpret_cast<T *>(address);
}

template <typename T, u32 count>
struct alignas(count * sizeof(T)) Vector {
    T of[count];
};

// A parameter that may be of any type of its size.
template <u32 bytes>
struct alignas(bytes) Bits {
    u8 of[bytes];
};

template <typename T, u32 offset, typename Parameter>
inline T parameter(const Parameter &given) {
    static_assert(offset % sizeof(T) == 0 && offset + sizeof(T) <= sizeof(Parameter));
    T value;
    memcpy(&value, reinterpret_cast<const char *>(&given) + offset, sizeof value);
    return value;
}

template <typename Parameter>
inline u64 address_of_parameter(const Parameter &given) {
    return reinterpret_cast<u64>(&given);
}

// What lies at an address in one of the parameters of a kernel.
template <typename T, typename... Parameters>
inline T parameter_at(const char *file, int line, u64 address, const Parameters &...given) {
    const bool within = (... || (address - reinterpret_cast<u64>(&given) <= sizeof(given) - sizeof(T)
                                 && sizeof(T) <= sizeof(given)));
    if (!within || address % sizeof(T))
        host_gpu::fail("reads %u bytes that are in no parameter (%s:%d)", u32(sizeof(T)), file, line);
    T value;
    memcpy(&value, reinterpret_cast<const char *>(address), sizeof value);
    return value;
}

// ------------------------------------------------------------------------- integers (9.7.1, 9.7.8)

template <typename T>
inline T shift_left(T value, u32 amount) {
    return amount < width<T> ? T(value << amount) : T(0);
}

template <typename T>
inline T shift_right(T value, u32 amount) {
    if (amount < width<T>) return T(value >> amount);
    return value < 0 ? T(-1) : T(0);
}

template <typename T>
inline T high_of_product(T a, T b) {
    if constexpr (T(-1) < T(0)) return T(static_cast<__int128>(a) * b >> width<T>);
    return T(static_cast<unsigned __int128>(a) * b >> width<T>);
}

template <typename T>
inline T mask_of(u32 position, u32 length) {  // both below 256
    if (position >= width<T>) return 0;
    T ones = length >= width<T> ? T(-1) : T((T(1) << length) - 1);
    return T(ones << position);
}

template <typename T>
inline T insert_bits(T field, T into, u32 position, u32 length) {
    const T mask = mask_of<T>(position & 255, length & 255);
    return (into & ~mask) | (shift_left(field, position & 255) & mask);
}

template <typename T>
inline T extract_bits(T value, u32 position, u32 length) {
    position &= 255, length &= 255;
    if (!length) return 0;
    const u32 last = position + length - 1 < width<T> - 1 ? position + length - 1 : width<T> - 1;
    const bool sign = T(-1) < T(0) && (value >> last & 1);
    T result = sign ? T(-1) : T(0);
    for (u32 i = 0; i < length && position + i < width<T>; i++) {
        const u64 bit = u64(1) << i, bit_of_value = u64(value >> (position + i) & 1);
        result = T((u64(result) & ~bit) | bit_of_value << i);
    }
    return result;
}

// The highest bit that differs from the sign, or the shift that moves it to the top.
template <typename T>
inline u32 find_bit(T value, bool as_shift) {
    const u64 differs = value < 0 ? u64(~value) : u64(value);
    if (!differs) return ~u32(0);
    const u32 place = 63 - u32(__builtin_clzll(differs));
    return as_shift ? width<T> - 1 - place : place;
}

// ------------------------------------------------------------------- floats (9.7.3, 9.7.9: cvt)

// Not a number gives the number with the highest bit alone (ISA 9.0, for f64).
template <typename T>
inline T integer_toward_zero(f64 value) {
    constexpr bool is_signed = T(-1) < T(0);
    constexpr T top = T(u64(1) << (width<T> - 1)), most = is_signed ? T(~top) : T(-1);
    constexpr f64 end = is_signed ? f64(u64(1) << (width<T> - 1)) : 2.0 * (u64(1) << (width<T> - 1));
    if (value != value) return top;
    if (value >= end) return most;
    if (value <= (is_signed ? -end : 0)) return is_signed ? top : T(0);
    return T(value);
}

inline f64 lesser(f64 a, f64 b) {
    if (a == b) return number(bits(a) | bits(b));  // of zeros, the negative one
    return a < b || b != b ? a : b;
}
inline f64 greater(f64 a, f64 b) {
    if (a == b) return number(bits(a) & bits(b));
    return a > b || b != b ? a : b;
}

// ------------------------------------------------------------------------- shuffles (9.7.9: shfl)

enum class Shuffle { up, down, bfly, idx };

inline u32 shuffle(Shuffle mode, u32 value, u32 operand, u32 clamp, u32 mask, bool &valid,
                   HOST_GPU_HERE) {
    constexpr const char *names[] = {"shfl.sync.up", "shfl.sync.down", "shfl.sync.bfly",
                                     "shfl.sync.idx"};
    const s32 lane = host_gpu::lane(), segment = s32(clamp >> 8 & 31), by = s32(operand & 31);
    const s32 bound = (lane & segment) | (s32(clamp & 31) & ~segment);
    s32 source = 0;
    switch (mode) {
        case Shuffle::up: source = lane - by; break;
        case Shuffle::down: source = lane + by; break;
        case Shuffle::bfly: source = lane ^ by; break;
        case Shuffle::idx: source = (lane & segment) | (by & ~segment); break;
    }
    valid = mode == Shuffle::up ? source >= bound : source <= bound;
    if (!valid) source = lane;
    return host_gpu::shuffle<u32>(names[u32(mode)], mask, value, source, {file, line});
}
