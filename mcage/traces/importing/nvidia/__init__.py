"""What the importers of NVIDIA's warps share: SASS, launches, and contents that are shown later."""
