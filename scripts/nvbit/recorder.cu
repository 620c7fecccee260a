// Records what the registers of chosen SMs of an NVIDIA GPU hold: a tool for NVBit.
//
// Every launch runs alone: the thread that launches waits before and after it, other threads that
// launch wait for it, and the packets that its warps have left in the buffer go to the file.
// README.md says how to build and use it.

#include <iterator>
#include <map>
#include <mutex>
#include <set>

// Before CUDA's headers: NVBit needs names of cuda.h that only an internal macro makes visible.
#include "nvbit_tool.h"
#include "nvbit.h"

#include <cuda_runtime.h>

#include "packets.h"
#include "recording.h"
#include "sass.h"

namespace {

using mcage::Line;

// What a context has of its own. Memory and functions end with it; addresses may come again.
struct Context {
    mcage::Control *control = nullptr;     // on the device
    unsigned char *buffer = nullptr;       // on the device
    cudaStream_t stream = nullptr;         // for copies, beside streams that are captured
    std::map<CUfunction, unsigned> known;  // function -> number in the file
};

struct Recorder {
    mcage::Wishes wishes;
    mcage::File file;
    int device = -1;  // the GPU whose SMs are recorded: that of the first context
    unsigned launches = 0, running = 0;  // how many there were; the number of the last
    unsigned recorded = 0, instructions = 0, functions = 0;
    std::set<std::string> said;
    std::map<CUstream, CUcontext> captures;  // streams whose launches go into a graph
    std::map<CUcontext, Context> contexts;
    std::mutex state;      // of the three above; no calls of CUDA or NVBit inside
    std::mutex launching;  // from the entry of a launch to its exit
} recorder;

// Whether this thread is inside of a callback: its calls of CUDA are those of this tool.
thread_local bool busy = false;
// Launches that this thread has entered and not left.
thread_local unsigned entered = 0;
// The context of the launch that this thread is in, if the launch counts.
thread_local Context *launched = nullptr;

[[noreturn]] void stop(const std::string &reason) {
    fprintf(stderr, "mcage recorder: %s\n", reason.c_str());
    exit(1);
}

void check(cudaError_t error, const char *what) {
    if (error != cudaSuccess) stop(std::string(what) + ": " + cudaGetErrorString(error));
}

void say_once(const std::string &what) {
    std::lock_guard<std::mutex> lock(recorder.state);
    if (recorder.said.insert(what).second) fprintf(stderr, "mcage recorder: %s\n", what.c_str());
}

int attribute_of(CUfunction function, CUfunction_attribute attribute) {
    int value = 0;
    if (cuFuncGetAttribute(&value, attribute, function) != CUDA_SUCCESS) stop("cuFuncGetAttribute failed");
    return value;
}

using Address = unsigned long long;

void insert_write(Instr *instruction, Address control, unsigned where, bool guard_is_kept, int number) {
    nvbit_insert_call(instruction, "mcage_write", IPOINT_AFTER);
    if (guard_is_kept) {
        nvbit_add_call_arg_guard_pred_val(instruction);
    } else {
        nvbit_add_call_arg_const_val32(instruction, 1);
    }
    nvbit_add_call_arg_const_val32(instruction, where);
    nvbit_add_call_arg_const_val64(instruction, control);
    nvbit_add_call_arg_reg_val(instruction, number);
}

void insert_mark(Instr *instruction, Address control, unsigned where, mcage::Kind kind) {
    nvbit_insert_call(instruction, "mcage_mark", IPOINT_BEFORE);
    if (kind == mcage::begins) {
        nvbit_add_call_arg_const_val32(instruction, 1);
    } else {
        nvbit_add_call_arg_guard_pred_val(instruction);
    }
    nvbit_add_call_arg_const_val32(instruction, where);
    nvbit_add_call_arg_const_val64(instruction, control);
    nvbit_add_call_arg_const_val32(instruction, kind);
}

// Registers that NVBit gives to the first operand that is a register, 0 if it does not say.
unsigned registers_by_nvbit(Instr *instruction) {
    for (int i = 0; i < instruction->getNumOperands(); i++) {
        const InstrType::operand_t *operand = instruction->getOperand(i);
        if (operand->type == InstrType::OperandType::REG) return unsigned(std::max(operand->nbytes, 0) + 3) / 4;
    }
    return 0;
}

// Inserts the calls of one instruction and writes its row of the static table.
void instrument(Instr *instruction, Address control, unsigned function, bool first_of_kernel) {
    std::string text = instruction->getSass();
    mcage::Sass sass = mcage::parse_sass(text);
    mcage::Written written = mcage::written_by(sass);
    unsigned number = recorder.instructions++, where = number << 8;
    bool guard_is_kept = !mcage::overwrites_its_guard(sass);
    if (first_of_kernel) insert_mark(instruction, control, where, mcage::begins);
    if (sass.name == "EXIT") insert_mark(instruction, control, where, mcage::exits);
    for (int n : written.registers) insert_write(instruction, control, where | unsigned(n), guard_is_kept, n);
    bool marked = mcage::reads_registers(sass) || !written.known;
    if (written.registers.empty() && marked) insert_mark(instruction, control, where, mcage::reads);
    std::vector<unsigned> registers(written.registers.begin(), written.registers.end());
    recorder.file.write(Line("instruction")
                            .add("number", number)
                            .add("function", function)
                            .add("pc", instruction->getOffset())
                            .add("sass", text)
                            .list("writes", registers)
                            .add("guard_overwritten", guard_is_kept ? 0 : 1)
                            .add("writes_known", written.known ? 1 : 0)
                            .add("registers_by_nvbit", registers_by_nvbit(instruction)));
}

// Instruments a kernel and the functions that it calls, each once.
unsigned prepare(CUcontext context, Context &own, CUfunction kernel) {
    std::vector<CUfunction> functions = nvbit_get_related_functions(context, kernel);
    functions.push_back(kernel);
    for (CUfunction function : functions) {
        if (own.known.count(function)) continue;
        unsigned number = recorder.functions++;
        own.known[function] = number;
        recorder.file.write(
            Line("function").add("function", number).add("name", nvbit_get_func_name(context, function)));
        bool first = function == kernel;
        for (Instr *instruction : nvbit_get_instrs(context, function)) {
            instrument(instruction, reinterpret_cast<Address>(own.control), number, first);
            first = false;
        }
    }
    return own.known[kernel];
}

struct Shape {
    CUfunction function;
    unsigned grid[3], block[3], dynamic_bytes;
    CUstream stream;
};

cudaError_t copy(const Context &own, void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, own.stream);
    return error == cudaSuccess ? cudaStreamSynchronize(own.stream) : error;
}

