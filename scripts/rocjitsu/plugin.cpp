// A plugin for rocjitsu, AMD's emulator of its GPUs: writes what every wavefront does to its vector
// registers, as the plain table that `mcage trace import` reads. README.md says how to build it.

#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rocjitsu/vm/plugins/execution_plugin.h"
#include "rocjitsu/vm/plugins/plugin_exports.h"
#include "table.h"

namespace rocjitsu::amdgpu {

class McageRecorder : public ExecutionPlugin {
   public:
    explicit McageRecorder(const char *) : ExecutionPlugin("mcage") {
        const char *path = getenv("RECORD_FILE");
        path_ = path ? path : "recording.csv";
        // A program may end without a call of onShutdown, and without the end of this object.
        recorder_ = this;
        std::atexit([] {
            if (recorder_) recorder_->finish();
        });
    }
    ~McageRecorder() override {
        finish();
        if (recorder_ == this) recorder_ = nullptr;
    }

    void onAmdgpuDispatchPacketProcessed(const KernelDispatchInfo &info) override {
        std::lock_guard<std::mutex> lock(mutex_);
        kernels_[info.dispatch_id] = info.kernelNameOrUnknown();
    }

    void onAmdgpuWavefrontDispatched(Wavefront &wf) override {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!lanes_) {
            lanes_ = wf.wf_size();
            table_.open(path_, lanes_, "rocjitsu");
        }
        if (finished_ || wf.wf_size() != lanes_) return;  // a file holds wavefronts of one width
        Unit &unit = units_.try_emplace(wf.cu().id(), Unit{unsigned(units_.size()), 0}).first->second;
        Wave &wave = waves_[&wf];
        wave = Wave{&unit, next_window_++, wf.num_vgprs(), {}, {}, {}, false};
        wave.contents.assign(size_t(wave.size) * lanes_, 0);
        // Slots of a compute unit are dealt out to its four SIMDs in turns.
        table_.alloc(unit.cycle, {wave.window, wave.size, wf.dispatch_id(), wf.wg_id(), unit.number, wf.wf_id() % 4,
                                  kernels_[wf.dispatch_id()]});
        find_changes(wf, wave, unit.cycle);  // work-item ids and the like
    }

    void onAmdgpuReadVgprLanes(const Wavefront *wf, uint32_t reg, uint64_t, uint8_t) override {
        if (looking_) return;
        std::lock_guard<std::mutex> lock(mutex_);
        if (Wave *wave = wave_of(wf)) wave->reads[reg - wf->vgpr_alloc().base] = true;
    }

    void onAmdgpuWriteVgprLanes(const Wavefront *wf, uint32_t reg, uint64_t lanes, uint8_t) override {
        std::lock_guard<std::mutex> lock(mutex_);
        if (Wave *wave = wave_of(wf)) wave->writes[reg - wf->vgpr_alloc().base] |= lanes;
    }

    // Loads write their registers later, and no hook says so.
    void onAmdgpuRouteMemoryInstruction(const Instruction &, Wavefront &wf) override {
        std::lock_guard<std::mutex> lock(mutex_);
        if (Wave *wave = wave_of(&wf)) wave->loads = true;
    }

    void onAmdgpuBeforeExecuteInstruction(uint64_t, const Instruction &, Wavefront &wf) override {
        std::lock_guard<std::mutex> lock(mutex_);
        Wave *wave = wave_of(&wf);
        if (wave && wave->loads) find_changes(wf, *wave, ++wave->unit->cycle);
    }

    void onAmdgpuAfterExecuteInstruction(uint64_t, const Instruction &, Wavefront &wf) override {
        std::lock_guard<std::mutex> lock(mutex_);
        Wave *wave = wave_of(&wf);
        if (!wave) return;
        uint64_t cycle = ++wave->unit->cycle;
        for (auto [reg, _] : wave->reads) {
            if (reg < wave->size) table_.read(cycle, wave->window, reg);
        }
        for (auto [reg, lanes] : wave->writes) write(wf, *wave, cycle, reg, lanes);
        wave->reads.clear();
        wave->writes.clear();
    }

    void onAmdgpuWavefrontHalted(Wavefront &wf) override {
        std::lock_guard<std::mutex> lock(mutex_);
        Wave *wave = wave_of(&wf);
        if (!wave) return;
        if (wave->loads) find_changes(wf, *wave, wave->unit->cycle + 1);
        release(*wave);
        waves_.erase(&wf);
    }

    void onShutdown() override { finish(); }

   private:
    struct Unit {
        unsigned number;
        uint64_t cycle;
    };
    struct Wave {
        Unit *unit = nullptr;
        uint64_t window = 0;
        unsigned size = 0;
        std::vector<uint32_t> contents;      // register by register, lane by lane
        std::map<uint32_t, bool> reads;      // of the instruction at hand
        std::map<uint32_t, uint64_t> writes; // its registers, and lanes of each
        bool loads = false;                  // whether one was issued
    };

    Wave *wave_of(const Wavefront *wf) {
        auto found = waves_.find(wf);
        return found == waves_.end() ? nullptr : &found->second;
    }

    void release(const Wave &wave) { table_.release(++wave.unit->cycle, wave.window); }

    void finish() {
        std::lock_guard<std::mutex> lock(mutex_);
        for (auto &[_, wave] : waves_) release(wave);
        waves_.clear();
        table_.close();
        finished_ = true;
    }

    // rocjitsu tells plugins of each read of a register before it answers, of those of a plugin as well.
    static uint32_t held(const Wavefront &wf, uint32_t reg, uint32_t lane) {
        looking_ = true;
        uint32_t value = wf.debug_read_vgpr(reg, lane);
        looking_ = false;
        return value;
    }

    void write(const Wavefront &wf, Wave &wave, uint64_t cycle, uint32_t reg, uint64_t lanes) {
        if (reg >= wave.size || !lanes) return;
        std::vector<uint32_t> values;
        for (uint64_t left = lanes; left; left &= left - 1) {
            uint32_t lane = uint32_t(std::countr_zero(left));
            values.push_back(wave.contents[size_t(reg) * lanes_ + lane] = held(wf, reg, lane));
        }
        table_.write(cycle, wave.window, reg, lanes, values);
    }

    void find_changes(const Wavefront &wf, Wave &wave, uint64_t cycle) {
        for (uint32_t reg = 0; reg < wave.size; reg++) {
            uint64_t changed = 0;
            for (uint32_t lane = 0; lane < lanes_; lane++) {
                bool differs = held(wf, reg, lane) != wave.contents[size_t(reg) * lanes_ + lane];
                changed |= uint64_t(differs) << lane;
            }
            write(wf, wave, cycle, reg, changed);
        }
    }

    static inline McageRecorder *recorder_ = nullptr;
    static inline thread_local bool looking_ = false;  // whether this thread looks a register up

    std::string path_;
    bool finished_ = false;
    mcage::Table table_;
    std::mutex mutex_;
    uint32_t lanes_ = 0;
    uint64_t next_window_ = 0;
    std::map<uint32_t, std::string> kernels_;
    std::map<uint64_t, Unit> units_;
    std::map<const Wavefront *, Wave> waves_;
};

}  // namespace rocjitsu::amdgpu

ROCJITSU_DEFINE_PLUGIN(rocjitsu::amdgpu::McageRecorder, "mcage", "{}")
