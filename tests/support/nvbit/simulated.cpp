// The recorder in a simulated process: NVBit, its program and two SMs are played by this file.
//
// Standard output says what the registers did, as JSON lines; the recording must say the same. The
// program fails where CUDA would have refused one of its own calls because of the recorder.

#include "lanes.h"
// The recorder's two halves, as one program of the host.
#include "inject.cu"
#include "recorder.cu"

#include "device.h"

#include <array>
#include <atomic>
#include <chrono>
#include <list>

namespace {

struct Warp {
    std::array<std::array<uint32_t, 32>, 16> registers{};
    std::array<uint32_t, 2> predicates{};
    uint32_t alive = 0;
    Three threads[32];
    unsigned cta = 0, number = 0;
    long long begun = 0;
};

struct InsertedCall {
    std::string function;
    ipoint_t point;
    bool guard = false;
    std::vector<uint64_t> constants;
    int source = -1;
};

struct Step {
    Instr instruction;
    std::vector<int> written;
    std::function<void(Warp &, uint32_t on)> action;
    std::vector<InsertedCall> calls;
    Step(const char *sass, std::vector<int> written, std::function<void(Warp &, uint32_t)> action)
        : instruction(sass, 0, 4 * int(written.size())), written(std::move(written)), action(std::move(action)) {}
};

template <typename Value>
std::function<void(Warp &, uint32_t)> set(int number, Value value) {
    return [=](Warp &warp, uint32_t on) {
        for (unsigned lane = 0; lane < 32; lane++) {
            if (on >> lane & 1) warp.registers[size_t(number)][lane] = value(warp, lane);
        }
    };
}

}  // namespace

struct CUfunction_of_test {
    std::string name;
    std::vector<Step> steps;
    std::vector<Instr *> instructions;
    bool enabled = false;
};

