"""The devices that the CUDA engine computes on, and what may be wrong with them."""
