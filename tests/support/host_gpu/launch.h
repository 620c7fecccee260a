// How the host finds and runs the kernels of this library. Included after them.
#pragma once

#include "fibers.h"

namespace host_gpu {

// Types of parameters for the host: kind and bytes, `u4`; pointers by what they point to, `*u4`.
// Structures have the kind V, but vectors that of their components.
template <typename T>
struct Type {
    static void tell(char *text) {
        if constexpr (__is_class(T)) {
            sprintf(text, "V%zu", sizeof(T));
        } else {
            bool floating = T(0.5) != T(0), negative = T(-1) < T(0);
            sprintf(text, "%c%zu", floating ? 'f' : negative ? 'i' : 'u', sizeof(T));
        }
    }
};
template <>
struct Type<bool> {
    static void tell(char *text) { strcpy(text, "b1"); }
};
template <typename T>
struct Type<const T> : Type<T> {};
template <typename T>
auto component(T *vector) -> decltype(vector->x);
template <typename T>
T component(...);
template <typename T>
struct Type<T *> {
    static void tell(char *text) {
        text[0] = '*';
        using Plain = __typeof__(component<T>(nullptr));
        Type<Plain>::tell(text + 1);
    }
};

template <unsigned... numbers>
struct Numbers {};
template <unsigned count, unsigned... numbers>
struct Count : Count<count - 1, count - 1, numbers...> {};
template <unsigned... numbers>
struct Count<0, numbers...> {
    using type = Numbers<numbers...>;
};

template <auto kernel>
struct Call;
template <typename... Parameters, void (*kernel)(Parameters...)>
struct Call<kernel> {
    template <unsigned... numbers>
    static void unpack(void **arguments, Numbers<numbers...>) {
        kernel(*static_cast<Parameters *>(arguments[numbers])...);
    }
    static void run(void **arguments) {
        unpack(arguments, typename Count<sizeof...(Parameters)>::type());
    }
    static void tell(char *text) {
        text[0] = 0;
        ((strcat(text, " "), Type<Parameters>::tell(text + strlen(text))), ...);
    }
};

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
    unsigned faulted;
};

// Returns whether all blocks came to their ends; otherwise the message says why not.
inline bool run(const Kernel &kernel, Launch &launch) {
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

#define HOST_GPU_KERNEL(name, most_threads)                                                      \
    host_gpu::Kernel { #name, most_threads, host_gpu::Call<name>::run, host_gpu::Call<name>::tell }

#define HOST_GPU_EXPORT extern "C" __attribute__((visibility("default"), used))

// Defines the two functions of the library over an array of its kernels.
#define HOST_GPU_LIBRARY(kernels)                                                                \
    /* Name and most threads of a kernel, then the types of its parameters. */                   \
    HOST_GPU_EXPORT int host_gpu_describe(unsigned number, char *text) {                         \
        if (number >= sizeof kernels / sizeof *kernels) return 0;                                \
        int used = sprintf(text, "%s %u", kernels[number].name, kernels[number].most_threads);   \
        kernels[number].tell(text + used);                                                       \
        return 1;                                                                                \
    }                                                                                            \
    HOST_GPU_EXPORT int host_gpu_launch(host_gpu::Launch *launch) {                        \
        return host_gpu::run(kernels[launch->kernel], *launch);                                  \
    }