namespace {

struct Module {
    CUfunction_of_test ramp, ends;
};
std::list<Module> modules;

// The functions that a context has loaded; their addresses come again when a context does.
void load(Module &module) {
    module.ramp = {"ramp(float*, \"é\")", {}, {}};
    module.ends = {"ends()", {}, {}};
    auto &ramp = module.ramp, &ends = module.ends;
    auto nothing = [](Warp &, uint32_t) {};
    auto &steps = ramp.steps;
    steps.emplace_back("S2R R0, SR_TID.X ;", std::vector<int>{0},
                       set(0, [](Warp &warp, unsigned lane) { return warp.threads[lane].x; }));
    steps.emplace_back("ISETP.GE.AND P0, PT, R0, 0x28, PT ;", std::vector<int>{}, [](Warp &warp, uint32_t on) {
        for (unsigned lane = 0; lane < 32; lane++) {
            uint32_t bit = on & (warp.registers[0][lane] >= 40) << lane;
            warp.predicates[0] = (warp.predicates[0] & ~(1u << lane)) | bit;
        }
    });
    steps.emplace_back("IMAD.WIDE.U32 R2, R0, R0, c[0x0][0x160] ;", std::vector<int>{2, 3}, [](Warp &warp, uint32_t on) {
        set(2, [](Warp &warp, unsigned lane) { return warp.registers[0][lane] * 0x01000193; })(warp, on);
        set(3, [](Warp &warp, unsigned lane) { return ~warp.registers[0][lane]; })(warp, on);
    });
    steps.emplace_back("@!P0 IADD3 R1, R0, 0x5, RZ ;", std::vector<int>{1},
                       set(1, [](Warp &warp, unsigned lane) { return warp.registers[0][lane] + 5; }));
    steps.emplace_back("@P0 EXIT ;", std::vector<int>{}, nothing);
    steps.emplace_back("SHFL.IDX PT, R5, R1, RZ, 0x1f ;", std::vector<int>{5},
                       set(5, [](Warp &warp, unsigned) { return warp.registers[1][0]; }));
    steps.emplace_back("STG.E [R2.64], R5 ;", std::vector<int>{}, nothing);
    steps.emplace_back("EXIT ;", std::vector<int>{}, nothing);
    ends.steps.emplace_back("MOV R0, 0x7 ;", std::vector<int>{0}, set(0, [](Warp &, unsigned) { return 7u; }));
    ends.steps.emplace_back("EXIT ;", std::vector<int>{}, nothing);
    for (CUfunction_of_test *program : {&ramp, &ends}) {
        uint32_t offset = 0;
        for (Step &step : program->steps) {
            step.instruction = Instr(step.instruction.getSass(), offset, 4 * int(step.written.size()));
            program->instructions.push_back(&step.instruction);
            offset += 16;
        }
    }
}

Step &step_of(const Instr *instruction) {
    for (Module &module : modules) {
        for (CUfunction_of_test *program : {&module.ramp, &module.ends}) {
            for (Step &step : program->steps) {
                if (&step.instruction == instruction) return step;
            }
        }
    }
    abort();
}

// Lanes whose guard holds: "@P0" and "@!P0" are all that the programs use.
uint32_t guarded(const Warp &warp, const std::string &sass) {
    if (sass[0] != '@') return warp.alive;
    return warp.alive & (sass[1] == '!' ? ~warp.predicates[0] : warp.predicates[0]);
}

void call_all(CUfunction_of_test &program, Step &step, ipoint_t point, Warp &warp, uint32_t on) {
    for (InsertedCall &call : step.calls) {
        if (!program.enabled || call.point != point) continue;
        lanes::run(warp.alive, warp.threads, [&] {
            unsigned lane = lanes::current;
            size_t next = 0;
            int predicate = call.guard ? int(on >> lane & 1) : int(call.constants[next++]);
            unsigned where = unsigned(call.constants[next++]);
            uint64_t control = call.constants[next++];
            if (!gpu::owner(reinterpret_cast<void *>(control))) {
                fprintf(stderr, "memory of a context that has ended\n"), abort();
            }
            if (call.function == "mcage_write") {
                mcage_write(predicate, where, control, warp.registers[size_t(call.source)][lane]);
            } else {
                mcage_mark(predicate, where, control, unsigned(call.constants[next++]));
            }
        });
    }
}

constexpr unsigned unrecorded = ~0u;  // number of a launch that the recorder leaves out

void say(const char *event, unsigned launch, const Warp &warp, uint32_t mask, int number) {
    if (launch == unrecorded) return;
    printf("{\"event\":\"%s\",\"launch\":%u,\"cta\":%u,\"warp\":%u,\"cycle\":%lld,\"mask\":%u", event, launch,
           warp.cta, warp.number, lanes::cycle, mask);
    if (number >= 0) {
        printf(",\"register\":%d,\"values\":[", number);
        for (unsigned lane = 0; lane < 32; lane++) {
            printf("%s%u", lane ? "," : "", mask >> lane & 1 ? warp.registers[size_t(number)][lane] : 0);
        }
        printf("]");
    }
    printf("}\n");
}

// CTA by CTA, the warps of each in turns.
void execute(CUfunction_of_test &program, unsigned launch, Three grid, Three block) {
    gridDim = grid, blockDim = block;
    lanes::cycle += 1'000'000;  // the program waits between launches
    unsigned threads = block.x * block.y * block.z;
    for (unsigned cta = 0; cta < grid.x * grid.y * grid.z; cta++) {
        blockIdx = {cta % grid.x, cta / grid.x % grid.y, cta / grid.x / grid.y};
        lanes::sm = cta % 2;
        std::vector<Warp> warps((threads + 31) / 32);
        for (unsigned t = 0; t < threads; t++) {
            warps[t / 32].alive |= 1u << t % 32;
            warps[t / 32].threads[t % 32] = {t % block.x, t / block.x % block.y, t / block.x / block.y};
        }
        for (size_t at = 0; at < program.steps.size(); at++) {
            Step &step = program.steps[at];
            for (unsigned w = 0; w < warps.size(); w++) {
                Warp &warp = warps[w];
                if (!warp.alive) continue;
                std::string sass = step.instruction.getSass();
                uint32_t on = guarded(warp, sass);
                warp.cta = cta, warp.number = w, lanes::slot = 4 * (cta / 2 % 2) + w;
                lanes::cycle += 3;
                if (at == 0 && lanes::sm == 0) say("begin", launch, warp, warp.alive, -1);
                call_all(program, step, IPOINT_BEFORE, warp, on);
                step.action(warp, on);
                for (int number : step.written) {
                    if (on && lanes::sm == 0) say("write", launch, warp, on, number);
                }
                if (sass.find("EXIT") != std::string::npos) {
                    warp.alive &= ~on;
                    if (!warp.alive && lanes::sm == 0) say("end", launch, warp, on, -1);
                } else {
                    call_all(program, step, IPOINT_AFTER, warp, on);
                }
            }
        }
    }
}

}  // namespace

