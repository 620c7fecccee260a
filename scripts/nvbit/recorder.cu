// Records what the registers of chosen SMs of an NVIDIA GPU hold: a tool for NVBit.
//
// Every launch that is wanted runs alone: the program waits before and after it, and the packets
// that its warps have left in the buffer go to the file. README.md says how to build and use it.

#include <cuda.h>
#include <cuda_runtime.h>

#include <map>
#include <mutex>

#include "nvbit.h"
#include "nvbit_tool.h"
#include "packets.h"
#include "recording.h"
#include "sass.h"

namespace {

using mcage::Line;

// All state of the tool: one context at a time uses it.
struct Recorder {
    mcage::Wishes wishes;
    mcage::File file;
    mcage::Control *control = nullptr;     // on the device
    unsigned char *buffer = nullptr;       // on the device
    std::map<CUfunction, unsigned> known;  // function -> number in the file
    unsigned launches = 0, recorded = 0, instructions = 0;
    bool busy = false;  // inside of a callback: calls of CUDA are those of this tool
    bool graphs = false;
    std::recursive_mutex mutex;
} recorder;

[[noreturn]] void stop(const std::string &reason) {
    fprintf(stderr, "mcage recorder: %s\n", reason.c_str());
    exit(1);
}

void check(cudaError_t error, const char *what) {
    if (error != cudaSuccess) stop(std::string(what) + ": " + cudaGetErrorString(error));
}

int attribute_of(CUfunction function, CUfunction_attribute attribute) {
    int value = 0;
    if (cuFuncGetAttribute(&value, attribute, function) != CUDA_SUCCESS) stop("cuFuncGetAttribute failed");
    return value;
}

unsigned long long address_of_control() { return reinterpret_cast<unsigned long long>(recorder.control); }

void insert_write(Instr *instruction, unsigned where, bool guard_is_kept, int number) {
    nvbit_insert_call(instruction, "mcage_write", IPOINT_AFTER);
    if (guard_is_kept) {
        nvbit_add_call_arg_guard_pred_val(instruction);
    } else {
        nvbit_add_call_arg_const_val32(instruction, 1);
    }
    nvbit_add_call_arg_const_val32(instruction, where);
    nvbit_add_call_arg_const_val64(instruction, address_of_control());
    nvbit_add_call_arg_reg_val(instruction, number);
}

void insert_mark(Instr *instruction, unsigned where, mcage::Kind kind) {
    nvbit_insert_call(instruction, "mcage_mark", IPOINT_BEFORE);
    if (kind == mcage::begins) {
        nvbit_add_call_arg_const_val32(instruction, 1);
    } else {
        nvbit_add_call_arg_guard_pred_val(instruction);
    }
    nvbit_add_call_arg_const_val32(instruction, where);
    nvbit_add_call_arg_const_val64(instruction, address_of_control());
    nvbit_add_call_arg_const_val32(instruction, kind);
}

// Inserts the calls of one instruction and writes its row of the static table.
void instrument(Instr *instruction, unsigned function, bool first_of_kernel) {
    std::string text = instruction->getSass();
    mcage::Sass sass = mcage::parse_sass(text);
    mcage::Destination destination = mcage::destination_of(sass);
    unsigned number = recorder.instructions++, where = number << 8;
    bool guard_is_kept = !mcage::overwrites_its_guard(sass);
    if (first_of_kernel) insert_mark(instruction, where, mcage::begins);
    if (sass.name == "EXIT") insert_mark(instruction, where, mcage::exits);
    if (recorder.wishes.values) {
        for (int i = 0; i < destination.count; i++) {
            unsigned written = unsigned(destination.first + i);
            insert_write(instruction, where | written, guard_is_kept, int(written));
        }
        if (!destination.count && mcage::reads_registers(sass)) insert_mark(instruction, where, mcage::reads);
    }
    std::vector<unsigned> registers;
    for (int i = 0; i < destination.count; i++) registers.push_back(unsigned(destination.first + i));
    recorder.file.write(Line("instruction")
                            .add("number", number)
                            .add("function", function)
                            .add("pc", instruction->getOffset())
                            .add("sass", text)
                            .list("writes", registers)
                            .add("guard_overwritten", guard_is_kept ? 0 : 1));
}

// Instruments a kernel and the functions that it calls, each once.
unsigned prepare(CUcontext context, CUfunction kernel) {
    std::vector<CUfunction> functions = nvbit_get_related_functions(context, kernel);
    functions.push_back(kernel);
    for (CUfunction function : functions) {
        if (recorder.known.count(function)) continue;
        unsigned number = unsigned(recorder.known.size());
        recorder.known[function] = number;
        recorder.file.write(
            Line("function").add("function", number).add("name", nvbit_get_func_name(context, function)));
        bool first = function == kernel;
        for (Instr *instruction : nvbit_get_instrs(context, function)) {
            instrument(instruction, number, first);
            first = false;
        }
    }
    return recorder.known[kernel];
}

struct Shape {
    CUfunction function;
    unsigned grid[3], block[3], dynamic_bytes;
};

mcage::Control read_control() {
    mcage::Control control;
    check(cudaMemcpy(&control, recorder.control, sizeof control, cudaMemcpyDeviceToHost), "reading a launch");
    return control;
}

void set_control(bool records) {
    mcage::Control control = {};
    control.buffer = recorder.buffer;
    control.capacity = control.cut = recorder.wishes.buffer_bytes;
    control.launch = recorder.launches;
    control.first_sm = recorder.wishes.sms.first;
    control.last_sm = recorder.wishes.sms.second;
    control.records = records;
    check(cudaMemcpy(recorder.control, &control, sizeof control, cudaMemcpyHostToDevice), "beginning a launch");
}

void before(CUcontext context, const Shape &shape) {
    check(cudaDeviceSynchronize(), "waiting before a launch");
    bool wanted = recorder.wishes.want(recorder.launches, nvbit_get_func_name(context, shape.function));
    if (wanted) {
        unsigned function = prepare(context, shape.function);
        int resident = 0, threads = int(shape.block[0] * shape.block[1] * shape.block[2]);
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident, shape.function, threads, shape.dynamic_bytes);
        unsigned fixed = unsigned(attribute_of(shape.function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
        recorder.file.write(
            Line("launch")
                .add("launch", recorder.launches)
                .add("function", function)
                .list("grid", {shape.grid[0], shape.grid[1], shape.grid[2]})
                .list("block", {shape.block[0], shape.block[1], shape.block[2]})
                .add("registers", unsigned(attribute_of(shape.function, CU_FUNC_ATTRIBUTE_NUM_REGS)))
                .list("shared_bytes", {fixed, shape.dynamic_bytes})
                .add("binary_version", unsigned(attribute_of(shape.function, CU_FUNC_ATTRIBUTE_BINARY_VERSION)))
                .add("resident_ctas", unsigned(resident)));
    }
    if (recorder.known.count(shape.function)) {
        nvbit_enable_instrumented(context, shape.function, wanted);
    }
    set_control(wanted);
}

void after() {
    check(cudaDeviceSynchronize(), "waiting after a launch");
    mcage::Control control = read_control();
    if (control.records) {
        std::vector<unsigned char> packets(std::min(control.used, control.cut));
        check(cudaMemcpy(packets.data(), recorder.buffer, packets.size(), cudaMemcpyDeviceToHost),
              "fetching packets");
        unsigned long long lost = control.used - packets.size();
        recorder.file.packets(recorder.launches, packets, lost);
        recorder.recorded++;
        if (lost) {
            fprintf(stderr, "mcage recorder: launch %u: %llu bytes did not fit into the buffer (RECORD_BUFFER)\n",
                    recorder.launches, lost);
        }
    }
    set_control(false);
    recorder.launches++;
}

// The function and the sizes of a launch; false for any other call of the driver.
bool is_launch(nvbit_api_cuda_t call, void *parameters, Shape &shape) {
    switch (call) {
        case API_CUDA_cuLaunchKernel:
        case API_CUDA_cuLaunchKernel_ptsz:
        case API_CUDA_cuLaunchCooperativeKernel:
        case API_CUDA_cuLaunchCooperativeKernel_ptsz: {
            auto *given = static_cast<cuLaunchKernel_params *>(parameters);
            shape = {given->f,
                     {given->gridDimX, given->gridDimY, given->gridDimZ},
                     {given->blockDimX, given->blockDimY, given->blockDimZ},
                     given->sharedMemBytes};
            return true;
        }
        case API_CUDA_cuLaunchKernelEx:
        case API_CUDA_cuLaunchKernelEx_ptsz: {
            auto *given = static_cast<cuLaunchKernelEx_params *>(parameters);
            const CUlaunchConfig &config = *given->config;
            shape = {given->f,
                     {config.gridDimX, config.gridDimY, config.gridDimZ},
                     {config.blockDimX, config.blockDimY, config.blockDimZ},
                     config.sharedMemBytes};
            return true;
        }
        case API_CUDA_cuGraphLaunch:
        case API_CUDA_cuGraphLaunch_ptsz:
            if (!recorder.graphs) fprintf(stderr, "mcage recorder: launches of CUDA graphs are not recorded\n");
            recorder.graphs = true;
            return false;
        default:
            return false;
    }
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
void nvbit_tool_init(CUcontext) {
    std::lock_guard<std::recursive_mutex> lock(recorder.mutex);
    if (recorder.control) stop("the program makes a second context, which is not supported");
    recorder.busy = true;
    int device = 0, driver = 0;
    cudaDeviceProp properties;
    check(cudaGetDevice(&device), "asking for the GPU");
    check(cudaGetDeviceProperties(&properties, device), "asking for the GPU");
    check(cudaDriverGetVersion(&driver), "asking for the driver");
    check(cudaMalloc(&recorder.buffer, recorder.wishes.buffer_bytes), "allocating the buffer (RECORD_BUFFER)");
    check(cudaMalloc(&recorder.control, sizeof(mcage::Control)), "allocating memory");
    set_control(false);
    try {
        recorder.file.open(recorder.wishes.path);
        recorder.file.write(Line("recorder")
                                .add("nvbit", NVBIT_VERSION)
                                .add("driver", unsigned(driver))
                                .add("gpu", properties.name)
                                .list("compute_capability", {unsigned(properties.major), unsigned(properties.minor)})
                                .add("sms", unsigned(properties.multiProcessorCount))
                                .list("recorded_sms", {recorder.wishes.sms.first, recorder.wishes.sms.second})
                                .add("recorded", recorder.wishes.values ? "values" : "marks"));
    } catch (const std::exception &error) {
        stop(error.what());
    }
    recorder.busy = false;
}

void nvbit_at_cuda_event(CUcontext context, int is_exit, nvbit_api_cuda_t call, const char *, void *parameters,
                         CUresult *) {
    std::lock_guard<std::recursive_mutex> lock(recorder.mutex);
    Shape shape;
    if (recorder.busy || !recorder.control || !is_launch(call, parameters, shape)) return;
    recorder.busy = true;
    try {
        if (is_exit) {
            after();
        } else {
            before(context, shape);
        }
    } catch (const std::exception &error) {
        stop(error.what());
    }
    recorder.busy = false;
}

void nvbit_at_term() {
    if (!recorder.control) return;
    recorder.file.write(Line("end").add("launches", recorder.launches).add("recorded", recorder.recorded));
}
