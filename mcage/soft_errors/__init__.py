"""Which stored bits somebody still needs, and what soft errors and stuck cells make of them."""