std::vector<CUfunction> nvbit_get_related_functions(CUcontext, CUfunction) { return {}; }
const std::vector<Instr *> &nvbit_get_instrs(CUcontext, CUfunction function) { return function->instructions; }
const char *nvbit_get_func_name(CUcontext, CUfunction function, bool) { return function->name.c_str(); }
void nvbit_enable_instrumented(CUcontext, CUfunction function, bool enabled, bool) { function->enabled = enabled; }
void nvbit_insert_call(const Instr *instruction, const char *name, ipoint_t point) {
    step_of(instruction).calls.push_back({name, point, false, {}, -1});
}
void nvbit_add_call_arg_guard_pred_val(const Instr *instruction, bool) { step_of(instruction).calls.back().guard = true; }
void nvbit_add_call_arg_const_val32(const Instr *instruction, uint32_t value, bool) {
    step_of(instruction).calls.back().constants.push_back(value);
}
void nvbit_add_call_arg_const_val64(const Instr *instruction, uint64_t value, bool) {
    step_of(instruction).calls.back().constants.push_back(value);
}
void nvbit_add_call_arg_reg_val(const Instr *instruction, int number, bool) {
    step_of(instruction).calls.back().source = number;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction) {
    *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS ? 6 : attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION ? 80 : 0;
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction, int, unsigned long) {
    return *count = 2, CUDA_SUCCESS;
}

