// What the lanes of a warp do together.

constexpr unsigned EVERY_LANE = 0xFFFFFFFFu;

// Sum of the values of a lane and of all lanes before it.
__device__ __forceinline__ int sum_up_to_lane(int value) {
    for (int distance = 1; distance < 32; distance *= 2) {
        const int earlier = __shfl_up_sync(EVERY_LANE, value, distance);
        if (int(threadIdx.x % 32) >= distance) value += earlier;
    }
    return value;
}