cudaError_t set_control(const Context &own, bool records) {
    mcage::Control control = {};
    control.buffer = own.buffer;
    control.capacity = control.cut = recorder.wishes.buffer_bytes;
    control.launch = recorder.running;
    control.first_sm = recorder.wishes.sms.first;
    control.last_sm = recorder.wishes.sms.second;
    control.records = records;
    return copy(own, own.control, &control, sizeof control, cudaMemcpyHostToDevice);
}

// What launches in a stream are: run, go into a graph, or fail.
enum class Fate { runs, captured, fails };

Fate fate_of(CUstream stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) {
        cudaGetLastError();
        return Fate::fails;
    }
    return status == cudaStreamCaptureStatusNone ? Fate::runs : Fate::captured;
}

void before(CUcontext context, const Shape &shape) {
    Fate fate = fate_of(shape.stream);
    if (fate == Fate::captured) say_once("launches of CUDA graphs are not recorded");
    if (fate != Fate::runs) return;
    Context *own = nullptr;
    bool capturing = false;
    {
        std::lock_guard<std::mutex> lock(recorder.state);
        auto found = recorder.contexts.find(context);
        if (found != recorder.contexts.end()) own = &found->second;
        capturing = !recorder.captures.empty();
    }
    recorder.running = recorder.launches++;
    if (!own) return;
    bool wanted = recorder.wishes.want(recorder.running, nvbit_get_func_name(context, shape.function));
    // While a stream is captured, waiting for the GPU is forbidden and would break the capture.
    if (capturing) {
        if (wanted) say_once("launches while another stream is captured are not recorded");
        return;
    }
    check(cudaDeviceSynchronize(), "waiting before a launch");
    if (wanted) {
        unsigned function = prepare(context, *own, shape.function);
        int resident = 0, threads = int(shape.block[0] * shape.block[1] * shape.block[2]);
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident, shape.function, threads, shape.dynamic_bytes);
        unsigned fixed = unsigned(attribute_of(shape.function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
        recorder.file.write(
            Line("launch")
                .add("launch", recorder.running)
                .add("function", function)
                .list("grid", {shape.grid[0], shape.grid[1], shape.grid[2]})
                .list("block", {shape.block[0], shape.block[1], shape.block[2]})
                .add("registers", unsigned(attribute_of(shape.function, CU_FUNC_ATTRIBUTE_NUM_REGS)))
                .list("shared_bytes", {fixed, shape.dynamic_bytes})
                .add("binary_version", unsigned(attribute_of(shape.function, CU_FUNC_ATTRIBUTE_BINARY_VERSION)))
                .add("resident_ctas", unsigned(resident)));
    }
    if (own->known.count(shape.function)) nvbit_enable_instrumented(context, shape.function, wanted);
    check(set_control(*own, wanted), "beginning a launch");
    launched = own;
}

void after() {
    if (!launched) return;
    const Context &own = *launched;
    launched = nullptr;
    check(cudaDeviceSynchronize(), "waiting after a launch");
    mcage::Control control;
    check(copy(own, &control, own.control, sizeof control, cudaMemcpyDeviceToHost), "reading a launch");
    if (control.records) {
        std::vector<unsigned char> packets(std::min(control.used, control.cut));
        check(copy(own, packets.data(), own.buffer, packets.size(), cudaMemcpyDeviceToHost), "fetching packets");
        unsigned long long lost = control.used - packets.size();
        recorder.file.packets(recorder.running, packets, lost);
        recorder.recorded++;
        if (lost) {
            fprintf(stderr, "mcage recorder: launch %u: %llu bytes did not fit into the buffer (RECORD_BUFFER)\n",
                    recorder.running, lost);
        }
    }
    check(set_control(own, false), "ending a launch");
}

enum class Call { other, launch, graph, capture, destruction };

// What a call of the driver does, and the function, sizes and stream of a launch.
Call kind_of(nvbit_api_cuda_t call, const char *name, void *parameters, Shape &shape) {
    switch (call) {
        case API_CUDA_cuLaunchKernel:
        case API_CUDA_cuLaunchKernel_ptsz:
        case API_CUDA_cuLaunchCooperativeKernel:
        case API_CUDA_cuLaunchCooperativeKernel_ptsz: {
            auto *given = static_cast<cuLaunchKernel_params *>(parameters);
            shape = {given->f,
                     {given->gridDimX, given->gridDimY, given->gridDimZ},
                     {given->blockDimX, given->blockDimY, given->blockDimZ},
                     given->sharedMemBytes,
                     given->hStream};
            break;
        }
        case API_CUDA_cuLaunchKernelEx:
        case API_CUDA_cuLaunchKernelEx_ptsz: {
            auto *given = static_cast<cuLaunchKernelEx_params *>(parameters);
            const CUlaunchConfig &config = *given->config;
            shape = {given->f,
                     {config.gridDimX, config.gridDimY, config.gridDimZ},
                     {config.blockDimX, config.blockDimY, config.blockDimZ},
                     config.sharedMemBytes,
                     config.hStream};
            break;
        }
        case API_CUDA_cuGraphLaunch:
        case API_CUDA_cuGraphLaunch_ptsz:
            return Call::graph;
        default:
            for (const char *start : {"cuStreamBeginCapture", "cuStreamEndCapture", "cuStreamDestroy"}) {
                if (!mcage::starts_with(name, start)) continue;
                shape.stream = *static_cast<CUstream *>(parameters);  // the first member in every form
                return start[8] == 'D' ? Call::destruction : Call::capture;
            }
            return Call::other;
    }
    bool of_thread = call == API_CUDA_cuLaunchKernel_ptsz || call == API_CUDA_cuLaunchKernelEx_ptsz ||
                     call == API_CUDA_cuLaunchCooperativeKernel_ptsz;
    if (of_thread && !shape.stream) shape.stream = CU_STREAM_PER_THREAD;
    return Call::launch;
}

void begin_call(CUcontext context, Call call, const Shape &shape) {
    if (entered++) return;
    recorder.launching.lock();
    if (call == Call::launch) before(context, shape);
    if (call == Call::graph) say_once("launches of CUDA graphs are not recorded");
}

void end_call(CUcontext context, Call call, const Shape &shape) {
    if (!entered || --entered) return;
    after();
    if (call == Call::capture || call == Call::destruction) {
        bool captured = call == Call::capture && fate_of(shape.stream) == Fate::captured;
        std::lock_guard<std::mutex> lock(recorder.state);
        recorder.captures.erase(shape.stream);
        if (captured) recorder.captures[shape.stream] = context;
    }
    recorder.launching.unlock();
}

// Gives a context memory, which no capture forbids: in relaxed mode, beside the default stream.
cudaError_t prepare_context(Context &own) {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t error = cudaMalloc(&own.buffer, recorder.wishes.buffer_bytes);
    if (error == cudaSuccess) error = cudaMalloc(&own.control, sizeof(mcage::Control));
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = set_control(own, false);
    cudaThreadExchangeStreamCaptureMode(&mode);
    return error;
}

void open_file(int device) {
    int driver = 0;
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, device), "asking for the GPU");
    check(cudaDriverGetVersion(&driver), "asking for the driver");
    recorder.file.open(recorder.wishes.path);
    recorder.file.write(Line("recorder")
                            .add("nvbit", NVBIT_VERSION)
                            .add("driver", unsigned(driver))
                            .add("gpu", properties.name)
                            .list("compute_capability", {unsigned(properties.major), unsigned(properties.minor)})
                            .add("sms", unsigned(properties.multiProcessorCount))
                            .list("recorded_sms", {recorder.wishes.sms.first, recorder.wishes.sms.second}));
}

}  // namespace

