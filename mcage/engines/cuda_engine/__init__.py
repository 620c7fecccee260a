"""The engine that computes with CUDA kernels."""