namespace {

std::atomic<unsigned> launches{0}, in_driver{0};
bool meets = false;  // whether a launch waits a little for another thread to launch as well

struct DriverCall {
    nvbit_api_cuda_t id;
    const char *name;
    void *parameters;
};

// A call of the driver, with NVBit's callbacks before and after it.
CUresult call_driver(CUcontext context, DriverCall call, const std::function<CUresult()> &driver) {
    gpu::current = context;
    CUresult status = CUDA_SUCCESS;
    nvbit_at_cuda_event(context, 0, call.id, call.name, call.parameters, &status);
    status = driver();
    nvbit_at_cuda_event(context, 1, call.id, call.name, call.parameters, &status);
    return status;
}

void launch(CUcontext context, CUfunction function, CUstream stream, Three grid, Three block, bool recorded = true) {
    gpu::current = context;
    if (!std::exchange(context->begun, true)) nvbit_tool_init(context);
    CUlaunchConfig config = {grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, stream};
    cuLaunchKernelEx_params extended = {&config, function};
    cuLaunchKernel_params plain = {function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 16, stream};
    DriverCall call = {API_CUDA_cuLaunchKernel, "cuLaunchKernel", &plain};
    if (function->name == "ends()") call = {API_CUDA_cuLaunchKernelEx, "cuLaunchKernelEx", &extended};
    call_driver(context, call, [&] {
        for (in_driver++; meets && in_driver < 2;) {
            static auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
            if (std::chrono::steady_clock::now() > end) break;
        }
        gpu::Lock guard(gpu::lock);
        in_driver--;
        if (stream && stream->status != cudaStreamCaptureStatusNone) {
            stream->graph.push_back([=] { execute(*function, unrecorded, grid, block); });
            return stream->status == cudaStreamCaptureStatusActive ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        }
        unsigned number = launches++;
        gpu::launched.push_back({context, stream, [=] {
                                     gpu::current = context;
                                     execute(*function, recorded ? number : unrecorded, grid, block);
                                 }});
        return CUDA_SUCCESS;
    });
}

void require(CUresult status) {
    if (status != CUDA_SUCCESS) fprintf(stderr, "the program's own call failed: %d\n", status), exit(3);
}

void begin_capture(CUstream stream) {
    cuStreamBeginCapture_v2_params parameters = {stream, 0};
    require(call_driver(stream->context, {API_CUDA_cuStreamBeginCapture_v2, "cuStreamBeginCapture_v2", &parameters}, [&] {
        gpu::Lock guard(gpu::lock);
        stream->status = cudaStreamCaptureStatusActive, stream->captured_by = std::this_thread::get_id();
        return CUDA_SUCCESS;
    }));
}

// Ends a capture and launches its graph.
void run_capture(CUstream stream) {
    require(call_driver(stream->context, {API_CUDA_cuStreamEndCapture, "cuStreamEndCapture", &stream}, [&] {
        gpu::Lock guard(gpu::lock);
        bool active = stream->status == cudaStreamCaptureStatusActive;
        stream->status = cudaStreamCaptureStatusNone;
        return active ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }));
    CUcontext context = stream->context;
    require(call_driver(context, {API_CUDA_cuGraphLaunch, "cuGraphLaunch", nullptr}, [&] {
        gpu::Lock guard(gpu::lock);
        for (auto &node : stream->graph) gpu::launched.push_back({context, stream, node});
        return CUDA_SUCCESS;
    }));
}

Module &new_module() {
    load(modules.emplace_back());
    return modules.back();
}

void launch_both(CUcontext context, Module &module, CUstream stream = nullptr) {
    launch(context, &module.ramp, stream, {2, 2, 1}, {72, 1, 1});
    launch(context, &module.ends, stream, {1, 1, 1}, {8, 4, 2});
}

// A stream is captured by its thread, and launched into as well as beside; then the graph runs.
void capture() {
    CUcontext context = new CUcontext_of_test{0};
    Module &module = new_module();
    gpu::current = context;
    CUstream captured = nullptr, other = nullptr;
    cudaStreamCreateWithFlags(&captured, cudaStreamDefault);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    begin_capture(captured);
    launch_both(context, module, captured);
    launch(context, &module.ends, other, {1, 1, 1}, {8, 4, 2}, false);  // while the GPU may not be waited for
    run_capture(captured);
    launch_both(context, module);
    begin_capture(captured);
    call_driver(context, {API_CUDA_cuStreamDestroy_v2, "cuStreamDestroy_v2", &captured}, [&] {
        gpu::streams.erase(std::find(gpu::streams.begin(), gpu::streams.end(), captured));
        return CUDA_SUCCESS;
    });
    launch_both(context, module);
}

// Two threads of one context launch at the same time.
void threads() {
    CUcontext context = new CUcontext_of_test{0};
    Module &module = new_module();
    gpu::current = context;
    CUstream streams[2];
    for (CUstream &stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    launch_both(context, module);
    meets = true;
    std::thread one([&] { launch(context, &module.ramp, streams[0], {2, 2, 1}, {72, 1, 1}); });
    std::thread two([&] { launch(context, &module.ends, streams[1], {1, 1, 1}, {8, 4, 2}); });
    one.join(), two.join();
}

// Contexts of one GPU and of another; one ends, and another begins at its address.
void contexts() {
    CUcontext first = new CUcontext_of_test{0}, second = new CUcontext_of_test{0}, third = new CUcontext_of_test{1};
    Module &of_first = new_module(), &of_second = new_module(), &of_third = new_module();
    launch_both(first, of_first);
    launch_both(second, of_second);
    launch(third, &of_third.ends, nullptr, {1, 1, 1}, {8, 4, 2}, false);
    nvbit_at_ctx_term(first);
    gpu::destroy(first);
    load(of_first);
    launch_both(first, of_first);
}

void plain(int count) {
    CUcontext context = new CUcontext_of_test{0};
    Module &module = new_module();
    for (int i = 0; i < count; i++) {
        launch_both(context, module);
        call_driver(context, {API_CUDA_cuMemAlloc, "cuMemAlloc", nullptr}, [] { return CUDA_SUCCESS; });
    }
}

}  // namespace

// simulated LAUNCHES: of `ramp` with 4 CTAs of 72 threads, each followed by one of `ends`; or what the
// functions above do.
int main(int, char **arguments) {
    std::string what = arguments[1];
    nvbit_at_init();
    if (what == "capture") {
        capture();
    } else if (what == "threads") {
        threads();
    } else if (what == "contexts") {
        contexts();
    } else {
        plain(atoi(arguments[1]));
    }
    gpu::run([](const gpu::Work &) { return true; });
    nvbit_at_term();
}
