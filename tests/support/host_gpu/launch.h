// How the host finds and runs the kernels of this library. Included after them.
#pragma once

#include <stdio.h>
#include <string.h>

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
template <>
struct Type<void> {  // pointers to anything
    static void tell(char *text) { strcpy(text, "V0"); }
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
    HOST_GPU_EXPORT int host_gpu_launch(host_gpu::Launch *launch) {                              \
        return host_gpu::run(kernels[launch->kernel], *launch);                                  \
    }
