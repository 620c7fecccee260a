// Does a device answer? `mcage/engines/cuda_engine/opening.py` compiles and runs this before
// any work is given to a device.

// doubled[i] = 2 * numbers[i]; one block, a thread for each.
extern "C" __global__ void probe(const int *numbers, int *doubled) {
    doubled[threadIdx.x] = 2 * numbers[threadIdx.x];
}
