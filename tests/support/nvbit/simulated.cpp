// The recorder in a simulated process: NVBit, its program and two SMs are played by this file.
//
// Standard output says what the registers did, as JSON lines; the recording must say the same.

#include "lanes.h"
// The recorder's two halves, as one program of the host.
#include "inject.cu"
#include "recorder.cu"

#include <array>

namespace {

struct Warp {
    std::array<std::array<uint32_t, 32>, 16> registers{};
    std::array<uint32_t, 2> predicates{};
    uint32_t alive = 0;
    Three threads[32];
    unsigned cta = 0, number = 0;
    long long begun = 0;
};

struct Call {
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
    std::vector<Call> calls;
    Step(const char *sass, std::vector<int> written, std::function<void(Warp &, uint32_t)> action)
        : instruction(sass), written(std::move(written)), action(std::move(action)) {}
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

CUfunction_of_test ramp{"ramp(float*, \"é\")", {}, {}}, ends{"ends()", {}, {}};

void make_programs() {
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
            step.instruction = Instr(step.instruction.getSass(), offset);
            program->instructions.push_back(&step.instruction);
            offset += 16;
        }
    }
}

Step &step_of(const Instr *instruction) {
    for (CUfunction_of_test *program : {&ramp, &ends}) {
        for (Step &step : program->steps) {
            if (&step.instruction == instruction) return step;
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
    for (Call &call : step.calls) {
        if (!program.enabled || call.point != point) continue;
        lanes::run(warp.alive, warp.threads, [&] {
            unsigned lane = lanes::current;
            size_t next = 0;
            int predicate = call.guard ? int(on >> lane & 1) : int(call.constants[next++]);
            unsigned where = unsigned(call.constants[next++]);
            uint64_t control = call.constants[next++];
            if (call.function == "mcage_write") {
                mcage_write(predicate, where, control, warp.registers[size_t(call.source)][lane]);
            } else {
                mcage_mark(predicate, where, control, unsigned(call.constants[next++]));
            }
        });
    }
}

void say(const char *event, unsigned launch, const Warp &warp, uint32_t mask, int number) {
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

// simulated LAUNCHES: of `ramp` with 4 CTAs of 72 threads, each followed by one of `ends`.
int main(int, char **arguments) {
    make_programs();
    CUcontext context = nullptr;
    nvbit_at_init();
    nvbit_tool_init(context);
    CUresult status = CUDA_SUCCESS;
    unsigned launch = 0;
    for (int i = 0; i < atoi(arguments[1]); i++) {
        cuLaunchKernel_params parameters = {&ramp, 2, 2, 1, 72, 1, 1, 16};
        nvbit_at_cuda_event(context, 0, API_CUDA_cuLaunchKernel, "cuLaunchKernel", &parameters, &status);
        execute(ramp, launch++, {2, 2, 1}, {72, 1, 1});
        nvbit_at_cuda_event(context, 1, API_CUDA_cuLaunchKernel, "cuLaunchKernel", &parameters, &status);
        CUlaunchConfig config = {1, 1, 1, 8, 4, 2, 0};
        cuLaunchKernelEx_params extended = {&config, &ends};
        nvbit_at_cuda_event(context, 0, API_CUDA_cuLaunchKernelEx, "cuLaunchKernelEx", &extended, &status);
        execute(ends, launch++, {1, 1, 1}, {8, 4, 2});
        nvbit_at_cuda_event(context, 1, API_CUDA_cuLaunchKernelEx, "cuLaunchKernelEx", &extended, &status);
        nvbit_at_cuda_event(context, 0, API_CUDA_cuMemAlloc, "cuMemAlloc", nullptr, &status);
    }
    nvbit_at_cuda_event(context, 1, API_CUDA_cuGraphLaunch, "cuGraphLaunch", nullptr, &status);
    nvbit_at_term();
}
