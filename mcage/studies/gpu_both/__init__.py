"""Both levels together: SMs are gated, and their register files run a protection technique."""
