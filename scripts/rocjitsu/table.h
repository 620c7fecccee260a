// The plain table of events that `mcage trace import` reads, written row by row.
//
// Plain C++20, no header of the emulator.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>

namespace mcage {

class Table {
   public:
    void open(const std::string &path, unsigned lanes, const std::string &source) {
        file_ = fopen(path.c_str(), "w");
        if (!file_) throw std::runtime_error(path + ": cannot be written");
        fprintf(file_,
                "# lanes: %u\n# recorded by: %s\n"
                "# approximate time: an instruction of a compute unit takes a cycle\n"
                "# approximate lanes: of loads, those whose contents change\n"
                "cycle,event,window,register,lanes,values,size,kernel,launch,work_group,wavefront,unit,part\n",
                lanes, source.c_str());
    }
    ~Table() { close(); }
    void close() {
        if (file_) fclose(file_);
        file_ = nullptr;
    }
    struct Window {
        uint64_t number;
        unsigned size, launch, work_group, unit, part;
        std::string kernel;
    };
    void alloc(uint64_t cycle, const Window &window) {
        fprintf(file_, "%llu,alloc,w%llu,,,,%u,%s,%u,%u,%llu,%u,%u\n", number(cycle), number(window.number),
                window.size, quoted(window.kernel).c_str(), window.launch, window.work_group,
                number(window.number), window.unit, window.part);
    }
    // `contents`: the register in the lanes of the mask, the lowest first.
    void write(uint64_t cycle, uint64_t window, unsigned reg, uint64_t lanes, std::span<const uint32_t> contents) {
        fprintf(file_, "%llu,write,w%llu,%u,%llx,", number(cycle), number(window), reg, number(lanes));
        for (size_t i = 0; i < contents.size(); i++) fprintf(file_, "%s%08x", i ? " " : "", contents[i]);
        fputs(",,,,,,,\n", file_);
    }
    void read(uint64_t cycle, uint64_t window, unsigned reg) {
        fprintf(file_, "%llu,read,w%llu,%u,,,,,,,,,\n", number(cycle), number(window), reg);
    }
    void release(uint64_t cycle, uint64_t window) {
        fprintf(file_, "%llu,release,w%llu,,,,,,,,,,\n", number(cycle), number(window));
    }

   private:
    static unsigned long long number(uint64_t value) { return value; }
    static std::string quoted(const std::string &text) {
        std::string result = "\"";
        for (char c : text) {
            if (c == '"') result += '"';
            result += c == '\n' || c == '\r' ? ' ' : c;
        }
        return result + "\"";
    }
    FILE *file_ = nullptr;
};

}  // namespace mcage
