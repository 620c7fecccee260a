// Contexts, streams, captures and memory of a simulated GPU.
//
// What CUDA refuses is refused here, by its programming guide: while a stream is captured, waiting for
// its context or its stream breaks the capture, and so do the legacy stream, if the captured one is not
// "non-blocking", and calls such as an allocation, unless the thread's mode allows them. Kernels run
// when somebody waits for them.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

struct CUcontext_of_test {
    int device;
    bool begun = false;  // NVBit has told the tool
};

struct CUstream_of_test {
    CUcontext context;
    bool blocking;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::thread::id captured_by;
    std::vector<std::function<void()>> graph;
};

namespace gpu {

struct Work {
    CUcontext context;
    CUstream stream;
    std::function<void()> run;
};

inline std::recursive_mutex lock;
inline std::deque<Work> launched;
inline std::vector<CUstream> streams;
inline std::map<char *, std::pair<CUcontext, size_t>> memory;
inline thread_local CUcontext current = nullptr;
inline thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
inline thread_local cudaError_t last = cudaSuccess;
using Lock = std::lock_guard<std::recursive_mutex>;

// Breaks the captures of which this holds, and says so.
inline cudaError_t break_captures(cudaError_t error, const std::function<bool(const CUstream_of_test &)> &which) {
    bool broken = false;
    for (CUstream stream : streams) {
        if (stream->status == cudaStreamCaptureStatusNone || !which(*stream)) continue;
        stream->status = cudaStreamCaptureStatusInvalidated;
        broken = true;
    }
    return last = broken ? error : cudaSuccess;
}
inline cudaError_t unsafe_call() {
    if (mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
    return break_captures(cudaErrorStreamCaptureUnsupported, [](const CUstream_of_test &stream) {
        bool own = stream.captured_by == std::this_thread::get_id() && stream.mode != cudaStreamCaptureModeRelaxed;
        bool others = mode == cudaStreamCaptureModeGlobal && stream.mode == cudaStreamCaptureModeGlobal;
        return own || others;
    });
}
inline bool captured_beside_legacy(const CUstream_of_test &stream) {
    return stream.context == current && stream.blocking && stream.status != cudaStreamCaptureStatusNone;
}
inline void run(const std::function<bool(const Work &)> &which) {
    for (size_t i = 0; i < launched.size();) {
        if (!which(launched[i])) {
            i++;
            continue;
        }
        Work work = std::move(launched[i]);
        launched.erase(launched.begin() + long(i));
        work.run();
    }
}
// Context in whose memory an address lies; null if there is none, or if it has ended.
inline CUcontext owner(const void *address) {
    auto after = memory.upper_bound(const_cast<char *>(static_cast<const char *>(address)));
    if (after == memory.begin()) return nullptr;
    auto [begin, block] = *std::prev(after);
    return address < begin + block.second ? block.first : nullptr;
}
inline cudaError_t copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (!owner(kind == cudaMemcpyHostToDevice ? to : from)) return last = cudaErrorInvalidValue;
    memcpy(to, from, bytes);
    return cudaSuccess;
}
inline void destroy(CUcontext context) {
    Lock guard(lock);
    for (auto block = memory.begin(); block != memory.end();) {
        bool gone = block->second.first == context;
        if (gone) free(block->first);
        block = gone ? memory.erase(block) : std::next(block);
    }
    streams.erase(std::remove_if(streams.begin(), streams.end(),
                                 [&](CUstream stream) { return stream->context == context; }),
                  streams.end());
    context->begun = false;
}

}  // namespace gpu

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation           ? "out of memory"
           : error == cudaErrorStreamCaptureUnsupported ? "operation not permitted when stream is capturing"
           : error == cudaErrorStreamCaptureImplicit    ? "operation would make the legacy stream depend on a capturing blocking stream"
                                                        : "invalid argument";
}
cudaError_t cudaGetLastError() { return std::exchange(gpu::last, cudaSuccess); }
cudaError_t cudaGetDevice(int *device) { return *device = gpu::current->device, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
    *properties = {"Simulated \"GPU\"", 8, 0, 2};
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) { return *version = 12040, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
    gpu::Lock guard(gpu::lock);
    auto of_context = [](const CUstream_of_test &stream) { return stream.context == gpu::current; };
    if (auto error = gpu::break_captures(cudaErrorStreamCaptureUnsupported, of_context)) return error;
    gpu::run([](const gpu::Work &work) { return work.context == gpu::current; });
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **address, size_t bytes) {
    gpu::Lock guard(gpu::lock);
    if (auto error = gpu::unsafe_call()) return error;
    char *block = static_cast<char *>(malloc(std::max<size_t>(bytes, 1)));
    if (!block) return gpu::last = cudaErrorMemoryAllocation;
    memset(block, 0xDB, std::min<size_t>(bytes, 1 << 20));
    gpu::memory[block] = {gpu::current, std::max<size_t>(bytes, 1)};
    return *address = block, cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    gpu::Lock guard(gpu::lock);
    if (auto error = gpu::unsafe_call()) return error;
    if (auto error = gpu::break_captures(cudaErrorStreamCaptureImplicit, gpu::captured_beside_legacy)) return error;
    return gpu::copy(to, from, bytes, kind);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    gpu::Lock guard(gpu::lock);
    if (!stream || stream->status != cudaStreamCaptureStatusNone) abort();  // the recorder uses its own
    return gpu::copy(to, from, bytes, kind);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    gpu::Lock guard(gpu::lock);
    *stream = new CUstream_of_test{gpu::current, flags != cudaStreamNonBlocking, {}, {}, {}, {}};
    gpu::streams.push_back(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    gpu::Lock guard(gpu::lock);
    auto this_one = [&](const CUstream_of_test &other) { return &other == stream; };
    if (auto error = gpu::break_captures(cudaErrorStreamCaptureUnsupported, this_one)) return error;
    gpu::run([&](const gpu::Work &work) { return work.stream == stream; });
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    gpu::Lock guard(gpu::lock);
    if (!stream || stream == CU_STREAM_PER_THREAD) {
        bool beside = !stream && std::any_of(gpu::streams.begin(), gpu::streams.end(),
                                             [](CUstream other) { return gpu::captured_beside_legacy(*other); });
        *status = cudaStreamCaptureStatusNone;
        return gpu::last = beside ? cudaErrorStreamCaptureImplicit : cudaSuccess;
    }
    if (std::find(gpu::streams.begin(), gpu::streams.end(), stream) == gpu::streams.end()) {
        fprintf(stderr, "asked for a stream that does not exist\n"), abort();
    }
    return *status = stream->status, cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
    return std::swap(*mode, gpu::mode), cudaSuccess;
}
