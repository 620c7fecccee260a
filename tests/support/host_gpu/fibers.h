// Threads of a block as fibers of one host thread.
//
// A fiber runs until it waits for others (a barrier, an operation of its warp) or ends; then a
// fiber that can run is chosen by the seed. Plain memory accesses and atomics never switch. Blocks
// run one after the other, in an order chosen by the seed. A launch ends at its first error.
#pragma once

#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda_types.h"

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;

namespace host_gpu {

constexpr unsigned warp_lanes = 32, most_threads = 1024;
constexpr unsigned most_shared_bytes = 227 * 1024, shared_guard_bytes = 4096;

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

struct Warp {
    unsigned alive, waiting;  // lanes
};

static Fiber fibers[most_threads];
static Warp warps[most_threads / warp_lanes];
static Fiber *current;
static Fiber *runnable[most_threads];
static unsigned runnable_count, threads, alive, at_barrier;
static bool last_first;  // policy of this block: as far ahead as possible, or any fiber
static void *launcher;   // stack pointer of who launched
static Body body;
static void **body_arguments;
static uint64_t random_state;

static const char *kernel_name;
static char *message;
static unsigned message_bytes;
static bool failed, faulted;
static void *fault_address;

alignas(256) static unsigned char dynamic_shared[most_shared_bytes + shared_guard_bytes];
static unsigned dynamic_shared_bytes;
static unsigned char shared_poison;

// The linker's names for both ends of the section of `__shared__` variables.
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_host_gpu_shared[];
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __stop_host_gpu_shared[];

// ------------------------------------------------------------------------------ randomness

inline uint64_t random_bits() {  // splitmix64
    uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

inline unsigned random_below(unsigned bound) {
    return static_cast<unsigned>((random_bits() >> 32) * bound >> 32);
}

// ------------------------------------------------------------------------- context switches

extern "C" __attribute__((visibility("hidden"))) void host_gpu_switch(void **save, void *target);

#if defined(__x86_64__)
constexpr unsigned saved_words = 6, return_word = 6;
asm(R"(
    .text
    .hidden host_gpu_switch
    .globl host_gpu_switch
    .type host_gpu_switch, @function
host_gpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size host_gpu_switch, . - host_gpu_switch
)");
#elif defined(__aarch64__)
constexpr unsigned saved_words = 20, return_word = 11;
asm(R"(
    .text
    .hidden host_gpu_switch
    .globl host_gpu_switch
    .type host_gpu_switch, %function
host_gpu_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size host_gpu_switch, . - host_gpu_switch
)");
#else
#error "fibers are written for x86-64 and aarch64"
#endif

// ----------------------------------------------------------------------------------- errors

inline void add_to_message(const char *format, ...) {
    size_t used = strlen(message);
    va_list values;
    va_start(values, format);
    vsnprintf(message + used, message_bytes - used, format, values);
    va_end(values);
}

inline void begin_message(const Fiber *fiber) {
    failed = true;
    message[0] = 0;
    add_to_message("kernel %s, block (%u, %u, %u)", kernel_name, blockIdx.x, blockIdx.y, blockIdx.z);
    if (fiber)
        add_to_message(", thread (%u, %u, %u)", fiber->index.x, fiber->index.y, fiber->index.z);
    add_to_message(": ");
}

[[noreturn]] inline void give_up() {
    void *ignored;
    host_gpu_switch(&ignored, launcher);
    abort();
}

template <typename... Values>
[[noreturn]] inline void fail(const char *format, Values... values) {
    begin_message(current);
    add_to_message(format, values...);
    give_up();
}

inline void add_waiting(const Fiber &fiber) {
    add_to_message("thread (%u, %u, %u) at %s", fiber.index.x, fiber.index.y, fiber.index.z,
                   fiber.operation);
    if (fiber.state == State::at_warp_operation) add_to_message(" of lanes %#010x", fiber.mask);
    add_to_message(" (%s:%d)", fiber.place.file, fiber.place.line);
}

inline void report_deadlock() {
    begin_message(nullptr);
    add_to_message("deadlock, %u of %u threads wait for each other:", alive, threads);
    bool told[most_threads] = {};
    for (unsigned i = 0; i < threads; i++) {
        const Fiber &first = fibers[i];
        if (first.state == State::ended || told[i]) continue;
        unsigned alike = 0;
        for (unsigned j = i; j < threads; j++) {
            const Fiber &other = fibers[j];
            if (other.state != first.state || other.place.line != first.place.line ||
                (first.state == State::at_warp_operation && other.mask != first.mask))
                continue;
            told[j] = true;
            alike++;
        }
        add_to_message(" %u like ", alike);
        add_waiting(first);
        add_to_message(";");
    }
    message[strlen(message) - 1] = 0;
}

// -------------------------------------------------------------------------------- scheduling

inline void make_runnable(Fiber *fiber) {
    fiber->state = State::runs;
    runnable[runnable_count++] = fiber;
}

// Continue with another fiber; returns when this one is chosen again.
inline void run_others(Fiber *self) {
    if (!runnable_count) {
        host_gpu_switch(&self->stack_pointer, launcher);
        return;
    }
    unsigned choice = last_first ? runnable_count - 1 : random_below(runnable_count);
    Fiber *next = runnable[choice];
    runnable[choice] = runnable[--runnable_count];
    current = next;
    threadIdx = next->index;
    if (next != self) host_gpu_switch(&self->stack_pointer, next->stack_pointer);
}

inline void release_barrier() {
    Fiber *first = nullptr;
    uint64_t count = 0;
    for (unsigned i = 0; i < threads; i++) {
        Fiber *fiber = fibers + i;
        if (fiber->state == State::ended) continue;
        if (!first) first = fiber;
        if (fiber->place.line != first->place.line || strcmp(fiber->place.file, first->place.file)) {
            begin_message(nullptr);
            add_to_message("divergent barrier: ");
            add_waiting(*first);
            add_to_message(", ");
            add_waiting(*fiber);
            give_up();
        }
        count += fiber->value;
    }
    unsigned from = runnable_count;
    for (unsigned i = 0; i < threads; i++) {
        Fiber *fiber = fibers + i;
        if (fiber->state == State::ended) continue;
        fiber->result = count;
        make_runnable(fiber);
    }
    for (unsigned i = runnable_count - from; i > 1; i--) {
        unsigned other = from + random_below(i);
        Fiber *swapped = runnable[from + i - 1];
        runnable[from + i - 1] = runnable[other];
        runnable[other] = swapped;
    }
    at_barrier = 0;
}

// Wait until every living thread of the block waits here. Returns the sum of their values.
inline uint64_t wait_for_block(const char *operation, uint64_t value, Place place) {
    Fiber *self = current;
    self->operation = operation;
    self->place = place;
    self->value = value;
    self->state = State::at_barrier;
    if (++at_barrier == alive) release_barrier();
    run_others(self);
    return self->result;
}

// Complete the operation that `waiting` waits for if all its living lanes have come.
inline void try_warp_operation(const Fiber *waiting) {
    Warp &warp = warps[waiting->warp];
    Fiber *lanes = fibers + waiting->warp * warp_lanes;
    unsigned group = waiting->mask & warp.alive;
    if (group & ~warp.waiting) return;
    for (unsigned rest = group; rest; rest &= rest - 1) {
        const Fiber &other = lanes[__builtin_ctz(rest)];
        if (other.mask == waiting->mask &&
            (other.operation == waiting->operation || !strcmp(other.operation, waiting->operation)))
            continue;
        if (!(other.mask >> waiting->lane & 1)) return;  // it has another one to complete before
        begin_message(nullptr);
        add_to_message("divergent warp: ");
        add_waiting(*waiting);
        add_to_message(", ");
        add_waiting(other);
        give_up();
    }
    waiting->combine(lanes, group);
    warp.waiting &= ~group;
    unsigned from = runnable_count;
    for (unsigned rest = group; rest; rest &= rest - 1) {
        make_runnable(lanes + __builtin_ctz(rest));
        unsigned other = from + random_below(runnable_count - from);
        Fiber *swapped = runnable[runnable_count - 1];
        runnable[runnable_count - 1] = runnable[other];
        runnable[other] = swapped;
    }
}

// Wait until the living lanes of `mask` have all come with the same operation and mask.
inline uint64_t wait_for_warp(const char *operation, Combine combine, unsigned mask,
                              uint64_t value, unsigned source, Place place) {
    Fiber *self = current;
    if (!(mask >> self->lane & 1))
        fail("%s of lanes %#010x, without its own lane %u (%s:%d)", operation, mask, self->lane,
             place.file, place.line);
    self->operation = operation;
    self->place = place;
    self->mask = mask;
    self->value = value;
    self->source = source;
    self->state = State::at_warp_operation;
    self->combine = combine;
    warps[self->warp].waiting |= 1u << self->lane;
    try_warp_operation(self);
    run_others(self);
    return self->result;
}

inline void fiber_main() {
    body(body_arguments);
    Fiber *self = current;
    self->state = State::ended;
    alive--;
    Warp &warp = warps[self->warp];
    warp.alive &= ~(1u << self->lane);
    if (at_barrier && at_barrier == alive) release_barrier();
    for (unsigned lane = 0; lane < warp_lanes; lane++)
        if (warp.waiting >> lane & 1)
            try_warp_operation(fibers + self->warp * warp_lanes + lane);
    run_others(self);
    abort();  // nobody continues a thread that has ended
}

// ------------------------------------------------------------------------------------ blocks

inline void begin_fiber(Fiber *fiber, char *stack_top) {
    void **words = reinterpret_cast<void **>(stack_top) - 2 - saved_words;
    memset(words, 0, (2 + saved_words) * sizeof *words);
    words[return_word] = reinterpret_cast<void *>(&fiber_main);
    fiber->stack_pointer = words;
}

inline void poison_shared() {
    shared_poison = random_bits() & 1 ? 0x7F : 0xDB;  // huge as a float; huge, or negative
    if (__start_host_gpu_shared)
        memset(__start_host_gpu_shared, shared_poison,
               __stop_host_gpu_shared - __start_host_gpu_shared);
    memset(dynamic_shared, shared_poison, dynamic_shared_bytes + shared_guard_bytes);
}

inline bool shared_guard_is_whole() {
    for (unsigned i = 0; i < shared_guard_bytes; i++)
        if (dynamic_shared[dynamic_shared_bytes + i] != shared_poison) {
            begin_message(nullptr);
            add_to_message("writes byte %u of %u bytes of dynamic shared memory",
                           dynamic_shared_bytes + i, dynamic_shared_bytes);
            return false;
        }
    return true;
}

inline bool run_block(char *stacks, size_t stack_bytes) {
    last_first = random_bits() & 1;
    poison_shared();
    runnable_count = at_barrier = 0;
    alive = threads;
    memset(warps, 0, sizeof warps);
    uint3 index = {0, 0, 0};
    for (unsigned i = 0; i < threads; i++) {
        Fiber *fiber = fibers + i;
        fiber->index = index;
        fiber->lane = i % warp_lanes;
        fiber->warp = i / warp_lanes;
        warps[fiber->warp].alive |= 1u << fiber->lane;
        begin_fiber(fiber, stacks + (i + 1) * stack_bytes);
        make_runnable(fiber);
        unsigned other = random_below(i + 1);
        Fiber *swapped = runnable[i];
        runnable[i] = runnable[other];
        runnable[other] = swapped;
        if (++index.x == blockDim.x) {
            index.x = 0;
            if (++index.y == blockDim.y) index.y = 0, index.z++;
        }
    }
    current = runnable[--runnable_count];
    threadIdx = current->index;
    host_gpu_switch(&launcher, current->stack_pointer);
    current = nullptr;
    if (!failed && alive) report_deadlock();
    return !failed && shared_guard_is_whole();
}

// ------------------------------------------------------------- faults that the processor finds

static struct sigaction previous_segv, previous_bus;

inline void on_fault(int number, siginfo_t *information, void *) {
    if (!current) {  // not ours: let whoever was there before deal with it
        sigaction(number, number == SIGSEGV ? &previous_segv : &previous_bus, nullptr);
        return;
    }
    faulted = true;
    fault_address = information->si_addr;
    fail("accesses memory that it does not have");
}

class FaultHandlers {
    alignas(16) char stack_[1 << 16];
    stack_t previous_stack_;

  public:
    FaultHandlers() {
        stack_t stack = {};
        stack.ss_sp = stack_;
        stack.ss_size = sizeof stack_;
        sigaltstack(&stack, &previous_stack_);
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(SIGSEGV, &action, &previous_segv);
        sigaction(SIGBUS, &action, &previous_bus);
    }
    ~FaultHandlers() {
        sigaction(SIGSEGV, &previous_segv, nullptr);
        sigaction(SIGBUS, &previous_bus, nullptr);
        sigaltstack(&previous_stack_, nullptr);
    }
};

}  // namespace host_gpu

// ----------------------------------------------- what -fsanitize finds, without its own library

namespace host_gpu {
struct SanitizerPlace {
    const char *file;
    uint32_t line, column;
};
[[noreturn]] inline void undefined(const char *what, void *data) {
    auto place = static_cast<const SanitizerPlace *>(data);
    fail("%s (%s:%u)", what, place->file, place->line);
}
}  // namespace host_gpu

#define HOST_GPU_SANITIZER(name, what, ...)                                                      \
    extern "C" __attribute__((visibility("hidden"), used)) void __ubsan_handle_##name(           \
        void *data, ##__VA_ARGS__) {                                                             \
        host_gpu::undefined(what, data);                                                         \
    }
HOST_GPU_SANITIZER(out_of_bounds, "index outside its array", void *)
HOST_GPU_SANITIZER(shift_out_of_bounds, "shift by at least the width, or by less than 0", void *,
                   void *)
HOST_GPU_SANITIZER(divrem_overflow, "division by zero or overflow in a division", void *, void *)
HOST_GPU_SANITIZER(add_overflow, "overflow of a signed sum", void *, void *)
HOST_GPU_SANITIZER(sub_overflow, "overflow of a signed difference", void *, void *)
HOST_GPU_SANITIZER(mul_overflow, "overflow of a signed product", void *, void *)
HOST_GPU_SANITIZER(negate_overflow, "overflow of a signed negation", void *)
HOST_GPU_SANITIZER(type_mismatch_v1, "misaligned access", void *)
HOST_GPU_SANITIZER(builtin_unreachable, "unreachable place reached")
HOST_GPU_SANITIZER(missing_return, "end of a function that must return a value")
#undef HOST_GPU_SANITIZER
