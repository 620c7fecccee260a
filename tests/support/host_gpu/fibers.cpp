// How the threads of blocks run, and what is said of those that do what they must not do.
#include <dlfcn.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fibers.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace host_gpu {

constexpr unsigned warp_lanes = 32, most_threads = 1024;
constexpr unsigned most_shared_bytes = 227 * 1024, shared_guard_bytes = 4096;

struct Warp {
    unsigned alive, waiting;  // lanes
    unsigned meetings;        // of all living lanes at __syncwarp
};

Fiber *current;
static Fiber fibers[most_threads];
static Warp warps[most_threads / warp_lanes];
static Fiber *runnable[most_threads];
static unsigned runnable_count, threads, alive, at_barrier;
static unsigned barriers;  // that the threads of the block have passed
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
static char *all_stacks;
static size_t all_stacks_bytes;

alignas(256) unsigned char dynamic_shared[most_shared_bytes + shared_guard_bytes];
unsigned dynamic_shared_bytes;
static unsigned char shared_poison;

// The linker's names for both ends of the section of `__shared__` variables.
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_host_gpu_shared[];
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __stop_host_gpu_shared[];

// ------------------------------------------------------------------------------ randomness

static uint64_t random_bits() {  // splitmix64
    uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static unsigned random_below(unsigned bound) {
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

static void add_values_to_message(const char *format, va_list values) {
    size_t used = strlen(message);
    vsnprintf(message + used, message_bytes - used, format, values);
}

static void add_to_message(const char *format, ...) {
    va_list values;
    va_start(values, format);
    add_values_to_message(format, values);
    va_end(values);
}

static void begin_message(const Fiber *fiber) {
    failed = true;
    message[0] = 0;
    add_to_message("kernel %s, block (%u, %u, %u)", kernel_name, blockIdx.x, blockIdx.y, blockIdx.z);
    if (fiber)
        add_to_message(", thread (%u, %u, %u)", fiber->index.x, fiber->index.y, fiber->index.z);
    add_to_message(": ");
}

[[noreturn]] static void give_up() {
    void *ignored;
    host_gpu_switch(&ignored, launcher);
    abort();
}

void fail(const char *format, ...) {
    begin_message(current);
    va_list values;
    va_start(values, format);
    add_values_to_message(format, values);
    va_end(values);
    give_up();
}

static void add_waiting(const Fiber &fiber) {
    add_to_message("thread (%u, %u, %u) at %s", fiber.index.x, fiber.index.y, fiber.index.z,
                   fiber.operation);
    if (fiber.state == State::at_warp_operation) add_to_message(" of lanes %#010x", fiber.mask);
    add_to_message(" (%s:%d)", fiber.place.file, fiber.place.line);
}

static void report_deadlock() {
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

static void make_runnable(Fiber *fiber) {
    fiber->state = State::runs;
    runnable[runnable_count++] = fiber;
}

// Continue with another fiber; returns when this one is chosen again.
static void run_others(Fiber *self) {
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

static void release_barrier() {
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
    barriers++;
}

uint64_t wait_for_block(const char *operation, uint64_t value, Place place) {
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
static void try_warp_operation(const Fiber *waiting) {
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
    // Votes and shuffles order no memory.
    if (group == warp.alive && !strcmp(waiting->operation, "__syncwarp")) warp.meetings++;
    unsigned from = runnable_count;
    for (unsigned rest = group; rest; rest &= rest - 1) {
        make_runnable(lanes + __builtin_ctz(rest));
        unsigned other = from + random_below(runnable_count - from);
        Fiber *swapped = runnable[runnable_count - 1];
        runnable[runnable_count - 1] = runnable[other];
        runnable[other] = swapped;
    }
}

uint64_t wait_for_warp(const char *operation, Combine combine, unsigned mask, uint64_t value,
                       unsigned source, Place place) {
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

static void fiber_main() {
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

// ------------------------------------------------------------------------------------- races

// Who has touched a word of memory, and when. Compiled with -fsanitize=thread, kernels tell of every
// access. Two threads' accesses to a byte, a write among them, are a race unless both are atomic, or a
// barrier of the block or __syncwarp stands between them. Not all races are found: of each word, the
// latest write and two reads are known.

struct Access {
    uint64_t block;  // 0: none
    const void *code;
    unsigned barriers, meetings;
    unsigned short thread;
    unsigned char bytes;  // of the word, as bits
    bool atomic;
};

struct Word {
    uintptr_t number;
    uint64_t launch;
    Access write, reads[2];
};

constexpr unsigned words = 1u << 18;
static Word *touched_words;
static uint64_t launch_number, block_number;

static const char *place_in_library(const void *code, char (&text)[32]) {
    Dl_info library = {};
    dladdr(reinterpret_cast<void *>(&run), &library);
    snprintf(text, sizeof text, "+%#tx",
             static_cast<const char *>(code) - static_cast<char *>(library.dli_fbase));
    return text;
}

static bool is_shared(uintptr_t address) {
    auto begin = reinterpret_cast<uintptr_t>(__start_host_gpu_shared);
    auto end = reinterpret_cast<uintptr_t>(__stop_host_gpu_shared);
    auto dynamic = reinterpret_cast<uintptr_t>(dynamic_shared);
    return (begin && address >= begin && address < end) ||
           (address >= dynamic && address < dynamic + sizeof dynamic_shared);
}

static bool races(const Access &earlier, const Access &now, bool shared) {
    if (!earlier.block || !(earlier.bytes & now.bytes) || (earlier.atomic && now.atomic))
        return false;
    if (earlier.block != now.block) return !shared;
    if (earlier.thread == now.thread || earlier.barriers < now.barriers) return false;
    return earlier.thread / warp_lanes != now.thread / warp_lanes ||
           earlier.meetings >= now.meetings;
}

static void touch_word(uintptr_t number, Access now, bool writes) {
    Word *word = nullptr;
    unsigned slot = unsigned(number * 0x9E3779B97F4A7C15u >> 40) % words;
    for (unsigned probe = 0; probe < 8; probe++) {
        Word &candidate = touched_words[(slot + probe) % words];
        if (candidate.launch == launch_number && candidate.number != number) continue;
        word = &candidate;
        break;
    }
    if (!word) word = touched_words + slot;  // another word is forgotten
    if (word->launch != launch_number || word->number != number)
        *word = {number, launch_number, {}, {}};
    const bool shared = is_shared(number * 4);
    const Access *other = races(word->write, now, shared) ? &word->write : nullptr;
    for (const Access &read : word->reads)
        if (writes && races(read, now, shared)) other = &read;
    if (other) {
        char here[32], there[32];
        fail("%s %s memory that thread %u %s before at %s, and nothing orders the two (%s)",
             writes ? "writes" : "reads", shared ? "shared" : "global", other->thread,
             other == &word->write ? "wrote" : "read", place_in_library(other->code, there),
             place_in_library(now.code, here));
    }
    if (writes) {
        word->write = now;
    } else if (word->reads[0].thread == now.thread || !word->reads[0].block ||
               word->reads[0].block != now.block || word->reads[0].barriers < now.barriers) {
        word->reads[0] = now;
    } else {
        word->reads[1] = now;
    }
}

static void touch(void *memory, size_t size, bool writes, bool atomic, const void *code) {
    const Fiber *self = current;
    if (!self || !touched_words) return;
    const auto address = reinterpret_cast<uintptr_t>(memory);
    // What is a thread's own, and what the operations of a warp leave with other threads.
    if (address - reinterpret_cast<uintptr_t>(all_stacks) < all_stacks_bytes) return;
    if (address - reinterpret_cast<uintptr_t>(fibers) < sizeof fibers) return;
    Access now = {block_number,
                  code,
                  barriers,
                  warps[self->warp].meetings,
                  static_cast<unsigned short>(self - fibers),
                  0,
                  atomic};
    for (uintptr_t number = address / 4; number * 4 < address + size; number++) {
        now.bytes = 0;
        for (unsigned byte = 0; byte < 4; byte++)
            if (number * 4 + byte >= address && number * 4 + byte < address + size)
                now.bytes |= 1 << byte;
        touch_word(number, now, writes);
    }
}

void touch_atomically(void *address, unsigned size) {
    touch(address, size, true, true, __builtin_return_address(0));
}

// ------------------------------------------------------------------------------------ blocks

static void begin_fiber(Fiber *fiber, char *stack_top) {
    void **words = reinterpret_cast<void **>(stack_top) - 2 - saved_words;
    memset(words, 0, (2 + saved_words) * sizeof *words);
    words[return_word] = reinterpret_cast<void *>(&fiber_main);
    fiber->stack_pointer = words;
}

static void poison_shared() {
    shared_poison = random_bits() & 1 ? 0x7F : 0xDB;  // huge as a float; huge, or negative
    if (__start_host_gpu_shared)
        memset(__start_host_gpu_shared, shared_poison,
               __stop_host_gpu_shared - __start_host_gpu_shared);
    memset(dynamic_shared, shared_poison, dynamic_shared_bytes + shared_guard_bytes);
}

static bool shared_guard_is_whole() {
    for (unsigned i = 0; i < shared_guard_bytes; i++)
        if (dynamic_shared[dynamic_shared_bytes + i] != shared_poison) {
            begin_message(nullptr);
            add_to_message("writes byte %u of %u bytes of dynamic shared memory",
                           dynamic_shared_bytes + i, dynamic_shared_bytes);
            return false;
        }
    return true;
}

static bool run_block(char *stacks, size_t stack_bytes) {
    last_first = random_bits() & 1;
    poison_shared();
    runnable_count = at_barrier = barriers = 0;
    block_number++;
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

static void on_fault(int number, siginfo_t *information, void *) {
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

// -------------------------------------------------------------------------------- launches

bool run(const Kernel &kernel, Launch &launch) {
    kernel_name = kernel.name;
    body = kernel.run;
    body_arguments = launch.arguments;
    gridDim = {launch.grid[0], launch.grid[1], launch.grid[2]};
    blockDim = {launch.block[0], launch.block[1], launch.block[2]};
    threads = blockDim.x * blockDim.y * blockDim.z;
    dynamic_shared_bytes = launch.shared_bytes;
    random_state = launch.seed;
    message = launch.message;
    message_bytes = unsigned(launch.message_bytes);
    failed = faulted = false;
    fault_address = nullptr;
    all_stacks = launch.stacks;
    all_stacks_bytes = most_threads * launch.stack_bytes;
    launch_number++;
    if (launch.finds_races && !touched_words)
        touched_words = static_cast<Word *>(calloc(words, sizeof(Word)));

    unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    auto order = static_cast<unsigned *>(malloc(blocks * sizeof(unsigned)));
    for (unsigned i = 0; i < blocks; i++) {
        unsigned other = random_below(i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    bool completed = true;
    {
        FaultHandlers handlers;
        for (unsigned i = 0; completed && i < blocks; i++) {
            unsigned block = order[i];
            blockIdx = {block % gridDim.x, block / gridDim.x % gridDim.y,
                        block / gridDim.x / gridDim.y};
            completed = run_block(launch.stacks, launch.stack_bytes);
        }
    }
    free(order);
    launch.fault_address = fault_address;
    launch.faulted = faulted;
    return completed;
}

}  // namespace host_gpu

// ------------------------------------- what -fsanitize=thread tells, without its own library

#define HOST_GPU_HOOK extern "C" __attribute__((visibility("hidden"), used)) void
#define HOST_GPU_ACCESS(kind, bytes, writes, atomic)                                             \
    HOST_GPU_HOOK __tsan_##kind##bytes(void *address) {                                          \
        host_gpu::touch(address, bytes, writes, atomic, __builtin_return_address(0));            \
    }
// Volatile accesses are as atomic ones: what others write meanwhile may be seen or not.
#define HOST_GPU_ACCESSES(bytes)                                                                 \
    HOST_GPU_ACCESS(read, bytes, false, false)                                                   \
    HOST_GPU_ACCESS(write, bytes, true, false)                                                   \
    HOST_GPU_ACCESS(unaligned_read, bytes, false, false)                                         \
    HOST_GPU_ACCESS(unaligned_write, bytes, true, false)                                         \
    HOST_GPU_ACCESS(volatile_read, bytes, false, true)                                           \
    HOST_GPU_ACCESS(volatile_write, bytes, true, true)
HOST_GPU_ACCESSES(1)
HOST_GPU_ACCESSES(2)
HOST_GPU_ACCESSES(4)
HOST_GPU_ACCESSES(8)
HOST_GPU_ACCESSES(16)
HOST_GPU_HOOK __tsan_read_range(void *address, size_t bytes) {
    host_gpu::touch(address, bytes, false, false, __builtin_return_address(0));
}
HOST_GPU_HOOK __tsan_write_range(void *address, size_t bytes) {
    host_gpu::touch(address, bytes, true, false, __builtin_return_address(0));
}
HOST_GPU_HOOK __tsan_init() {}
HOST_GPU_HOOK __tsan_func_entry(void *) {}
HOST_GPU_HOOK __tsan_func_exit() {}
#undef HOST_GPU_ACCESSES
#undef HOST_GPU_ACCESS
#undef HOST_GPU_HOOK

// ----------------------------------------------- what -fsanitize finds, without its own library

namespace host_gpu {
struct SanitizerPlace {
    const char *file;
    uint32_t line, column;
};
[[noreturn]] static void undefined(const char *what, void *data) {
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
