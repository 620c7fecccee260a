"""A GPU made of the host's compiler and of fibers, for tests of CUDA kernels."""
