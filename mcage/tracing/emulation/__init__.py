"""Traces of kernels without a GPU: an emulator of AMD's GPUs (`record.record_kernel`)."""
