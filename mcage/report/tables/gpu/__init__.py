"""Tables of studies of whole GPUs."""
