// The recorder in a simulated emulator. Standard output: what registers did, as JSON lines.

#include "plugin.cpp"

namespace {

using rocjitsu::amdgpu::Wavefront;

struct Simulation {
    rocjitsu::ExecutionPlugin *plugin = make_plugin();  // rocjitsu does not always destroy it
    rocjitsu::Instruction instruction;
    Wavefront slots[2];

    void set(Wavefront &wf, uint32_t reg, uint64_t lanes, uint32_t value) {
        printf("{\"wave\":%u,\"register\":%u,\"lanes\":%llu,\"values\":[", wf.wave, reg,
               static_cast<unsigned long long>(lanes));
        const char *between = "";
        for (uint32_t lane = 0; lane < wf.size; lane++) {
            if (!(lanes >> lane & 1)) continue;
            printf("%s%u", between, wf.registers[reg * wf.size + lane] = value + lane * 3);
            between = ",";
        }
        printf("]}\n");
    }
    template <typename Action>
    void execute(Wavefront &wf, Action action) {
        plugin->onAmdgpuBeforeExecuteInstruction(0, instruction, wf);
        action();
        plugin->onAmdgpuAfterExecuteInstruction(0, instruction, wf);
    }
    void wave(uint32_t size, uint32_t number, bool halts) {
        uint64_t all = size == 64 ? ~0ull : (1ull << size) - 1;
        Wavefront &wf = slots[number];
        wf.plugin = plugin, wf.size = size, wf.wave = wf.slot = number, wf.group = 7, wf.dispatch = 3;
        wf.unit.number = 0x1234;
        wf.allocation = {128 * number, 8};
        wf.registers.assign(8 * size, 0);
        set(wf, 0, all, 1);  // preloaded
        plugin->onAmdgpuWavefrontDispatched(wf);
        execute(wf, [&] {
            plugin->onAmdgpuReadVgprLanes(&wf, wf.allocation.base, all);
            plugin->onAmdgpuWriteVgprLanes(&wf, wf.allocation.base + 2, all & 0xFF0F);
            set(wf, 2, all & 0xFF0F, 1000);
        });
        execute(wf, [&] { plugin->onAmdgpuRouteMemoryInstruction(instruction, wf); });
        set(wf, 5, all & ~1ull, 0x80000000u);  // the load comes back
        execute(wf, [&] {
            plugin->onAmdgpuReadVgprLanes(&wf, wf.allocation.base + 5, all);
            plugin->onAmdgpuWriteVgprLanes(&wf, wf.allocation.base + 5, all);
            set(wf, 5, all, 5);
        });
        if (halts) plugin->onAmdgpuWavefrontHalted(wf);
    }
};

}  // namespace

// simulated LANES ENDS: two wavefronts so wide. ENDS is "shutdown", or "exit" for a program that ends
// while the second one runs, as rocjitsu tells no plugin of it.
int main(int, char **arguments) {
    static Simulation simulation;
    bool shutdown = arguments[2] == std::string("shutdown");
    rocjitsu::KernelDispatchInfo info;
    info.dispatch_id = 3, info.kernel_name = "scale<float, \"x\">";
    simulation.plugin->onAmdgpuDispatchPacketProcessed(info);
    for (uint32_t number = 0; number < 2; number++) {
        simulation.wave(uint32_t(atoi(arguments[1])), number, shutdown || !number);
    }
    if (shutdown) simulation.plugin->onShutdown();
}
