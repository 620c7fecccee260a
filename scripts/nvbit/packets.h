// What the injected functions leave in the buffer.
//
// Plain C++ without headers: read by nvcc, NVRTC and compilers of the host.
#pragma once

namespace mcage {

enum Kind : unsigned short { begins = 0, exits = 1, writes = 2, reads = 3 };

// 32 bytes, little-endian. A packet of kind `writes` is followed by the contents of its register
// after the instruction: 32 x 32 bit, lane by lane, meaningful in the lanes of the mask. Kind `reads`
// is an instruction that reads registers and writes none.
struct Packet {
    unsigned long long cycle;  // clock of the SM
    unsigned launch;
    unsigned where;  // number of the instruction in the recording << 8 | register
    unsigned mask;   // lanes that executed the instruction
    unsigned cta;    // x + grid.x * (y + grid.y * z)
    unsigned short sm, warp, warp_in_cta, kind;  // warp: slot in the SM (%warpid)
};
constexpr unsigned lanes = 32;
constexpr unsigned write_bytes = sizeof(Packet) + lanes * sizeof(unsigned);
static_assert(sizeof(Packet) == 32, "the importer reads 32 bytes");

// Lies in the memory of the device; its address is an argument of every inserted call.
struct Control {
    unsigned char *buffer;
    unsigned long long capacity;  // bytes of the buffer
    unsigned long long used;      // bytes asked for, more than the capacity when packets are lost
    unsigned long long cut;       // where the first lost packet would begin
    unsigned launch, first_sm, last_sm, records;  // records: 0 while a launch is not wanted
};

}  // namespace mcage
