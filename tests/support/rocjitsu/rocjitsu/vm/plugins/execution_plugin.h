// Stand-in for rocjitsu's interface: declarations of what the recorder uses, written for these tests.
// It tells plugins what rocjitsu tells them (docs/importer-sources.md says which version was read).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rocjitsu {

class ExecutionPlugin;
struct Instruction {};
struct KernelDispatchInfo {
    uint32_t dispatch_id = 0;
    std::string kernel_name;
    std::string kernelNameOrUnknown() const { return kernel_name; }
};

namespace amdgpu {

struct RegAllocation {
    uint32_t base = 0, count = 0;
};
struct InstructionComputeUnitView {
    uint64_t number = 0;
    uint64_t id() const { return number; }
};
class Wavefront {
   public:
    uint32_t wf_size() const { return size; }
    uint32_t num_vgprs() const { return allocation.count; }
    uint32_t wf_id() const { return slot; }
    uint32_t wg_id() const { return group; }
    uint32_t dispatch_id() const { return dispatch; }
    uint32_t wave_in_group() const { return wave; }
    const RegAllocation &vgpr_alloc() const { return allocation; }
    InstructionComputeUnitView &cu() { return unit; }
    const InstructionComputeUnitView &cu() const { return unit; }
    uint32_t debug_read_vgpr(uint32_t reg, uint32_t lane) const;

    ExecutionPlugin *plugin = nullptr;
    uint32_t size = 64, slot = 0, group = 0, dispatch = 0, wave = 0;
    RegAllocation allocation;
    InstructionComputeUnitView unit;
    std::vector<uint32_t> registers;
};

}  // namespace amdgpu

class ExecutionPlugin {
   public:
    explicit ExecutionPlugin(std::string) {}
    virtual ~ExecutionPlugin() = default;
    virtual void onInit() {}
    virtual void onShutdown() {}
    virtual void onAmdgpuBeforeExecuteInstruction(uint64_t, const Instruction &, amdgpu::Wavefront &) {}
    virtual void onAmdgpuAfterExecuteInstruction(uint64_t, const Instruction &, amdgpu::Wavefront &) {}
    virtual void onAmdgpuRouteMemoryInstruction(const Instruction &, amdgpu::Wavefront &) {}
    virtual void onAmdgpuDispatchPacketProcessed(const KernelDispatchInfo &) {}
    virtual void onAmdgpuWavefrontDispatched(amdgpu::Wavefront &) {}
    virtual void onAmdgpuWavefrontHalted(amdgpu::Wavefront &) {}
    virtual void onAmdgpuReadVgprLanes(const amdgpu::Wavefront *, uint32_t, uint64_t, uint8_t = 15) {}
    virtual void onAmdgpuWriteVgprLanes(const amdgpu::Wavefront *, uint32_t, uint64_t, uint8_t = 15) {}
};

// Every read of the register file, also one for a debugger or a plugin, is told before it is answered.
inline uint32_t amdgpu::Wavefront::debug_read_vgpr(uint32_t reg, uint32_t lane) const {
    if (reg >= allocation.count || lane >= size) return 0;
    plugin->onAmdgpuReadVgprLanes(this, allocation.base + reg, uint64_t{1} << lane);
    return registers[reg * size + lane];
}

}  // namespace rocjitsu
