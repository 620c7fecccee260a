"""Whole GPUs: which SMs work and which rest, what they are made of, how hot they become."""