void nvbit_at_init() {
    try {
        recorder.wishes = mcage::Wishes::from_environment();
        recorder.wishes.want(0, "");
    } catch (const std::exception &error) {
        stop(error.what());
    }
}

// The first moment at which a tool may allocate memory of a context.
void nvbit_tool_init(CUcontext context) {
    busy = true;
    int device = 0;
    check(cudaGetDevice(&device), "asking for the GPU");
    Context own;
    try {
        std::unique_lock<std::mutex> lock(recorder.state);
        bool first = recorder.device < 0;
        if (first) {
            open_file(device);
            recorder.device = device;
        }
        lock.unlock();
        if (device != recorder.device) {
            say_once("kernels of a second GPU are not recorded");
        } else if (cudaError_t error = prepare_context(own); error == cudaSuccess) {
            lock.lock();
            recorder.contexts[context] = own;
        } else if (first) {
            check(error, "allocating the buffer (RECORD_BUFFER)");
        } else {
            say_once(std::string("kernels of a further context are not recorded: ") + cudaGetErrorString(error));
        }
    } catch (const std::exception &error) {
        stop(error.what());
    }
    busy = false;
}

void nvbit_at_ctx_term(CUcontext context) {
    std::lock_guard<std::mutex> lock(recorder.state);
    recorder.contexts.erase(context);
    for (auto at = recorder.captures.begin(); at != recorder.captures.end();) {
        at = at->second == context ? recorder.captures.erase(at) : std::next(at);
    }
}

void nvbit_at_cuda_event(CUcontext context, int is_exit, nvbit_api_cuda_t cbid, const char *name, void *parameters,
                         CUresult *) {
    if (busy) return;
    Shape shape = {};
    Call call = kind_of(cbid, name, parameters, shape);
    if (call == Call::other) return;
    busy = true;
    try {
        if (is_exit) {
            end_call(context, call, shape);
        } else {
            begin_call(context, call, shape);
        }
    } catch (const std::exception &error) {
        stop(error.what());
    }
    busy = false;
}

void nvbit_at_term() {
    if (recorder.device < 0) return;
    recorder.file.write(Line("end").add("launches", recorder.launches).add("recorded", recorder.recorded));
}
