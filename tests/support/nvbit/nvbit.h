// Stand-in for NVBit's interface: declarations of what the recorder uses, written for these tests.
#pragma once

#if defined(CUDA_VERSION)
#error "NVBit includes cuda.h itself, with names that are not there when it was included before"
#endif
#include <cuda.h>
#include <stdint.h>

#include <algorithm>
#include <string>
#include <vector>

#define NVBIT_VERSION "stand-in"

namespace InstrType {
enum class OperandType { REG, PRED, MREF };
struct operand_t {
    OperandType type;
    int nbytes;
};
}  // namespace InstrType

class Instr {
   public:
    explicit Instr(std::string sass = "", uint32_t offset = 0, int nbytes = 0)
        : sass_(std::move(sass)), offset_(offset), operand_{InstrType::OperandType::REG, nbytes} {}
    const char *getSass() { return sass_.c_str(); }
    uint32_t getOffset() { return offset_; }
    int getNumOperands() { return operand_.nbytes ? 1 : 0; }
    const InstrType::operand_t *getOperand(int) { return &operand_; }

   private:
    std::string sass_;
    uint32_t offset_;
    InstrType::operand_t operand_;
};

enum ipoint_t { IPOINT_BEFORE, IPOINT_AFTER };

enum nvbit_api_cuda_t {
    API_CUDA_cuMemAlloc,
    API_CUDA_cuLaunchKernel,
    API_CUDA_cuLaunchKernel_ptsz,
    API_CUDA_cuLaunchCooperativeKernel,
    API_CUDA_cuLaunchCooperativeKernel_ptsz,
    API_CUDA_cuLaunchKernelEx,
    API_CUDA_cuLaunchKernelEx_ptsz,
    API_CUDA_cuGraphLaunch,
    API_CUDA_cuGraphLaunch_ptsz,
    API_CUDA_cuStreamBeginCapture_v2,
    API_CUDA_cuStreamEndCapture,
    API_CUDA_cuStreamDestroy_v2,
};

struct cuLaunchKernel_params {
    CUfunction f;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
};
struct cuLaunchKernelEx_params {
    const CUlaunchConfig *config;
    CUfunction f;
};
struct cuStreamBeginCapture_v2_params {
    CUstream hStream;
    int mode;
};

// Defined by the tool.
void nvbit_at_init();
void nvbit_at_term();
void nvbit_tool_init(CUcontext context);
void nvbit_at_ctx_term(CUcontext context);
void nvbit_at_cuda_event(CUcontext context, int is_exit, nvbit_api_cuda_t call, const char *name,
                         void *parameters, CUresult *status);

// Defined by NVBit.
std::vector<CUfunction> nvbit_get_related_functions(CUcontext context, CUfunction function);
const std::vector<Instr *> &nvbit_get_instrs(CUcontext context, CUfunction function);
const char *nvbit_get_func_name(CUcontext context, CUfunction function, bool mangled = false);
void nvbit_enable_instrumented(CUcontext context, CUfunction function, bool enabled, bool related = true);
void nvbit_insert_call(const Instr *instruction, const char *name, ipoint_t point);
void nvbit_add_call_arg_guard_pred_val(const Instr *instruction, bool variadic = false);
void nvbit_add_call_arg_const_val32(const Instr *instruction, uint32_t value, bool variadic = false);
void nvbit_add_call_arg_const_val64(const Instr *instruction, uint64_t value, bool variadic = false);
void nvbit_add_call_arg_reg_val(const Instr *instruction, int number, bool variadic = false);
