// Stand-in for the CUDA driver's header where no toolkit is installed: what the recorder uses.
#pragma once

#define CUDA_VERSION 12040

typedef struct CUcontext_of_test *CUcontext;
typedef struct CUfunction_of_test *CUfunction;
typedef struct CUstream_of_test *CUstream;
#define CU_STREAM_PER_THREAD (reinterpret_cast<CUstream>(0x2))
enum CUresult {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
};
enum CUfunction_attribute {
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
};
struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
};
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction function, int threads,
                                                     unsigned long dynamic_bytes);
